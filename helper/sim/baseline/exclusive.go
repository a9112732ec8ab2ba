package baseline

import (
	"cmp"
	"slices"

	"github.com/gimbal-hpc/gimbal/helper/sim"
)

// exclusive is what Slurm does without sharing: first come, first served with
// backfill, whole GPUs. When nodes will be free is told by the time limits or,
// where there are none, by how long jobs really take.
type exclusive struct {
	*sim.Backfill
	w   *sim.World
	on  [][]*sim.Task // by node
	due []float64     // when each running task is expected to end
}

func newExclusive() sim.Scheduler { return &exclusive{} }

func (e *exclusive) Start(w *sim.World) {
	e.w, e.Backfill = w, sim.NewBackfill(w, e)
	e.on, e.due = make([][]*sim.Task, w.Cluster.Nodes()), make([]float64, len(w.Tasks))
}

func (e *exclusive) Arrive(t *sim.Task) { e.Add(t) }

func (e *exclusive) Finish(t *sim.Task) {
	e.w.Cluster.Release(t.Nodes)
	for _, s := range t.Nodes {
		e.on[s.Node] = without(e.on[s.Node], t)
	}
	e.Freed()
}

func (e *exclusive) Schedule() float64 {
	e.Backfill.Schedule()
	e.w.Busy = e.w.Cluster.Used()
	return sim.Never
}

// Place implements [sim.Room].
func (e *exclusive) Place(t *sim.Task, closed []sim.Share) bool {
	nodes := e.w.Cluster.PlaceOutside(t.Job, closed, nil)
	if nodes == nil {
		return false
	}
	t.Nodes = nodes
	e.w.Start(t, t.Solo)
	e.due[t.Index] = e.w.Now + e.Takes(t)
	for _, s := range nodes {
		e.on[s.Node] = append(e.on[s.Node], t)
	}
	return true
}

// Full implements [sim.Room].
func (e *exclusive) Full() bool { return e.w.Cluster.Used() == e.w.Cluster.GPUs() }

// Takes implements [sim.Room].
func (e *exclusive) Takes(t *sim.Task) float64 {
	return max(t.Job.Limit, t.Restart+t.Job.Work()*e.w.Cost.Solo)
}

// FreeAt implements [sim.Room].
func (e *exclusive) FreeAt(node, n int) float64 {
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
