package baseline

import (
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/gimbal-hpc/gimbal/helper/sim"
	"github.com/gimbal-hpc/gimbal/helper/sim/speed"
	"github.com/gimbal-hpc/gimbal/helper/sim/trace"
)

func simulate(b *testing.B, policy string, jobs []sim.Job, c sim.Config) *sim.Outcome {
	b.Helper()
	s, err := New(policy)
	if err != nil {
		b.Fatal(err)
	}
	o, err := sim.Run(jobs, c, s)
	if err != nil {
		b.Fatal(err)
	}
	return o
}

// BenchmarkPublished replays published traces as their authors' simulator does,
// and tells how often faster it is where the time of that is known: on 2 cores,
// 12.6 s for srtf on trace1 and 94 s for muri-s on testbed400.
func BenchmarkPublished(b *testing.B) {
	for _, c := range []struct {
		policy, trace string
		original      float64 // seconds, 0 where it is not known
	}{{"srtf", "trace1", 12.6}, {"muri-s", "testbed400", 94}, {"muri-s", "trace1", 0}} {
		b.Run(c.policy+"/"+c.trace, func(b *testing.B) {
			tr, err := trace.ReadFile(filepath.Join(data, "trace_muri_"+c.trace+".csv"))
			if err != nil {
				b.Skipf("SKIPPED: %v", err)
			}
			for b.Loop() {
				simulate(b, c.policy, tr.Jobs, sim.Config{Nodes: 8, GPUsPerNode: 8, Cost: sim.MuriCost()})
			}
			if c.original > 0 {
				b.ReportMetric(c.original*float64(b.N)/b.Elapsed().Seconds(), "times-as-fast")
			}
		})
	}
}

// BenchmarkLarge replays 100,000 jobs on 4,000 GPUs.
func BenchmarkLarge(b *testing.B) {
	jobs := synthetic(1, 100_000, 4000, 1)
	for _, policy := range []string{"srtf", "lucid", "exclusive"} {
		b.Run(policy, func(b *testing.B) {
			for b.Loop() {
				simulate(b, policy, jobs, sim.Config{Nodes: 500, GPUsPerNode: 8, Interference: &speed.Model{}})
			}
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			b.ReportMetric(float64(m.Sys)/(1<<20), "MiB")
			b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s")
		})
	}
}

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
					o := simulate(b, policy, jobs, sim.Config{Nodes: nodes, GPUsPerNode: 8, Interference: &speed.Model{}})
					events += o.Moments
					for i := range o.Jobs {
						held += o.Jobs[i].Held
					}
					span += o.Summary().Makespan
				}
				cost, running := float64(b.Elapsed().Nanoseconds())/float64(events), held/span
				b.ReportMetric(cost, "ns/event")
				b.ReportMetric(running, "running")
				b.ReportMetric(cost/math.Log2(max(running, 2)), "ns/event/log2") // does not rise
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
