package baseline

import (
	"fmt"
	"testing"

	"github.com/gimbal-hpc/gimbal/helper/sim"
	"github.com/gimbal-hpc/gimbal/helper/sim/speed"
)

// BenchmarkEvent shows what an event costs as more jobs run: on ever larger
// clusters under the same load.
func BenchmarkEvent(b *testing.B) {
	for _, policy := range []string{"srtf", "lucid"} {
		for _, nodes := range []int{16, 64, 256, 1024, 4096} {
			jobs := synthetic(1, max(20_000, 24*nodes), nodes*8, 1)
			b.Run(fmt.Sprintf("%s/gpus=%d", policy, nodes*8), func(b *testing.B) {
				var events int
				var held, span float64
				for b.Loop() {
					s, err := New(policy)
					if err != nil {
						b.Fatal(err)
					}
					o, err := sim.Run(jobs, sim.Config{Nodes: nodes, GPUsPerNode: 8, Interference: &speed.Model{}}, s)
					if err != nil {
						b.Fatal(err)
					}
					events += o.Moments
					for i := range o.Jobs {
						held += o.Jobs[i].Held
					}
					span += o.Summary().Makespan
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(events), "ns/event")
				b.ReportMetric(held/span, "running")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
