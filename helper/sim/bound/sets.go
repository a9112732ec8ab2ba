package bound

import (
	"github.com/gimbal-hpc/gimbal/helper/sim"
)

// mostTogether is how many jobs share a GPU at most.
const mostTogether = 4

// sets is all sets of jobs that can compute on a GPU together, by the kinds of their
// work, and how fast each is in them. Jobs of a kind fare alike.
type sets struct {
	kind    []int     // of each job
	fastest []float64 // that a job of the kind is in any set
	all     []member  // the members of one set after the other
	ends    []int     // of each set in it
}

// member is a job in a set.
type member struct {
	kind  int
	speed float64 // over its speed alone
}

// newSets finds the sets of a trace. Without a model of sharing each job is alone.
func newSets(jobs []sim.Job, model sim.Interference) *sets {
	s := &sets{kind: make([]int, len(jobs))}
	var of []*sim.Job // one of each kind
	var count []int   // jobs of each
	seen := make(map[sim.Profile]int)
	for i := range jobs {
		var p sim.Profile
		if model != nil {
			p = model.Profile(&jobs[i])
		}
		k, ok := seen[p]
		if !ok {
			k = len(of)
			seen[p] = k
			of, count = append(of, &jobs[i]), append(count, 0)
		}
		s.kind[i] = k
		count[k]++
	}
	s.fastest = make([]float64, len(of))
	e := enumeration{sets: s, of: of, count: count, model: model}
	e.extend(0)
	return s
}

// enumeration goes through the sets.
type enumeration struct {
	*sets
	of    []*sim.Job
	count []int
	model sim.Interference

	kinds  []int // of the set so far
	with   []*sim.Job
	speeds [mostTogether]float64
}

// extend adds the set so far, and all with more members of kinds from one on.
func (e *enumeration) extend(from int) {
	if len(e.kinds) > 0 {
		e.add()
	}
	if len(e.kinds) == mostTogether || e.model == nil && len(e.kinds) == 1 {
		return
	}
	for k := from; k < len(e.of); k++ {
		if e.count[k] == 0 {
			continue
		}
		e.count[k]--
		e.kinds, e.with = append(e.kinds, k), append(e.with, e.of[k])
		e.extend(k)
		e.kinds, e.with = e.kinds[:len(e.kinds)-1], e.with[:len(e.with)-1]
		e.count[k]++
	}
}

// add adds the set so far if it can run.
func (e *enumeration) add() {
	speeds := e.speeds[:len(e.with)]
	if speeds[0] = 1; len(e.with) > 1 {
		if e.model.Speeds(e.with, speeds); speeds[0] == 0 {
			return
		}
	}
	for i, k := range e.kinds {
		e.all = append(e.all, member{k, speeds[i]})
		e.fastest[k] = max(e.fastest[k], speeds[i])
	}
	e.ends = append(e.ends, len(e.all))
}

// prices is what a second of work of each kind on one GPU earns, at such a rate that
// no set earns more than 1 a second.
type prices []float64

// best is the set that earns most at any prices, and how much a second.
func (s *sets) best(p []float64) (set []member, earns float64) {
	begin := 0
	for _, end := range s.ends {
		sum := 0.0
		for _, m := range s.all[begin:end] {
			sum += p[m.kind] * m.speed
		}
		if sum > earns {
			set, earns = s.all[begin:end], sum
		}
		begin = end
	}
	return set, earns
}

// Sets are looked at until none earns this much more than it may, or so many were.
const (
	earnsEnough = 1 + 1e-6
	mostSets    = 500
)

// pricesFor is the prices at which amounts of work of each kind earn most: sought with
// few sets in view at first, to which those are added that would earn too much.
func (s *sets) pricesFor(amount []float64) prices {
	all := 0.0
	for _, a := range amount {
		all += a
	}
	if all == 0 {
		return make(prices, len(amount))
	}
	gain, p := make([]float64, len(amount)), make([]float64, len(amount))
	var rows [][]float64
	var limits []float64
	for k, a := range amount {
		gain[k] = a / all
		rows, limits = append(rows, make([]float64, len(amount))), append(limits, 1)
		rows[k][k] = 1 // each kind alone
	}
	for range mostSets {
		p = most(gain, rows, limits)
		set, earns := s.best(p)
		if earns <= earnsEnough {
			break
		}
		row := make([]float64, len(amount))
		for _, m := range set {
			row[m.kind] += m.speed
		}
		rows, limits = append(rows, row), append(limits, 1)
	}
	return s.fair(p)
}

// fair scales prices so that no set earns more than 1: whatever they are, what they
// prove is right.
func (s *sets) fair(p []float64) prices {
	out := make(prices, len(p))
	if _, earns := s.best(p); earns > 0 {
		for k := range p {
			out[k] = p[k] / earns
		}
	}
	return out
}
