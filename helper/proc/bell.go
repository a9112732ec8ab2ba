package proc

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// bell rings once when a file can be read, and is silent until it is set again.
// The runtime's own poller would wake this program for each message that comes
// in, also while nobody waits for one.
type bell struct {
	file *os.File // an epoll instance with the one file in it
	raw  syscall.RawConn
}

// newBell returns a bell for a file. It is to be closed before the file is.
func newBell(fd int) (*bell, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	// Without this the runtime would not wait for it in its poller.
	if err := unix.SetNonblock(epoll, true); err != nil {
		_ = unix.Close(epoll)
		return nil, fmt.Errorf("epoll: %w", err)
	}
	b := &bell{file: os.NewFile(uintptr(epoll), "bell")}
	if b.raw, err = b.file.SyscallConn(); err == nil {
		err = unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLONESHOT})
	}
	if err != nil {
		b.close()
		return nil, fmt.Errorf("epoll: %w", err)
	}
	return b, nil
}

// wait sets the bell and waits until it rings: at once where the file can be
// read already. It fails when the bell is closed.
func (b *bell) wait(fd int) error {
	var failed error
	set := false
	err := b.raw.Read(func(epoll uintptr) bool {
		if !set {
			set = true
			failed = unix.EpollCtl(int(epoll), unix.EPOLL_CTL_MOD, fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT})
		}
		var rung [1]unix.EpollEvent
		n, _ := unix.EpollWait(int(epoll), rung[:], 0) // only this silences it
		return failed != nil || n != 0
	})
	if err == nil {
		err = failed
	}
	return err
}

func (b *bell) close() { _ = b.file.Close() }
