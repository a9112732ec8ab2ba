package cuda

import (
	"context"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/tests/simgpu"
)

// BenchmarkSwapAndRestore compares a swap and a restore with the floor: the
// same calls and signals made one after another in this process. It reports
// both in milliseconds, and what is added in per cent.
func BenchmarkSwapAndRestore(b *testing.B) {
	r := newRig(b, "--swap-rate", "8GiB")
	for _, kv := range r.d.Env() {
		setenv(b, kv)
	}
	l, err := load(simgpu.CUDA())
	if err != nil {
		b.Fatal(err)
	}
	a, m := r.train("a", 4*model.GiB, "--gpu-ms", "1", "--queue", "1"), r.mover()
	m.Room = Host{Margin: 1}.Room
	if err := m.Room(a.id.PID, a.size); err != nil {
		b.Log(err)
		m.Room = plenty // the simulated memory needs none
	}
	r.c.Supported(context.Background())
	var floor, ours time.Duration
	for b.Loop() {
		floor += timed(b, func() error { return a.bare(l) })
		ours += timed(b, func() error {
			if err := m.Swap(context.Background(), a.tenant()); err != nil {
				return err
			}
			return m.Restore(context.Background(), a.tenant())
		})
	}
	b.ReportMetric(floor.Seconds()*1000/float64(b.N), "floor-ms/op")
	b.ReportMetric(ours.Seconds()*1000/float64(b.N), "ours-ms/op")
	b.ReportMetric(100*(ours.Seconds()/floor.Seconds()-1), "overhead-%")
}

func timed(b *testing.B, f func() error) time.Duration {
	begin := time.Now()
	if err := f(); err != nil {
		b.Fatal(err)
	}
	return time.Since(begin)
}

// bare is the least that a swap and a restore take.
func (t *trainer) bare(l *library) error {
	ctx, pid := context.Background(), t.id.PID
	for _, step := range []func() error{
		func() error { return l.lock(pid, 1000) },
		func() error { return l.checkpoint(pid) },
		func() error { return t.Stop(ctx) },
		func() error { return t.Continue(ctx) },
		func() error { return l.restore(pid) },
		func() error { return l.unlock(pid) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}
