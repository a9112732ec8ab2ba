package policy_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/policy"
)

// fullNode is a node of 8 GPUs with 8 tenants on each that are all admitted
// and seen, after a minute of turns.
func fullNode(tb testing.TB, p *policy.Policy) *rig { return nodeOf(tb, p, 8*model.GiB) }

// nodeOf is such a node whose tenants declare so much memory: of those that do
// not fit, some are held.
func nodeOf(tb testing.TB, p *policy.Policy, memory model.Bytes) *rig {
	r := newRig(tb, p, "80GiB", "80GiB", "80GiB", "80GiB", "80GiB", "80GiB", "80GiB", "80GiB")
	for i := range 64 {
		class := model.Opportunistic
		if i < 8 {
			class = model.Guaranteed
		}
		r.add(fmt.Sprint(i+1), model.Terms{Class: class, Weight: 1 + float64(i%3), Memory: model.Known(memory)},
			[]int{i % 8}, "", "", actor{memory: 6 * model.GiB})
	}
	r.decide()
	r.run(5 * time.Minute)
	r.log = nil
	return r
}

func BenchmarkDecide(b *testing.B) {
	for _, name := range []string{"timeslice", "together", "priority", "throughput", "fair", "jct"} {
		b.Run(name, func(b *testing.B) {
			r := fullNode(b, shipped(b, name))
			b.ReportAllocs()
			used := cpu(b)
			for b.Loop() {
				r.d.Decide(r.n, r.now)
			}
			b.ReportMetric(float64(cpu(b)-used)/float64(b.N), "cpu-ns/op")
		})
	}
}

// BenchmarkDecideWithHeld has half of the tenants wait for memory.
func BenchmarkDecideWithHeld(b *testing.B) {
	r := nodeOf(b, shipped(b, "timeslice"), 20*model.GiB)
	b.ReportAllocs()
	for b.Loop() {
		r.d.Decide(r.n, r.now)
	}
}

// cpu is the processor time that this process has used: it does not grow
// while others have the processors.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestDecideMakesNoGarbage decides again and again where nothing is to change.
func TestDecideMakesNoGarbage(t *testing.T) {
	for _, name := range []string{"timeslice", "together", "priority", "throughput", "fair", "jct"} {
		r := fullNode(t, shipped(t, name))
		for as, _ := r.d.Decide(r.n, r.now); len(as) > 0; as, _ = r.d.Decide(r.n, r.now) {
			r.run(r.now + 20*time.Millisecond)
		}
		if n := testing.AllocsPerRun(100, func() { r.d.Decide(r.n, r.now) }); n > 0 {
			t.Errorf("%s: %v allocations a decision", name, n)
		}
	}
}
