package cuda

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/failpoint"
)

var errFailed = errors.New("the driver has given the process up")

// How the way back is tried.
const (
	maxRefusals = 5 // by the driver, in a row
	firstRest   = 5 * time.Millisecond
	longestRest = 500 * time.Millisecond
)

// move is a swap or a restore under way.
type move struct {
	m      *Mover
	l      Limits
	ctx    context.Context // never ends: each step has its own limit
	t      Tenant
	p      Proc
	state  State // as last read
	gone   error // the process has ended
	paused bool  // the tenant is stopped
	// open: a change was not answered, and may still take effect: a lock only
	// until lockedBy.
	open     bool
	lockedBy time.Time
}

func (m *Mover) begin(ctx context.Context, t Tenant, p Proc) *move {
	return &move{m: m, l: m.Limits.withDefaults(), ctx: context.WithoutCancel(ctx), t: t, p: p, state: Unknown, paused: t.Stopped}
}

// read asks for the driver's state.
func (r *move) read() error {
	ctx, cancel := context.WithTimeout(r.ctx, r.l.Call)
	defer cancel()
	state, err := r.m.Driver.State(ctx, r.p.ID)
	if errors.Is(err, ErrGone) {
		r.gone = err
	}
	if err != nil {
		state = Unknown
	}
	r.state = state
	return err
}

// change makes a call that changes the process.
func (r *move) change(limit time.Duration, want State, call func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(r.ctx, limit)
	defer cancel()
	err := call(ctx)
	failpoint.At("cuda." + want.String())
	return r.judge(err, want)
}

// judge tells by the driver's state whether a call did what it should.
func (r *move) judge(err error, want State) error {
	switch {
	case err == nil:
		r.open = false
	case !answered(err):
		r.open = true
	}
	if stateErr := r.read(); stateErr != nil {
		return errors.Join(err, stateErr)
	}
	if r.state == want {
		r.open = false
		return nil
	}
	if err == nil {
		return fmt.Errorf("the driver says that it is done, but has the process %v", r.state)
	}
	return err
}

// lock also continues a stopped tenant, once the lock has been asked for: it is
// to compute as little as possible before.
func (r *move) lock() error {
	ctx, cancel := context.WithTimeout(r.ctx, r.l.Lock+r.l.Call)
	defer cancel()
	// A call that outlived that is given up by whoever makes it, a call's time
	// later at most.
	r.lockedBy = time.Now().Add(r.l.Lock + 2*r.l.Call)
	locked := make(chan error, 1)
	go func() { locked <- r.m.Driver.Lock(ctx, r.p.ID, r.l.Lock) }()
	resumed := r.resume()
	answer := <-locked
	failpoint.At("cuda.lock")
	err := r.judge(answer, Locked)
	if resumed != nil {
		return errors.Join(resumed, err)
	}
	return err
}

func (r *move) checkpoint() error {
	return r.change(r.l.copy(r.p.Memory), Checkpointed, func(ctx context.Context) error {
		return r.m.Driver.Checkpoint(ctx, r.p.ID)
	})
}

func (r *move) restore() error {
	return r.change(r.l.copy(r.p.Memory), Locked, func(ctx context.Context) error {
		return r.m.Driver.Restore(ctx, r.p.ID)
	})
}

func (r *move) unlock() error {
	return r.change(r.l.Call, Running, func(ctx context.Context) error {
		return r.m.Driver.Unlock(ctx, r.p.ID)
	})
}

// stop stops the tenant.
func (r *move) stop() error {
	ctx, cancel := context.WithTimeout(r.ctx, r.l.Stop)
	defer cancel()
	if err := r.t.Stopper.Stop(ctx); err != nil {
		return fmt.Errorf("stop the tenant: %w", err)
	}
	r.paused = true
	return nil
}

// resume continues the tenant if it is stopped.
func (r *move) resume() error {
	if !r.paused {
		return nil
	}
	ctx, cancel := context.WithTimeout(r.ctx, r.l.Stop)
	defer cancel()
	if err := r.t.Stopper.Continue(ctx); err != nil {
		return fmt.Errorf("continue the tenant: %w", err)
	}
	r.paused = false
	return nil
}

// toGPU brings the process to Running by what the driver says, one step at a
// time. It returns the step that could not be done.
func (r *move) toGPU() (Step, error) {
	end := time.Now().Add(r.l.Back + r.l.copy(r.p.Memory))
	rest, refusals := firstRest, 0
	for {
		step, err := r.stepBack()
		switch {
		case r.arrived():
			return step, nil
		case r.gone != nil:
			return step, r.gone
		case r.state == Failed:
			return step, errors.Join(errFailed, err)
		case errors.Is(err, ErrNoRoom):
			return step, err
		case err == nil:
			rest, refusals = firstRest, 0
			continue
		case answered(err) && !r.open:
			refusals++
		}
		if refusals >= maxRefusals || time.Now().After(end) {
			return step, fmt.Errorf("the driver keeps the process %v: %w", r.state, err)
		}
		time.Sleep(rest)
		rest = min(2*rest, longestRest)
	}
}

// arrived tells whether the process runs on its GPU, and no call that may still
// take effect is under way.
func (r *move) arrived() bool {
	return r.state == Running && (!r.open || time.Now().After(r.lockedBy))
}

var errBusy = fmt.Errorf("%w: it is in the middle of a change", ErrTimeout)

// stepBack does what is next on the way to Running.
func (r *move) stepBack() (Step, error) {
	if err := r.read(); err != nil {
		return StepCheck, err
	}
	switch r.state {
	case Locked:
		return StepUnlock, r.unlock()
	case Checkpointed:
		return StepRestore, r.restore()
	}
	return StepCheck, errBusy
}

// rollBack brings a process back after a step of a swap failed.
func (r *move) rollBack(step Step, err error) error {
	if resumed := r.resume(); resumed != nil {
		return r.failure("swap", step, errors.Join(err, resumed, r.read()))
	}
	if _, back := r.toGPU(); back != nil && !errors.Is(back, ErrGone) {
		err = fmt.Errorf("%w; and on the way back: %w", err, back)
	}
	return r.failure("swap", step, err)
}

// failure says what was left and what has to be done.
func (r *move) failure(op string, step Step, err error) error {
	if r.gone != nil && !errors.Is(err, ErrGone) {
		err = errors.Join(err, r.gone)
	}
	e := &Error{Op: op, Step: step, PID: r.p.ID.PID, State: r.state, Stopped: r.paused, Err: err}
	switch {
	case r.gone != nil:
		e.Next = NextNothing
	case r.state == Failed:
		e.Next = NextEvict
	case r.state == Running && !r.paused:
		e.Next = NextRetry
	default:
		e.Next = NextRestore
	}
	return e
}
