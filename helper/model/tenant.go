package model

import (
	"maps"
	"slices"
	"time"
)

// TenantID names one incarnation of a tenant on this node: "JOB@N" for a
// job's part of the node, "JOB.STEP@N" for a step that is a tenant of its own,
// where N tells a requeued job, or a job id used again, from the one before.
type TenantID string

// Class says whose speed is protected.
type Class string

// The classes.
const (
	Guaranteed    Class = "guaranteed"
	Opportunistic Class = "opportunistic"
)

// Terms are what a tenant was granted: what it asked for, bounded by what the
// admin allows its user, group, account and partition.
type Terms struct {
	Policy   string         `json:"policy,omitempty"` // asked for; "" is the node's own
	Class    Class          `json:"class"`
	Weight   float64        `json:"weight"`          // share of time relative to its mates, above 0
	Memory   Reading[Bytes] `json:"memory"`          // what it may count on, on each GPU; unknown: the whole GPU
	Declared Reading[Bytes] `json:"stated,omitzero"` // what the job stated of it, before a bound lowered it or a margin was added
	Deadline time.Time      `json:"deadline,omitzero"`
	Signal   int            `json:"signal,omitempty"`       // the job's own signal, 0 none
	Ahead    time.Duration  `json:"signal_ahead,omitempty"` // how long before an eviction it wants it
	Placed   string         `json:"placed,omitempty"`       // the GPU that gimbald chose and why, "" where Slurm did
	MPS      bool           `json:"mps,omitempty"`          // its processes were launched as clients of MPS
	MaxPause time.Duration  `json:"max_pause,omitempty"`    // longest pause of this tenant, where that is less than the policy's; 0: the policy's
	Notes    []string       `json:"notes,omitempty"`        // what was lowered, and why
}

// Worker is one task of a tenant: its root process and all that descends from
// it.
type Worker struct {
	Proc   ProcID        `json:"proc"`
	Stepd  ProcID        `json:"stepd,omitzero"` // the slurmstepd above it, if that is known
	Step   uint32        `json:"step"`
	Task   uint32        `json:"task"`
	PTY    bool          `json:"pty,omitempty"` // the shell of an interactive step: never stopped
	Since  time.Duration `json:"since"`
	Exited bool          `json:"exited,omitempty"` // the root process ended; descendants may live on
}

// Step is one Slurm step inside a tenant, as status shows it.
type Step struct {
	ID     uint32        `json:"id"`
	Tasks  int           `json:"tasks"`
	Start  time.Duration `json:"start"`
	End    time.Duration `json:"end,omitempty"`
	Ended  bool          `json:"ended,omitempty"`
	Status int           `json:"status,omitempty"` // highest wait status of its tasks
}

// Throttle is a share of time: of each period the tenant runs for the share, and
// is stopped for the rest.
type Throttle struct {
	Share  float64       `json:"share"` // above 0, below 1
	Period time.Duration `json:"period"`
}

// Bounds of a throttle: below the shortest period a stop costs too much of it,
// and below the least share a tenant makes no progress worth its memory.
const (
	LeastShare     = 0.05
	ShortestPeriod = 100 * time.Millisecond
	LongestPeriod  = 10 * time.Second
)

// Valid tells whether the throttle is within its bounds.
func (th Throttle) Valid() bool {
	return th.Share >= LeastShare && th.Share < 1 && th.Period >= ShortestPeriod && th.Period <= LongestPeriod
}

// Usage is what a tenant takes of one GPU.
type Usage struct {
	Procs  int              `json:"procs"`  // processes with a context there
	Memory Reading[Bytes]   `json:"memory"` // sum over its processes; unknown if one of them is
	SM     Reading[float64] `json:"sm"`     // share of time on the multiprocessors, 0 to 1
}

// Speed is how fast a tenant was since its first run, over its speed alone.
type Speed struct {
	Mean  float64 `json:"mean"`  // 0 to 1
	Error float64 `json:"error"` // by how much it may be off
}

// Tally adds up what happened to a tenant.
type Tally struct {
	Held, Running, Paused, Swapped time.Duration // time in each state
	Attained                       time.Duration // running with a process on a GPU
	SM, Seen                       time.Duration // multiprocessors' time while running, mean of its GPUs; over how much that is known
	Throttled                      time.Duration // time under a throttle: its share of that counts as running
	Withheld                       time.Duration // of the time under a throttle, that in which it was stopped
	Credited                       time.Duration // time that was added to its job's limit for it
	Holds, Pauses, Swaps           int
	Throttles                      int // how often a throttle was put on it
}

// Util is the share of time that the multiprocessors worked for the tenant while
// it ran, a mean over its GPUs.
func (t *Tally) Util() Reading[float64] {
	if t.Seen == 0 {
		return Unknown[float64]()
	}
	return Known(t.SM.Seconds() / t.Seen.Seconds())
}

// Tenant is what is calibrated as a whole: all its workers on all its GPUs
// run, or none does.
type Tenant struct {
	ID         TenantID      `json:"id"`
	Reg        Registration  `json:"reg"`    // of the first task seen
	Whole      bool          `json:"whole"`  // a job's whole part of this node
	Parent     TenantID      `json:"parent"` // of a step with an option of its own, while the job is one too
	Terms      Terms         `json:"terms"`
	GPUs       []string      `json:"gpus"`             // UUIDs
	Policy     string        `json:"policy,omitempty"` // of its first GPU when it came
	Exempt     string        `json:"exempt,omitempty"` // why it is never stopped, "" if it may be
	Steps      []Step        `json:"steps"`
	Workers    []Worker      `json:"workers"`
	State      State         `json:"state"`
	Since      time.Duration `json:"since"`             // when it entered State
	Reason     Reason        `json:"reason"`            // why it is there
	Throttle   Throttle      `json:"throttle,omitzero"` // while it is throttled
	Action     uint64        `json:"action,omitempty"`  // the operation under way
	Admitted   bool          `json:"admitted"`          // its claim on memory stands
	PassedOver int           `json:"passed_over"`       // admissions of later ones while it waited

	Registered time.Duration `json:"registered"`
	LastTask   time.Duration `json:"last_task"` // when its youngest worker was launched
	FirstRan   time.Duration `json:"first_ran"`
	HasRun     bool          `json:"has_run"`
	LastRan    time.Duration `json:"last_ran"` // when it last ceased to run
	EndedAt    time.Duration `json:"ended_at,omitempty"`
	Tally      Tally         `json:"tally"`
	Service    float64       `json:"service"` // weighted seconds of attained service, level with its mates at its arrival

	Procs     int               `json:"procs"` // live processes
	Use       map[string]Usage  `json:"use"`   // by GPU
	Peak      map[string]Bytes  `json:"peak"`  // highest memory seen, by GPU
	OnGPU     bool              `json:"on_gpu"`
	Progress  Reading[Progress] `json:"progress,omitzero"`   // as the job last wrote it
	Speed     Reading[Speed]    `json:"speed,omitzero"`      // as learnt, when it was last asked for
	OnSince   time.Duration     `json:"on_since"`            // when OnGPU last changed
	BusyAt    time.Duration     `json:"busy_at"`             // when it was last seen computing
	Settle    time.Duration     `json:"settle"`              // not to be stopped before: it was continued by somebody else
	Suspended string            `json:"suspended,omitempty"` // another's stop that is in force: "slurm", "external"
	Signalled string            `json:"signalled,omitempty"` // a signal meant for it arrived while it was stopped; cleared when it runs
	Retry     time.Duration     `json:"retry"`               // not to be acted upon before, after a failure
	Failures  int               `json:"failures"`            // of operations in a row
	Over      time.Duration     `json:"over"`                // since when it uses more than it declared, 0 if not
	NoSwap    string            `json:"no_swap,omitempty"`   // why its memory cannot be moved to host RAM, "" as far as is known

	accounted time.Duration
	astray    time.Duration // as last told, see TenantSample
}

// Live tells whether the tenant still has something on the node.
func (t *Tenant) Live() bool { return t.State != Gone }

// Claim is the GPU memory on one GPU that the tenant may count on: what it
// declared, else the whole GPU (unknown), and never less than it uses.
func (t *Tenant) Claim(gpu GPU) Reading[Bytes] {
	claim, ok := t.Terms.Memory.Get()
	if !ok {
		total, known := gpu.Total.Get()
		if !known {
			return Unknown[Bytes]()
		}
		claim = total - gpu.Reserved.Or(0)
	}
	if used, ok := t.Use[gpu.UUID].Memory.Get(); ok && used > claim {
		claim = used
	}
	return Known(claim)
}

// Uses tells whether the tenant was given the GPU.
func (t *Tenant) Uses(uuid string) bool {
	for _, g := range t.GPUs {
		if g == uuid {
			return true
		}
	}
	return false
}

// Idle is for how long the tenant has computed nothing, by the last readings.
func (t *Tenant) Idle(now time.Duration) time.Duration {
	if now <= t.BusyAt {
		return 0
	}
	return now - t.BusyAt
}

// Clone copies the tenant so that the copy shares nothing that changes.
func (t *Tenant) Clone() Tenant {
	c := *t
	c.Steps = slices.Clone(t.Steps)
	c.Workers = slices.Clone(t.Workers)
	c.Use = maps.Clone(t.Use)
	c.Peak = maps.Clone(t.Peak)
	return c
}

// move takes in that the tenant computes on other GPUs than it was given: its turns
// and its claim are there from now on.
func (t *Tenant) move(g *Grant) {
	if g == nil || len(g.GPUs) == 0 {
		return
	}
	t.GPUs, t.Policy = g.GPUs, g.Policy
	for uuid := range t.Use {
		if !t.Uses(uuid) {
			delete(t.Use, uuid)
		}
	}
}
