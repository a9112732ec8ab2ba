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

// withProcess proves a process and calls do with what it is doing and a function
// that signals it. The stat is read into buf.
func (h Host) withProcess(buf []byte, id ID, do func(s Stat, send func(unix.Signal) error) error) error {
	who, err := h.prove(buf, id)
	if err != nil {
		return err
	}
	defer who.close()
	return do(who.stat, who.send)
}

// proven is a process that was proven to be the one that was meant. Whatever its
// pid comes to mean, what is sent and read through its descriptors is about it.
type proven struct {
	id    ID
	stat  Stat // when it was proven
	sig   Signaller
	pidfd int
	file  int // /proc/PID/stat; reading it again costs half of opening it again
}

// prove opens a descriptor of exactly this process, and proves by its start time
// that it is the one that was meant. It returns ErrGone for a process that ended.
// Neither init, nor a kernel thread, nor this process is ever proven. The stat is
// read into buf.
func (h Host) prove(buf []byte, id ID) (proven, error) {
	if id.PID <= 1 || id.Start == 0 || id.PID == os.Getpid() {
		return proven{}, fmt.Errorf("process %s: %w", id, errProtected)
	}
	who := proven{id: id, sig: h.signaller(), file: -1}
	var err error
	if who.pidfd, err = who.sig.Open(id.PID); err != nil {
		return proven{}, signalError(err, id, "open a pidfd")
	}
	if err := who.open(h, buf); err != nil {
		who.close()
		return proven{}, err
	}
	return who, nil
}

func (who *proven) open(h Host, buf []byte) (err error) {
	if who.file, err = openFile(h.path(who.id.PID, "stat")); err != nil {
		return goneOr(err, who.id.PID, "stat")
	}
	if who.stat, err = readStat(who.file, buf, who.id); err != nil {
		return err
	}
	if who.stat.Flags&kernelThread != 0 {
		return fmt.Errorf("process %s is a kernel thread: %w", who.id, errProtected)
	}
	return nil
}

func (who *proven) send(what unix.Signal) error {
	err := who.sig.Send(who.pidfd, what)
	if err == nil {
		return nil
	}
	return signalError(err, who.id, "send "+unix.SignalName(what))
}

func (who *proven) close() {
	who.sig.Close(who.pidfd)
	closeFile(&who.file)
}

// errProtected is why a process is not signalled whatever was asked.
var errProtected = errors.New("process is never signalled")

func signalError(err error, id ID, what string) error {
	switch {
	case errors.Is(err, unix.ESRCH), errors.Is(err, unix.ENOENT): // ENOENT: it ended while its pidfd was made
		return ErrGone
	}
	return fmt.Errorf("%s, process %s: %w", what, id, err)
}
