package proc

import (
	"errors"
)

// Condition is what a process is doing, as far as stopping it goes.
type Condition uint8

// Conditions of a process.
const (
	ConditionUnknown Condition = iota // it could not be looked at
	ConditionGone                     // ended, or its pid is another's
	ConditionRunning                  // not stopped: running or asleep
	ConditionStopped                  // stopped by SIGSTOP, or by a signal that the kernel does not tell
	ConditionForeign                  // somebody else wants it stopped
)

// String names the condition.
func (c Condition) String() string {
	switch c {
	case ConditionGone:
		return "gone"
	case ConditionRunning:
		return "running"
	case ConditionStopped:
		return "stopped"
	case ConditionForeign:
		return "foreign stop"
	}
	return "unknown"
}

// Look returns what a process is doing from its stat alone, which costs some
// 5 us: a stop signal that waits for it is not seen, see Inspect.
func (h Host) Look(id ID) Condition {
	var buf [statSize]byte
	s, err := h.statOf(buf[:], id)
	return condition(s, Status{}, err)
}

// Inspect returns what a process is doing, stop signals that wait for it
// included, and which these are. It costs about three times a Look.
func (h Host) Inspect(id ID) (Condition, ForeignStop) {
	st, err := h.status(id.PID)
	if err != nil {
		return condition(Stat{}, st, err), ForeignStop{}
	}
	var buf [statSize]byte
	s, err := h.statOf(buf[:], id)
	c := condition(s, st, err)
	if c != ConditionForeign {
		return c, ForeignStop{}
	}
	f, _ := foreignStop(s, st)
	return c, f
}

func condition(s Stat, st Status, err error) Condition {
	switch {
	case errors.Is(err, ErrGone):
		return ConditionGone
	case err != nil:
		return ConditionUnknown
	case s.leaving():
		return ConditionGone
	}
	if _, foreign := foreignStop(s, st); foreign {
		return ConditionForeign
	}
	if s.State == 'T' {
		return ConditionStopped
	}
	return ConditionRunning
}

// Ticks returns the CPU time that a process has used, in clock ticks of 1/100 s.
func (h Host) Ticks(id ID) (uint64, error) {
	var buf [statSize]byte
	s, err := h.statOf(buf[:], id)
	return s.UserTicks + s.SysTicks, err
}
