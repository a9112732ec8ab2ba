package node

import (
	"math"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/sim"
)

// computes says whether a tenant does work in a state: until a stop has been
// confirmed, and not before it has been continued.
func computes(s model.State) bool {
	return s.Runs() || s == model.Pausing || s == model.Swapping
}

// pace lets the tasks of the node run as fast as they do beside those that
// compute with them, and returns how many GPUs have work.
func (n *instance) pace() int {
	running := make([][]*tenant, len(n.gpus))
	for _, t := range n.tenants {
		m := n.engine.Node.Tenant(t.id)
		if m == nil || !computes(m.State) {
			n.s.setSpeed(t.task, n.number, 0)
			continue
		}
		for _, g := range t.gpus {
			running[g] = append(running[g], t)
		}
	}
	speed, busy := make(map[*tenant]float64, len(n.tenants)), 0
	for _, on := range running {
		if len(on) == 0 {
			continue
		}
		busy++
		for i, v := range n.shared(on) {
			if old, ok := speed[on[i]]; !ok || v < old {
				speed[on[i]] = v
			}
		}
	}
	for _, t := range n.tenants {
		if v, ok := speed[t]; ok {
			n.s.setSpeed(t.task, n.number, v)
		}
	}
	return busy
}

// shared is the speeds of tenants on one GPU, some of which may be throttled: one
// goes for its share of the time, and the others have the GPU without it for the
// rest. Where several are throttled, they are taken to be so at the same times.
func (n *instance) shared(on []*tenant) []float64 {
	out := n.s.together(on)
	var free []*tenant
	var at []int
	shares := 0.0
	for i, t := range on {
		share := n.shareOf(t)
		if share == 1 {
			free, at = append(free, t), append(at, i)
			continue
		}
		out[i] *= share
		shares += share
	}
	if slowed := len(on) - len(free); slowed > 0 && len(free) > 0 {
		share := shares / float64(slowed)
		for k, v := range n.s.together(free) {
			out[at[k]] = share*out[at[k]] + (1-share)*v
		}
	}
	return out
}

// shareOf is the share of time for which a tenant that computes does so.
func (n *instance) shareOf(t *tenant) float64 {
	if m := n.engine.Node.Tenant(t.id); m.State == model.Throttled {
		return m.Throttle.Share
	}
	return 1
}

// together is the speeds of tenants that compute on one GPU at once, in the
// order in which they came. Where they cannot run together those that came
// later stand still, as they would wait for memory.
func (s *scheduler) together(on []*tenant) []float64 {
	if out := s.speedsOf(on); out[0] > 0 {
		return out
	}
	out, runs, at := make([]float64, len(on)), []*tenant{}, []int{}
	for i, t := range on {
		if s.speedsOf(append(runs, t))[0] > 0 {
			runs, at = append(runs, t), append(at, i)
		}
	}
	for k, v := range s.speedsOf(runs) {
		out[at[k]] = v
	}
	return out
}

// speedsOf is the speeds of tenants beside each other, all zero where they
// cannot run together.
func (s *scheduler) speedsOf(on []*tenant) []float64 {
	out := make([]float64, len(on))
	switch len(on) {
	case 1:
		out[0] = 1
	case 2:
		out[0], out[1] = s.pair(on[0].task, on[1].task)
	default:
		jobs := make([]*sim.Job, len(on))
		for i, t := range on {
			jobs[i] = t.task.Job
		}
		s.w.Interference.Speeds(jobs, out)
	}
	return out
}

// setSpeed notes how fast a task may go on one of its nodes. It goes as fast
// as it may on all of them.
func (s *scheduler) setSpeed(t *sim.Task, node int, speed float64) {
	slowest := math.Inf(1)
	for i := range s.seats[t.Index] {
		at := &s.seats[t.Index][i]
		if at.node == node {
			at.speed = speed
		}
		slowest = min(slowest, at.speed)
	}
	s.w.Pace(t, t.Solo/slowest)
}
