package bound

import (
	"cmp"
	"slices"
)

// met is how many deadlines of the GPU's jobs can be met, each counted as its part.
func (g *pack) met() float64 {
	best := 0.0
	for set := range subsets(g.all()) {
		if sum := g.parts(set); sum > best && g.inTime(set) {
			best = sum
		}
	}
	return best
}

// parts is what the jobs of a set count for, 0 where one cannot be in time.
func (g *pack) parts(set uint) float64 {
	sum := 0.0
	for i := range bitsOf(set) {
		if !g.jobs[i].inTime() {
			return 0
		}
		sum += g.jobs[i].part()
	}
	return sum
}

// inTime tells whether it is not proven that not all of a set can be in time. The proof
// is prices for the work of each at which it earns more than the GPU can earn with it
// in the times between the deadlines.
func (g *pack) inTime(set uint) bool {
	var order []int // of those with something to do
	for i := range bitsOf(set) {
		if g.jobs[i].work > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(g.jobs[a].Deadline, g.jobs[b].Deadline) })
	n := len(order)
	gain := make([]float64, 2*n) // of each job's work, by its price; of a second of each time, by what is earned in it
	var rows [][]float64
	var limits []float64
	add := func(limit float64) []float64 {
		rows, limits = append(rows, make([]float64, 2*n)), append(limits, limit)
		return rows[len(rows)-1]
	}
	g.between(order, func(k int, seconds float64, left uint) {
		gain[k], gain[n+k] = 1, -seconds
		add(1)[k] = 1 // all of the work costs no more than 1
		for sub := range subsets(left) {
			row := add(0)
			g.shares(order, sub, row)
			row[n+k] = -1
		}
	})
	return g.lacks(order, most(gain, rows, limits)[:n]) < overfull-1
}

// between goes through the times up to each deadline, with the jobs whose deadlines are
// not over then.
func (g *pack) between(order []int, each func(k int, seconds float64, left uint)) {
	from, left := g.begin, uint(0)
	for _, i := range order {
		left |= 1 << i
	}
	for k, i := range order {
		end := max(from, g.jobs[i].Deadline)
		each(k, end-from, left)
		from, left = end, left&^(1<<i)
	}
}

// shares stores what share of its work each job of a set does in a second.
func (g *pack) shares(order []int, set uint, row []float64) {
	for k, i := range order {
		if set>>i&1 == 1 {
			row[k] = g.speeds[set][i] / g.jobs[i].work
		}
	}
}

// lacks is what the work earns at these prices over what the GPU can have earned.
func (g *pack) lacks(order []int, prices []float64) float64 {
	sum, row := 0.0, make([]float64, len(order))
	g.between(order, func(k int, seconds float64, left uint) {
		earns := 0.0
		for sub := range subsets(left) {
			clear(row)
			g.shares(order, sub, row)
			earns = max(earns, dot(prices, row))
		}
		sum += prices[k] - earns*seconds
	})
	return sum
}
