package proc

import (
	"bytes"
	"errors"
	"fmt"
	"math"
)

// errMalformed is what every parser of this package returns, wrapped.
var errMalformed = errors.New("malformed")

// statSize holds any /proc/PID/stat: a comm of at most 64 bytes and 51 numbers.
const statSize = 1280

// Flags in /proc/PID/stat: PF_EXITING and PF_KTHREAD.
const (
	exiting      = 0x00000004
	kernelThread = 0x00200000
)

// Stat is what /proc/PID/stat says of a process or thread.
type Stat struct {
	PID        int
	Comm       []byte // points into what was parsed
	State      byte   // R, S, D, T, t, Z, X, I
	PPID       int
	PGrp       int
	Session    int
	Flags      uint64 // PF_* of the kernel
	UserTicks  uint64 // CPU time in user mode, clock ticks
	SysTicks   uint64 // CPU time in the kernel, clock ticks
	Threads    int
	Start      uint64 // clock ticks since boot
	StopSignal int    // the signal by which all threads are stopped, 0 if not stopped or not told
}

// ID returns the identity of the process.
func (s Stat) ID() ID { return ID{PID: s.PID, Start: s.Start} }

// dead says that no thread of the process will run user code again. A zombie
// with more than one thread is a leader that left its threads running.
func (s Stat) dead() bool {
	return (s.State == 'Z' || s.State == 'X') && s.Threads <= 1
}

// leaving says that the process ends now: it runs no user code any more, though
// it may still hold memory.
func (s Stat) leaving() bool {
	return s.Threads <= 1 && (s.dead() || s.Flags&exiting != 0)
}

// stopped says that this thread is stopped by a signal or a tracer.
func (s Stat) stopped() bool { return s.State == 'T' || s.State == 't' }

// ParseStat reads the text of /proc/PID/stat. The comm may hold spaces,
// parentheses and newlines: it ends at the last closing parenthesis.
func ParseStat(b []byte) (Stat, error) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 2 || end < open || end+3 >= len(b) {
		return Stat{}, fmt.Errorf("stat: no comm: %w", errMalformed)
	}
	pid, ok := parseUint(b[:open-1])
	if !ok || pid > math.MaxInt32 || b[open-1] != ' ' {
		return Stat{}, fmt.Errorf("stat: no pid: %w", errMalformed)
	}
	s := Stat{PID: int(pid), Comm: b[open+1 : end], State: b[end+2]}
	if err := s.parseNumbers(b[end+3:]); err != nil {
		return Stat{}, err
	}
	return s, nil
}

// parseNumbers reads the fields after the state, which is the third.
func (s *Stat) parseNumbers(rest []byte) error {
	field := 3
	for len(rest) > 0 {
		var word []byte
		word, rest = nextWord(rest)
		if len(word) == 0 {
			break
		}
		field++
		if err := s.set(field, word); err != nil {
			return err
		}
	}
	if field < 22 {
		return fmt.Errorf("stat: %d fields: %w", field, errMalformed)
	}
	return nil
}

func (s *Stat) set(field int, word []byte) error {
	switch field {
	case 4, 5, 6, 9, 14, 15, 20, 22, 52:
	default:
		return nil
	}
	if word[0] == '-' { // pgrp and session are -1 in a task that is being reaped
		word = nil
	}
	v, ok := parseUint(word)
	small := field <= 6 || field == 20
	if !ok && word != nil || small && v > math.MaxInt32 {
		return fmt.Errorf("stat: field %d is %q: %w", field, string(word), errMalformed) // a copy: what was read stays on the stack
	}
	switch field {
	case 4:
		s.PPID = int(v)
	case 5:
		s.PGrp = int(v)
	case 6:
		s.Session = int(v)
	case 9:
		s.Flags = v
	case 14:
		s.UserTicks = v
	case 15:
		s.SysTicks = v
	case 20:
		s.Threads = int(v)
	case 22:
		s.Start = v
	case 52:
		s.setStopSignal(v)
	}
	return nil
}

// setStopSignal takes the exit code, in which newer kernels show the signal of
// a stop once every thread of the process has taken part in it.
func (s *Stat) setStopSignal(v uint64) {
	if s.stopped() && v < 65 {
		s.StopSignal = int(v)
	}
}

// nextWord cuts the first word off a line of words.
func nextWord(b []byte) (word, rest []byte) {
	i := 0
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t') {
		i++
	}
	j := i
	for j < len(b) && b[j] != ' ' && b[j] != '\n' && b[j] != '\t' {
		j++
	}
	return b[i:j], b[j:]
}

// parseUint reads a decimal number; it allocates nothing.
func parseUint(b []byte) (uint64, bool) {
	if len(b) == 0 || len(b) > 20 {
		return 0, false
	}
	var v uint64
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		next := v*10 + uint64(c-'0')
		if next/10 != v {
			return 0, false
		}
		v = next
	}
	return v, true
}

// stat reads a process's stat into buf. Comm stays valid as long as buf.
func (h Host) stat(buf []byte, pid int) (Stat, error) {
	data, err := h.read(buf, pid, "stat")
	if err != nil {
		return Stat{}, err
	}
	s, err := ParseStat(data)
	if err != nil {
		return Stat{}, fmt.Errorf("process %d: %w", pid, err)
	}
	return s, nil
}

// statOf reads the stat of exactly this process: ErrGone if the pid is free or
// belongs to another by now.
func (h Host) statOf(buf []byte, id ID) (Stat, error) {
	s, err := h.stat(buf, id.PID)
	if err == nil && s.Start != id.Start {
		return Stat{}, ErrGone
	}
	return s, err
}

// Identify returns the identity of the process that has this pid now, or
// ErrGone.
func (h Host) Identify(pid int) (ID, error) {
	var buf [statSize]byte
	s, err := h.stat(buf[:], pid)
	if err != nil {
		return ID{}, err
	}
	return ID{PID: pid, Start: s.Start}, nil
}

// Alive says whether a process still can run: it exists, and at least one of
// its threads has not ended. A stopped process, one in D and a dead leader with
// living threads are alive. An unreadable process counts as alive.
func (h Host) Alive(id ID) bool {
	var buf [statSize]byte
	s, err := h.statOf(buf[:], id)
	if err != nil {
		return !errors.Is(err, ErrGone)
	}
	return !s.dead()
}
