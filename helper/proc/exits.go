package proc

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// exits tells when processes end, by their pidfds: unlike the process connector it
// wakes this program for those alone, and not for each process of the machine.
type exits struct {
	file *os.File // an epoll instance with the pidfds in it
	raw  syscall.RawConn
}

// maxRung is how many ends are heard of at once.
const maxRung = 16

// newExits returns one with no process in it.
func newExits() (*exits, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	// Without this the runtime would not wait for it in its poller.
	if err := unix.SetNonblock(epoll, true); err != nil {
		_ = unix.Close(epoll)
		return nil, fmt.Errorf("epoll: %w", err)
	}
	x := &exits{file: os.NewFile(uintptr(epoll), "process ends")}
	if x.raw, err = x.file.SyscallConn(); err != nil {
		x.close()
		return nil, fmt.Errorf("epoll: %w", err)
	}
	return x, nil
}

// add has the end of whoever has this pid told once. The descriptor that it
// returns stands for the process; closing it ends that.
func (x *exits) add(pid int) (pidfd int, err error) {
	pidfd, err = unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1, fmt.Errorf("pidfd of process %d: %w", pid, err)
	}
	ring := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT, Fd: int32(pidfd)}
	failed := x.raw.Control(func(epoll uintptr) {
		err = unix.EpollCtl(int(epoll), unix.EPOLL_CTL_ADD, pidfd, &ring)
	})
	if failed != nil {
		err = failed
	}
	if err != nil {
		_ = unix.Close(pidfd)
		return -1, fmt.Errorf("wait for the end of process %d: %w", pid, err)
	}
	return pidfd, nil
}

// wait appends to dst the descriptors of processes that have ended and have not
// been told of; it waits for one, and fails when this is closed.
func (x *exits) wait(dst []int) ([]int, error) {
	var rung [maxRung]unix.EpollEvent
	n := 0
	err := x.raw.Read(func(epoll uintptr) bool {
		n, _ = unix.EpollWait(int(epoll), rung[:], 0)
		return n > 0
	})
	for _, r := range rung[:max(n, 0)] {
		dst = append(dst, int(r.Fd))
	}
	return dst, err
}

func (x *exits) close() { _ = x.file.Close() }
