package node_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/node"
)

// control is the control daemon of MPS.
type control struct {
	slurm *slurm
	err   error

	mu       sync.Mutex
	released []int
	late     bool // Slurm was asked first
}

func (c *control) Release(_ context.Context, pids []int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.released = append(c.released, pids...)
	c.slurm.mu.Lock()
	defer c.slurm.mu.Unlock()
	c.late = c.late || len(c.slurm.evicted) > 0
	return c.err
}

// TestEvictionOfAnMPSClient: its outstanding work is ended before Slurm kills it;
// where that cannot be done it is not killed, and says so.
func TestEvictionOfAnMPSClient(t *testing.T) {
	for _, c := range []struct {
		name  string
		mps   bool // it is a client
		none  bool // there is no control daemon any more
		err   error
		wants string // of the failure
	}{
		{"not a client", false, false, errors.New("not asked"), ""},
		{"a client", true, false, nil, ""},
		{"control that hangs", true, false, context.DeadlineExceeded, "not killed (mps): context deadline exceeded"},
		{"control that is gone", true, true, nil, "not killed (mps): it is a client of MPS, and"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctl := &control{err: c.err}
			s := newStage(t, func(p *node.Parts) {
				if !c.none {
					p.MPS = ctl
				}
			})
			ctl.slurm = s.slurm
			task := launch(t, "echo up; exec sleep 60")
			id := s.register(7, task.id)
			s.n.Do(model.Action{ID: 9, Do: model.PrimEvict, Tenant: id}, &model.Tenant{ID: id, Terms: model.Terms{MPS: c.mps}})
			if c.wants != "" {
				if ev := s.await(model.EvFailed, 0); !strings.Contains(ev.Text, c.wants) {
					t.Errorf("%q, want %q", ev.Text, c.wants)
				}
				time.Sleep(50 * time.Millisecond)
				if len(s.slurm.handed()) > 0 {
					t.Error("handed to Slurm all the same")
				}
				return
			}
			eventually(t, "the eviction", func() bool { return slices.Equal(s.slurm.handed(), []uint32{7}) })
			ctl.mu.Lock()
			defer ctl.mu.Unlock()
			if got := slices.Contains(ctl.released, task.id.PID); got != c.mps || ctl.late {
				t.Errorf("released %v, process %d; after Slurm was asked: %t", ctl.released, task.id.PID, ctl.late)
			}
		})
	}
}

// handed lists the jobs that Slurm was asked to evict.
func (s *slurm) handed() []uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.evicted)
}
