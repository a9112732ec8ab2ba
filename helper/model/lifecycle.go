package model

import "fmt"

// State is where a tenant stands. The states that end in -ing are transient:
// an operation is under way and its outcome has not been seen.
type State uint8

// The states of a tenant.
const (
	New       State = iota // registered, nothing decided
	Holding                // being stopped just after its exec
	Held                   // waits for room before its first run
	Running                // computes, or may
	Throttled              // computes for its share of each period, and is stopped for the rest of it
	Pausing                // being stopped
	Paused                 // stopped, its GPU memory stays
	Resuming               // being continued
	Swapping               // its GPU memory is going to host RAM
	Swapped                // stopped, its GPU memory is in host RAM
	Restoring              // its GPU memory is coming back
	Evicting               // is being ended kindly
	Gone                   // no process is left
	numStates
)

var stateNames = [numStates]string{"new", "holding", "held", "running",
	"throttled", "pausing", "paused", "resuming", "swapping", "swapped", "restoring", "evicting", "gone"}

func (s State) String() string {
	if s < numStates {
		return stateNames[s]
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// MarshalText writes the state's name.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a state's name.
func (s *State) UnmarshalText(b []byte) error {
	for i, n := range stateNames {
		if n == string(b) {
			*s = State(i)
			return nil
		}
	}
	return fmt.Errorf("no tenant state is called %q", b)
}

// States lists all states, for tests that walk the table.
func States() []State {
	all := make([]State, numStates)
	for i := range all {
		all[i] = State(i)
	}
	return all
}

// Transient tells whether an operation is under way.
func (s State) Transient() bool {
	switch s {
	case Holding, Pausing, Resuming, Swapping, Restoring, Evicting:
		return true
	}
	return false
}

// Computes tells whether the tenant may have work on a GPU: a stop that is not
// yet confirmed has not happened, and one that is being continued may run.
func (s State) Computes() bool {
	switch s {
	case Running, Throttled, Pausing, Resuming, Swapping, Restoring, Evicting:
		return true
	}
	return false
}

// Runs tells whether the tenant runs, all the time or for its share of it, and
// nothing is under way.
func (s State) Runs() bool { return s == Running || s == Throttled }

// Stopped tells whether Gimbal keeps the tenant's processes stopped.
func (s State) Stopped() bool { return s == Held || s == Paused || s == Swapped }

// Trigger is what moves a tenant from one state to another: an action that
// was chosen, the outcome of one, or something that was seen from outside.
type Trigger uint8

// The triggers of the lifecycle.
const (
	DoRun      Trigger = iota // let a new tenant go on
	DoHold                    // keep a new tenant from starting
	DoThrottle                // give a running tenant a share of time, or another one
	DoPause                   //
	DoResume                  // continue a held or paused tenant, or end a throttle
	DoSwap                    //
	DoRestore                 //
	DoEvict                   //
	OpDone                    // the operation under way was confirmed
	OpFailed                  // it failed or timed out, and was rolled back
	Continued                 // somebody else continued what we stopped
	Ended                     // no process is left
	numTriggers
)

var triggerNames = [numTriggers]string{"run", "hold", "throttle", "pause", "resume",
	"swap", "restore", "evict", "done", "failed", "continued", "ended"}

func (t Trigger) String() string {
	if t < numTriggers {
		return triggerNames[t]
	}
	return fmt.Sprintf("trigger(%d)", uint8(t))
}

// Triggers lists all triggers, for tests that walk the table.
func Triggers() []Trigger {
	all := make([]Trigger, numTriggers)
	for i := range all {
		all[i] = Trigger(i)
	}
	return all
}

// transitions is the whole lifecycle: state x trigger → state. A cell that is
// absent is not allowed: the trigger is refused and the state stays.
//
// A failed stop rolls back to running (fail open). A failed resume goes back
// to paused: the only thing that forbids it is another's stop, which is not
// ours to undo. Whatever somebody else continued is running. The stops and
// continuations within a throttle's periods change no state; where one of them
// fails it is what a failed stop or resume is.
var transitions = map[State]map[Trigger]State{
	New:       {DoRun: Running, DoHold: Holding, DoEvict: Evicting, Ended: Gone},
	Holding:   {OpDone: Held, OpFailed: Running, Continued: Running, Ended: Gone},
	Held:      {DoResume: Resuming, DoEvict: Evicting, Continued: Running, Ended: Gone},
	Running:   {DoThrottle: Throttled, DoPause: Pausing, DoSwap: Swapping, DoEvict: Evicting, Ended: Gone},
	Throttled: {DoThrottle: Throttled, DoPause: Pausing, DoResume: Resuming, DoSwap: Swapping, DoEvict: Evicting, OpFailed: Running, Continued: Running, Ended: Gone},
	Pausing:   {OpDone: Paused, OpFailed: Running, Ended: Gone},
	Paused:    {DoResume: Resuming, DoSwap: Swapping, DoEvict: Evicting, Continued: Running, Ended: Gone},
	Resuming:  {OpDone: Running, OpFailed: Paused, Continued: Running, Ended: Gone},
	Swapping:  {OpDone: Swapped, OpFailed: Running, Ended: Gone},
	Swapped:   {DoRestore: Restoring, DoEvict: Evicting, Continued: Running, Ended: Gone},
	Restoring: {OpDone: Running, OpFailed: Swapped, Continued: Running, Ended: Gone},
	Evicting:  {OpFailed: Running, Ended: Gone},
	Gone:      {},
}

// Next returns the state that a trigger leads to, and whether the lifecycle
// allows it.
func Next(s State, t Trigger) (State, bool) {
	to, ok := transitions[s][t]
	return to, ok
}
