package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// Config is what a run takes place on.
type Config struct {
	Nodes, GPUsPerNode int
	Cost               *Cost        // NoCost when nil
	Interference       Interference // needed by the schedulers that share GPUs
	Seed               uint64

	// History says that the outcome shall hold who ran where.
	History bool

	// Progress, where it is set, is called now and then with the number of
	// jobs that have ended.
	Progress func(ended int)
}

// sameMoment is how close two ends are, as a share of the time, to be one
// moment: what is left of them is rounding.
const sameMoment = 1e-9

// progressEvery is the number of moments between two calls of Progress.
const progressEvery = 1024

// Run replays the jobs, which are in order of arrival, under a scheduler. It
// fails where the cluster cannot be built, a job does not fit in it, or the
// scheduler fails or leaves jobs that would never run.
func Run(jobs []Job, c Config, s Scheduler) (*Outcome, error) {
	w, err := newWorld(jobs, c)
	if err != nil {
		return nil, err
	}
	s.Start(w)
	r := runner{World: w, scheduler: s, progress: c.Progress, wake: Never}
	for r.ended < len(jobs) {
		next := r.next()
		if math.IsInf(next, 1) {
			return nil, fmt.Errorf("%d jobs wait for ever: nothing runs and nothing more arrives", w.waiting)
		}
		r.moment(next)
		if w.err != nil {
			return nil, w.err
		}
	}
	return w.outcome(), nil
}

func newWorld(jobs []Job, c Config) (*World, error) {
	cluster, err := NewCluster(c.Nodes, c.GPUsPerNode)
	if err != nil {
		return nil, err
	}
	if c.Cost == nil {
		c.Cost = NoCost()
	}
	w := &World{
		Cluster: cluster, Cost: c.Cost, Interference: c.Interference,
		Rand:  rand.New(rand.NewPCG(c.Seed, 0)),
		Tasks: make([]Task, len(jobs)),
	}
	if c.History {
		w.history = &History{}
	}
	for i := range jobs {
		j := &jobs[i]
		if !cluster.Holds(j) {
			return nil, fmt.Errorf("job %s asks for %d GPUs on %d nodes: it does not fit (nodes: %d, GPUs of each: %d)", j.ID, j.GPUs, max(j.Nodes, 1), c.Nodes, c.GPUsPerNode)
		}
		if i > 0 && j.Submit < jobs[i-1].Submit {
			return nil, fmt.Errorf("job %s arrives before the one in front of it", j.ID)
		}
		w.Tasks[i] = Task{
			Job: j, Index: i, Left: j.Iterations, Solo: j.IterTime * c.Cost.Solo,
			Restart: c.Cost.Restart.At(j.Model, j.GPUs), End: Never, First: Never, pos: -1,
		}
	}
	return w, nil
}

type runner struct {
	*World
	scheduler Scheduler
	progress  func(int)
	arrived   int
	ended     int
	wake      float64
	done      []*Task // those that end at this moment
}

// next is the time of the next moment.
func (r *runner) next() float64 {
	at := r.wake
	if r.arrived < len(r.Tasks) {
		at = min(at, r.Tasks[r.arrived].Job.Submit)
	}
	if len(r.ends) > 0 {
		at = min(at, r.ends[0].End)
	}
	return at
}

func (r *runner) moment(at float64) {
	at = max(at, r.Now) // an end may lie a rounding error back
	r.demand += float64(r.asked) * (at - r.Now)
	r.busyTime += float64(r.Busy) * (at - r.Now)
	r.Now = at
	r.moments++
	if r.Cost.EveryMoment {
		r.Settle()
	}
	before := r.arrived + r.ended
	r.endAll()
	r.arriveAll()
	r.wake = r.scheduler.Schedule()
	r.history.load(r.Busy, r.Now)
	if r.wake <= r.Now {
		r.wake = math.Nextafter(r.Now, Never)
	}
	if r.Cost.EveryMoment && (!r.Stays || r.arrived+r.ended != before) {
		r.charge()
	}
	if r.progress != nil && r.moments%progressEvery == 0 {
		r.progress(r.ended)
	}
}

func (r *runner) endAll() {
	limit := r.Now * (1 + sameMoment)
	r.done = r.done[:0]
	for len(r.ends) > 0 && r.ends[0].End <= limit {
		t := r.ends[0]
		t.settle(r.Now)
		r.halt(t)
		r.done = append(r.done, t)
	}
	for _, t := range r.done {
		r.finish(t)
		r.scheduler.Finish(t)
	}
	r.ended += len(r.done)
}

func (r *runner) arriveAll() {
	for r.arrived < len(r.Tasks) && r.Tasks[r.arrived].Job.Submit <= r.Now {
		t := &r.Tasks[r.arrived]
		r.arrived++
		r.waiting++
		r.asked += t.Job.GPUs
		t.demand, t.since = r.demand, r.Now
		r.scheduler.Arrive(t)
	}
}
