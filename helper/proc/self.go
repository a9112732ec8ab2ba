package proc

import (
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Pass sends a signal to exactly this process, whatever it does with it:
// ErrGone if it has ended.
func (h Host) Pass(id ID, sig unix.Signal) error {
	var buf [statSize]byte
	return h.withProcess(buf[:], id, func(s Stat, send func(unix.Signal) error) error {
		if s.dead() {
			return ErrGone
		}
		return send(sig)
	})
}

// kernelAction is struct sigaction as the kernel takes it on x86-64.
type kernelAction struct {
	handler  uintptr
	flags    uint64
	restorer uintptr
	mask     uint64
}

// Suffer has this process do what a signal does to one without a handler, as
// its parent is to see it: it ends, or is stopped, and goes on here once it was
// continued. Go's own handlers would print stacks, or stop nothing.
func Suffer(sig unix.Signal) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var old, plain kernelAction
	if err := action(sig, &plain, &old); err != nil {
		return err
	}
	defer func() { _ = action(sig, &old, nil) }()
	// Sent to this thread, it is acted on before the call returns; one for the
	// process could be taken by another thread, later.
	return unix.Tgkill(os.Getpid(), unix.Gettid(), sig)
}

// Plain has a signal do to this process what it does to one without a handler:
// Go's own for SIGQUIT prints stacks.
func Plain(sig unix.Signal) error { return action(sig, &kernelAction{}, nil) }

func action(sig unix.Signal, to, old *kernelAction) error {
	const setSize = 8
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig),
		uintptr(unsafe.Pointer(to)), uintptr(unsafe.Pointer(old)), setSize, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
