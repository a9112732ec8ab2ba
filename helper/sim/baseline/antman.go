package baseline

import (
	"cmp"
	"math"
	"slices"

	"github.com/gimbal-hpc/gimbal/helper/sim"
)

// Shares of a GPU that AntMan's published simulation takes its jobs to use.
// Its authors call them not real: what comes out is approximate.
// They are kept as fractions and added in the published order: what is left of
// rounding decides there between GPUs that are used alike.
const (
	guaranteedUse    = 0.1
	completedUse     = 0.01 // of it, added once the job has all of its GPUs
	opportunisticUse = 0.9
	useLimit         = 0.8 // an opportunistic job goes to GPUs that are used less
)

// reservedUse is what a guaranteed job uses before it is complete. It is not a
// constant because Go's constants do not round.
func reservedUse() float64 {
	use := guaranteedUse
	return use - completedUse
}

// sharedSlowdown is how much longer an opportunistic job takes on a GPU that
// it shares, where its stages or those of the other are not known.
const sharedSlowdown = 2

// antman is AntMan as Muri's authors simulated it. Nothing is preempted.
// Guaranteed jobs come first and are never slowed down; one that finds too few
// GPUs keeps what there is until the rest is free. Opportunistic jobs go to
// the least used GPUs; beside a guaranteed one they compute in its gaps.
type antman struct {
	w          *sim.World
	gpus       []antmanGPU
	unowned    int     // GPUs without a guaranteed task
	held       [][]int // GPUs of each task
	missing    []int   // GPUs that each guaranteed task still waits for
	guaranteed []*sim.Task
	spare      []*sim.Task // opportunistic tasks that wait
	order      []int       // GPUs, for sorting
}

// antmanGPU is one GPU: the guaranteed task that has it, the opportunistic ones
// beside it, and how much of it they use.
type antmanGPU struct {
	owner  *sim.Task
	guests []*sim.Task
	use    float64
}

func (a *antman) Start(w *sim.World) {
	a.w = w
	a.unowned = w.Cluster.GPUs()
	a.gpus = make([]antmanGPU, a.unowned)
	a.held = make([][]int, len(w.Tasks))
	a.missing = make([]int, len(w.Tasks))
}

func (a *antman) Arrive(t *sim.Task) {
	if t.Job.Opportunistic {
		a.spare = append(a.spare, t)
		return
	}
	a.missing[t.Index] = t.Job.GPUs
	a.guaranteed = append(a.guaranteed, t)
}

func (a *antman) Finish(t *sim.Task) {
	for _, g := range a.held[t.Index] {
		gpu := &a.gpus[g]
		if t.Job.Opportunistic {
			gpu.guests = without(gpu.guests, t)
			gpu.use -= opportunisticUse
		} else {
			gpu.owner = nil
			a.unowned++
			gpu.use -= guaranteedUse
		}
	}
	a.held[t.Index] = nil
}

func (a *antman) Schedule() float64 {
	a.guaranteed = slices.DeleteFunc(a.guaranteed, a.placeGuaranteed)
	a.spare = slices.DeleteFunc(a.spare, a.placeSpare)
	a.w.Busy = 0
	for i := range a.gpus {
		if a.works(&a.gpus[i]) {
			a.w.Busy++
		}
	}
	a.w.Each(a.pace)
	return sim.Never
}

func (a *antman) works(g *antmanGPU) bool {
	return len(g.guests) > 0 || g.owner != nil && g.owner.Running()
}

// pace slows an opportunistic task down where it shares a GPU.
func (a *antman) pace(t *sim.Task) {
	if !t.Job.Opportunistic {
		return
	}
	iter := t.Solo
	var last *sim.Task
	for _, g := range a.held[t.Index] {
		owner := a.gpus[g].owner
		if owner != nil && owner != last && owner.Running() {
			iter = max(iter, besideOwner(t, owner))
			last = owner
		}
	}
	a.w.Pace(t, iter)
}

// besideOwner is how long an iteration of an opportunistic task takes beside a
// guaranteed one, in seconds: as many iterations of the guaranteed one as pass
// until each stage of the other has found room in its gaps.
func besideOwner(t, owner *sim.Task) float64 {
	own, other := t.Job.Stages, owner.Job.Stages
	if own.Sum() == 0 || other.Sum() == 0 {
		return sharedSlowdown * t.Solo
	}
	return iterationsUntilDone(own, other) * owner.Solo
}

// iterationsUntilDone counts the guaranteed iterations that one opportunistic
// iteration needs. A stage runs while the guaranteed job is in its two other
// stages; what it leaves of its last gap serves the stage after it.
func iterationsUntilDone(own, other sim.Stages) float64 {
	n, rest := gaps(own[0], other[1]+other[2])
	if rest > 0 {
		n++
		own[1] -= min(own[1], other[2], other[1]+other[2]-rest)
	}
	k, rest := gaps(own[1], other[0]+other[2])
	n += k
	if rest > 0 {
		n++
		if rest < other[0] {
			own[2] -= min(own[2], other[0]+other[1]-rest)
		}
	}
	k, rest = gaps(own[2], other[0]+other[1])
	n += k
	if rest > other[0] {
		n++
	}
	return n
}

// gaps is how many whole gaps a stage fills, and what is left of it.
func gaps(stage, gap float64) (whole, rest float64) {
	switch {
	case stage == 0:
		return 0, 0
	case gap == 0:
		return math.Inf(1), 0
	}
	return math.Floor(stage / gap), math.Mod(stage, gap)
}

// placeGuaranteed starts a guaranteed task where it can have all of its GPUs;
// otherwise it holds what there is.
func (a *antman) placeGuaranteed(t *sim.Task) bool {
	if a.unowned == 0 {
		return false
	}
	if t.Job.GPUs > a.w.Cluster.PerNode {
		a.holdWide(t)
	} else {
		a.holdInNode(t)
	}
	if a.missing[t.Index] > 0 {
		return false
	}
	for _, g := range a.held[t.Index] {
		a.gpus[g].use += completedUse
	}
	a.start(t)
	return true
}

func (a *antman) start(t *sim.Task) {
	held := slices.Clone(a.held[t.Index])
	slices.Sort(held)
	t.Nodes = nil
	for _, g := range held {
		node := g / a.w.Cluster.PerNode
		if n := len(t.Nodes); n == 0 || t.Nodes[n-1].Node != node {
			t.Nodes = append(t.Nodes, sim.Share{Node: node})
		}
		t.Nodes[len(t.Nodes)-1].GPUs++
	}
	a.w.Start(t, t.Solo)
}

// holdInNode holds GPUs of one node: of the one where it holds some already,
// else the first with room for all, else the one with the most.
func (a *antman) holdInNode(t *sim.Task) {
	need, per := a.missing[t.Index], a.w.Cluster.PerNode
	if held := a.held[t.Index]; len(held) > 0 {
		a.hold(t, held[0]/per, need)
		return
	}
	best, most := -1, 0
	for node := range a.w.Cluster.Nodes() {
		free := a.unownedOn(node)
		if free >= need {
			best = node
			break
		}
		if free > most {
			best, most = node, free
		}
	}
	if best >= 0 {
		a.hold(t, best, need)
	}
}

// holdWide holds whole nodes for a task larger than one, and then part of a
// further node.
func (a *antman) holdWide(t *sim.Task) {
	per := a.w.Cluster.PerNode
	for node := range a.w.Cluster.Nodes() {
		need := a.missing[t.Index]
		if need == 0 {
			return
		}
		if want := min(need, per); a.unownedOn(node) >= want {
			a.hold(t, node, want)
		}
	}
}

// unownedOn is the number of GPUs of a node without a guaranteed task.
func (a *antman) unownedOn(node int) int {
	n, per := 0, a.w.Cluster.PerNode
	for g := node * per; g < (node+1)*per; g++ {
		if a.gpus[g].owner == nil {
			n++
		}
	}
	return n
}

// hold gives a guaranteed task up to n GPUs of a node.
func (a *antman) hold(t *sim.Task, node, n int) {
	per := a.w.Cluster.PerNode
	for g := node * per; g < (node+1)*per && n > 0; g++ {
		if a.gpus[g].owner == nil {
			a.gpus[g].owner = t
			a.gpus[g].use += reservedUse()
			a.held[t.Index] = append(a.held[t.Index], g)
			a.missing[t.Index]--
			a.unowned--
			n--
		}
	}
}

// placeSpare starts an opportunistic task on the least used GPUs.
func (a *antman) placeSpare(t *sim.Task) bool {
	a.order = a.order[:0]
	for g := range a.gpus {
		if a.gpus[g].use < useLimit {
			a.order = append(a.order, g)
		}
	}
	if len(a.order) < t.Job.GPUs {
		return false
	}
	slices.SortStableFunc(a.order, func(x, y int) int { return cmp.Compare(a.gpus[x].use, a.gpus[y].use) })
	for _, g := range a.order[:t.Job.GPUs] {
		a.gpus[g].guests = append(a.gpus[g].guests, t)
		a.gpus[g].use += opportunisticUse
		a.held[t.Index] = append(a.held[t.Index], g)
	}
	a.start(t)
	return true
}
