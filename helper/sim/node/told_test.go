package node

import (
	"testing"

	"github.com/gimbal-hpc/gimbal/helper/sim"
	"github.com/gimbal-hpc/gimbal/helper/sim/speed"
)

// thirds lets two jobs run together at 0.3 of their speeds, whatever they ask for.
type thirds struct{ speed.Model }

func (thirds) Speeds(_ []*sim.Job, out []float64) { out[0], out[1] = 0.3, 0.3 }

// TestSpeedsAreTold: a policy that is told how fast two are together has them take
// turns; by what they ask for it would run them at once, for 16667 s.
func TestSpeedsAreTold(t *testing.T) {
	jobs := []sim.Job{light(job("a", 0, 1, 5000), 0.3), light(job("b", 0, 1, 5000), 0.3)}
	c := sim.Config{Nodes: 1, GPUsPerNode: 1, Interference: &thirds{}}
	o, err := sim.Run(jobs, c, New(shipped(t, "throughput"), Options{}))
	if err != nil {
		t.Fatal(err)
	}
	if all := o.Summary().Makespan; all < 9990 || all > 10100 {
		t.Errorf("%.0f s, want 10000 s", all)
	}
}

func TestWeights(t *testing.T) {
	heavy := job("heavy", 0, 1, 6000)
	heavy.Weight = 3
	c := sim.Config{Nodes: 1, GPUsPerNode: 1, Interference: &speed.Model{}}
	o, err := sim.Run([]sim.Job{heavy, job("plain", 0, 1, 6000)}, c, New(shipped(t, "timeslice"), Options{}))
	if err != nil {
		t.Fatal(err)
	}
	if end := o.Jobs[0].End; end < 7500 || end > 8500 {
		t.Errorf("a job of weight 3 ends at %.0f s, want about 8000 s", end)
	}
}
