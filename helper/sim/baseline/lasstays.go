package baseline

import "github.com/gimbal-hpc/gimbal/helper/sim"

// levelStep is how far the keys of two queues are apart; a queue has fewer
// tasks than that.
const levelStep = 1e12

// never is the due time of a task that will not change its queue.
const never = -1

// lasStays is las for tasks that stay on their nodes: a waiting task takes the
// room of running ones only if they are in a later queue. Within a queue the
// first come goes first.
type lasStays struct {
	preempt
	level     []int     // queue of each task
	place     []float64 // its place in that queue
	due       []float64 // when it attains its queue's limit while it runs
	demotions queue     // by due; what is out of date is passed over
	next      float64   // the next place
}

func (l *lasStays) Start(w *sim.World) {
	n := len(w.Tasks)
	l.level, l.place, l.due = make([]int, n), make([]float64, n), make([]float64, n)
	key := func(_ *sim.World, t *sim.Task) float64 {
		return float64(l.level[t.Index])*levelStep + l.place[t.Index]
	}
	l.preempt = *newPreempt(order{
		waiting: key,
		running: key,
		asks:    func(_ *sim.World, t *sim.Task) float64 { return float64(l.level[t.Index]+1)*levelStep - 1 },
	})
	l.started = l.watch
	l.preempt.Start(w)
}

func (l *lasStays) Arrive(t *sim.Task) {
	l.enter(t, 0)
	l.preempt.Arrive(t)
}

// enter puts a task at the end of a queue.
func (l *lasStays) enter(t *sim.Task, level int) {
	l.level[t.Index], l.place[t.Index] = level, l.next
	l.next++
}

func (l *lasStays) Schedule() float64 {
	for len(l.demotions) > 0 && l.demotions[0].key <= l.w.Now {
		d := l.demotions.pop()
		if t := d.task; t.Running() && l.due[t.Index] == d.key {
			l.victims.remove(t)
			l.enter(t, l.level[t.Index]+1)
			l.victims.add(t)
			l.watch(t)
		}
	}
	l.preempt.Schedule()
	if len(l.demotions) > 0 {
		return l.demotions[0].key
	}
	return sim.Never
}

// watch notes when a running task will attain the limit of its queue.
func (l *lasStays) watch(t *sim.Task) {
	l.due[t.Index] = never
	if l.level[t.Index] == len(lasLimits) {
		return
	}
	l.w.Remaining(t) // settles it, and with that what it has attained
	left := lasLimits[l.level[t.Index]]/float64(t.Job.GPUs) - t.Attained
	l.due[t.Index] = l.w.Now + max(left, 0)
	l.demotions.push(keyed{l.due[t.Index], t})
}
