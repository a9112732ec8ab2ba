package proc

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/failpoint"
)

// ForeignStop is a process that somebody else wants stopped.
type ForeignStop struct {
	ID         ID          `json:"id"`
	Pending    SigSet      `json:"pending,omitempty"`     // stop signals that wait for it
	StopSignal unix.Signal `json:"stop_signal,omitempty"` // by which it is stopped, if not by SIGSTOP; 0 if not told
}

// Resumed is what a resume did. Every process of its set is in one of the lists.
type Resumed struct {
	Continued []ID          // stopped before, continued by us
	Running   []ID          // found running: somebody else continued it
	Gone      []ID          // ended, or the pid belongs to another by now
	Foreign   []ForeignStop // left stopped, because somebody else wants it stopped
	Latency   time.Duration
}

// Resume continues processes that Pause stopped, and no other. Before each
// SIGCONT it looks for a stop that is not ours: a stop signal that waits (Slurm's
// suspend sends SIGTSTP, then SIGSTOP), or a stop by another signal than
// SIGSTOP. Such a process is left alone and listed. An error names the processes
// that could not be looked at or signalled; the others were continued. It never
// waits for anything.
func (h Host) Resume(set []ID) (Resumed, error) {
	begin := time.Now()
	var r Resumed
	var errs []error
	var buf [statSize]byte
	for _, id := range set {
		if err := h.resumeOne(buf[:], id, &r); errors.Is(err, ErrGone) {
			r.Gone = append(r.Gone, id)
		} else if err != nil {
			errs = append(errs, err)
		}
	}
	h.stoppedAnew(&r)
	r.Latency = time.Since(begin)
	if len(errs) > 0 {
		return r, fmt.Errorf("resume: %w", errors.Join(errs...))
	}
	return r, nil
}

// resumeOne sends SIGCONT unless somebody else wants the process stopped. One
// that runs is sent it as well: it may not have come to act on our stop yet.
func (h Host) resumeOne(buf []byte, id ID, r *Resumed) error {
	return h.withProcess(buf, id, func(s Stat, send func(unix.Signal) error) error {
		st, err := h.status(id.PID)
		if err != nil {
			return err
		}
		if f, ok := foreignStop(s, st); ok {
			r.Foreign = append(r.Foreign, f)
			return nil
		}
		if err := send(unix.SIGCONT); err != nil {
			return err
		}
		failpoint.At("resume.told")
		if s.stopped() || st.AllPending().Has(unix.SIGSTOP) {
			r.Continued = append(r.Continued, id)
		} else {
			r.Running = append(r.Running, id)
		}
		return nil
	})
}

// foreignStop tells somebody else's stop from ours. A waiting SIGSTOP is ours
// as long as the process is not stopped by it: it is sent once. A blocked one
// stops nobody.
func foreignStop(s Stat, st Status) (ForeignStop, bool) {
	pending := st.AllPending() & stopSignals &^ st.StaysBlocked()
	if s.State != 'T' {
		pending &^= Signals(unix.SIGSTOP)
	}
	f := ForeignStop{ID: s.ID(), Pending: pending}
	if s.State == 'T' && s.StopSignal != int(unix.SIGSTOP) {
		f.StopSignal = unix.Signal(s.StopSignal)
	}
	return f, f.Pending != 0 || f.StopSignal != 0
}

// stoppedAnew moves those that are stopped although they were continued to the
// foreign ones: somebody stopped them since.
func (h Host) stoppedAnew(r *Resumed) {
	var buf [statSize]byte
	kept := r.Continued[:0]
	for _, id := range r.Continued {
		if s, err := h.statOf(buf[:], id); err == nil && s.State == 'T' {
			r.Foreign = append(r.Foreign, ForeignStop{ID: id, StopSignal: unix.Signal(s.StopSignal)})
		} else {
			kept = append(kept, id)
		}
	}
	r.Continued = kept
}
