package proc

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Process is one process of a scan.
type Process struct {
	ID
	PPID    int
	PGrp    int
	Session int
	State   byte
	Threads int
	Ticks   uint64 // CPU time so far, user and system, clock ticks
	Comm    string
}

// Scan reads every process of the host, kernel threads left out, in the order
// of /proc (ascending pid). It appends to dst[:0], so that a caller that scans
// once a second reuses its memory. A process that ends meanwhile is left out.
func (h Host) Scan(dst []Process) ([]Process, error) {
	dir, err := os.Open(h.procRoot())
	if err != nil {
		return dst[:0], fmt.Errorf("scan processes: %w", err)
	}
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return dst[:0], fmt.Errorf("scan processes: %w", err)
	}
	dst = dst[:0]
	var buf [statSize]byte
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		s, err := h.stat(buf[:], pid)
		if err != nil || s.Flags&kernelThread != 0 {
			continue
		}
		dst = append(dst, s.process())
	}
	return dst, nil
}

func (s Stat) process() Process {
	return Process{
		ID: s.ID(), PPID: s.PPID, PGrp: s.PGrp, Session: s.Session, State: s.State,
		Threads: s.Threads, Ticks: s.UserTicks + s.SysTicks, Comm: string(s.Comm),
	}
}

// errNoChildren says that this kernel does not list children in /proc.
var errNoChildren = errors.New("kernel lists no children in /proc")

// children appends the pids of a process's children to dst. The list is only
// complete when every thread of the process is stopped.
func (h Host) children(dst []int, s Stat) ([]int, error) {
	if s.Threads <= 1 {
		return h.childrenOf(dst, s.PID, s.PID)
	}
	tids, err := h.threads(s.PID)
	if err != nil {
		return dst, err
	}
	for _, tid := range tids {
		if dst, err = h.childrenOf(dst, s.PID, tid); err != nil && !errors.Is(err, ErrGone) {
			return dst, err
		}
	}
	return dst, nil
}

func (h Host) childrenOf(dst []int, pid, tid int) ([]int, error) {
	task := "task/" + strconv.Itoa(tid)
	fd, err := openFile(h.path(pid, task+"/children"))
	if errors.Is(err, unix.ENOENT) && h.exists(pid, task) {
		return dst, errNoChildren
	}
	if err != nil {
		return dst, goneOr(err, pid, "children")
	}
	defer func() { _ = unix.Close(fd) }()
	if dst, err = readNumbers(dst, fd); err != nil {
		return dst, goneOr(err, pid, "children")
	}
	return dst, nil
}

func (h Host) exists(pid int, name string) bool {
	var st unix.Stat_t
	return unix.Stat(h.path(pid, name), &st) == nil
}

// threads lists the thread ids of a process.
func (h Host) threads(pid int) ([]int, error) {
	dir, err := os.Open(h.path(pid, "task"))
	if err != nil {
		return nil, goneOr(err, pid, "task")
	}
	defer func() { _ = dir.Close() }()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, goneOr(err, pid, "task")
	}
	tids := make([]int, 0, len(names))
	for _, name := range names {
		if tid, err := strconv.Atoi(name); err == nil {
			tids = append(tids, tid)
		}
	}
	return tids, nil
}

// readNumbers appends the numbers of an open file.
func readNumbers(dst []int, fd int) ([]int, error) {
	var words wordReader
	for {
		n, err := readFD(fd, words.space())
		if err != nil {
			return dst, err
		}
		if n == 0 {
			return words.rest(dst), nil
		}
		dst = words.take(dst, n)
	}
}

// wordReader collects numbers from a file that is read in pieces, one number
// possibly cut in two.
type wordReader struct {
	buf  [4096]byte
	kept int
}

func (w *wordReader) space() []byte { return w.buf[w.kept:] }

// take appends the whole numbers among what was read and keeps a cut one.
func (w *wordReader) take(dst []int, n int) []int {
	data := w.buf[:w.kept+n]
	last := len(data)
	for last > 0 && data[last-1] >= '0' && data[last-1] <= '9' {
		last--
	}
	dst = appendNumbers(dst, data[:last])
	w.kept = copy(w.buf[:], data[last:])
	if w.kept == len(w.buf) { // no number is that long
		w.kept = 0
	}
	return dst
}

// rest appends the number that the file ended with.
func (w *wordReader) rest(dst []int) []int { return appendNumbers(dst, w.buf[:w.kept]) }

// appendNumbers appends the decimal numbers of a text, one to a word.
func appendNumbers(dst []int, b []byte) []int {
	for {
		var word []byte
		if word, b = nextWord(b); len(word) == 0 {
			return dst
		}
		if v, ok := parseUint(word); ok && v <= 1<<31 {
			dst = append(dst, int(v))
		}
	}
}
