package baseline

import (
	"cmp"
	"slices"

	"github.com/gimbal-hpc/gimbal/helper/sim"
)

// backfillDepth is how many waiting tasks are looked at, as with Slurm's
// bf_max_job_test.
const backfillDepth = 500

// exclusive is what Slurm does without sharing: first come, first served, and
// backfill. The first task that finds no room has nodes reserved for when they
// will be free, by time limits or, where there are none, by how long jobs
// really take; later tasks may go before it if they fit beside the reserved
// nodes or end before it can start.
type exclusive struct {
	w       *sim.World
	waiting []*sim.Task // in order of arrival
	on      [][]*sim.Task
	due     []float64 // when each running task is expected to end

	// What holds until a task ends: how many of the waiting have been tried,
	// what is reserved for the first of them and from when on, and for which
	// shapes there is no room even beside that.
	tried    int
	reserved []sim.Share
	from     float64
	full     map[shape]bool
}

func newExclusive() sim.Scheduler { return &exclusive{} }

func (e *exclusive) Start(w *sim.World) {
	e.w = w
	e.on, e.due = make([][]*sim.Task, w.Cluster.Nodes()), make([]float64, len(w.Tasks))
	e.full = make(map[shape]bool)
}

func (e *exclusive) Arrive(t *sim.Task) { e.waiting = append(e.waiting, t) }

func (e *exclusive) Finish(t *sim.Task) {
	e.w.Cluster.Release(t.Nodes)
	for _, s := range t.Nodes {
		e.on[s.Node] = without(e.on[s.Node], t)
	}
	e.tried, e.reserved = 0, nil
	clear(e.full)
}

func (e *exclusive) Schedule() float64 {
	for e.tried == 0 && len(e.waiting) > 0 && e.try(e.waiting[0], true) {
		e.waiting = e.waiting[1:]
	}
	if len(e.waiting) > 0 {
		e.backfill()
	}
	e.w.Busy = e.w.Cluster.Used()
	return sim.Never
}

// backfill tries those behind the first that were not tried yet.
func (e *exclusive) backfill() {
	i := max(e.tried, 1)
	kept := i
	for ; i < min(len(e.waiting), backfillDepth); i++ {
		if e.w.Cluster.Used() == e.w.Cluster.GPUs() {
			break
		}
		if t := e.waiting[i]; !e.try(t, false) {
			e.waiting[kept] = t
			kept++
		}
	}
	e.tried = kept
	if kept < i {
		e.waiting = slices.Delete(e.waiting, kept, i)
	}
}

// try starts a task where it may; for the first that may not, it reserves.
func (e *exclusive) try(t *sim.Task, first bool) bool {
	s := shapeOf(t.Job)
	if e.full[s] {
		return false
	}
	beside := e.reserved
	if e.w.Now+e.takes(t) <= e.from {
		beside = nil
	}
	nodes := e.w.Cluster.PlaceOutside(t.Job, beside, nil)
	switch {
	case nodes != nil:
		e.start(t, nodes)
		return true
	case first:
		e.reserve(t)
	case beside == nil:
		e.full[s] = true
	}
	return false
}

func (e *exclusive) start(t *sim.Task, nodes []sim.Share) {
	t.Nodes = nodes
	e.w.Start(t, t.Solo)
	e.due[t.Index] = e.w.Now + e.takes(t)
	for _, s := range nodes {
		e.on[s.Node] = append(e.on[s.Node], t)
	}
}

// takes is how long a task is expected to hold its GPUs, in seconds.
func (e *exclusive) takes(t *sim.Task) float64 {
	return max(t.Job.Limit, t.Restart+t.Job.Work()*e.w.Cost.Solo)
}

// reserve finds the nodes on which a task can start first.
func (e *exclusive) reserve(t *sim.Task) {
	e.reserved, e.from = nil, 0
	for _, n := range perNode(t.Job, e.w.Cluster.PerNode, nil) {
		best, at := -1, sim.Never
		for node := range e.on {
			if e.isReserved(node) {
				continue
			}
			if free := e.freeAt(node, n); free < at {
				best, at = node, free
			}
		}
		e.reserved = append(e.reserved, sim.Share{Node: best, GPUs: n})
		e.from = max(e.from, at)
	}
}

func (e *exclusive) isReserved(node int) bool {
	return slices.ContainsFunc(e.reserved, func(s sim.Share) bool { return s.Node == node })
}

// freeAt is when a node will have n free GPUs if nothing more starts on it.
func (e *exclusive) freeAt(node, n int) float64 {
	free, at := e.w.Cluster.FreeOn(node), e.w.Now
	tasks := e.on[node]
	slices.SortFunc(tasks, func(a, b *sim.Task) int { return cmp.Compare(e.due[a.Index], e.due[b.Index]) })
	for _, t := range tasks {
		if free >= n {
			break
		}
		free += gpusOn(t, node)
		at = e.due[t.Index]
	}
	return at
}
