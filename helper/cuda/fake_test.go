package cuda

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// fault is what goes wrong at a step.
type fault string

const (
	refuse    fault = "refuse"      // an error, nothing done
	lie       fault = "lie"         // no error, nothing done
	misreport fault = "misreport"   // an error, though done
	hang      fault = "hang"        // no answer, nothing done
	late      fault = "late"        // no answer, done a second later
	fail      fault = "fail"        // the driver gives the process up
	die       fault = "die"         // the process dies
	vanish    fault = "vanish"      // the helper dies, nothing done
	noRoom    fault = "out of room" // no memory on the GPU
)

var (
	driverFaults  = []fault{refuse, lie, misreport, hang, late, fail, die, vanish, noRoom}
	stopperFaults = []fault{refuse, hang}
)

// stepFaults lists what can go wrong where.
func stepFaults() map[Step][]fault {
	all := map[Step][]fault{StepStop: stopperFaults, StepContinue: stopperFaults}
	for _, s := range []Step{StepLock, StepCheckpoint, StepRestore, StepUnlock} {
		all[s] = driverFaults
	}
	return all
}

// fake is a driver and a tenant of one process.
type fake struct {
	mu sync.Mutex
	condition
	busy   bool // a change is under way
	faults map[Step]fault
	once   bool // a fault strikes only the first time
	wrong  []string
}

// condition is what a test looks at.
type condition struct {
	state   State
	stopped bool
	gone    bool
}

var _ Driver = (*fake)(nil)

// now returns the present condition.
func (f *fake) now() condition {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.condition
}

func (f *fake) Supported(context.Context) Support { return Support{OK: true, Version: "12.9"} }

func (f *fake) State(ctx context.Context, _ model.ProcID) (State, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone {
		return Unknown, fmt.Errorf("process: %w", ErrGone)
	}
	return f.state, ctx.Err()
}

// take returns the fault of a step.
func (f *fake) take(s Step) fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	x := f.faults[s]
	if f.once {
		delete(f.faults, s)
	}
	return x
}

func (f *fake) Lock(ctx context.Context, _ model.ProcID, timeout time.Duration) error {
	return f.change(ctx, StepLock, timeout, Running, Locked)
}

func (f *fake) Checkpoint(ctx context.Context, _ model.ProcID) error {
	return f.change(ctx, StepCheckpoint, time.Hour, Locked, Checkpointed)
}

func (f *fake) Restore(ctx context.Context, _ model.ProcID) error {
	return f.change(ctx, StepRestore, time.Hour, Checkpointed, Locked)
}

func (f *fake) Unlock(ctx context.Context, _ model.ProcID) error {
	return f.change(ctx, StepUnlock, time.Hour, Locked, Running)
}

// change is a call of the driver that leads from one state to another, for
// which the process has to run.
func (f *fake) change(ctx context.Context, s Step, timeout time.Duration, from, to State) error {
	f.mu.Lock()
	if f.stopped && s != StepLock {
		f.wrong = append(f.wrong, fmt.Sprintf("%s of a stopped process", s))
	}
	illegal := f.state != from || f.busy
	f.mu.Unlock()
	switch x := f.take(s); {
	case illegal:
		return resultIllegalState
	case x != "":
		return f.strike(ctx, x, to)
	}
	for expired := time.Now().Add(timeout); ; time.Sleep(10 * time.Millisecond) {
		if f.become(to, false) {
			return nil
		}
		if time.Now().After(expired) {
			return resultNotReady
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %w", ErrTimeout, ctx.Err())
		}
	}
}

// become takes on a state, if the process runs or that does not matter.
func (f *fake) become(s State, always bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone {
		return true
	}
	if f.stopped && !always {
		return false
	}
	f.state, f.busy = s, false
	return true
}

func (f *fake) strike(ctx context.Context, x fault, to State) error {
	switch x {
	case lie:
		return nil
	case misreport:
		f.become(to, true)
		return resultUnknown
	case fail:
		f.become(Failed, true)
		return resultUnknown
	case noRoom:
		return resultNoMemory
	case vanish:
		return fmt.Errorf("call: %w", ErrHelper)
	case die:
		f.mu.Lock()
		f.gone = true
		f.mu.Unlock()
		return fmt.Errorf("call: %w", ErrGone)
	case hang, late:
		if x == late {
			f.mu.Lock()
			f.busy = true
			f.mu.Unlock()
		}
		<-ctx.Done()
		if x == late {
			time.AfterFunc(time.Second, func() { f.become(to, true) })
		}
		return fmt.Errorf("%w: %w", ErrTimeout, ctx.Err())
	}
	return resultUnknown
}

func (f *fake) Stop(ctx context.Context) error     { return f.setStopped(ctx, StepStop, true) }
func (f *fake) Continue(ctx context.Context) error { return f.setStopped(ctx, StepContinue, false) }

func (f *fake) setStopped(ctx context.Context, s Step, stopped bool) error {
	switch f.take(s) {
	case refuse:
		return fmt.Errorf("%s: refused", s)
	case hang:
		<-ctx.Done()
		return ctx.Err()
	}
	f.mu.Lock()
	f.stopped = stopped
	f.mu.Unlock()
	return nil
}
