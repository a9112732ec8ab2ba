package proc

import (
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/failpoint"
)

// tellingSignals are those that a person or Slurm sends to a job on purpose. KILL
// waits for nobody but who is frozen by cgroup v1.
var tellingSignals = Signals(unix.SIGKILL, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT,
	unix.SIGUSR1, unix.SIGUSR2, unix.SIGXCPU)

// idleSignals wait for any stopped process sooner or later, and mean nothing.
var idleSignals = stopSignals | Signals(unix.SIGCHLD, unix.SIGALRM, unix.SIGURG, unix.SIGWINCH, unix.SIGCONT)

// Pending returns the signals that wait for a process.
func (h Host) Pending(id ID) (SigSet, error) {
	st, err := h.Status(id)
	return st.AllPending(), err
}

// Meaningful returns which of the signals that wait for a stopped or frozen process,
// as its status just read shows, are not in the baseline and are meant for the job:
// KILL, TERM, INT, HUP, QUIT, USR1, USR2, XCPU, or jobSignal (0: none), not blocked by
// every thread. The process should be continued to act on them. One for which a
// SIGSTOP still waits sleeps in vfork, where its C library blocks every signal for as
// long as that takes: there nothing counts as blocked.
func (h Host) Meaningful(id ID, st Status, baseline SigSet, jobSignal unix.Signal) SigSet {
	want := (tellingSignals | Signals(jobSignal)) &^ idleSignals &^ baseline
	found := st.AllPending() & want
	if blocked := found & st.StaysBlocked(); blocked != 0 && !st.AllPending().Has(unix.SIGSTOP) {
		found &^= h.blockedByAll(id.PID, blocked)
	}
	return found
}

// Heard returns which signals wait for a stopped or frozen process that are meant for
// the job, see Meaningful, and that it acts on: those that it catches, and KILL. Ours
// says that it was stopped by us; else one that is stopped was so before it was frozen,
// and what waits for it means nothing. It costs one read where nothing waits.
func (h Host) Heard(id ID, jobSignal unix.Signal, ours bool) SigSet {
	st, err := h.status(id.PID)
	if err != nil || !ours && st.Still() {
		return 0
	}
	found := h.Meaningful(id, st, 0, jobSignal) & (st.Caught | Signals(unix.SIGKILL))
	if found == 0 || !h.Alive(id) { // the pid may be another's
		return 0
	}
	return found
}

// blockedByAll returns those of the signals that no thread of a process takes.
func (h Host) blockedByAll(pid int, sigs SigSet) SigSet {
	tids, err := h.threads(pid)
	if err != nil {
		return sigs
	}
	var buf [statusSize]byte
	for _, tid := range tids {
		data, err := h.read(buf[:], pid, "task/"+strconv.Itoa(tid)+"/status")
		if err != nil {
			continue
		}
		if st, err := ParseStatus(data); err == nil {
			sigs &= st.StaysBlocked()
		}
	}
	return sigs
}

// Catches says whether a process has a handler for a signal.
func (h Host) Catches(id ID, sig unix.Signal) (bool, error) {
	st, err := h.Status(id)
	return st.Caught.Has(sig), err
}

// Notified is what became of a signal that was meant for several processes.
type Notified struct {
	Sent []ID // it was sent
	Deaf []ID // not sent: it has no handler, or is a program of Slurm
	Gone []ID
}

// ErrRefusedSignal says that a signal is not one to notify a job with.
var ErrRefusedSignal = errors.New("signal is not allowed")

// Notify sends a signal to those of the processes that have a handler for it. KILL,
// CONT and the stop signals are refused.
func (h Host) Notify(ids []ID, sig unix.Signal) (Notified, error) {
	refused := stopSignals | Signals(unix.SIGKILL, unix.SIGCONT)
	if sig < 1 || sig > 64 || refused.Has(sig) {
		return Notified{}, fmt.Errorf("notify by signal %d: %w", int(sig), ErrRefusedSignal)
	}
	return h.tellAll(ids, sig, func(id ID) (bool, error) {
		st, err := h.status(id.PID)
		return st.Caught.Has(sig), err
	})
}

// Terminate sends SIGTERM to processes. A stopped one acts on it when it is
// continued.
func (h Host) Terminate(ids []ID) (Notified, error) {
	return h.tellAll(ids, unix.SIGTERM, func(ID) (bool, error) { return true, nil })
}

// tellAll sends a signal to those that want it and are none of Slurm's.
func (h Host) tellAll(ids []ID, sig unix.Signal, wants func(ID) (bool, error)) (Notified, error) {
	var n Notified
	var errs []error
	var buf [statSize]byte
	for _, id := range ids {
		err := h.withProcess(buf[:], id, func(s Stat, send func(unix.Signal) error) error {
			if s.leaving() {
				return ErrGone
			}
			if wanted, err := wants(id); err != nil || !wanted || h.isSlurm(id.PID, s.Comm) {
				n.Deaf = append(n.Deaf, id)
				return err
			}
			if err := send(sig); err != nil {
				return err
			}
			failpoint.At("notify.told")
			n.Sent = append(n.Sent, id)
			return nil
		})
		if errors.Is(err, ErrGone) {
			n.Gone = append(n.Gone, id)
		} else if err != nil {
			errs = append(errs, err)
		}
	}
	return n, errors.Join(errs...)
}
