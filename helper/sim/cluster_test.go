package sim

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gimbal-hpc/gimbal/tests/draw"
)

func TestPlace(t *testing.T) {
	for _, c := range []struct {
		name string
		jobs []Job // placed in turn on 3 nodes of 4
		want [][]Share
	}{
		{"first node with room", []Job{{GPUs: 3}, {GPUs: 2}, {GPUs: 1}}, [][]Share{{{0, 3}}, {{1, 2}}, {{0, 1}}}},
		{"whole nodes for a large one", []Job{{GPUs: 1}, {GPUs: 8}}, [][]Share{{{0, 1}}, {{1, 4}, {2, 4}}}},
		{"the rest of a large one beside others", []Job{{GPUs: 2}, {GPUs: 5}}, [][]Share{{{0, 2}}, {{1, 4}, {0, 1}}}},
		{"no node is free as a whole", []Job{{GPUs: 1}, {GPUs: 4}, {GPUs: 1}, {GPUs: 4}, {GPUs: 8}}, [][]Share{{{0, 1}}, {{1, 4}}, {{0, 1}}, {{2, 4}}, nil}},
		{"as many nodes as asked for", []Job{{GPUs: 5, Nodes: 3}}, [][]Share{{{0, 2}, {1, 2}, {2, 1}}}},
		{"more than there is", []Job{{GPUs: 13}}, [][]Share{nil}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster, err := NewCluster(3, 4)
			if err != nil {
				t.Fatal(err)
			}
			for i := range c.jobs {
				if diff := cmp.Diff(c.want[i], cluster.Place(&c.jobs[i], nil)); diff != "" {
					t.Errorf("job %d (-want +got):\n%s", i, diff)
				}
			}
		})
	}
}

// TestClusterCounts places and releases at random and counts by hand.
func TestClusterCounts(t *testing.T) {
	draw.Check(t, func(t *rapid.T) {
		nodes, per := rapid.IntRange(1, 9).Draw(t, "nodes"), rapid.IntRange(1, 8).Draw(t, "gpus")
		c, err := NewCluster(nodes, per)
		if err != nil {
			t.Fatal(err)
		}
		free := make([]int, nodes)
		for i := range free {
			free[i] = per
		}
		var held [][]Share
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			if len(held) > 0 && rapid.Bool().Draw(t, "release") {
				i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				c.Release(held[i])
				for _, s := range held[i] {
					free[s.Node] += s.GPUs
				}
				held = append(held[:i], held[i+1:]...)
				continue
			}
			j := Job{GPUs: rapid.IntRange(1, nodes*per+1).Draw(t, "asked")}
			shares := c.Place(&j, nil)
			sum, used := 0, 0
			for _, s := range shares {
				free[s.Node] -= s.GPUs
				sum += s.GPUs
			}
			if shares != nil {
				held = append(held, shares)
				if sum != j.GPUs {
					t.Fatalf("asked for %d GPUs, got %v", j.GPUs, shares)
				}
			} else if j.GPUs <= per {
				for _, f := range free {
					if f >= j.GPUs {
						t.Fatalf("%d GPUs do not fit, but there are %v", j.GPUs, free)
					}
				}
			}
			for node, f := range free {
				if f < 0 || f != c.FreeOn(node) {
					t.Fatalf("node %d has %d free GPUs, the cluster says %d", node, f, c.FreeOn(node))
				}
				used += per - f
			}
			if used != c.Used() {
				t.Fatalf("%d GPUs are in use, the cluster says %d", used, c.Used())
			}
		}
	})
}

func TestNewClusterRefuses(t *testing.T) {
	for _, c := range [][2]int{{0, 8}, {8, 0}, {-1, 8}} {
		if _, err := NewCluster(c[0], c[1]); err == nil {
			t.Errorf("a cluster of %d nodes with %d GPUs is made", c[0], c[1])
		}
	}
}

func TestMaxTree(t *testing.T) {
	draw.Check(t, func(t *rapid.T) {
		tree, plain := NewMaxTree(0), []float64{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(plain) == 0 || rapid.IntRange(0, 3).Draw(t, "what") == 0 {
				n := len(plain) + rapid.IntRange(1, 5).Draw(t, "more")
				tree.Grow(n)
				for len(plain) < n {
					plain = append(plain, math.Inf(-1))
				}
			}
			i, v := rapid.IntRange(0, len(plain)-1).Draw(t, "index"), float64(rapid.IntRange(-3, 3).Draw(t, "value"))
			tree.Set(i, v)
			plain[i] = v
			from, least := rapid.IntRange(0, len(plain)).Draw(t, "from"), float64(rapid.IntRange(-4, 4).Draw(t, "least"))
			want, top := -1, math.Inf(-1)
			for k := len(plain) - 1; k >= 0; k-- {
				top = max(top, plain[k])
				if k >= from && plain[k] >= least {
					want = k
				}
			}
			if got := tree.First(from, least); got != want {
				t.Fatalf("first of %v from %d with at least %v is %d, want %d", plain, from, least, got, want)
			}
			if tree.Max() != top {
				t.Fatalf("the largest of %v is %v, want %v", plain, tree.Max(), top)
			}
		}
	})
}
