package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"runtime/debug"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/journal"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/wire"
)

// BenchmarkStatus10000 shows ten thousand ended tenants, the daemon's part
// included. cpu-ms tells the time on the processor of both.
func BenchmarkStatus10000(b *testing.B) {
	dir := b.TempDir()
	state, socket := filepath.Join(dir, "state"), filepath.Join(dir, "run", "g.sock")
	if err := fillHistory(state, 10_000); err != nil {
		b.Fatal(err)
	}
	s, err := wire.Listen(socket, wire.Options{})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { _ = s.Serve(ctx, pagesOf(state)) }()
	defer debug.SetGCPercent(debug.SetGCPercent(collectAt)) // as main does
	w := world{stdout: io.Discard, stderr: io.Discard, env: func(string) string { return "" }, now: func() time.Time { return noon }}
	before := cpuTime(b)
	for b.Loop() {
		if code := run([]string{"status", "--socket", socket, "-S", "2020-01-01"}, w); code != exitOK {
			b.Fatalf("exit %d", code)
		}
	}
	b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
}

func fillHistory(dir string, n int) error {
	j, err := journal.Open(dir, journal.Options{})
	if err != nil {
		return err
	}
	for i := range n {
		t := tenant(uint32(i+1), "train.sh", 1001, 0)
		t.State, t.EndedAt = model.Gone, t.Registered+time.Minute
		t.Steps = append(t.Steps, model.Step{ID: 0, Tasks: 4, Ended: true})
		t.Peak = map[string]model.Bytes{"GPU-aa": 8 << 30}
		t.HasRun, t.Tally.Running, t.Speed = true, 50*time.Second, model.Known(model.Speed{Mean: 0.812, Error: 0.021})
		wall, mono := at(i % 1800)
		if err := j.Append(model.Record{Wall: wall, At: mono, Tenant: t}); err != nil {
			return err
		}
	}
	return j.Close()
}

// pagesOf serves the history as gimbald does.
func pagesOf(dir string) wire.Handler {
	return func(_ context.Context, _ wire.Peer, req wire.Request) (any, error) {
		if req.Op == wire.OpPing {
			return wire.Pong{}, nil
		}
		var q model.StatusQuery
		if err := req.Decode(&q); err != nil {
			return nil, err
		}
		var r model.StatusReply
		var err error
		r.Ended, _, r.More, err = journal.Page(dir, q, 3<<20, nil)
		return r, err
	}
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkTop is one look at a node of 64 tenants and one drawing of it, as top
// does each second: the question to the daemon, its answer, the screen. cpu-ms
// tells the time on the processor, the daemon's part of the wire included: 10
// would be one percent of a core.
func BenchmarkTop(b *testing.B) {
	snap := busyNode()
	for i := range 8 {
		snap.GPUs = append(snap.GPUs, model.GPU{UUID: fmt.Sprint(i), Index: i + 3})
		for k := range 8 {
			v := snap.Tenants[0]
			v.ID, v.GPUs = model.TenantID(fmt.Sprintf("%d@1", 100+8*i+k)), []string{fmt.Sprint(i)}
			snap.Tenants = append(snap.Tenants, v)
		}
	}
	socket := filepath.Join(b.TempDir(), "run", "g.sock")
	l, err := wire.Listen(socket, wire.Options{Rate: 1e6, Burst: 1e6})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_ = l.Serve(ctx, func(_ context.Context, _ wire.Peer, req wire.Request) (any, error) {
			if req.Op == wire.OpPing {
				return wire.Pong{}, nil
			}
			return model.StatusReply{Snapshot: snap}, nil
		})
	}()
	t, s := topFlags{source: source{socket: socket}}, newScreen("memory", "")
	before := cpuTime(b)
	for b.Loop() {
		seen, err := t.look(noon)
		if err != nil {
			b.Fatal(err)
		}
		s.take(seen, nil, noon)
		for _, l := range s.lines(200, 60) {
			_ = painted(l, true)
		}
	}
	b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
}
