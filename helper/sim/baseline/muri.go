package baseline

import (
	"cmp"
	"slices"

	"github.com/gimbal-hpc/gimbal/helper/sim"
	"github.com/gimbal-hpc/gimbal/helper/sim/match"
)

// muri is Muri (SIGCOMM 2022): the tasks that come first by remaining GPU time
// (Muri-S) or attained GPU time (Muri-L) are admitted, up to four to a place,
// and packed with others of as many GPUs by matchings of the largest weight,
// where the weight of two packs is the share of all resources that they use
// together. All is decided anew at each moment. It chooses by its own model of how
// stages interleave; a pack runs by that model under Muri's cost model alone.
type muri struct {
	w        *sim.World
	key      func(*sim.Task) float64
	together *together
	there    []keyed // all tasks that are there
	kinds    []int32 // of each task
	packs    []*pack // the pack each task runs in, nil where it waits
	weights  packWeights
	whole    bool // slow packs are not taken apart, as in the published figures of trace1
}

// pack is tasks of as many GPUs that share them.
type pack struct {
	tasks []*sim.Task
	group group
	key   float64 // of the first of them
	nodes []sim.Share
}

func newMuri(key func(*sim.Task) float64) *muri { return &muri{key: key} }

func attainedGPUTime(t *sim.Task) float64 { return t.Attained * float64(t.Job.GPUs) }

func (m *muri) Start(w *sim.World) {
	m.w, m.together = w, newTogether(w.Cost)
	m.kinds, m.packs = make([]int32, len(w.Tasks)), make([]*pack, len(w.Tasks))
	m.weights = newPackWeights(m.together)
}

func (m *muri) Arrive(t *sim.Task) {
	m.kinds[t.Index] = m.together.kind(t)
	m.there = append(m.there, keyed{0, t})
}

func (m *muri) Finish(t *sim.Task) {
	m.there = slices.DeleteFunc(m.there, func(k keyed) bool { return k.task == t })
	m.packs[t.Index] = nil
}

func (m *muri) Schedule() float64 {
	m.w.Settle()
	for i := range m.there {
		m.there[i].key = m.key(m.there[i].task)
	}
	slices.SortStableFunc(m.there, func(a, b keyed) int { return cmp.Compare(a.key, b.key) })
	chosen := m.fitting(m.unpackSlow(m.packAll(m.admit())))
	// The largest first: so that what fits in all finds its nodes.
	slices.SortStableFunc(m.there, func(a, b keyed) int { return b.task.Job.GPUs - a.task.Job.GPUs })
	m.run(chosen)
	m.w.Busy = m.w.Cluster.Used()
	return sim.Never
}

// class is the packs of one number of GPUs.
type class struct {
	gpus  int
	packs []*pack
}

// admit chooses who may run: for each place that the tasks in order would
// take, the next four of as many GPUs. The classes are in the order in which
// they first come.
func (m *muri) admit() []class {
	waiting := make(map[int][]*pack)
	var order []int
	for _, k := range m.there {
		g := k.task.Job.GPUs
		if waiting[g] == nil {
			order = append(order, g)
		}
		waiting[g] = append(waiting[g], m.alone(k.task, k.key))
	}
	m.w.Cluster.Reset()
	admitted, passed := make(map[int]int), make(map[int]int)
	full := make(map[shape]bool)
	for _, k := range m.there {
		g := k.task.Job.GPUs
		if passed[g]++; passed[g] <= admitted[g] || full[shapeOf(k.task.Job)] {
			continue
		}
		if m.w.Cluster.Place(k.task.Job, nil) == nil {
			full[shapeOf(k.task.Job)] = true
			continue
		}
		admitted[g] = min(admitted[g]+mostTogether, len(waiting[g]))
	}
	classes := make([]class, 0, len(order))
	for _, g := range order {
		classes = append(classes, class{g, waiting[g][:admitted[g]]})
	}
	return classes
}

func (m *muri) alone(t *sim.Task, key float64) *pack {
	return &pack{tasks: []*sim.Task{t}, group: only(m.kinds[t.Index]), key: key}
}

// packAll joins packs, a matching a round, until all fit in the cluster by
// number or there is no more to join.
func (m *muri) packAll(classes []class) []class {
	asked := 0
	for _, c := range classes {
		asked += c.gpus * len(c.packs)
	}
	for round := 0; round < mostTogether && asked > m.w.Cluster.GPUs(); round++ {
		partners := make([][]int32, len(classes))
		for i, c := range classes {
			partners[i] = match.Heaviest(len(c.packs), m.weights.of(c.packs))
		}
		for i := range classes {
			asked = classes[i].join(partners[i], asked, m.w.Cluster.GPUs())
		}
	}
	return classes
}

// join joins matched packs while more GPUs are asked for than there are, and
// returns how many are asked for after that.
func (c *class) join(partner []int32, asked, gpus int) int {
	joined := make([]*pack, 0, len(c.packs))
	for i, p := range c.packs {
		switch j := int(partner[i]); {
		case j < 0:
			joined = append(joined, p)
		case j > i: // when its turn comes
		case asked <= gpus:
			joined = append(joined, c.packs[j], p)
		default:
			first := c.packs[j]
			first.tasks = append(first.tasks, p.tasks...)
			first.group = join(first.group, p.group)
			first.key = min(first.key, p.key)
			joined = append(joined, first)
			asked -= c.gpus
		}
	}
	c.packs = joined
	return asked
}

// unpackSlow takes packs apart that are slower together than one after the
// other, or cannot run together.
func (m *muri) unpackSlow(classes []class) []*pack {
	var all []*pack
	for _, c := range classes {
		for _, p := range c.packs {
			if m.pays(p) {
				all = append(all, p)
				continue
			}
			for _, t := range p.tasks {
				all = append(all, m.alone(t, m.key(t)))
			}
		}
	}
	return all
}

// fitting is the packs that find room in the order of their keys.
func (m *muri) fitting(all []*pack) map[*sim.Task]*pack {
	slices.SortStableFunc(all, func(a, b *pack) int { return cmp.Compare(a.key, b.key) })
	m.w.Cluster.Reset()
	chosen := make(map[*sim.Task]*pack)
	for _, p := range all {
		if m.w.Cluster.Place(p.tasks[0].Job, nil) == nil {
			continue
		}
		for _, t := range p.tasks {
			chosen[t] = p
		}
	}
	return chosen
}

// run places the chosen packs, the largest jobs first, starts their tasks and
// stops all others.
func (m *muri) run(chosen map[*sim.Task]*pack) {
	m.w.Cluster.Reset()
	for _, k := range m.there {
		t, p := k.task, chosen[k.task]
		if p != nil && p.nodes == nil {
			p.nodes = m.w.Cluster.Place(t.Job, nil)
		}
		if p == nil || p.nodes == nil {
			if t.Running() {
				m.w.Stop(t)
			}
			m.packs[t.Index] = nil
			continue
		}
		m.join(t, p)
	}
}

// join lets a task run in a pack. Who comes to a pack or sees others come
// restarts, and waits until all of them have.
func (m *muri) join(t *sim.Task, p *pack) {
	before := m.packs[t.Index]
	m.packs[t.Index], t.Nodes = p, p.nodes
	t.Restart = 0
	for _, mate := range p.tasks {
		t.Restart += m.w.Cost.Restart.At(mate.Job.Model, t.Job.GPUs)
	}
	iter := m.pace(t, p)
	if !t.Running() {
		m.w.Start(t, iter)
		return
	}
	m.w.Moved(t)
	m.w.Pace(t, iter)
	if before == nil || !sameTasks(before, p) {
		m.w.Repay(t)
	}
}

// pace is how long an iteration takes a task in its pack.
func (m *muri) pace(t *sim.Task, p *pack) float64 {
	if m.ownModel(p) {
		return m.together.iteration(p.group)
	}
	return t.Solo / m.speeds(p)[slices.Index(p.tasks, t)]
}

// ownModel tells whether a pack runs as fast as Muri has it: under its own cost
// model. Under any other it runs as fast as jobs do beside each other, as under
// every policy.
func (m *muri) ownModel(p *pack) bool {
	return m.w.Cost.EveryMoment || m.w.Interference == nil || len(p.tasks) == 1
}

// speeds is how fast the tasks of a pack are together, all zero where they cannot
// run so.
func (m *muri) speeds(p *pack) []float64 {
	jobs, speeds := make([]*sim.Job, len(p.tasks)), make([]float64, len(p.tasks))
	for i, t := range p.tasks {
		jobs[i] = t.Job
	}
	m.w.Interference.Speeds(jobs, speeds)
	return speeds
}

// pays tells whether a pack is not slower than its tasks one after the other, and
// can run at all.
func (m *muri) pays(p *pack) bool {
	if !m.ownModel(p) && m.speeds(p)[0] == 0 {
		return false
	}
	return m.whole || m.together.iteration(p.group) <= m.together.soloSum(p.group)
}

func sameTasks(a, b *pack) bool {
	if len(a.tasks) != len(b.tasks) {
		return false
	}
	for _, t := range a.tasks {
		if !slices.Contains(b.tasks, t) {
			return false
		}
	}
	return true
}
