package baseline

import (
	"math"
	"slices"

	"github.com/gimbal-hpc/gimbal/helper/sim"
)

// gandivaTurn is how long a turn is where tasks take turns, in seconds: the
// round of Gavel's scheduler. It matters only where a pause costs something.
const gandivaTurn = 360

// gandiva is Gandiva's packing as Gavel has it. While all fit, each task has
// GPUs of its own. When more are asked for than there are, tasks of as many
// GPUs are paired at random, and all pairs and single tasks get an equal share
// of the time, in turns so short that they are taken as a fraction of speed. A
// pair that runs slower together than one alone is split. Nodes are not looked
// at, as in Gavel.
type gandiva struct {
	*slots
	there []*sim.Task // in order of arrival
	mate  []*sim.Task // of each task
}

func newGandiva() sim.Scheduler { return &gandiva{} }

func (g *gandiva) Start(w *sim.World) {
	g.slots, g.mate = newSlots(w), make([]*sim.Task, len(w.Tasks))
}

func (g *gandiva) Arrive(t *sim.Task) { g.there = append(g.there, t) }

func (g *gandiva) Finish(t *sim.Task) {
	g.there = without(g.there, t)
	g.split(t)
}

func (g *gandiva) split(t *sim.Task) {
	if m := g.mate[t.Index]; m != nil {
		g.mate[t.Index], g.mate[m.Index] = nil, nil
	}
}

func (g *gandiva) Schedule() float64 {
	asked, gpus := 0, g.w.Cluster.GPUs()
	for _, t := range g.there {
		asked += t.Job.GPUs
	}
	if asked <= gpus {
		for _, t := range g.there {
			g.run(t, 1)
		}
		g.w.Busy = asked
		return sim.Never
	}
	g.repair()
	g.share(gpus)
	return sim.Never
}

// repair splits the pairs that do not pay and pairs who is single at random.
func (g *gandiva) repair() {
	var single []*sim.Task
	for _, t := range g.there {
		if m := g.mate[t.Index]; m != nil {
			if a, b := g.pair(t, m); a+b < 1 {
				g.split(t)
			}
		}
	}
	for _, t := range g.there {
		if g.mate[t.Index] == nil {
			single = append(single, t)
		}
	}
	for tries := len(single); tries > 0 && len(single) > 1; tries-- {
		i, j := g.draw(len(single))
		a, b := single[i], single[j]
		if a.Job.GPUs != b.Job.GPUs || !g.canRun(a, b) {
			continue
		}
		g.mate[a.Index], g.mate[b.Index] = b, a
		single = slices.Delete(single, max(i, j), max(i, j)+1)
		single = slices.Delete(single, min(i, j), min(i, j)+1)
	}
}

// canRun says whether two tasks can run together at all.
func (g *gandiva) canRun(a, b *sim.Task) bool {
	speed, _ := g.pair(a, b)
	return speed > 0
}

// draw is two different numbers below n, at random.
func (g *gandiva) draw(n int) (int, int) {
	i, j := g.w.Rand.IntN(n), g.w.Rand.IntN(n-1)
	if j >= i {
		j++
	}
	return i, j
}

// share gives every pair and single task an equal share of the GPUs' time.
func (g *gandiva) share(gpus int) {
	units := 0
	for _, t := range g.there {
		if g.leads(t) {
			units++
		}
	}
	busy := 0.0
	for _, t := range g.there {
		part := min(1, float64(gpus)/float64(units*t.Job.GPUs))
		if g.leads(t) {
			busy += part * float64(t.Job.GPUs)
		}
		speed := part
		if part < 1 {
			speed *= 1 - min(g.w.Cost.Pause.At(t.Job.Model, t.Job.GPUs)/gandivaTurn, 0.99)
		}
		if m := g.mate[t.Index]; m != nil {
			own, _ := g.pair(t, m)
			speed *= own
		}
		g.run(t, speed)
	}
	g.w.Busy = int(math.Round(busy))
}

// leads says whether a task stands for its pair, or is single.
func (g *gandiva) leads(t *sim.Task) bool {
	m := g.mate[t.Index]
	return m == nil || t.Index < m.Index
}

// run lets a task run at a share of its speed alone.
func (g *gandiva) run(t *sim.Task, speed float64) {
	iter := t.Solo / speed
	if !t.Running() {
		g.w.Start(t, iter)
		return
	}
	g.w.Pace(t, iter)
}
