package baseline

import (
	"math"
	"testing"

	"github.com/gimbal-hpc/gimbal/helper/sim"
)

// sharing is the speed of any jobs that share a GPU.
type sharing float64

func (s sharing) Speeds(_ []*sim.Job, out []float64) {
	for i := range out {
		out[i] = float64(s)
	}
}

func (sharing) Profile(*sim.Job) sim.Profile { return sim.Profile{} }

// TestMuriSharesTheModel: two jobs that by Muri's stages run together as fast as
// alone run as the model has it that all policies share, and apart where they
// cannot run together.
func TestMuriSharesTheModel(t *testing.T) {
	for speed, want := range map[sharing][2]float64{0.8: {125, 125}, 0: {100, 200}} {
		var jobs []sim.Job
		for _, id := range []string{"a", "b"} {
			jobs = append(jobs, sim.Job{ID: id, GPUs: 1, Iterations: 100, IterTime: 1, Stages: sim.Stages{0.5, 0.5, 0}, Deadline: sim.Never})
		}
		s, err := New("muri-s")
		if err != nil {
			t.Fatal(err)
		}
		o, err := sim.Run(jobs, sim.Config{Nodes: 1, GPUsPerNode: 1, Interference: speed}, s)
		if err != nil {
			t.Fatal(err)
		}
		for i, end := range want {
			if math.Abs(o.Jobs[i].End-end) > 1e-6 {
				t.Errorf("speed %v: job %d ends at %v, want %v", speed, i, o.Jobs[i].End, end)
			}
		}
	}
}
