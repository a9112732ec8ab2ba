package baseline

import (
	"math"
	"slices"

	"github.com/gimbal-hpc/gimbal/helper/sim"
)

// mostTogether is how many jobs Muri lets share.
const mostTogether = 4

// phases is in how many phases Muri divides an iteration: two for storage and
// CPU, one each for GPU and network.
const phases = 4

// kind is what jobs with the same stages have in common.
type kind struct {
	stages sim.Stages
	iter   float64 // seconds an iteration takes alone
}

// group is a sorted list of kinds that run together; -1 fills it up.
type group [mostTogether]int32

// together knows how long jobs take that run their stages in turns. What it
// has computed it keeps: there are few kinds of jobs.
type together struct {
	factor [mostTogether + 1]float64 // of the time of an iteration, by how many share
	kinds  []kind
	kindOf map[kind]int32
	times  map[group]float64
}

func newTogether(cost *sim.Cost) *together {
	return &together{factor: cost.Staged, kindOf: make(map[kind]int32), times: make(map[group]float64)}
}

// kind is the number of a task's kind.
func (g *together) kind(t *sim.Task) int32 {
	k := kind{t.Job.StagesOrPrior(), t.Solo}
	n, ok := g.kindOf[k]
	if !ok {
		n = int32(len(g.kinds))
		g.kinds = append(g.kinds, k)
		g.kindOf[k] = n
	}
	return n
}

// only is a group of one.
func only(k int32) group { return group{k, -1, -1, -1} }

// size is how many jobs a group has.
func (a group) size() int {
	n := 0
	for n < len(a) && a[n] >= 0 {
		n++
	}
	return n
}

// join is two groups in one; they must not be more than mostTogether.
func join(a, b group) group {
	n := a.size()
	copy(a[n:], b[:])
	slices.Sort(a[:n+b.size()])
	return a
}

// iteration is how long an iteration of all jobs of the group takes, in
// seconds: each of them does one.
func (g *together) iteration(a group) float64 {
	n := a.size()
	if n == 1 {
		return g.kinds[a[0]].iter
	}
	t, ok := g.times[a]
	if !ok {
		t = g.bestOrder(a[:n]) * g.factor[n]
		g.times[a] = t
	}
	return t
}

// used is the share of all resources that the group uses.
func (g *together) used(a group) float64 {
	sum := 0.0
	for _, k := range a[:a.size()] {
		sum += g.kinds[k].stages.Sum()
	}
	return sum / (g.iteration(a) * phases)
}

// soloSum is how long an iteration of each takes one after the other.
func (g *together) soloSum(a group) float64 {
	sum := 0.0
	for _, k := range a[:a.size()] {
		sum += g.kinds[k].iter
	}
	return sum
}

// bestOrder is the time of an iteration in the best order of the jobs.
func (g *together) bestOrder(kinds []int32) float64 {
	stages := make([]sim.Stages, len(kinds))
	for i, k := range kinds {
		stages[i] = g.kinds[k].stages
	}
	best := math.Inf(1)
	if len(stages) == 2 { // two may also take turns in halves
		a, b := stages[0], stages[1]
		best = max(a[0], b[1]+b[2]) + max(b[0], a[1]+a[2])
	}
	permute(stages, 0, func() { best = min(best, period(stages)) })
	return best
}

// permute calls f for every order of what follows the first n.
func permute(s []sim.Stages, n int, f func()) {
	if n == len(s) {
		f()
		return
	}
	for i := n; i < len(s); i++ {
		s[n], s[i] = s[i], s[n]
		permute(s, n+1, f)
		s[n], s[i] = s[i], s[n]
	}
}

// settled is how close two periods are for the pipeline to have come to rest.
const settled = 1e-3

// period is the time in which the jobs in this order all do an iteration, once
// the pipeline has come to rest or after two rounds. In step i the job i+1 is
// on the network, job i+2 on the GPU, and job i+3 ends loading what it began
// two steps before, all counted in circles of four phases.
func period(jobs []sim.Stages) float64 {
	const rounds = 2
	var done [rounds*phases + 1]float64 // when a step is over
	for i := range rounds * phases {
		next := 0.0
		if j := (i + 1) % phases; j < len(jobs) {
			next = max(next, done[i]+jobs[j][2])
		}
		if j := (i + 2) % phases; j < len(jobs) {
			next = max(next, done[i]+jobs[j][1])
		}
		if j := (i + 3) % phases; j < len(jobs) && i > 0 {
			next = max(next, done[i-1]+jobs[j][0])
		}
		done[i+1] = next
		if i >= phases {
			now, before := next-done[i+1-phases], done[i]-done[i-phases]
			if math.Abs(now-before) <= settled*max(math.Abs(now), math.Abs(before)) && now > 0 {
				return now
			}
		}
	}
	return done[rounds*phases] - done[(rounds-1)*phases]
}
