package baseline

import "github.com/gimbal-hpc/gimbal/helper/sim"

// packingPays is the sum of two speeds above which Gavel's FIFO packs.
const packingPays = 1.5

// fifoPack is first come, first served with packing, as Gavel has it. Tasks get
// GPUs of their own in the order of arrival until the next one finds none.
// From then on the first in the queue joins the running task it fares best
// with, as long as their speeds add up to more than 1.5; nobody overtakes. A
// task that was packed and whose turn comes gets GPUs of its own.
type fifoPack struct {
	*slots
	queue []*sim.Task // in order of arrival: those that wait, and guests
	hosts map[shape][]*slot
}

func newFIFOPack() sim.Scheduler { return &fifoPack{hosts: make(map[shape][]*slot)} }

func (f *fifoPack) Start(w *sim.World) { f.slots = newSlots(w) }

func (f *fifoPack) Arrive(t *sim.Task) { f.queue = append(f.queue, t) }

func (f *fifoPack) Finish(t *sim.Task) {
	at, s := f.of[t.Index], shapeOf(t.Job)
	f.queue = without(f.queue, t)
	rest := f.leave(t)
	if rest == nil {
		f.hosts[s] = remove(f.hosts[s], at)
		return
	}
	f.queue = without(f.queue, rest.tasks[0]) // whoever is left has the GPUs to itself
}

func (f *fifoPack) Schedule() float64 {
	f.queue = f.queue[f.openAll():]
	f.packAll()
	f.w.Busy = f.w.Cluster.Used()
	return sim.Never
}

// openAll gives GPUs of their own to the first of the queue and returns how
// many got them.
func (f *fifoPack) openAll() int {
	for i, t := range f.queue {
		if !f.ownGPUs(t) {
			return i
		}
	}
	return len(f.queue)
}

func (f *fifoPack) ownGPUs(t *sim.Task) bool {
	if t.Running() { // a guest: it moves only where there is room
		nodes := f.w.Cluster.Place(t.Job, nil)
		if nodes == nil {
			return false
		}
		f.w.Cluster.Release(nodes)
		f.w.Stop(t)
		f.leave(t)
	}
	if !f.open(t) {
		return false
	}
	s := shapeOf(t.Job)
	f.hosts[s] = append(f.hosts[s], f.of[t.Index])
	return true
}

// packAll lets those that wait join others, in order, until one finds nobody.
func (f *fifoPack) packAll() {
	for _, t := range f.queue {
		if t.Running() {
			continue
		}
		at := f.bestHost(t)
		if at == nil {
			return
		}
		f.join(t, at)
	}
}

// bestHost is the slot of one task with which the sum of speeds is the largest.
func (f *fifoPack) bestHost(t *sim.Task) *slot {
	var best *slot
	most := packingPays
	for _, at := range f.hosts[shapeOf(t.Job)] {
		if len(at.tasks) > 1 {
			continue
		}
		a, b := f.pair(at.tasks[0], t)
		if a+b > most {
			best, most = at, a+b
		}
	}
	return best
}
