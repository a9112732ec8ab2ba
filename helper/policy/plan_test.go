package policy

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestPlansAreTheBest compares plans with the best of all ways to make groups
// of one and two, found by trying them.
func TestPlansAreTheBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 6).Draw(t, "members")
		p := &planner{members: make([]*view, n), worth: make([]float64, n*n)}
		for i := range n {
			for j := range i {
				w := rapid.Float64Range(0.5, 2).Draw(t, "worth")
				if w < 0.7 {
					w = math.NaN()
				}
				p.worth[i*n+j], p.worth[j*n+i] = w, w
			}
		}
		p.find()
		for i, j := range p.partner {
			if p.partner[j] != i || i != j && math.IsNaN(p.worth[i*n+j]) {
				t.Fatalf("%v is no plan", p.partner)
			}
		}
		if got, want := p.work(p.partner), tryAll(p, make([]int, 0, n)); math.Abs(got-want) > 1e-9 {
			t.Fatalf("%v does %v, the best %v", p.partner, got, want)
		}
	})
}

func tryAll(p *planner, partner []int) float64 {
	i := len(partner)
	if i == len(p.members) {
		return p.work(partner)
	}
	for k, j := range partner {
		if j == i { // i is already somebody's partner
			return tryAll(p, append(append([]int{}, partner...), k))
		}
	}
	best := tryAll(p, append(append([]int{}, partner...), i))
	for j := i + 1; j < len(p.members); j++ {
		if !math.IsNaN(p.worth[i*len(p.members)+j]) && !taken(partner, j) {
			best = max(best, tryAll(p, append(append([]int{}, partner...), j)))
		}
	}
	return best
}

func taken(partner []int, j int) bool {
	for _, p := range partner {
		if p == j {
			return true
		}
	}
	return false
}

// TestBigPlansPairWhatPays: beyond the exact bound pairs are taken greedily.
func TestBigPlansPairWhatPays(t *testing.T) {
	const n = planExact + 2
	p := &planner{members: make([]*view, n), worth: make([]float64, n*n)}
	for i := range n {
		for j := range n {
			p.worth[i*n+j] = 0.9
			if i/2 == j/2 {
				p.worth[i*n+j] = 1.5
			}
		}
	}
	p.find()
	for i, j := range p.partner {
		if i != j && i/2 != j/2 || i == j {
			t.Errorf("%d is with %d", i, j)
		}
	}
}
