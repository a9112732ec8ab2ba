package node

import (
	"fmt"
	"testing"

	"github.com/gimbal-hpc/gimbal/helper/sim"
	"github.com/gimbal-hpc/gimbal/helper/sim/speed"
)

// BenchmarkTurns replays 200 jobs on 32 GPUs, four to a GPU and each days long,
// under policies of the node: with turns lengthened to the default, and to
// twice and four times as many.
func BenchmarkTurns(b *testing.B) {
	var jobs []sim.Job
	for i := range 200 {
		j := job(fmt.Sprint(i), float64(600*i), 1+i%3, float64(20000+i*7919%200000))
		jobs = append(jobs, light(j, float64(1+i%10)/10))
	}
	for _, policy := range []string{"timeslice", "throughput"} {
		for _, turns := range []int{DefaultTurns, 2 * DefaultTurns, 4 * DefaultTurns} {
			b.Run(fmt.Sprintf("%s/turns=%d", policy, turns), func(b *testing.B) {
				p := shipped(b, policy)
				var o *sim.Outcome
				for b.Loop() {
					var err error
					c := sim.Config{Nodes: 4, GPUsPerNode: 8, Interference: &speed.Model{}}
					if o, err = sim.Run(jobs, c, New(p, Options{Turns: turns})); err != nil {
						b.Fatal(err)
					}
				}
				s := o.Summary()
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*s.Events), "ns/event")
				b.ReportMetric(float64(s.Events)/float64(s.Jobs), "events/job")
				b.ReportMetric(s.AvgJCT, "mean-JCT-s")
			})
		}
	}
}
