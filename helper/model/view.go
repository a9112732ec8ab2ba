package model

import "time"

// Tenant views carry the wall clock, which people read; everything else in the
// house runs on the monotonic one.

// View is one tenant, live or ended, as status, explain and report show it.
type View struct {
	Tenant
	PolicyNow string        `json:"policy_now,omitempty"` // the policy of its GPUs
	Start     time.Time     `json:"start"`                // registered
	Ran       time.Time     `json:"ran,omitzero"`         // first ran
	End       time.Time     `json:"end,omitzero"`         // ended; zero while live
	SinceWall time.Time     `json:"since_wall,omitzero"`  // when it entered its state
	Elapsed   time.Duration `json:"elapsed"`
	StepWall  []StepWall    `json:"step_wall,omitempty"` // one for each of Steps
	Order     *Order        `json:"order,omitempty"`     // a person's that is in force
	OrderEnds time.Time     `json:"order_ends,omitzero"` // when it lapses; zero: when it is released
	Hidden    bool          `json:"hidden,omitempty"`    // another's job: only what it takes of a GPU is shown
}

// StepWall is when a step started and ended, on the wall clock.
type StepWall struct {
	Start time.Time `json:"start"`
	End   time.Time `json:"end,omitzero"`
}

// Snapshot is a node as the daemon shows it.
type Snapshot struct {
	Node     string                    `json:"node"`
	At       time.Time                 `json:"at"`
	Degraded string                    `json:"degraded,omitempty"`
	GPUs     []GPU                     `json:"gpus"`
	Foreign  map[string]Reading[Bytes] `json:"foreign,omitempty"`
	Policies map[string]string         `json:"policies,omitempty"` // by GPU
	Strays   []Stray                   `json:"strays,omitempty"`
	Tenants  []View                    `json:"tenants"`
}

// Stray is a process on a shared GPU that belongs to no tenant.
type Stray struct {
	GPU    string         `json:"gpu"`
	PID    int            `json:"pid"`
	UID    uint32         `json:"uid"`
	Memory Reading[Bytes] `json:"memory"`
	Kind   string         `json:"kind"` // one of the below
}

// Kinds of strays.
const (
	StrayUnmanaged = "unmanaged" // of a job of Slurm that did not ask, or of a part of one that is not managed
	StrayOrphan    = "orphan"    // its parent has ended, and it is in no job
	StrayGhost     = "ghost"     // the driver lists it, and there is no such process
	StrayForeign   = "foreign"   // anything else
)
