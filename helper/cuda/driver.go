package cuda

import (
	"context"
	"fmt"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// Driver makes the driver's checkpoint calls on one process. Each call returns
// when its context ends, at the latest; what the driver then still does is
// shown by State. Errors are a Result where the driver answered, and else wrap
// ErrGone, ErrTimeout, ErrHelper or ErrUnsupported.
type Driver interface {
	// Supported tells whether checkpoints work on this node at all.
	Supported(ctx context.Context) Support
	// State returns the driver's own view of the process.
	State(ctx context.Context, p model.ProcID) (State, error)
	// Lock keeps the process from making further CUDA calls, once those under
	// way have ended. The driver gives up after the timeout, which is rounded
	// up to milliseconds and has to be positive.
	Lock(ctx context.Context, p model.ProcID, timeout time.Duration) error
	// Checkpoint moves the GPU memory of a locked process to host RAM.
	Checkpoint(ctx context.Context, p model.ProcID) error
	// Restore moves it back; the process is locked then.
	Restore(ctx context.Context, p model.ProcID) error
	// Unlock lets a locked process make CUDA calls again.
	Unlock(ctx context.Context, p model.ProcID) error
}

// Support tells whether checkpoints work, and if not, why.
type Support struct {
	OK      bool
	Version string // of the driver's CUDA, such as "12.8"; empty: unknown
	By      string // "library" or "command"
	Reason  string // why not, in words
}

// State is a process's state as the driver reports it.
type State int

// The driver's states. It knows those from Checkpointing on since CUDA 13.4.
const (
	Unknown       State = -1 // it could not be read
	Running       State = 0
	Locked        State = 1 // CUDA calls wait; the memory is on the GPU
	Checkpointed  State = 2 // the memory is in host RAM
	Failed        State = 3 // final: the process cannot use CUDA any more
	Checkpointing State = 4
	Restoring     State = 5
)

var stateNames = []string{"running", "locked", "checkpointed", "failed", "checkpointing", "restoring"}

func (s State) String() string {
	if s >= 0 && int(s) < len(stateNames) {
		return stateNames[s]
	}
	if s == Unknown {
		return "unknown"
	}
	return fmt.Sprintf("state %d", int(s))
}
