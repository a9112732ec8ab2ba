package study

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gimbal-hpc/gimbal/helper/sim"
)

// run is two jobs on two nodes of two GPUs: one on both GPUs of the first node
// for 10 s, one on a GPU of each node from 5 s to 15 s.
func run() *sim.Outcome {
	a, b := &sim.Job{GPUs: 2}, &sim.Job{GPUs: 2, Submit: 5}
	return &sim.Outcome{
		GPUs: 4, Jobs: []sim.JobOutcome{{Job: a, End: 10}, {Job: b, Start: 5, End: 15}},
		History: &sim.History{
			Stays: []sim.Stay{{Job: 0, To: 10, Nodes: []sim.Share{{Node: 0, GPUs: 2}}}, {Job: 1, From: 5, To: 15, Nodes: []sim.Share{{Node: 0, GPUs: 1}, {Node: 1, GPUs: 1}}}},
			Loads: []sim.Load{{At: 0, Busy: 2}, {At: 5, Busy: 3}, {At: 10, Busy: 2}, {At: 15}},
		},
	}
}

func TestHistory(t *testing.T) {
	o := run()
	w := WindowOf([]Result{{Outcome: o}}, 2)
	if w != (Window{0, 15, 2}) {
		t.Errorf("the window is %+v", w)
	}
	w.Stretches = 3
	if diff := cmp.Diff([]float64{.5, .75, .5}, Busy(o, w)); diff != "" {
		t.Errorf("busy: %s", diff)
	}
	if diff := cmp.Diff([][]float64{{1, 1.5, .5}, {0, .5, .5}}, Held(o, w, 2, 1)); diff != "" {
		t.Errorf("held: %s", diff)
	}
	if diff := cmp.Diff([][]float64{{.5, 1, .5}}, Held(o, w, 2, 2)); diff != "" {
		t.Errorf("held by both nodes: %s", diff)
	}
	seats, slots := Seats(o, 2)
	want := []Seat{{0, 0, 0, 0, 10}, {0, 1, 0, 0, 10}, {1, 0, 1, 5, 15}, {1, 2, 0, 5, 15}}
	if diff := cmp.Diff(want, seats); diff != "" || slots != 2 {
		t.Errorf("%d slots, seats: %s", slots, diff)
	}
}

func TestHistoryWithoutNodes(t *testing.T) {
	o := run()
	for i := range o.History.Stays {
		o.History.Stays[i].Nodes = nil
	}
	if diff := cmp.Diff([][]float64{{.5, 1, .5}}, Held(o, Window{0, 15, 3}, 2, 1)); diff != "" {
		t.Errorf("held: %s", diff)
	}
	if seats, slots := Seats(o, 2); slots != 1 || len(seats) != 4 || seats[3].GPU != 3 {
		t.Errorf("%d slots, seats %v", slots, seats)
	}
}

func TestDistribution(t *testing.T) {
	for n, want := range map[int][]Step{
		9: {{1, .25}, {2, .5}, {3, .75}, {4, 1}},
		2: {{1, .25}, {4, 1}},
	} {
		got := Distribution([]float64{3, 1, 4, 2}, n)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d steps: %s", n, diff)
		}
	}
	if got := Quantile(Distribution([]float64{3, 1, 4, 2}, 9), .5); got != 2 {
		t.Errorf("the median is %v", got)
	}
	if got := Distribution(nil, 9); len(got) != 0 {
		t.Errorf("no values give %v", got)
	}
}
