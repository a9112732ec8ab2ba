package match

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/gimbal-hpc/gimbal/tests/draw"
)

// graph draws a symmetrical matrix of small weights, some of them absent.
func graph(t *rapid.T, most int) (int, []int64) {
	n := rapid.IntRange(0, most).Draw(t, "vertices")
	limit := rapid.SampledFrom([]int64{1, 3, 10, 1000}).Draw(t, "heaviest")
	w := make([]int64, n*n)
	for i := range n {
		for j := range i {
			v := rapid.Int64Range(-1, limit).Draw(t, "weight")
			w[i*n+j], w[j*n+i] = v, v
		}
	}
	return n, w
}

// total checks that the partners are each other's and sums up their weight.
func total(t *rapid.T, n int, w []int64, mate []int32) int64 {
	sum := int64(0)
	for v, m := range mate {
		if m < 0 {
			continue
		}
		if int(m) == v || int(mate[m]) != v {
			t.Fatalf("%d is matched to %d, which is matched to %d", v, m, mate[m])
		}
		if w[v*n+int(m)] <= 0 {
			t.Fatalf("%d and %d are matched without an edge", v, m)
		}
		sum += w[v*n+int(m)]
	}
	return sum / 2
}

// heaviestByTrial tries every matching of the vertices that are left.
func heaviestByTrial(n int, w []int64, used uint) int64 {
	first := 0
	for first < n && used>>first&1 == 1 {
		first++
	}
	if first >= n {
		return 0
	}
	used |= 1 << first
	best := heaviestByTrial(n, w, used)
	for j := first + 1; j < n; j++ {
		if used>>j&1 == 0 && w[first*n+j] > 0 {
			best = max(best, w[first*n+j]+heaviestByTrial(n, w, used|1<<j))
		}
	}
	return best
}

func TestHeaviestAgainstTrial(t *testing.T) {
	draw.Check(t, func(t *rapid.T) {
		n, w := graph(t, 10)
		got := total(t, n, w, Heaviest(n, w))
		if want := heaviestByTrial(n, w, 0); got != want {
			t.Fatalf("matching of %d vertices %v weighs %d, the heaviest %d", n, w, got, want)
		}
	})
}

// TestDualsProve checks on larger graphs that the duals prove the matching to
// be the heaviest: every edge is covered, and the bound is met.
func TestDualsProve(t *testing.T) {
	draw.Check(t, func(t *rapid.T) {
		n, w := graph(t, 60)
		m := newMatcher(n, w)
		for m.stage() {
		}
		got, bound := total(t, n, w, m.mate), int64(0)
		for v := range n {
			if m.dual[v] < 0 {
				t.Fatalf("dual of %d is %d", v, m.dual[v])
			}
			bound += m.dual[v]
		}
		size := make([]int64, 2*n)
		for b := n; b < 2*n; b++ {
			if m.base[b] == none {
				continue
			}
			m.eachVertex(int32(b), func(int32) { size[b]++ })
			bound += 2 * m.dual[b] * (size[b] / 2)
		}
		if bound != 2*got {
			t.Fatalf("matching of %d vertices weighs %d, the bound is %d halves", n, got, bound)
		}
		for i := range n {
			for j := range i {
				if w[i*n+j] > 0 && m.slack(edge{int32(i), int32(j)})+2*m.common(int32(i), int32(j)) < 0 {
					t.Fatalf("edge %d-%d is not covered", i, j)
				}
			}
		}
	})
}

// common is the sum of the duals of the blossoms that hold both vertices.
func (m *matcher) common(v, w int32) int64 {
	sum := int64(0)
	for a := m.parent[v]; a != none; a = m.parent[a] {
		for b := m.parent[w]; b != none; b = m.parent[b] {
			if a == b {
				sum += m.dual[a]
			}
		}
	}
	return sum
}

func BenchmarkHeaviest(b *testing.B) {
	const n = 256
	w, x := make([]int64, n*n), uint64(1)
	for i := range n {
		for j := range i {
			x = x*6364136223846793005 + 1442695040888963407
			w[i*n+j] = int64(x >> 40)
			w[j*n+i] = w[i*n+j]
		}
	}
	for b.Loop() {
		Heaviest(n, w)
	}
}
