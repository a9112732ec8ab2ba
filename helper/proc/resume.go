package proc

import (
	"errors"
	"fmt"
	"slices"
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
	r := resuming{host: h}
	var errs []error
	for batch := range slices.Chunk(set, openAtOnce) {
		errs = append(errs, r.resume(batch)...)
	}
	r.result.Latency = time.Since(begin)
	if len(errs) > 0 {
		return r.result, fmt.Errorf("resume: %w", errors.Join(errs...))
	}
	return r.result, nil
}

// resuming is one resume under way.
type resuming struct {
	host      Host
	result    Resumed
	continued []proven // of the batch
	buf       [statSize]byte
}

// resume continues some processes and looks at each again, in the file that
// proved it.
func (r *resuming) resume(batch []ID) (errs []error) {
	for _, id := range batch {
		if err := r.one(id); errors.Is(err, ErrGone) {
			r.result.Gone = append(r.result.Gone, id)
		} else if err != nil {
			errs = append(errs, err)
		}
	}
	r.lookAgain()
	return errs
}

func (r *resuming) one(id ID) error {
	who, err := r.host.prove(r.buf[:], id)
	if err != nil {
		return err
	}
	continued, err := r.tell(&who)
	if !continued {
		who.close()
		return err
	}
	r.continued = append(r.continued, who)
	return nil
}

// tell sends SIGCONT unless somebody else wants the process stopped, and says
// whether that continued it. One that runs is sent it as well: it may not have
// come to act on our stop yet.
func (r *resuming) tell(who *proven) (continued bool, err error) {
	st, err := r.host.status(who.id.PID)
	if err != nil {
		return false, err
	}
	if f, ok := foreignStop(who.stat, st); ok {
		r.result.Foreign = append(r.result.Foreign, f)
		return false, nil
	}
	if err := who.send(unix.SIGCONT); err != nil {
		return false, err
	}
	failpoint.At("resume.told")
	if who.stat.stopped() || st.AllPending().Has(unix.SIGSTOP) {
		return true, nil
	}
	r.result.Running = append(r.result.Running, who.id)
	return false, nil
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

// lookAgain counts those of the batch that are stopped although they were
// continued among the foreign ones: somebody stopped them since.
func (r *resuming) lookAgain() {
	for i := range r.continued {
		who := &r.continued[i]
		if s, err := readStat(who.file, r.buf[:], who.id); err == nil && s.State == 'T' {
			f := ForeignStop{ID: who.id, StopSignal: unix.Signal(s.StopSignal)}
			r.result.Foreign = append(r.result.Foreign, f)
		} else {
			r.result.Continued = append(r.result.Continued, who.id)
		}
		who.close()
	}
	r.continued = r.continued[:0]
}
