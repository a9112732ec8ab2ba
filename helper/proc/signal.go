package proc

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// errNoSignals keeps the pids of a tree that is not this machine's from being
// signalled on this machine.
var errNoSignals = errors.New("no signals outside the machine's own /proc")

// Signaller sends signals through descriptors that cannot come to mean another
// process. Tests put a recording one in its place.
type Signaller interface {
	// Open returns a descriptor of the process that has this pid now.
	Open(pid int) (fd int, err error)
	// Send sends a signal to the process behind a descriptor.
	Send(fd int, sig unix.Signal) error
	// Close gives the descriptor back.
	Close(fd int)
}

// pidfds is the kernel's own Signaller.
type pidfds struct{}

func (pidfds) Open(pid int) (int, error)          { return unix.PidfdOpen(pid, 0) }
func (pidfds) Send(fd int, sig unix.Signal) error { return unix.PidfdSendSignal(fd, sig, nil, 0) }
func (pidfds) Close(fd int)                       { _ = unix.Close(fd) }

// refuse is the Signaller of a host whose /proc is not this machine's.
type refuse struct{}

func (refuse) Open(int) (int, error)       { return -1, errNoSignals }
func (refuse) Send(int, unix.Signal) error { return errNoSignals }
func (refuse) Close(int)                   {}

func (h Host) signaller() Signaller {
	switch {
	case h.Signals != nil:
		return h.Signals
	case h.procRoot() != defaultProcRoot:
		return refuse{}
	}
	return pidfds{}
}

// withProcess opens a descriptor of exactly this process, proves by its start
// time that it is the one that was meant, and calls do with what it is doing
// and a function that signals it. It returns ErrGone for a process that ended.
// Neither init, nor a kernel thread, nor this process is ever handed on. The
// stat is read into buf.
func (h Host) withProcess(buf []byte, id ID, do func(s Stat, send func(unix.Signal) error) error) error {
	if id.PID <= 1 || id.Start == 0 || id.PID == os.Getpid() {
		return fmt.Errorf("process %s: %w", id, errProtected)
	}
	sig := h.signaller()
	fd, err := sig.Open(id.PID)
	if err != nil {
		return signalError(err, id, "open a pidfd")
	}
	defer sig.Close(fd)
	s, err := h.statOf(buf, id)
	if err != nil {
		return err
	}
	if s.Flags&kernelThread != 0 {
		return fmt.Errorf("process %s is a kernel thread: %w", id, errProtected)
	}
	return do(s, func(what unix.Signal) error {
		return signalError(sig.Send(fd, what), id, "send "+unix.SignalName(what))
	})
}

// errProtected is why a process is not signalled whatever was asked.
var errProtected = errors.New("process is never signalled")

func signalError(err error, id ID, what string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ESRCH), errors.Is(err, unix.ENOENT): // ENOENT: it ended while its pidfd was made
		return ErrGone
	}
	return fmt.Errorf("%s, process %s: %w", what, id, err)
}
