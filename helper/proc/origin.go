package proc

import (
	"os"
	"strconv"
	"strings"
)

// Origin is where a process that is in nobody's tree comes from.
type Origin uint8

// Origins.
const (
	OriginOther  Origin = iota // anything else: a service, a login, a container
	OriginJob                  // a job of Slurm
	OriginOrphan               // its parent has ended, and it is in no job's cgroup
)

// maxAncestors bounds how far a process's parents are followed.
const maxAncestors = 32

// Origin tells where a process comes from: of a job of Slurm by its cgroup, else by
// a slurmstepd among its ancestors. A process of root whose parent is init is a
// service. job is which job of Slurm's, 0 where its name does not tell. ErrGone if
// the process has ended.
func (h Host) Origin(id ID) (from Origin, job uint32, err error) {
	st, err := h.Status(id)
	if err != nil {
		return OriginOther, 0, err
	}
	if c, err := h.cgroups(id.PID); err == nil {
		for _, path := range []string{c.Freezer, c.Unified} {
			if job, ok := jobOf(path); ok {
				return OriginJob, job, nil
			}
		}
	}
	var buf [statSize]byte
	s, err := h.statOf(buf[:], id)
	if err != nil {
		return OriginOther, 0, err
	}
	if s.PPID == 1 && st.UID != 0 {
		return OriginOrphan, 0, nil
	}
	for range maxAncestors {
		if s.PPID <= 1 {
			break
		}
		if s, err = h.stat(buf[:], s.PPID); err != nil {
			break // it has just ended
		}
		if h.runsStepd(s.PID, s.Comm) && h.ofRoot(s.PID) {
			return OriginJob, h.titled(s.PID), nil
		}
	}
	return OriginOther, 0, nil
}

// Below finds the nearest of a process's ancestors that is one of those asked for, and
// the child of that one from which the process descends, itself as the case may be.
func (h Host) Below(id ID, one func(ID) bool) (ancestor, child ID, ok bool) {
	var buf [statSize]byte
	s, err := h.statOf(buf[:], id)
	for range maxAncestors {
		if err != nil || s.PPID <= 1 {
			break
		}
		child = s.ID()
		if s, err = h.stat(buf[:], s.PPID); err != nil || s.Start > child.Start {
			break // it has just ended
		}
		if one(s.ID()) {
			return s.ID(), child, true
		}
	}
	return ID{}, ID{}, false
}

// jobOf says whose cgroup it is, of a step of Slurm's or inside one; 0 where it is
// not named by the job's number.
func jobOf(path string) (job uint32, ok bool) {
	parts, step, _ := findStep(path)
	if parts == nil {
		return 0, false
	}
	number, _ := strings.CutPrefix(parts[step-1], "job_")
	n, _ := strconv.ParseUint(number, 10, 32)
	return uint32(n), true
}

// ofRoot says whether a process is root's, as each slurmstepd is. A user may start
// that program too, and have it say what he likes; and reading the command line of a
// process of his may take as long as he likes.
func (h Host) ofRoot(pid int) bool {
	st, err := h.status(pid)
	return err == nil && st.UID == 0
}

// titled is the job that a slurmstepd says it is for, 0 if it does not: its command
// line is "slurmstepd: [5.batch]".
func (h Host) titled(pid int) uint32 {
	text, err := os.ReadFile(h.path(pid, "cmdline"))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ": [")
	number, _, _ := strings.Cut(rest, ".")
	n, _ := strconv.ParseUint(number, 10, 32)
	return uint32(n)
}
