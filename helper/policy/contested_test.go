package policy

import "testing"

// TestContested: a GPU on which nobody else takes turns is not contested; one tenant on
// two GPUs is for half on each of them among those behind.
func TestContested(t *testing.T) {
	e := lone()
	all := []*view{
		{seats: []int{0, 1}, rank: 1}, {seats: []int{0, 1}, rank: 2}, {seats: []int{0}, rank: 3}, {seats: []int{1}, rank: 4},
		{seats: []int{0}}, // takes no turns
	}
	e.d.gpus = make([]gpuView, 3)
	for i, v := range all {
		v.m, v.counts = &memo{}, i < 4
		for _, s := range v.seats {
			e.d.gpus[s].pack = append(e.d.gpus[s].pack, v)
		}
	}
	for i, want := range []float64{2, 2, 1, 1} {
		if is := contested(e, all[i]); is != want {
			t.Errorf("%v GPUs of tenant %d are contested, want %v", is, i, want)
		}
	}
	alone := &view{seats: []int{2}, m: &memo{}, counts: true}
	e.d.gpus[2].pack = []*view{alone, {seats: []int{2}}}
	if is := contested(e, alone); is != 0 {
		t.Errorf("%v GPUs are contested by one that takes no turns", is)
	}
	e.g = &e.d.gpus[0]
	for i, want := range []float64{.5, 1, 2} {
		if is := followers(e, all[i]); is != want {
			t.Errorf("behind tenant %d are %v, want %v", i, is, want)
		}
	}
}
