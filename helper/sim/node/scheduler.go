package node

import (
	"math"

	"github.com/gimbal-hpc/gimbal/helper/engine"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/policy"
	"github.com/gimbal-hpc/gimbal/helper/sim"
)

// Options are what a cluster of nodes under a policy is like.
type Options struct {
	// Slots is how many jobs Slurm lets share a GPU; 0 for DefaultSlots.
	Slots int
	// GPUMemory is the memory of a GPU in MiB; 0 when unknown: then all fit. A
	// job of unknown memory is taken to declare its slot's part of it.
	GPUMemory float64
	// Turns is the least number of turns that a task gets before it ends; 0
	// for DefaultTurns.
	Turns int
	// Remaining says that the policy is told how long each job still needs
	// alone, as those baselines are that order jobs by it.
	Remaining bool
	// Place says that of the node's GPUs with a slot a task gets the one that the
	// policy chooses, see [policy.Decider.Place]; else, and where it leaves that to
	// Slurm, those with the fewest tenants.
	Place bool
	// Journal keeps a node's records, and what its GPUs took if it is an
	// engine.Meter; nil where nobody wants them.
	Journal func(node int) engine.Journal

	largest float64 // memory of any job of the trace, MiB
}

// The defaults of Options.
const (
	DefaultSlots = 4
	DefaultTurns = 20
)

// scheduler places jobs on shared GPUs and lets each node's engine decide.
type scheduler struct {
	policy   *policy.Policy
	options  Options
	w        *sim.World
	queue    *sim.Backfill
	floor    *floor
	nodes    []*instance
	wakes    *sim.MaxTree // by node, when it wants to be asked, negative
	touched  []int        // nodes on which something happened at this moment
	busy     []int        // GPUs with work, by node
	seats    [][]seat     // of each task, by node
	numbered bool         // the jobs are called as in the trace
	due      []float64    // when each task is expected to end

	profile []int32 // of each task
	speeds  map[[2]int32][2]float64
}

// seat is where a task sits on one node, and how fast it may go there.
type seat struct {
	node  int
	gpus  []int
	speed float64
}

// New is a scheduler that runs a policy on every node.
func New(p *policy.Policy, o Options) sim.Scheduler {
	return &scheduler{policy: p, options: o, speeds: make(map[[2]int32][2]float64)}
}

func (s *scheduler) Start(w *sim.World) {
	s.w, s.queue, w.Stays = w, sim.NewBackfill(w, s), true
	s.numbered = true
	for i := range w.Tasks {
		_, _, ok := numbers(w.Tasks[i].Job.ID)
		s.numbered = s.numbered && ok
		s.options.largest = max(s.options.largest, w.Tasks[i].Job.Memory)
	}
	s.profile = w.Profiles()
	n := w.Cluster.Nodes()
	s.floor = newFloor(n, w.Cluster.PerNode, s.options.slots())
	s.busy, s.wakes = make([]int, n), sim.NewMaxTree(n)
	s.seats, s.due = make([][]seat, len(w.Tasks)), make([]float64, len(w.Tasks))
	for i := range n {
		s.nodes = append(s.nodes, newInstance(s, i))
	}
}

func (s *scheduler) fail(err error) { s.w.Fail(err) }

func (s *scheduler) Arrive(t *sim.Task) { s.queue.Add(t) }

func (s *scheduler) Finish(t *sim.Task) {
	for _, at := range s.seats[t.Index] {
		s.floor.leave(t, at.node, at.gpus)
		s.nodes[at.node].end(t)
		s.touched = append(s.touched, at.node)
	}
	s.seats[t.Index] = nil
	s.queue.Freed()
}

func (s *scheduler) Schedule() float64 {
	s.queue.Schedule()
	for _, n := range s.touched {
		s.step(n)
	}
	s.touched = s.touched[:0]
	for s.wakes.Max() >= -s.w.Now {
		s.step(s.wakes.First(0, -s.w.Now))
	}
	return -s.wakes.Max()
}

// step lets a node decide and its tasks run accordingly.
func (s *scheduler) step(n int) {
	wake := s.nodes[n].step()
	if wake <= s.w.Now {
		wake = math.Nextafter(s.w.Now, sim.Never)
	}
	s.wakes.Set(n, -wake)
	busy := s.nodes[n].pace()
	s.w.Busy += busy - s.busy[n]
	s.busy[n] = busy
}

// Place implements [sim.Room].
func (s *scheduler) Place(t *sim.Task, closed []sim.Share) bool {
	seats := s.floor.find(t.Job, closed)
	if seats == nil {
		return false
	}
	if s.options.Place {
		at := &seats[0]
		at.gpus[0] = s.nodes[at.node].place(t, at.gpus[0], s.floor.open(at.node, t.Job))
	}
	s.seats[t.Index], t.Nodes = seats, nil
	s.due[t.Index] = s.w.Now + s.Takes(t)
	for _, at := range seats {
		t.Nodes = append(t.Nodes, sim.Share{Node: at.node, GPUs: len(at.gpus)})
	}
	s.w.Start(t, math.Inf(1)) // until its nodes let it run
	for _, at := range seats {
		s.floor.enter(t, at.node, at.gpus)
		s.nodes[at.node].register(t, at.gpus)
		s.touched = append(s.touched, at.node)
	}
	return true
}

// FreeAt implements [sim.Room].
func (s *scheduler) FreeAt(node, n int) float64 { return s.floor.freeAt(node, n, s.w.Now, s.due) }

// Full implements [sim.Room].
func (s *scheduler) Full() bool { return s.floor.full() }

// Takes implements [sim.Room].
func (s *scheduler) Takes(t *sim.Task) float64 {
	return max(t.Job.Limit, t.Restart+t.Job.Work()*s.w.Cost.Solo)
}

// taskOf is the task that a tenant is a part of.
func (s *scheduler) taskOf(t *model.Tenant) *sim.Task { return &s.w.Tasks[t.Reg.Proc.PID-firstPID] }

// pair is the speeds of two tasks beside each other over those alone.
func (s *scheduler) pair(a, b *sim.Task) (float64, float64) {
	key := [2]int32{s.profile[a.Index], s.profile[b.Index]}
	v, ok := s.speeds[key]
	if !ok {
		s.w.Interference.Speeds([]*sim.Job{a.Job, b.Job}, v[:])
		s.speeds[key] = v
	}
	return v[0], v[1]
}

// demand is the share of a GPU's time that a job keeps it busy alone, NaN where the
// trace does not say: the policy is told no more than [speed.Model] counts with.
func demand(j *sim.Job) float64 {
	if j.Util > 0 {
		return j.Util
	}
	if j.Stages.Sum() > 0 && j.IterTime > 0 {
		return min(1, j.Stages[1]/j.IterTime)
	}
	return math.NaN()
}
