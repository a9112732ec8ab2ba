package node

import (
	"cmp"
	"slices"

	"github.com/gimbal-hpc/gimbal/helper/sim"
)

// floor is the cluster's GPUs, each with as many slots as jobs may share it: the
// shards that Slurm makes of it. A job takes a slot on each of its GPUs, or as
// many of one GPU as it asked for shards. The emptiest GPUs are taken first, on
// the first node with enough of them. A job on several nodes shares as any
// other, but is never paused: nodes take turns each on its own, so that its parts
// would hardly ever compute at once.
type floor struct {
	per, slots int
	load       [][]int         // jobs on each GPU, by node
	tasks      [][]*sim.Task   // by node
	gpus       []map[int][]int // of each task on the node, by its place in the trace
	upTo       []*sim.MaxTree  // by load: on each node, GPUs with at most so many jobs
	taken      int             // slots
}

func newFloor(nodes, per, slots int) *floor {
	f := &floor{per: per, slots: slots, tasks: make([][]*sim.Task, nodes)}
	for range nodes {
		f.load = append(f.load, make([]int, per))
		f.gpus = append(f.gpus, make(map[int][]int))
	}
	for range slots {
		tree := sim.NewMaxTree(nodes)
		tree.Fill(float64(per))
		f.upTo = append(f.upTo, tree)
	}
	return f
}

func (f *floor) full() bool { return f.taken == len(f.load)*f.per*f.slots }

// find is where a job could sit outside the closed nodes, or nil.
func (f *floor) find(j *sim.Job, closed []sim.Share) []seat {
	need := j.PerNode(f.per)
	for _, tree := range f.upTo[:f.slots-f.slotsFor(j)+1] {
		if seats := f.findIn(tree, need, closed); seats != nil {
			return seats
		}
	}
	return nil
}

func (f *floor) findIn(tree *sim.MaxTree, need []int, closed []sim.Share) []seat {
	var seats []seat
	for _, n := range need {
		node := tree.First(0, float64(n))
		for node >= 0 && (isClosed(closed, node) || sits(seats, node)) {
			node = tree.First(node+1, float64(n))
		}
		if node < 0 {
			return nil
		}
		seats = append(seats, seat{node: node, gpus: f.emptiest(node, n)})
	}
	return seats
}

func isClosed(closed []sim.Share, node int) bool {
	return slices.ContainsFunc(closed, func(s sim.Share) bool { return s.Node == node })
}

func sits(seats []seat, node int) bool {
	return slices.ContainsFunc(seats, func(s seat) bool { return s.node == node })
}

// emptiest is the n GPUs of a node with the fewest jobs.
func (f *floor) emptiest(node, n int) []int {
	order := make([]int, f.per)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(f.load[node][a], f.load[node][b]) })
	return slices.Clone(order[:n])
}

// open is the GPUs of a node with a slot for a job.
func (f *floor) open(node int, j *sim.Job) []int {
	var gpus []int
	for g, load := range f.load[node] {
		if load+f.slotsFor(j) <= f.slots {
			gpus = append(gpus, g)
		}
	}
	return gpus
}

func (f *floor) enter(t *sim.Task, node int, gpus []int) {
	f.tasks[node] = append(f.tasks[node], t)
	f.gpus[node][t.Index] = gpus
	f.add(node, gpus, f.slotsFor(t.Job))
}

// slotsFor is how many slots a job takes of each of its GPUs.
func (f *floor) slotsFor(j *sim.Job) int { return max(1, min(j.Shards, f.slots)) }

func (f *floor) leave(t *sim.Task, node int, gpus []int) {
	i := slices.Index(f.tasks[node], t)
	f.tasks[node] = slices.Delete(f.tasks[node], i, i+1)
	delete(f.gpus[node], t.Index)
	f.add(node, gpus, -f.slotsFor(t.Job))
}

func (f *floor) add(node int, gpus []int, n int) {
	for _, g := range gpus {
		f.load[node][g] += n
	}
	f.taken += n * len(gpus)
	for l, tree := range f.upTo {
		tree.Set(node, float64(below(f.load[node], l+1)))
	}
}

// below is how many GPUs have fewer than n jobs.
func below(load []int, n int) int {
	count := 0
	for _, l := range load {
		if l < n {
			count++
		}
	}
	return count
}

// freeAt is when a node will have a slot on n GPUs, if tasks end when due.
func (f *floor) freeAt(node, n int, now float64, due []float64) float64 {
	load := slices.Clone(f.load[node])
	tasks := slices.Clone(f.tasks[node])
	slices.SortFunc(tasks, func(a, b *sim.Task) int { return cmp.Compare(due[a.Index], due[b.Index]) })
	at := now
	for _, t := range tasks {
		if below(load, f.slots) >= n {
			break
		}
		for _, g := range f.gpus[node][t.Index] {
			load[g] -= f.slotsFor(t.Job)
		}
		at = max(now, due[t.Index]) // who is late may end any time
	}
	return at
}
