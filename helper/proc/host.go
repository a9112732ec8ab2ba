package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// ErrGone says that a process no longer exists, or that its pid belongs to
// another process by now.
var ErrGone = errors.New("process is gone")

// Default roots of a Linux host.
const (
	defaultProcRoot   = "/proc"
	defaultCgroupRoot = "/sys/fs/cgroup"
)

// Host is where processes and cgroups are looked for. The zero value is this
// machine; tests set roots of their own. With a ProcRoot other than /proc no
// signal leaves the package unless Signals is set as well, because the pids of
// another tree mean nothing here.
type Host struct {
	ProcRoot   string    // default /proc
	CgroupRoot string    // default /sys/fs/cgroup
	Signals    Signaller // default: the kernel's pidfds
}

// ID names one process for as long as the machine is up: a pid is reused, a pid
// with its start time is not.
type ID struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since boot, field 22 of /proc/PID/stat
}

// String returns pid@start.
func (id ID) String() string {
	return strconv.Itoa(id.PID) + "@" + strconv.FormatUint(id.Start, 10)
}

// IsZero says whether the ID names nothing.
func (id ID) IsZero() bool { return id == ID{} }

func (h Host) procRoot() string {
	if h.ProcRoot == "" {
		return defaultProcRoot
	}
	return h.ProcRoot
}

func (h Host) cgroupRoot() string {
	if h.CgroupRoot == "" {
		return defaultCgroupRoot
	}
	return h.CgroupRoot
}

// path returns the path of a file of a process.
func (h Host) path(pid int, name string) string {
	return h.procRoot() + "/" + strconv.Itoa(pid) + "/" + name
}

// read fills buf with the start of one of a process's files, in a single read:
// the kernel writes stat and status whole. A process that is gone gives ErrGone.
func (h Host) read(buf []byte, pid int, name string) ([]byte, error) {
	fd, err := openFile(h.path(pid, name))
	if err != nil {
		return nil, goneOr(err, pid, name)
	}
	defer func() { _ = unix.Close(fd) }()
	n, err := readFD(fd, buf)
	if err != nil {
		return nil, goneOr(err, pid, name)
	}
	return buf[:n], nil
}

// readAll reads one of a process's files to its end.
func (h Host) readAll(pid int, name string) ([]byte, error) {
	fd, err := openFile(h.path(pid, name))
	if err != nil {
		return nil, goneOr(err, pid, name)
	}
	defer func() { _ = unix.Close(fd) }()
	data := make([]byte, 0, 1024)
	for {
		n, err := readFD(fd, data[len(data):cap(data)])
		if err != nil {
			return nil, goneOr(err, pid, name)
		}
		if data = data[:len(data)+n]; n == 0 {
			return data, nil
		}
		data = slices.Grow(data, 512)
	}
}

// openFile opens without the runtime's poller, which /proc does not need and
// which costs more than the read.
func openFile(path string) (int, error) {
	for {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

func readFD(fd int, buf []byte) (int, error) {
	for {
		n, err := unix.Read(fd, buf)
		if err != unix.EINTR {
			return n, err
		}
	}
}

// goneOr turns the errors by which the kernel says "no such process" into
// ErrGone and wraps any other.
func goneOr(err error, pid int, name string) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return ErrGone
	}
	return fmt.Errorf("read %s of process %d: %w", name, pid, err)
}
