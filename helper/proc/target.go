package proc

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Errors of a pause. The state before it has been restored when one is returned.
var (
	// ErrIncomplete says that not every process could be stopped or frozen in time.
	ErrIncomplete = errors.New("pause incomplete")
	// ErrNotStarted says that a root has not exec'ed yet: stopping it would keep
	// Slurm from ending it.
	ErrNotStarted = errors.New("task has not started its program yet")
	// ErrFrozen says that somebody else froze the cgroup of a process, so that it
	// cannot be stopped, and does not run either.
	ErrFrozen = errors.New("cgroup is frozen by somebody else")
)

// PauseLimit is how long a pause may take when the context has no end.
const PauseLimit = 2 * time.Second

// Target is what is paused as a whole.
type Target struct {
	Roots []ID // registered tasks; everything that descends from them belongs to the target
	Spare []ID // roots of interactive steps: of their trees only what is OnGPU, with its descendants, is stopped
	// OnGPU are the processes that the driver shows on a GPU. Whatever such a one is
	// called, it is neither a shell nor a program of Slurm's.
	OnGPU   map[ID]bool
	Cgroups []string // directories whose processes of the roots' user belong to the target as well: a Slurm step's own
	Owner   *uint32  // where set, only processes that this user may signal are stopped; others are spared
	Mine    []ID     // stopped by an earlier pause that was not undone: not somebody else's stop
	// Before, if any, is told of processes that are about to be sent SIGSTOP, some at
	// a time, each once; where it fails, they are not, and the pause fails.
	Before func([]ID) error
}

// Paused is what a pause did.
type Paused struct {
	Stopped  []ID          // stopped by this pause (or earlier, see Target.Mine): what Resume is to continue
	Foreign  []ID          // found stopped by somebody else
	Spared   []ID          // left running: Slurm's own programs, another user's, and what of Target.Spare is on no GPU
	Complete bool          // no process can have been missed; false where forks were not reported by the kernel
	Passes   int           // looks for new processes
	Latency  time.Duration // from the call to the last process seen stopped
}

// IncompleteError says which processes did not stop, or did not continue.
type IncompleteError struct {
	Op    string
	Of    int           // processes in all
	After time.Duration // when it was given up
	Left  []LeftOver
	Cause error // the context's error, if that ended it
}

// LeftOver is a process that did not do what it was told.
type LeftOver struct {
	ID    ID
	State byte // as in /proc/PID/stat
	Comm  string
}

// Error names the first few of the processes.
func (e *IncompleteError) Error() string {
	const shown = 5
	var names []string
	for i, l := range e.Left {
		if i == shown {
			names = append(names, "...")
			break
		}
		names = append(names, fmt.Sprintf("%d (%q, %c)", l.ID.PID, l.Comm, l.State))
	}
	text := fmt.Sprintf("%s: %d of %d processes left after %v: %s",
		e.Op, len(e.Left), e.Of, e.After.Round(time.Millisecond), strings.Join(names, ", "))
	if len(e.Left) == 0 {
		text = fmt.Sprintf("%s: new processes came for %v", e.Op, e.After.Round(time.Millisecond))
	}
	return text
}

// Unwrap makes the error an ErrIncomplete, and the context's own.
func (e *IncompleteError) Unwrap() []error {
	if e.Cause == nil {
		return []error{ErrIncomplete}
	}
	return []error{ErrIncomplete, e.Cause}
}

// stopSignals are those whose effect SIGCONT takes away.
var stopSignals = Signals(unix.SIGSTOP, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU)

func setOf(ids []ID) map[ID]bool {
	set := make(map[ID]bool, len(ids))
	for _, id := range ids {
		set[id] = true
	}
	return set
}
