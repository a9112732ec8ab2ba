package node

import (
	"errors"

	"github.com/gimbal-hpc/gimbal/helper/policy"
	"github.com/gimbal-hpc/gimbal/helper/sim"
)

// FirstSeats is where Slurm places the jobs that arrive at the first moment, under
// any policy: for each GPU, counted over the nodes, which jobs of the trace share it,
// by their places in it. Where those that find no room then, and all that come later,
// are placed depends on when others end.
func FirstSeats(jobs []sim.Job, c sim.Config, o Options) ([][]int, error) {
	first := 0
	for first < len(jobs) && jobs[first].Submit == jobs[0].Submit {
		first++
	}
	s := &placesOnce{scheduler: New(&policy.Policy{}, o).(*scheduler)}
	if _, err := sim.Run(jobs[:first], c, s); !errors.Is(err, errPlaced) {
		return nil, err
	}
	gpus := make([][]int, c.Nodes*c.GPUsPerNode)
	for job, seats := range s.seats {
		for _, at := range seats {
			for _, g := range at.gpus {
				k := at.node*c.GPUsPerNode + g
				gpus[k] = append(gpus[k], job)
			}
		}
	}
	return gpus, nil
}

// errPlaced ends a run in which only the first places are of interest.
var errPlaced = errors.New("the first jobs are placed")

// placesOnce places those that arrive first and runs nothing.
type placesOnce struct{ *scheduler }

func (s *placesOnce) Schedule() float64 {
	s.queue.Schedule()
	s.w.Fail(errPlaced)
	return sim.Never
}
