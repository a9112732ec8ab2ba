package cuda

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// Stopper stops and continues all processes of a tenant. Each returns nil once
// that has been confirmed; a Stop that fails leaves the tenant running.
type Stopper interface {
	Stop(ctx context.Context) error
	Continue(ctx context.Context) error
}

// Proc is a process of a tenant that has memory on a GPU.
type Proc struct {
	ID     model.ProcID
	Memory model.Reading[model.Bytes] // on all GPUs
	MIG    bool                       // one of them is a MIG device
}

// Tenant is what is moved.
type Tenant struct {
	Procs   []Proc // all that have memory on a GPU
	Stopped bool   // it is stopped now, through the Stopper
	Stopper Stopper
}

// Limits bounds each step. The zero value gives the defaults. A step that is
// under way when the caller's context ends is waited for within its limit: a
// call that was given up could still take effect.
type Limits struct {
	Call time.Duration // a call that moves nothing (5s), and what a call may take beyond its own limit
	Lock time.Duration // the driver's own wait for CUDA calls under way (10s)
	Copy time.Duration // moving the memory, whatever its size (30s)
	GiB  time.Duration // and for each GiB of it (1s)
	Stop time.Duration // stopping or continuing the tenant (10s)
	Back time.Duration // bringing a process back whose driver hesitates, beside the copy (30s)
}

func (l Limits) withDefaults() Limits {
	for _, d := range []struct {
		at      *time.Duration
		initial time.Duration
	}{
		{&l.Call, 5 * time.Second}, {&l.Lock, 10 * time.Second}, {&l.Copy, 30 * time.Second},
		{&l.GiB, time.Second}, {&l.Stop, 10 * time.Second}, {&l.Back, 30 * time.Second},
	} {
		if *d.at <= 0 {
			*d.at = d.initial
		}
	}
	return l
}

// copy is how long moving so much memory may take. Of an unknown size it is
// what the largest GPU needs.
func (l Limits) copy(size model.Reading[model.Bytes]) time.Duration {
	const largest = 288 * model.GiB
	n, ok := size.Get()
	if !ok {
		n = largest
	}
	return l.Copy + time.Duration(n/model.GiB+1)*l.GiB
}

// Mover moves the GPU memory of tenants to host RAM and back. It may be used by
// several goroutines for different tenants.
type Mover struct {
	Driver Driver
	Room   func(pid int, need model.Bytes) error // as Host.Room
	Limits Limits
}

// Step is a step of a swap or a restore.
type Step string

// The steps. A swap locks, continues a stopped tenant, checkpoints and stops; a
// restore continues, restores and unlocks.
const (
	StepCheck      Step = "check"
	StepLock       Step = "lock"
	StepContinue   Step = "continue"
	StepCheckpoint Step = "checkpoint"
	StepStop       Step = "stop"
	StepRestore    Step = "restore"
	StepUnlock     Step = "unlock"
)

// Next is what the caller has to do after a failure.
type Next string

const (
	// NextNothing: nothing was touched, or the process has ended.
	NextNothing Next = "nothing"
	// NextRetry: the memory is on the GPU and the process may use it. The swap
	// may be tried later.
	NextRetry Next = "retry later"
	// NextRestore: the process cannot use the GPU, or is stopped. Call Restore,
	// again and again: once there is room where there was none. Evict the tenant
	// if that lasts longer than may be.
	NextRestore Next = "restore later"
	// NextEvict: the driver has given the process up for good.
	NextEvict Next = "evict"
)

// Error says how a swap or a restore failed and what it left.
type Error struct {
	Op      string // "swap" or "restore"
	Step    Step   // that failed
	PID     int    // 0: the tenant has no process or several
	State   State  // in which the driver has left the process, as far as is known
	Stopped bool   // the tenant is stopped
	Next    Next
	Err     error
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s of process %d: %v (driver state %v, next: %s)", e.Op, e.Step, e.PID, e.Err, e.State, e.Next)
}

func (e *Error) Unwrap() error { return e.Err }

// Swap moves the GPU memory of a tenant to host RAM and stops the tenant. A
// tenant that is stopped is continued behind the lock that is asked for first,
// since the driver needs the process's own threads.
//
// On failure it is brought back to running on its GPU; a *Error says whether
// that was possible and what to do if not. Its Err wraps ErrUnsupported or
// ErrNoRoom where nothing was tried.
func (m *Mover) Swap(ctx context.Context, t Tenant) error {
	p, err := admit(t)
	r := m.begin(ctx, t, p)
	if err == nil {
		err = r.check(ctx)
	}
	if err != nil {
		return r.refusal("swap", err)
	}
	for _, step := range []struct {
		name Step
		do   func() error
	}{{StepLock, r.lock}, {StepCheckpoint, r.checkpoint}, {StepStop, r.stop}} {
		err := ctx.Err()
		if err == nil {
			err = step.do()
		}
		if err != nil {
			return r.rollBack(step.name, err)
		}
	}
	return nil
}

// admit returns the one process to swap, or why that cannot be.
func admit(t Tenant) (Proc, error) {
	if len(t.Procs) != 1 {
		return Proc{}, fmt.Errorf("%w: it has %d processes on a GPU, and only a single one can be moved", ErrUnsupported, len(t.Procs))
	}
	p := t.Procs[0]
	if p.MIG {
		return p, fmt.Errorf("%w: it is on a MIG device", ErrUnsupported)
	}
	if _, known := p.Memory.Get(); !known {
		return p, fmt.Errorf("%w: its GPU memory is not known", ErrUnsupported)
	}
	return p, nil
}

// check tells what keeps an admitted process from being swapped now.
func (r *move) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.l.Call)
	defer cancel()
	if s := r.m.Driver.Supported(ctx); !s.OK {
		return fmt.Errorf("%w: %s", ErrUnsupported, s.Reason)
	}
	if err := r.read(); err != nil {
		return err
	}
	if r.state == Failed {
		return errFailed
	}
	if r.state != Running {
		return fmt.Errorf("%w: the driver has it %v already", ErrUnsupported, r.state)
	}
	size, _ := r.p.Memory.Get()
	return r.m.Room(r.p.ID.PID, size)
}

// refusal is the error of a swap that was not begun.
func (r *move) refusal(op string, err error) error {
	e := &Error{Op: op, Step: StepCheck, PID: r.p.ID.PID, State: r.state, Stopped: r.paused, Next: NextNothing, Err: err}
	if r.state == Failed {
		e.Next = NextEvict
	}
	return e
}

// Restore brings a tenant back to running on its GPU, from whatever state an
// earlier swap or restore, this daemon's or another's, left it in. The error
// wraps ErrNoRoom if the GPU has no room.
//
// A tenant whose memory then is still in host RAM is stopped again; a *Error
// says so. Once begun, a restore does not end with the context but within the
// Limits.
func (m *Mover) Restore(ctx context.Context, t Tenant) error {
	if len(t.Procs) != 1 {
		err := fmt.Errorf("%w: it has %d processes with GPU memory", ErrUnsupported, len(t.Procs))
		return m.begin(ctx, t, Proc{}).refusal("restore", err)
	}
	r := m.begin(ctx, t, t.Procs[0])
	if err := r.read(); err != nil {
		return r.failure("restore", StepCheck, err)
	}
	if r.state == Failed {
		return r.failure("restore", StepCheck, errFailed)
	}
	if err := r.resume(); err != nil {
		return r.failure("restore", StepContinue, err)
	}
	step, err := r.toGPU()
	if err == nil {
		return nil
	}
	// A process whose restore may be under way has to run.
	if r.state == Checkpointed && !r.open {
		err = errors.Join(err, r.stop())
	}
	return r.failure("restore", step, err)
}
