package sim

import (
	"fmt"
	"math/rand/v2"
)

// Scheduler decides who runs. The world calls Arrive and Finish for all that
// happens at one moment, then Schedule once.
type Scheduler interface {
	// Start hands over the world before the first moment.
	Start(w *World)
	// Arrive tells of a new task, which waits.
	Arrive(t *Task)
	// Finish tells of a task that has done its work and runs no more.
	Finish(t *Task)
	// Schedule starts and stops tasks, sets World.Busy, and returns when it
	// wants to be asked again if nothing happens before; Never if it does not.
	Schedule() float64
}

// Interference tells how fast jobs run that share their GPUs.
type Interference interface {
	// Speeds stores in out, for each job, its speed beside all the others over
	// its speed alone. All are zero where the jobs cannot run together.
	Speeds(jobs []*Job, out []float64)
	// Profile is what Speeds looks at in a job.
	Profile(j *Job) Profile
}

// Profile is what decides how a job fares beside others: jobs with the same
// profile fare alike. It holds only what the estimate uses.
type Profile struct {
	Model    string
	Stages   Stages
	IterTime float64
	Util     float64
	Memory   float64
}

// Profiles numbers the profiles of all tasks: tasks with the same number fare
// alike beside others.
func (w *World) Profiles() []int32 {
	seen := make(map[Profile]int32)
	out := make([]int32, len(w.Tasks))
	for i := range w.Tasks {
		p := w.Interference.Profile(w.Tasks[i].Job)
		n, ok := seen[p]
		if !ok {
			n = int32(len(seen))
			seen[p] = n
		}
		out[i] = n
	}
	return out
}

// World is the state of one run, as a scheduler sees and changes it.
type World struct {
	Now          float64
	Cluster      *Cluster
	Cost         *Cost
	Interference Interference
	Rand         *rand.Rand
	Busy         int  // GPUs that have work, set by the scheduler
	Stays        bool // set by a scheduler whose wakes move no task: see Cost.EveryMoment
	Tasks        []Task

	ends     endHeap
	each     []*Task // scratch of Each
	waiting  int     // tasks that have arrived and do not run
	asked    int     // GPUs asked for by all tasks that are there
	demand   float64 // integral of asked over time
	busyTime float64 // integral of Busy over time
	moments  int
	history  *History // nil where none is kept
	err      error    // why the run cannot go on
}

// Fail ends the run with an error after this moment; the first one counts.
func (w *World) Fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

// Running is the number of tasks that run.
func (w *World) Running() int { return len(w.ends) }

// Start lets a task run, at iter seconds an iteration. It pays its restart.
func (w *World) Start(t *Task, iter float64) {
	if t.running {
		panic(fmt.Sprintf("sim: job %s is started twice", t.Job.ID))
	}
	t.running, t.since, t.Iter = true, w.Now, iter
	t.debt = t.Restart
	t.First = min(t.First, w.Now)
	t.End = w.endOf(t)
	w.waiting--
	w.ends.push(t)
	w.history.open(t, w.Now)
}

// Stop takes a task's GPUs away; what it has done stays done.
func (w *World) Stop(t *Task) {
	t.settle(w.Now)
	w.halt(t)
	t.Preempts++
	w.waiting++
}

func (w *World) halt(t *Task) {
	w.ends.remove(t)
	w.history.close(t, w.Now)
	t.running, t.End, t.debt = false, Never, 0
}

// Pace changes how fast a running task goes, to iter seconds an iteration. It
// does nothing to a task that ends at this moment.
func (w *World) Pace(t *Task, iter float64) {
	if !t.running || t.Iter == iter {
		return
	}
	t.settle(w.Now)
	t.Iter = iter
	w.moveEnd(t)
}

// Repay makes a running task pay its restart again.
func (w *World) Repay(t *Task) {
	t.settle(w.Now)
	t.debt = t.Restart
	w.moveEnd(t)
}

// Settle books what every running task has done up to now.
func (w *World) Settle() {
	for _, t := range w.ends {
		t.settle(w.Now)
	}
}

// Remaining is the time the task still needs alone, in seconds.
func (w *World) Remaining(t *Task) float64 {
	if t.running {
		t.settle(w.Now)
	}
	return t.Remaining()
}

// Each calls f for every running task, in no order that means anything. What
// f changes does not change whom it is called for.
func (w *World) Each(f func(*Task)) {
	w.each = append(w.each[:0], w.ends...)
	for _, t := range w.each {
		f(t)
	}
}

func (w *World) moveEnd(t *Task) {
	t.End = w.endOf(t)
	w.ends.fix(t)
}

// endOf is when a running task ends. Where every moment costs a restart, the
// task pays it only if a moment comes before its end; with [World.Stays] it pays
// in any case, since not every moment costs one.
func (w *World) endOf(t *Task) float64 {
	if t.Left <= 0 { // however slow it is
		return w.Now + t.debt
	}
	if w.Cost.EveryMoment && !w.Stays {
		return w.Now + t.Left*t.Iter
	}
	return w.Now + t.debt + t.Left*t.Iter
}

// charge makes every running task owe a restart from this moment on.
func (w *World) charge() {
	for _, t := range w.ends {
		t.debt = t.Restart
		t.End = w.endOf(t)
	}
	w.ends.init()
}
