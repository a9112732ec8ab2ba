package policy

import (
	"math"
	"math/bits"
	"testing"

	"pgregory.net/rapid"

	"github.com/gimbal-hpc/gimbal/tests/draw"
)

// plannerOf plans for n members, groups of which are worth what is drawn.
func plannerOf(n, most int, worth func(set) float64) *planner {
	return &planner{members: make([]*view, n), most: most, of: func(s set, _ *gpuView) float64 { return worth(s) }}
}

// drawn is a worth for every group: one alone 1, others by chance, some of them
// not together at all.
func drawn(t *rapid.T, n int) func(set) float64 {
	worths := make([]float64, 1<<n)
	for s := range worths {
		worths[s] = 1
		if bits.OnesCount(uint(s)) > 1 {
			worths[s] = rapid.Float64Range(0.5, 3).Draw(t, "worth")
		}
		if worths[s] < 0.7 {
			worths[s] = math.NaN()
		}
	}
	return func(s set) float64 { return worths[s] }
}

// TestPlansAreTheBest compares plans with the best of all ways to make groups,
// found by trying them.
func TestPlansAreTheBest(t *testing.T) {
	draw.Check(t, func(t *rapid.T) {
		n, most := rapid.IntRange(0, 6).Draw(t, "members"), rapid.IntRange(0, 4).Draw(t, "most")
		p := plannerOf(n, most, drawn(t, n))
		p.find()
		checkPlan(t, p, n, most)
		if got, want := p.work(p.groups), tryAll(p, nil, set(1)<<n-1); math.Abs(got-want) > 1e-9 {
			t.Fatalf("%b does %v, the best %v", p.groups, got, want)
		}
	})
}

// checkPlan fails unless everybody is in one group, and each group may be.
func checkPlan(t *rapid.T, p *planner, n, most int) {
	seen := set(0)
	for _, s := range p.groups {
		if s == 0 || seen&s != 0 || math.IsNaN(p.worth(s)) || most > 0 && bits.OnesCount64(uint64(s)) > most {
			t.Fatalf("%b is no plan", p.groups)
		}
		seen |= s
	}
	if seen != set(1)<<n-1 {
		t.Fatalf("%b is no plan for %d", p.groups, n)
	}
}

// tryAll is the most that the rest can do in addition to some groups.
func tryAll(p *planner, groups []set, rest set) float64 {
	if rest == 0 {
		return p.work(groups)
	}
	first, best := rest&-rest, 0.0
	for s := rest; s != 0; s = (s - 1) & rest {
		if s&first == 0 || math.IsNaN(p.worth(s)) || p.most > 0 && bits.OnesCount64(uint64(s)) > p.most {
			continue
		}
		best = max(best, tryAll(p, append(groups[:len(groups):len(groups)], s), rest&^s))
	}
	return best
}

// TestGroupsGrowWhereItPays: a group is only made where it is worth more than
// without any one of its members.
func TestGroupsGrowWhereItPays(t *testing.T) {
	worths := map[int]float64{1: 1, 2: 1.4, 3: 1.3, 4: 1.9}
	p := plannerOf(4, 0, func(s set) float64 { return worths[bits.OnesCount64(uint64(s))] })
	p.find()
	if len(p.groups) != 2 || math.Abs(p.work(p.groups)-1.4) > 1e-9 {
		t.Errorf("groups %b", p.groups)
	}
}

// TestBigPlansJoinWhatPays: beyond the exact bound groups are joined greedily.
func TestBigPlansJoinWhatPays(t *testing.T) {
	const n = planExact + 2
	p := plannerOf(n, 2, func(s set) float64 {
		first, size := bits.TrailingZeros64(uint64(s)), bits.OnesCount64(uint64(s))
		switch {
		case size == 1:
			return 1
		case size == 2 && first%2 == 0 && s.has(first+1):
			return 1.5
		}
		return 0.9
	})
	p.find()
	for _, s := range p.groups {
		if bits.OnesCount64(uint64(s)) != 2 || p.worth(s) != 1.5 {
			t.Errorf("groups %b", p.groups)
		}
	}
}
