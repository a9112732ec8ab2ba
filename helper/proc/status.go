package proc

import (
	"bytes"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// SigSet is a set of signals as /proc/PID/status writes it: bit n-1 is signal n.
type SigSet uint64

// Signals returns the set of these signals. Numbers out of range are left out.
func Signals(sigs ...unix.Signal) SigSet {
	var s SigSet
	for _, sig := range sigs {
		if sig >= 1 && sig <= 64 {
			s |= 1 << (sig - 1)
		}
	}
	return s
}

// Has says whether a signal is in the set.
func (s SigSet) Has(sig unix.Signal) bool { return s&Signals(sig) != 0 }

// List returns the signals of the set in ascending order.
func (s SigSet) List() []unix.Signal {
	var out []unix.Signal
	for sig := unix.Signal(1); sig <= 64; sig++ {
		if s.Has(sig) {
			out = append(out, sig)
		}
	}
	return out
}

// String lists the signals by name.
func (s SigSet) String() string {
	var names []string
	for _, sig := range s.List() {
		name := unix.SignalName(sig)
		if name == "" {
			name = fmt.Sprintf("SIG%d", int(sig))
		}
		names = append(names, name)
	}
	return strings.Join(names, ",")
}

// statusSize holds any /proc/PID/status up to the signal sets; long lists of
// groups and CPU masks come into it as well.
const statusSize = 16384

// Status is what /proc/PID/status says of a process.
type Status struct {
	State     byte // of the first thread, as in Stat
	UID       int  // real user
	EUID      int  // effective user
	TracerPID int  // 0: nobody traces it
	Queued    int  // signals that wait for all processes of its real user together
	Pending   SigSet
	Shared    SigSet // pending for the process as a whole
	Blocked   SigSet
	Ignored   SigSet
	Caught    SigSet
}

// Still says that the process runs nothing now: it is stopped or traced, or has
// ended.
func (s Status) Still() bool {
	switch s.State {
	case 'T', 't', 'Z', 'X':
		return true
	}
	return false
}

// AllPending is what waits for the thread or for the process.
func (s Status) AllPending() SigSet { return s.Pending | s.Shared }

// ParseStatus reads the text of /proc/PID/status.
func ParseStatus(b []byte) (Status, error) {
	s := Status{UID: -1, EUID: -1}
	for len(b) > 0 {
		line := b
		if i := bytes.IndexByte(b, '\n'); i >= 0 {
			line, b = b[:i], b[i+1:]
		} else {
			b = nil
		}
		key, value, ok := bytes.Cut(line, []byte{':'})
		if !ok {
			continue
		}
		if err := s.set(key, value); err != nil {
			return Status{}, err
		}
	}
	if s.UID < 0 {
		return Status{}, fmt.Errorf("status: no Uid: %w", errMalformed)
	}
	return s, nil
}

func (s *Status) set(key, value []byte) error {
	ok := true
	switch string(key) {
	case "State":
		var word []byte
		if word, _ = nextWord(value); len(word) > 0 {
			s.State = word[0]
		}
	case "Uid":
		ok = s.setUID(value)
	case "TracerPid":
		var v uint64
		word, _ := nextWord(value)
		v, ok = parseUint(word)
		s.TracerPID = int(v)
	case "SigQ":
		word, _, _ := bytes.Cut(bytes.TrimSpace(value), []byte{'/'})
		var v uint64
		v, ok = parseUint(word)
		s.Queued = int(v)
	case "SigPnd":
		s.Pending, ok = parseSigSet(value)
	case "ShdPnd":
		s.Shared, ok = parseSigSet(value)
	case "SigBlk":
		s.Blocked, ok = parseSigSet(value)
	case "SigIgn":
		s.Ignored, ok = parseSigSet(value)
	case "SigCgt":
		s.Caught, ok = parseSigSet(value)
	}
	if !ok {
		return fmt.Errorf("status: %s is %q: %w", string(key), string(value), errMalformed)
	}
	return nil
}

func (s *Status) setUID(value []byte) bool {
	first, rest := nextWord(value)
	second, _ := nextWord(rest)
	uid, ok1 := parseUint(first)
	euid, ok2 := parseUint(second)
	if !ok1 || !ok2 || uid > 1<<32 || euid > 1<<32 {
		return false
	}
	s.UID, s.EUID = int(uid), int(euid)
	return true
}

func parseSigSet(value []byte) (SigSet, bool) {
	word, _ := nextWord(value)
	if len(word) == 0 || len(word) > 16 {
		return 0, false
	}
	var v uint64
	for _, c := range word {
		switch {
		case c >= '0' && c <= '9':
			v = v<<4 | uint64(c-'0')
		case c >= 'a' && c <= 'f':
			v = v<<4 | uint64(c-'a'+10)
		default:
			return 0, false
		}
	}
	return SigSet(v), true
}

// status reads the status of whoever has this pid.
func (h Host) status(pid int) (Status, error) {
	var buf [statusSize]byte
	data, err := h.read(buf[:], pid, "status")
	if err != nil {
		return Status{}, err
	}
	s, err := ParseStatus(data)
	if err != nil {
		return Status{}, fmt.Errorf("process %d: %w", pid, err)
	}
	return s, nil
}

// ChildOf says whether a process is a child of another, and whether both are a
// user's and nobody else's: neither has changed its uid.
func (h Host) ChildOf(child, parent ID, uid uint32) error {
	for _, id := range []ID{child, parent} {
		st, err := h.Status(id)
		if err != nil {
			return fmt.Errorf("process %s: %w", id, err)
		}
		if st.UID != int(uid) || st.EUID != int(uid) {
			return fmt.Errorf("process %s runs as uid %d, %d", id, st.UID, st.EUID)
		}
	}
	var buf [statSize]byte
	s, err := h.statOf(buf[:], child)
	if err != nil {
		return fmt.Errorf("process %s: %w", child, err)
	}
	if s.PPID != parent.PID {
		return fmt.Errorf("process %s is a child of %d, not of %d", child, s.PPID, parent.PID)
	}
	return nil
}

// OwnedBy says whether a process is one that a user may signal: its real uid is
// his, whatever it runs as. One that cannot be looked at is not.
func (h Host) OwnedBy(id ID, uid uint32) bool {
	st, err := h.Status(id)
	return err == nil && st.UID == int(uid)
}

// Status reads the status of exactly this process: ErrGone if it has ended. The
// start time is checked after the read, so that the answer is never another's.
func (h Host) Status(id ID) (Status, error) {
	s, err := h.status(id.PID)
	if err != nil {
		return Status{}, err
	}
	var buf [statSize]byte
	if _, err := h.statOf(buf[:], id); err != nil {
		return Status{}, err
	}
	return s, nil
}

// blockable are the signals of the standard that a process can block.
const blockable = SigSet(1<<31-1) &^ (1<<(unix.SIGKILL-1) | 1<<(unix.SIGSTOP-1))

// StaysBlocked returns the blocked signals that can be told to stay so: none
// where all are, as a C library has it for as long as a fork takes.
func (s Status) StaysBlocked() SigSet {
	if s.Blocked&blockable == blockable {
		return 0
	}
	return s.Blocked
}
