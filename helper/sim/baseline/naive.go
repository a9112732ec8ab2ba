package baseline

import "github.com/gimbal-hpc/gimbal/helper/sim"

// naive lets all run together: a task takes free GPUs where there are any, and
// else those of the fewest others that asked for as many, up to four on a GPU,
// without a thought for how fast they will be. Only what cannot run together
// waits.
type naive struct {
	*slots
	waiting []*sim.Task
	running map[shape][]*slot
}

func newNaive() sim.Scheduler { return &naive{running: make(map[shape][]*slot)} }

func (n *naive) Start(w *sim.World) { n.slots = newSlots(w) }

func (n *naive) Arrive(t *sim.Task) { n.waiting = append(n.waiting, t) }

func (n *naive) Finish(t *sim.Task) {
	at, s := n.of[t.Index], shapeOf(t.Job)
	if n.leave(t) == nil {
		n.running[s] = remove(n.running[s], at)
	}
}

// remove takes a slot out of a list and keeps the order.
func remove(list []*slot, s *slot) []*slot {
	for i := range list {
		if list[i] == s {
			return append(list[:i], list[i+1:]...)
		}
	}
	return list
}

func (n *naive) Schedule() float64 {
	kept := n.waiting[:0]
	for _, t := range n.waiting {
		if !n.begin(t) {
			kept = append(kept, t)
		}
	}
	n.waiting = kept
	n.w.Busy = n.w.Cluster.Used()
	return sim.Never
}

func (n *naive) begin(t *sim.Task) bool {
	s := shapeOf(t.Job)
	if n.open(t) {
		n.running[s] = append(n.running[s], n.of[t.Index])
		return true
	}
	var best *slot
	for _, at := range n.running[s] {
		if len(at.tasks) < mostTogether && (best == nil || len(at.tasks) < len(best.tasks)) && n.room(t, at) {
			best = at
		}
	}
	if best == nil {
		return false
	}
	n.join(t, best)
	return true
}
