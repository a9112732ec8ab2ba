package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/wire"
)

// call is one request that the daemon got.
type call struct {
	peer wire.Peer
	req  wire.Request
}

// daemon answers as gimbald would, and keeps what it was asked.
type daemon struct {
	t   *testing.T
	mu  sync.Mutex
	all []call
	env map[string]string // for the tasks of each step
}

// startDaemon serves the site's socket until the test ends.
func (s *site) startDaemon() *daemon {
	s.t.Helper()
	server, err := wire.Listen(s.socket, wire.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	d := &daemon{t: s.t}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, d.handle) }()
	s.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			s.t.Error(err)
		}
	})
	return d
}

func (d *daemon) handle(_ context.Context, peer wire.Peer, req wire.Request) (any, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, call{peer, req})
	switch req.Op {
	case wire.OpPrepare:
		return wire.Prepared{Active: true, Env: d.env}, nil
	case wire.OpRegister:
		return wire.Registered{Active: true}, nil
	}
	return nil, nil
}

// calls returns what came so far.
func (d *daemon) calls() []call {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.all)
}

// forget drops what came so far.
func (d *daemon) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = nil
}

// registrations returns those of one job, waiting until n steps have ended.
// What came until then must be whole: each step prepared, each task registered
// and its exit told, everything by root.
func (d *daemon) registrations(steps int) []model.Registration {
	d.t.Helper()
	deadline := time.Now().Add(patience)
	for d.count(wire.OpStepEnd) < steps {
		if time.Now().After(deadline) {
			d.t.Fatalf("%d of %d steps ended; calls: %s", d.count(wire.OpStepEnd), steps, d)
		}
		time.Sleep(5 * time.Millisecond)
	}
	var regs []model.Registration
	exits := map[model.ProcID]int{}
	for _, c := range d.calls() {
		if c.peer.UID != 0 {
			d.t.Errorf("%s by uid %d", c.req.Op, c.peer.UID)
		}
		switch c.req.Op {
		case wire.OpRegister:
			regs = append(regs, decode[model.Registration](d.t, c.req))
		case wire.OpTaskExit:
			exits[decode[model.TaskExit](d.t, c.req).Proc]++
		case wire.OpPrepare:
			decode[wire.PrepareRequest](d.t, c.req)
		case wire.OpStepEnd:
			decode[model.StepKey](d.t, c.req)
		}
	}
	if n := d.count(wire.OpPrepare); n != steps {
		d.t.Errorf("%d steps were prepared, want %d", n, steps)
	}
	for _, r := range regs {
		if r.Proc.PID <= 1 || r.Proc.Start == 0 || exits[r.Proc] != 1 {
			d.t.Errorf("task %+v: %d exits told", r.Proc, exits[r.Proc])
		}
	}
	return regs
}

func (d *daemon) count(op wire.Op) (n int) {
	for _, c := range d.calls() {
		if c.req.Op == op {
			n++
		}
	}
	return n
}

// String counts the calls by op and step, for a test that failed.
func (d *daemon) String() string {
	counts := map[string]int{}
	for _, c := range d.calls() {
		var key model.StepKey
		_ = json.Unmarshal(c.req.Params, &key)
		counts[fmt.Sprintf("%s %d.%d", c.req.Op, key.JobID, key.StepID)]++
	}
	return fmt.Sprint(counts)
}

func decode[T any](t *testing.T, req wire.Request) T {
	t.Helper()
	var v T
	if err := req.Decode(&v); err != nil {
		t.Errorf("%s %s: %v", req.Op, req.Params, err)
	}
	return v
}

// as renders a value for a failure.
func as(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
