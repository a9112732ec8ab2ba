package baseline

import "github.com/gimbal-hpc/gimbal/helper/sim"

// order is how a preemptive policy compares tasks; the smallest come first.
type order struct {
	waiting func(*sim.World, *sim.Task) float64 // a key that stands while it waits
	running func(*sim.World, *sim.Task) float64
	// asks is what the keys of running tasks are compared with to make them
	// give way to a waiting one.
	asks func(*sim.World, *sim.Task) float64
	// moves says that the keys of running tasks change their order with time.
	moves bool
}

// toGo is how long a waiting task would hold GPUs from its start to its end, in
// seconds. Its restart counts, so that two tasks do not stop each other in turn.
func toGo(t *sim.Task) float64 { return t.Restart + t.Remaining() }

// shortestRemaining compares when tasks would end if they ran from now on: that
// stands for those that run.
func shortestRemaining() order {
	return order{
		waiting: func(_ *sim.World, t *sim.Task) float64 { return toGo(t) },
		running: func(_ *sim.World, t *sim.Task) float64 { return t.End },
		asks:    func(w *sim.World, t *sim.Task) float64 { return w.Now + toGo(t) },
	}
}

func shortestRemainingGPU() order {
	waiting := func(_ *sim.World, t *sim.Task) float64 { return toGo(t) * float64(t.Job.GPUs) }
	return order{
		waiting: waiting,
		running: func(w *sim.World, t *sim.Task) float64 { return (t.End - w.Now) * float64(t.Job.GPUs) },
		asks:    waiting,
		moves:   true,
	}
}

// preempt lets tasks stay where they run until one that comes before them needs
// their room. It does at a moment as much work as there are changes, and the
// logarithm of the nodes for each.
type preempt struct {
	order
	w       *sim.World
	lines   lines[shape]
	victims *victims
	stale   bool            // the order of running tasks may have changed
	started func(*sim.Task) // told of each start, where it is set
}

func newPreempt(o order) *preempt { return &preempt{order: o, lines: newLines[shape]()} }

func (p *preempt) Start(w *sim.World) {
	p.w = w
	p.victims = newVictims(w.Cluster, w.Tasks, func(t *sim.Task) float64 { return p.running(w, t) })
}

func (p *preempt) Arrive(t *sim.Task) { p.wait(t) }

func (p *preempt) wait(t *sim.Task) { p.lines.add(shapeOf(t.Job), p.waiting(p.w, t), t) }

func (p *preempt) Finish(t *sim.Task) { p.free(t) }

func (p *preempt) free(t *sim.Task) {
	p.w.Cluster.Release(t.Nodes)
	p.victims.remove(t)
	t.Nodes = nil
}

func (p *preempt) Schedule() float64 {
	p.stale = p.moves
	p.lines.retry()
	for at := p.lines.first(); at != nil; at = p.lines.first() {
		at.stuck = !p.admit(at)
	}
	p.w.Busy = p.w.Cluster.Used()
	return sim.Never
}

// admit starts the first task of its line where there is room, or where those
// that come after it give way.
func (p *preempt) admit(at *line) bool {
	t := at.waiting[0].task
	nodes := p.w.Cluster.Place(t.Job, nil)
	if nodes != nil {
		at.waiting.pop()
		p.start(t, nodes)
		return true
	}
	if p.stale {
		p.victims.reorder()
		p.stale = false
	}
	if nodes = p.victims.find(t.Job, p.asks(p.w, t)); nodes == nil {
		return false
	}
	at.waiting.pop()
	p.makeRoom(nodes)
	p.w.Cluster.Take(nodes)
	p.start(t, nodes)
	p.lines.retry() // what gave way may have left more than was needed
	return true
}

func (p *preempt) start(t *sim.Task, nodes []sim.Share) {
	t.Nodes = nodes
	p.w.Start(t, t.Solo)
	p.victims.add(t)
	if p.started != nil {
		p.started(t)
	}
}

// makeRoom stops the tasks that give way.
func (p *preempt) makeRoom(nodes []sim.Share) {
	for _, s := range nodes {
		for _, t := range p.victims.giveWay(s) {
			p.w.Stop(t)
			p.free(t)
			p.wait(t)
		}
	}
}
