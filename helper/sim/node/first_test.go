package node

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gimbal-hpc/gimbal/helper/sim"
)

// TestFirstSeats: the emptiest GPUs first, first come, first served; who finds no room and
// who comes later has no seat yet.
func TestFirstSeats(t *testing.T) {
	var jobs []sim.Job
	for i, gpus := range []int{1, 2, 1, 1, 2, 1, 1, 1} {
		jobs = append(jobs, sim.Job{ID: strconv.Itoa(i + 1), GPUs: gpus, Iterations: 100, IterTime: 1, Deadline: sim.Never})
	}
	jobs[7].Submit = 1
	seats, err := FirstSeats(jobs, sim.Config{Nodes: 1, GPUsPerNode: 2, Interference: noSharing{}}, Options{Slots: 3})
	if err != nil {
		t.Fatal(err)
	}
	// The fifth finds no room on two, and the sixth takes the last slot, as it ends
	// before the fifth could start.
	if diff := cmp.Diff([][]int{{0, 1, 3}, {1, 2, 5}}, seats); diff != "" {
		t.Errorf("-want +is:\n%s", diff)
	}
}

// noSharing is a model in which nobody runs beside others.
type noSharing struct{}

func (noSharing) Speeds(jobs []*sim.Job, out []float64) { clear(out[:len(jobs)]) }
func (noSharing) Profile(*sim.Job) sim.Profile          { return sim.Profile{} }
