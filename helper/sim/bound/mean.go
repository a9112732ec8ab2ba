package bound

import (
	"math"
	"slices"
)

const (
	meanStretches = 240 // that time is cut into
	meanRounds    = 300 // in which the prices of the stretches are sought
	levelHalvings = 45
	firstAhead    = .2   // by how much more than the best value is aimed at, as a share
	patience      = 10   // rounds without progress before less is aimed at
	progress      = 1e-4 // as a share
)

// avgJCT is the bound on the average completion time.
func (p *problem) avgJCT() float64 { return newTransport(p, p.prices[0]).bound() }

// transport is the problem of bringing work to stretches of time, with prices on the
// GPU seconds of each.
type transport struct {
	p     *problem
	size  []float64 // GPU seconds that a second of each job's work takes
	edges []float64 // of the stretches; the last one has no end
	price []float64 // of a GPU second in each, 0 in the last
	over  []float64 // GPU seconds that the jobs take where they pay least, less those there
}

func newTransport(p *problem, prices prices) *transport {
	t := &transport{p: p}
	for i := range p.jobs {
		t.size = append(t.size, p.jobs[i].size(1, prices))
	}
	t.cut()
	t.price, t.over = make([]float64, len(t.edges)-1), make([]float64, len(t.edges)-1)
	return t
}

// cut cuts the time from the first arrival to when all work can be done.
func (t *transport) cut() {
	all, last := 0.0, 0.0
	for i := range t.p.jobs {
		j := &t.p.jobs[i]
		t.edges = append(t.edges, j.ready)
		all += t.size[i] * j.work
		last = max(last, j.ready+j.length)
	}
	t.edges = some(t.edges)
	begin, end := t.edges[0], max(last, t.edges[len(t.edges)-1]+all/t.p.gpus)
	for i := range meanStretches {
		t.edges = append(t.edges, begin+(end-begin)*float64(i+1)/meanStretches)
	}
	slices.Sort(t.edges)
	t.edges = append(slices.Compact(t.edges), math.Inf(1))
}

// bound seeks prices by raising them where more is taken than there is, and lowering
// them where it is less (subgradients, Polyak's steps). The value of any prices is a
// bound; the best is kept.
func (t *transport) bound() float64 {
	best, ahead, stale := 0.0, firstAhead, 0
	for range meanRounds {
		value, norm := t.value()
		if stale++; value > best*(1+progress) {
			stale = 0
		}
		if best = max(best, value); norm == 0 {
			break
		}
		if stale > patience {
			ahead, stale = ahead/2, 0
		}
		step := (best*(1+ahead) - value) / norm
		for k, o := range t.over[:len(t.over)-1] {
			t.price[k] = max(0, t.price[k]+step*o)
		}
	}
	return best / float64(len(t.p.jobs))
}

// value is what all jobs pay less what all GPU seconds cost, and the square of by how
// much that changes with the prices.
func (t *transport) value() (value, norm float64) {
	clear(t.over)
	for i := range t.p.jobs {
		value += t.pays(i)
	}
	for k, price := range t.price[:len(t.price)-1] {
		there := t.p.gpus * (t.edges[k+1] - t.edges[k])
		value -= price * there
		if t.over[k] -= there; price > 0 || t.over[k] > 0 {
			norm += t.over[k] * t.over[k]
		}
	}
	return value, norm
}

// pays is the least that a job pays: the mean time of its work from its arrival on,
// half of its length, and the price of what it takes. What it takes of a stretch it
// takes from its begin on, so that a second of work costs more the more it takes there:
// it takes what costs less than a level. Whatever the level, no way to do the work
// costs less than it says.
func (t *transport) pays(i int) float64 {
	j := &t.p.jobs[i]
	if j.work == 0 {
		return j.ready - j.Submit
	}
	low, level := j.ready/j.work, t.edges[len(t.edges)-2]/j.work+2*j.length/j.work
	for range levelHalvings {
		if middle := low + (level-low)/2; t.takes(i, middle, nil) < j.work {
			low = middle
		} else {
			level = middle
		}
	}
	saved := 0.0
	t.takes(i, level, func(k int, work, cost float64) {
		saved += work * (level - cost - work/(2*j.speed*j.work))
		t.over[k] += work * t.size[i]
	})
	return level*j.work - saved - j.Submit + j.length/2
}

// takes is how much work of a job costs less than a level, told by stretch with the
// cost of the first of it.
func (t *transport) takes(i int, level float64, each func(k int, work, cost float64)) float64 {
	j, all := &t.p.jobs[i], 0.0
	for k := len(t.price) - 1; k >= 0 && t.edges[k+1] > j.ready; k-- {
		begin := max(t.edges[k], j.ready)
		cost := begin/j.work + t.price[k]*t.size[i]
		if cost >= level {
			continue
		}
		work := j.speed * min((level-cost)*j.work, t.edges[k+1]-begin)
		all += work
		if each != nil {
			each(k, work, cost)
		}
	}
	return all
}
