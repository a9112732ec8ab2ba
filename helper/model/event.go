package model

import (
	"strconv"
	"time"
)

// Reason says why something was done: Code for machines, Text for people.
type Reason struct {
	Code string `json:"code,omitempty"`
	Text string `json:"text,omitempty"`
}

// Primitive is one way to calibrate a tenant.
type Primitive string

// The primitives.
const (
	PrimRun      Primitive = "run" // nothing to do to the processes: the tenant is let go on
	PrimHold     Primitive = "hold"
	PrimThrottle Primitive = "throttle" // a share of time: stopped and continued within each period
	PrimPause    Primitive = "pause"
	PrimResume   Primitive = "resume"
	PrimSwap     Primitive = "swap"
	PrimRestore  Primitive = "restore"
	PrimNotify   Primitive = "notify"
	PrimEvict    Primitive = "evict"
	PrimWarn     Primitive = "warn" // said in the journal, the log and status; nothing is done
)

// Trigger is the primitive's move in the lifecycle; ok is false for those
// that change no state.
func (p Primitive) Trigger() (t Trigger, ok bool) {
	switch p {
	case PrimRun:
		return DoRun, true
	case PrimHold:
		return DoHold, true
	case PrimThrottle:
		return DoThrottle, true
	case PrimPause:
		return DoPause, true
	case PrimResume:
		return DoResume, true
	case PrimSwap:
		return DoSwap, true
	case PrimRestore:
		return DoRestore, true
	case PrimEvict:
		return DoEvict, true
	}
	return 0, false
}

// Action is a primitive that a policy chose for a tenant.
type Action struct {
	ID       uint64    `json:"id"` // given by the engine, rises by one
	Do       Primitive `json:"do"`
	Tenant   TenantID  `json:"tenant"`
	Why      Reason    `json:"why"`
	Signal   int       `json:"signal,omitempty"` // of a notify
	Throttle Throttle  `json:"throttle,omitzero"`
	Beat     bool      `json:"-"` // a stop or a continuation within a throttle's period: nobody is told
}

// EventKind is what kind of news an event is.
type EventKind string

// The kinds of event.
const (
	EvRegistered EventKind = "registered" // a task was launched: Reg, GPUs, Terms, Exempt
	EvAdopted    EventKind = "adopted"    // a tenant known from before a restart is still there: Adopt
	EvTaskExit   EventKind = "task_exit"  // a task's root process ended
	EvStepEnd    EventKind = "step_end"   // a step ended on this node
	EvDone       EventKind = "done"       // an action was confirmed
	EvFailed     EventKind = "failed"     // an action failed or timed out and was rolled back
	EvContinued  EventKind = "continued"  // somebody else continued what we stopped
	EvAsked      EventKind = "asked"      // whether a tenant that somebody continued is ending: Text says so, "" if not
	EvSuspended  EventKind = "suspended"  // another's stop is in force on it: Text says whose
	EvUnstopped  EventKind = "unstopped"  // another's stop is gone
	EvSignalled  EventKind = "signalled"  // a signal meant for the stopped tenant waits: Text names it
	EvEnded      EventKind = "ended"      // no process of the tenant is left
	EvMoved      EventKind = "moved"      // the tenant computes on other GPUs than it was given: Grant has them
	EvOrder      EventKind = "order"      // a person ordered an action: Order
	EvCredited   EventKind = "credited"   // time was added to its job's limit: Took
	EvPolicy     EventKind = "policy"     // a policy was loaded
	EvDegraded   EventKind = "degraded"   // the node cannot be managed: Text says why
	EvRecovered  EventKind = "recovered"  // it can again
	EvStarted    EventKind = "started"    // the daemon started
	EvStopped    EventKind = "stopped"    // the daemon left
)

// AdoptedAction is the number of an operation that was already under way when
// a tenant was adopted.
const AdoptedAction uint64 = 1<<53 - 1

// Event is one piece of news.
type Event struct {
	Kind   EventKind     `json:"kind"`
	At     time.Duration `json:"at"` // on the node's monotonic clock
	Tenant TenantID      `json:"tenant,omitempty"`
	Reg    *Registration `json:"reg,omitempty"`
	Grant  *Grant        `json:"grant,omitempty"`
	Adopt  *Tenant       `json:"adopt,omitempty"`
	Step   uint32        `json:"step,omitempty"`
	Proc   ProcID        `json:"proc,omitzero"`
	Status int           `json:"status,omitempty"`
	Action uint64        `json:"action,omitempty"`
	Do     Primitive     `json:"do,omitempty"` // of the action that was done or failed
	Took   time.Duration `json:"took,omitempty"`
	// Lasting: a swap failed that cannot succeed as long as the tenant is what
	// it is.
	Lasting bool   `json:"lasting,omitempty"`
	Order   *Order `json:"order,omitempty"`
	Text    string `json:"text,omitempty"`
}

// Grant is what the node made of a registration.
type Grant struct {
	Terms  Terms    `json:"terms"`
	GPUs   []string `json:"gpus"`             // UUIDs
	Policy string   `json:"policy,omitempty"` // of the first of them
	Exempt string   `json:"exempt,omitempty"` // why the tenant is never stopped
	Whole  bool     `json:"whole"`            // the tenant is the whole job on this node
	Late   bool     `json:"late,omitempty"`   // it was told after its program had started: it is not held
	Parent TenantID `json:"parent,omitempty"` // the job that a step with an option of its own belongs to
}

// Order is an action that a person asked for.
type Order struct {
	Do     Primitive     `json:"do"` // pause, resume, evict, notify; release ends an order
	UID    uint32        `json:"uid"`
	User   string        `json:"user,omitempty"` // login name, "" unknown
	Why    string        `json:"why,omitempty"`
	Until  time.Duration `json:"until,omitempty"`  // when it lapses, 0 never
	Signal int           `json:"signal,omitempty"` // of a notify
}

// By names who gave the order.
func (o *Order) By() string {
	if o.User != "" {
		return o.User
	}
	return "user " + strconv.FormatUint(uint64(o.UID), 10)
}

// TenantSample is what one look at /proc and the driver gave for a tenant.
type TenantSample struct {
	Tenant   TenantID
	Procs    int               // live processes
	Use      map[string]Usage  // by GPU; a GPU that could not be read is absent
	Astray   time.Duration     // for which it ran in all although it was to be stopped: somebody else continued it
	Busy     bool              // computed since the last sample, by a known reading
	Progress Reading[Progress] // newest of its counters; unknown where there is none
}

// Sample is what is new since the one before.
type Sample struct {
	Events  []Event
	GPUs    *GPUReport     // nil: nothing new from the driver
	Tenants []TenantSample // one for each tenant looked at
	// Foreign is GPU memory that no tenant holds, by GPU: whole-GPU jobs,
	// orphans, processes outside Slurm.
	Foreign map[string]Reading[Bytes]
	// Unmanaged counts the processes, by GPU, of jobs of Slurm that are not packed.
	Unmanaged map[string]Reading[int]
}

// Record is one line of the journal: an event that was seen or an action that
// was chosen.
type Record struct {
	Seq    uint64        `json:"seq"`
	Wall   time.Time     `json:"wall"`
	At     time.Duration `json:"at"`
	Event  *Event        `json:"event,omitempty"`
	Action *Action       `json:"action,omitempty"`
	Tenant *Tenant       `json:"tenant,omitempty"` // the tenant after it, where it changed
}
