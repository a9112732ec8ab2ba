package proc

import (
	"context"
	"fmt"
	"time"
)

// execPoll is how often a task is looked at that has not exec'ed yet.
const execPoll = time.Millisecond

// WaitExec returns as soon as a task runs a program of its own rather than
// slurmstepd's, which is when it may be held. It returns ErrGone if the task
// ended before, and the context's error when that ends first.
func (t *Tracker) WaitExec(ctx context.Context, id ID) error {
	ticker := time.NewTicker(execPoll)
	defer ticker.Stop()
	for {
		done, err := t.host.Executed(id)
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the exec of process %s: %w", id, ctx.Err())
		case <-ticker.C:
		}
	}
}
