package learn

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestClasses: by what a job and its mates do together, else by its demand.
func TestClasses(t *testing.T) {
	pair := func(name string, x float64) Pair { return Pair{Job{1, name}, Speed{x, 0.01, 5}} }
	kept := func(name string, seen int64, sm float64, pairs ...Pair) Kept {
		return Kept{Job: Job{1, name}, Seen: seen, SM: sm, Pairs: pairs}
	}
	got := Classes([]Kept{
		kept("harmful", 9, 0.1, pair("small", 0.9), pair("harmful", 0.5)), // its mate suffers, whatever its demand is
		kept("small", 9, 0.9, pair("small", 0.95), pair("one-sided", 0.3)),
		kept("one-sided", 9, 0),
		kept("busy", 9, 0.71), kept("half", 9, 0.7), kept("quarter", 9, 0.25), kept("less", 9, 0.26),
		kept("wrong", 9, 7), {Job: Job{1, ""}, SM: 0.9},
		kept("both", 5, 0.9),
	}, []Kept{kept("both", 6, 0.1), kept("busy", 8, 0.1)}, nil)
	want := []Classed{
		{Job{1, "both"}, Light, 6, 0, 0.1},
		{Job{1, "busy"}, Heavy, 9, 0, 0.71},
		{Job{1, "half"}, Medium, 9, 0, 0.7},
		{Job{1, "harmful"}, Heavy, 9, 1, 0.1},
		{Job{1, "less"}, Medium, 9, 0, 0.26},
		{Job{1, "quarter"}, Light, 9, 0, 0.25},
		{Job{1, "small"}, Light, 9, 1.9, 0.9},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if len(Classes()) != 0 {
		t.Error("nothing gives something")
	}
}
