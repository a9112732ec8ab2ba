package bound

import (
	"math"
	"math/bits"
)

// seated is the bounds where jobs have their GPUs: the work of those on each has to be
// done there. Those that come later take what time they need, and none from others.
func (p *problem) seated(seats [][]int, anywhere Bounds) Bounds {
	b := anywhere
	if p.wait(seats) {
		b = b.and(p.bounds())
	}
	later := make([]bool, len(p.jobs))
	for i := range later {
		later[i] = true
	}
	sum, met, last := 0.0, 0.0, 0.0
	for _, g := range p.packs(seats) {
		for _, j := range g.jobs {
			later[j.at] = false
			sum += (g.begin - j.Submit) * j.part()
		}
		sum, met, last = sum+g.times(), met+g.met(), max(last, g.begin+g.empty()-p.jobs[0].Submit)
	}
	for i := range p.jobs {
		if j := &p.jobs[i]; later[i] {
			sum += j.ready + j.length - j.Submit
			if j.inTime() {
				met++
			}
		}
	}
	on := Bounds{AvgJCT: sum / float64(len(p.jobs)), Makespan: last, DeadlinesMet: int(met + overfull - 1)}
	if p.exempt() == 0 {
		on.P99JCT = last
	}
	return b.and(on)
}

// wait makes the jobs of the first moment that found no room ready no earlier than any
// other can have ended: only then does Slurm try them again. It tells whether there are
// any.
func (p *problem) wait(seats [][]int) (any bool) {
	waits, end := make([]bool, len(p.jobs)), math.Inf(1)
	for i := range p.jobs {
		waits[i] = p.jobs[i].Submit == p.jobs[0].Submit
	}
	for _, on := range seats {
		for _, i := range on {
			waits[i] = false
		}
	}
	for i := range p.jobs {
		if !waits[i] {
			end = min(end, p.jobs[i].ready+p.jobs[i].length)
		}
	}
	for i := range p.jobs {
		if j := &p.jobs[i]; waits[i] && !math.IsInf(end, 1) {
			j.ready += end - j.Submit
			any = true
		}
	}
	return any
}

// pack is the jobs that share one GPU, when the first of them is ready, and how fast
// each is in every set of them, a bit for each, whoever else may join.
type pack struct {
	jobs   []*job
	begin  float64
	speeds [][mostTogether]float64
}

// packs is those of the GPUs.
func (p *problem) packs(seats [][]int) []*pack {
	var all []*pack
	for _, on := range seats {
		if len(on) == 0 {
			continue
		}
		g := &pack{begin: math.Inf(1), speeds: make([][mostTogether]float64, 1<<len(on))}
		for _, i := range on {
			g.jobs = append(g.jobs, &p.jobs[i])
			g.begin = min(g.begin, p.jobs[i].ready)
		}
		for set := 1; set < len(g.speeds); set++ {
			g.speeds[set] = p.sets.speedsIn(g.jobs, uint(set))
		}
		all = append(all, g)
	}
	return all
}

// speedsIn is the greatest speed of each of a set of these jobs in any set that holds it.
func (s *sets) speedsIn(jobs []*job, in uint) (speeds [mostTogether]float64) {
	begin := 0
	for _, end := range s.ends {
		set := s.all[begin:end]
		begin = end
		if !holds(set, jobs, in) {
			continue
		}
		for i := range bitsOf(in) {
			for _, m := range set {
				if m.kind == jobs[i].kind {
					speeds[i] = max(speeds[i], m.speed)
				}
			}
		}
	}
	return speeds
}

// holds tells whether a set has all of these jobs: for each another member of its kind.
func holds(set []member, jobs []*job, in uint) bool {
	taken := uint(0)
	for i := range bitsOf(in) {
		before := taken
		for n, m := range set {
			if m.kind == jobs[i].kind && taken>>n&1 == 0 {
				taken |= 1 << n
				break
			}
		}
		if taken == before {
			return false
		}
	}
	return true
}

// bitsOf goes through the members of a set.
func bitsOf(set uint) func(func(int) bool) {
	return func(yield func(int) bool) {
		for ; set != 0; set &= set - 1 {
			if !yield(bits.TrailingZeros(set)) {
				return
			}
		}
	}
}

// subsets goes through all sets of members of a set but the empty one.
func subsets(of uint) func(func(uint) bool) {
	return func(yield func(uint) bool) {
		for set := of; set != 0; set = (set - 1) & of {
			if !yield(set) {
				return
			}
		}
	}
}

func (g *pack) all() uint { return 1<<len(g.jobs) - 1 }

// part is what a job counts for on one of its GPUs: on all of them together for 1.
func (j *job) part() float64 { return 1 / float64(j.GPUs) }

// empty is how long the GPU takes at least for the work of all its jobs.
func (g *pack) empty() float64 {
	limits := make([]float64, len(g.speeds)-1)
	for i := range limits {
		limits[i] = 1
	}
	return g.earn(g.speeds[1:], limits)
}

// times is the least sum of the times after its begin at which the GPU's jobs can have
// ended, each counted as its part: the least over all orders in which they may end.
func (g *pack) times() float64 { return g.timesFrom(g.all(), nil, nil) }

// timesFrom goes on with those that are left: while they are there each second costs
// the sum of their parts.
func (g *pack) timesFrom(left uint, speeds [][mostTogether]float64, limits []float64) float64 {
	if left == 0 {
		return g.earn(speeds, limits)
	}
	cost := 0.0
	for i := range bitsOf(left) {
		cost += g.jobs[i].part()
	}
	for set := range subsets(left) {
		speeds, limits = append(speeds, g.speeds[set]), append(limits, cost)
	}
	best, n := math.Inf(1), len(speeds)
	for i := range bitsOf(left) {
		best = min(best, g.timesFrom(left&^(1<<i), speeds[:n:n], limits[:n:n]))
	}
	return best
}

// earn is the most that the work of all jobs earns at prices at which no row of speeds
// earns more a second than its limit.
func (g *pack) earn(speeds [][mostTogether]float64, limits []float64) float64 {
	work, rows := make([]float64, len(g.jobs)), make([][]float64, len(speeds))
	for i, j := range g.jobs {
		work[i] = j.work
	}
	for i := range speeds {
		rows[i] = speeds[i][:len(work)]
	}
	prices := most(work, rows, limits)
	over := 1.0 // looked at again: so the proof does not rest on the search
	for i, row := range rows {
		over = max(over, dot(prices, row)/limits[i])
	}
	return dot(prices, work) / over
}
