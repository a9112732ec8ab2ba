package cuda

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/tests/simgpu"
)

// expectError returns an error as a *Error after checking what it says.
func expectError(t testing.TB, err, kind error, next Next) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("an error of type %T: %v", err, err)
	}
	if e.Next != next || (kind != nil && !errors.Is(err, kind)) {
		t.Errorf("expected %q and an error that wraps %v: %v", next, kind, err)
	}
	return e
}

func TestSwapAndRestore(t *testing.T) {
	for _, how := range []string{"running", "paused", "by the command"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "--swap-rate", "40GiB")
			a, m := r.train("a", 4*model.GiB), r.mover()
			if how == "paused" {
				a.freeze()
			}
			if how == "by the command" {
				m.Driver = NewCommand(simgpu.Binary("cuda-checkpoint"), r.d.Env())
			}
			if err := m.Swap(context.Background(), a.tenant()); err != nil {
				t.Fatal(err)
			}
			a.expect(Checkpointed)
			if r.used() != 0 || a.letter() != 'T' {
				t.Errorf("swapped: %v on the GPU, process state %c", r.used(), a.letter())
			}
			if err := m.Restore(context.Background(), a.tenant()); err != nil {
				t.Fatal(err)
			}
			a.expect(Running)
			a.expectProgress()
			if r.used() < a.size {
				t.Errorf("restored: %v on the GPU", r.used())
			}
		})
	}
}

// TestDriverRefuses walks each call and each answer that the device can give in
// place of the right one.
func TestDriverRefuses(t *testing.T) {
	t.Parallel()
	r := newRig(t, "--swap-rate", "100GiB", "--memory", "80GiB")
	answers := []string{"not-supported", "not-ready", "illegal-state", "failed", "2"}
	for _, call := range []string{"lock", "checkpoint", "state", "restore", "unlock"} {
		for _, answer := range answers {
			t.Run(call+" "+answer, func(t *testing.T) { refuseOne(t, r, call, answer) })
		}
	}
}

func refuseOne(t *testing.T, r *rig, call, answer string) {
	a := r.train(call+answer, model.GiB)
	defer func() { _ = a.cmd.Process.Kill() }()
	m, back := r.mover(), call == "restore" || call == "unlock"
	if back {
		if err := m.Swap(context.Background(), a.tenant()); err != nil {
			t.Fatal(err)
		}
	}
	r.d.Ctl("set", fmt.Sprintf("cuda-%s=%s", call, answer))
	var err error
	if back {
		err = m.Restore(context.Background(), a.tenant())
	} else {
		err = m.Swap(context.Background(), a.tenant())
	}
	r.d.Ctl("set", fmt.Sprintf("cuda-%s=ok", call))
	next, state := NextRetry, Running
	switch {
	case answer == "failed" && call == "state": // it could not be read that it failed
		next, state = NextNothing, Failed
	case answer == "failed":
		next, state = NextEvict, Failed
	case call == "state":
		next = NextNothing
	case call == "restore":
		next, state = NextRestore, Checkpointed
	case call == "unlock":
		next, state = NextRestore, Locked
	}
	e := expectError(t, err, nil, next)
	a.expect(state)
	if e.Stopped != (a.letter() == 'T') {
		t.Errorf("process state %c: %v", a.letter(), e)
	}
	if state == Failed {
		return
	}
	if err := m.Restore(context.Background(), a.tenant()); err != nil {
		t.Errorf("restored once the driver answers again: %v", err)
	}
	a.expect(Running)
}

func TestRestoreWithoutRoom(t *testing.T) {
	t.Parallel()
	r := newRig(t, "--swap-rate", "100GiB")
	a, m := r.train("a", 9*model.GiB), r.mover()
	if err := m.Swap(context.Background(), a.tenant()); err != nil {
		t.Fatal(err)
	}
	r.d.Ctl("ghost", "pid=4000000", "memory=9GiB")
	e := expectError(t, m.Restore(context.Background(), a.tenant()), ErrNoRoom, NextRestore)
	if !e.Stopped || a.letter() != 'T' {
		t.Errorf("not stopped again: %v, process state %c", e, a.letter())
	}
	a.expect(Checkpointed)
	r.d.Ctl("ghost", "pid=4000000", "memory=0")
	if err := m.Restore(context.Background(), a.tenant()); err != nil {
		t.Error(err)
	}
	a.expectProgress()
}

// duringCheckpoint runs f in the middle of a swap's checkpoint.
func (t *trainer) duringCheckpoint(f func()) {
	go func() {
		for t.r.d.Show().Clients[0].State != "locked" {
			time.Sleep(2 * time.Millisecond)
		}
		time.Sleep(50 * time.Millisecond) // into the copy
		f()
	}()
}

func TestProcessDiesInTheMiddle(t *testing.T) {
	t.Parallel()
	r := newRig(t, "--swap-rate", "2GiB")
	a, m := r.train("a", 4*model.GiB), r.mover()
	a.duringCheckpoint(func() { a.signal(syscall.SIGKILL) })
	_ = expectError(t, m.Swap(context.Background(), a.tenant()), ErrGone, NextNothing)
	if r.used() != 0 {
		t.Errorf("%v on the GPU", r.used())
	}
	_ = expectError(t, m.Restore(context.Background(), a.tenant()), ErrGone, NextNothing)
}

func TestHelperIsKilledInTheMiddle(t *testing.T) {
	t.Parallel()
	r := newRig(t, "--swap-rate", "4GiB")
	a, m := r.train("a", 4*model.GiB), r.mover()
	a.duringCheckpoint(func() {
		pid, _ := r.newest()
		_ = syscall.Kill(pid, syscall.SIGKILL)
	})
	_ = expectError(t, m.Swap(context.Background(), a.tenant()), ErrHelper, NextRetry)
	a.expect(Running)
	a.expectProgress()
	if _, n := r.newest(); n != 2 || r.deathCount() != 1 {
		t.Errorf("%d helpers, of which %d died", n, r.deathCount())
	}
}

// TestCheckpointHangs stops the process behind the driver's back: the call
// hangs until somebody continues it.
func TestCheckpointHangs(t *testing.T) {
	t.Parallel()
	r := newRig(t, "--swap-rate", "2GiB")
	a, m := r.train("a", model.GiB), r.mover()
	m.Driver = stoppingDriver{r.c, a}
	m.Limits.Copy = 100 * time.Millisecond
	m.Limits.GiB = 100 * time.Millisecond
	hung := make(chan struct{})
	go func() {
		defer close(hung)
		for _, n := r.newest(); n < 2; _, n = r.newest() {
			time.Sleep(2 * time.Millisecond)
		}
		_ = syscall.Kill(a.id.PID, syscall.SIGCONT)
	}()
	e := expectError(t, m.Swap(context.Background(), a.tenant()), ErrTimeout, NextRetry)
	<-hung
	if e.Step != StepCheckpoint {
		t.Errorf("failed at %s", e.Step)
	}
	a.expect(Running)
	a.expectProgress()
}

// stoppingDriver stops a trainer before each checkpoint.
type stoppingDriver struct {
	*Client
	a *trainer
}

func (d stoppingDriver) Checkpoint(ctx context.Context, p model.ProcID) error {
	if err := d.a.Stop(ctx); err != nil {
		return err
	}
	return d.Client.Checkpoint(ctx, p)
}

func TestThreeTenantsTakeTurns(t *testing.T) {
	t.Parallel()
	r := newRig(t, "--swap-rate", "100GiB")
	m, size := r.mover(), 9*model.GiB
	a := r.train("a", size)
	for _, label := range []string{"b", "c"} {
		if err := m.Swap(context.Background(), a.tenant()); err != nil {
			t.Fatal(err)
		}
		b := r.train(label, size)
		if err := m.Swap(context.Background(), b.tenant()); err != nil {
			t.Fatal(err)
		}
		if err := m.Restore(context.Background(), a.tenant()); err != nil {
			t.Fatal(err)
		}
		a.expectProgress()
	}
}
