package baseline

import (
	"math"

	"github.com/gimbal-hpc/gimbal/helper/sim"
)

// lasLimits are the GPU seconds at which Tiresias, as Muri's authors ran it,
// moves a task to the next queue.
var lasLimits = [...]float64{3250, 7200}

// las is least attained service in discrete queues (Tiresias): a task starts
// in the first queue and moves down as it attains GPU time. Queues are served
// in order; within one, those that run come first, then the order of arrival.
// Like the published simulator it counts GPUs of the cluster and ignores nodes.
type las struct {
	w      *sim.World
	queues [len(lasLimits) + 1][]*sim.Task
	level  []int       // queue of each task
	there  []*sim.Task // all tasks in order of arrival
}

func (l *las) Start(w *sim.World) {
	l.w, l.level = w, make([]int, len(w.Tasks))
}

func (l *las) Arrive(t *sim.Task) {
	l.there = append(l.there, t)
	l.queues[0] = append(l.queues[0], t)
}

func (l *las) Finish(t *sim.Task) {
	l.there = without(l.there, t)
	q := &l.queues[l.level[t.Index]]
	*q = without(*q, t)
}

// without removes a task and keeps the order.
func without(list []*sim.Task, t *sim.Task) []*sim.Task {
	for i := range list {
		if list[i] == t {
			return append(list[:i], list[i+1:]...)
		}
	}
	return list
}

func (l *las) Schedule() float64 {
	l.w.Settle()
	l.demote()
	free := l.w.Cluster.GPUs()
	for q := range l.queues {
		free = l.serve(l.queues[q], free)
	}
	for q := range l.queues {
		runningFirst(l.queues[q])
	}
	l.w.Busy = l.w.Cluster.GPUs() - free
	return l.nextDemotion()
}

// demote moves the running tasks that have attained their queue's limit.
func (l *las) demote() {
	for _, t := range l.there {
		q := l.level[t.Index]
		if !t.Running() || q == len(lasLimits) || t.Attained*float64(t.Job.GPUs) < lasLimits[q] {
			continue
		}
		l.level[t.Index] = q + 1
		l.queues[q] = without(l.queues[q], t)
		l.queues[q+1] = append(l.queues[q+1], t)
	}
}

// serve lets the tasks of a queue run as far as the free GPUs reach, and
// returns what is left of them.
func (l *las) serve(queue []*sim.Task, free int) int {
	for _, t := range queue {
		fits := t.Job.GPUs <= free
		switch {
		case fits && !t.Running():
			l.w.Start(t, t.Solo)
		case !fits && t.Running():
			l.w.Stop(t)
		}
		if fits {
			free -= t.Job.GPUs
		}
	}
	return free
}

// runningFirst puts the waiting tasks of a queue behind the running ones and
// keeps the order of each.
func runningFirst(queue []*sim.Task) {
	var waiting []*sim.Task
	n := 0
	for _, t := range queue {
		if t.Running() {
			queue[n] = t
			n++
		} else {
			waiting = append(waiting, t)
		}
	}
	copy(queue[n:], waiting)
}

// nextDemotion is when the next running task attains its queue's limit, in
// whole seconds of service as the published simulator counts it.
func (l *las) nextDemotion() float64 {
	next := sim.Never
	l.w.Each(func(t *sim.Task) {
		if q := l.level[t.Index]; q < len(lasLimits) {
			service := math.Ceil(lasLimits[q] / float64(t.Job.GPUs))
			next = min(next, service-t.Attained+l.w.Now)
		}
	})
	return next
}
