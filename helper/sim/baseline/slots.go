package baseline

import (
	"slices"

	"github.com/gimbal-hpc/gimbal/helper/sim"
)

// slot is GPUs and the tasks that compute on them together, in the order in
// which they came.
type slot struct {
	nodes []sim.Share
	tasks []*sim.Task
	born  int // slots in the order in which they were opened
}

// slots keeps who shares GPUs with whom and how fast that lets them run.
type slots struct {
	w       *sim.World
	of      []*slot // of each task, nil where it waits
	born    int
	jobs    []*sim.Job // scratch
	speeds  []float64  // scratch
	speedOf map[[2]int32][2]float64
	profile []int32 // of each task
}

func newSlots(w *sim.World) *slots {
	return &slots{
		w: w, of: make([]*slot, len(w.Tasks)),
		speedOf: make(map[[2]int32][2]float64), profile: w.Profiles(),
	}
}

// open starts a task on GPUs of its own. It returns false where none are free.
func (s *slots) open(t *sim.Task) bool {
	nodes := s.w.Cluster.Place(t.Job, nil)
	if nodes == nil {
		return false
	}
	s.of[t.Index] = &slot{nodes: nodes, tasks: []*sim.Task{t}, born: s.born}
	s.born++
	t.Nodes = nodes
	s.w.Start(t, t.Solo)
	return true
}

// join starts a task beside those of a slot.
func (s *slots) join(t *sim.Task, at *slot) {
	at.tasks = append(at.tasks, t)
	s.of[t.Index], t.Nodes = at, at.nodes
	s.w.Start(t, t.Solo)
	s.pace(at)
}

// leave takes a task out of its slot; the last one frees the GPUs. It returns
// the slot where others stay.
func (s *slots) leave(t *sim.Task) *slot {
	at := s.of[t.Index]
	s.of[t.Index], t.Nodes = nil, nil
	if at.tasks = without(at.tasks, t); len(at.tasks) == 0 {
		s.w.Cluster.Release(at.nodes)
		return nil
	}
	s.pace(at)
	return at
}

// pace lets the tasks of a slot run as fast as they do together.
func (s *slots) pace(at *slot) {
	s.measure(at.tasks)
	for i, t := range at.tasks {
		s.w.Pace(t, t.Solo/s.speeds[i])
	}
}

// measure is the speeds of tasks that run together.
func (s *slots) measure(tasks []*sim.Task) []float64 {
	s.jobs, s.speeds = s.jobs[:0], slices.Grow(s.speeds[:0], len(tasks))[:len(tasks)]
	for _, t := range tasks {
		s.jobs = append(s.jobs, t.Job)
	}
	if len(tasks) == 1 {
		s.speeds[0] = 1
	} else {
		s.w.Interference.Speeds(s.jobs, s.speeds)
	}
	return s.speeds
}

// pair is the speeds of two tasks beside each other; both zero where they
// cannot run together.
func (s *slots) pair(a, b *sim.Task) (float64, float64) {
	key := [2]int32{s.profile[a.Index], s.profile[b.Index]}
	v, ok := s.speedOf[key]
	if !ok {
		m := s.measure([]*sim.Task{a, b})
		v = [2]float64{m[0], m[1]}
		s.speedOf[key] = v
	}
	return v[0], v[1]
}

// room says whether a task can run beside those of a slot.
func (s *slots) room(t *sim.Task, at *slot) bool {
	return s.measure(append(at.tasks, t))[0] > 0
}
