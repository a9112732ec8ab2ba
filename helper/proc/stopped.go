package proc

import (
	"bytes"
	"errors"
	"strconv"

	"golang.org/x/sys/unix"
)

// wholeStopped says whether every thread of a process is stopped. Where the
// kernel shows the stop signal it does so only then; else each thread is asked.
func (h Host) wholeStopped(s Stat) bool {
	leader := s.stopped() || s.State == 'Z'
	switch {
	case !leader:
		return false
	case s.Threads <= 1 || s.State == 'T' && s.StopSignal == int(unix.SIGSTOP):
		return true
	}
	tids, err := h.threads(s.PID)
	if err != nil {
		return false
	}
	for _, tid := range tids {
		if !h.threadStopped(s.PID, tid) {
			return false
		}
	}
	return true
}

// threadStopped says whether a thread is stopped, has ended, or waits in vfork
// for a child, in which it runs nothing of its own.
func (h Host) threadStopped(pid, tid int) bool {
	var buf [statSize]byte
	task := "task/" + strconv.Itoa(tid)
	data, err := h.read(buf[:], pid, task+"/stat")
	if err != nil {
		return errors.Is(err, ErrGone)
	}
	s, err := ParseStat(data)
	if err != nil {
		return false
	}
	switch s.State {
	case 'T', 't', 'Z', 'X':
		return true
	case 'D':
		return h.inVfork(pid, task+"/")
	}
	return s.Flags&exiting != 0
}

// waitsForVfork says whether a process in D waits for a vfork child that is
// stopped: it will not be seen stopped before that child is continued.
func (p *pausing) waitsForVfork(v *victim) bool {
	if !p.host.inVfork(v.id.PID, "") {
		return false
	}
	for _, other := range p.known {
		if other.state == victimStopped && other.stat.PPID == v.id.PID {
			return true
		}
	}
	return false
}

// inVfork says whether a thread sleeps in the kernel until its vfork child
// execs or ends, by the function it waits in, else by its stack.
func (h Host) inVfork(pid int, task string) bool {
	var buf [1024]byte
	if wchan, err := h.read(buf[:], pid, task+"wchan"); err == nil {
		switch string(bytes.TrimSpace(wchan)) {
		case "kernel_clone", "wait_for_vfork_done", "_do_fork", "do_fork":
			return true
		}
	}
	stack, err := h.read(buf[:], pid, task+"stack")
	return err == nil && bytes.Contains(stack, []byte("vfork"))
}
