package policy

import (
	"slices"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// view is a tenant as one decision sees it.
type view struct {
	t      *model.Tenant
	m      *memo
	p      *Policy // of its first GPU: its order and its limits
	parent *view   // the job that a step of its own belongs to
	seats  []int   // the GPUs that it was given, as numbers in Decider.gpus
	age    int     // its number among the tenants, oldest first

	stand    stand
	counts   bool // takes a turn: counts under share.together
	computes bool // may have work on a GPU that a mate would notice
	child    bool // has a step that is a tenant of its own
	banned   *Guard
	inTurn   bool   // has a turn that has not ended
	picked   bool   // is one of those that are worth most together
	first    bool   // has waited so long that nobody is admitted before it
	last     uint64 // breaks ties of rank: the number of its last turn, or of that of the one it fills in for
	place    int    // breaks ties of that: its age, or that of the one it fills in for
	tier     float64
	rank     float64
	quantum  time.Duration
	share    float64 // of time, 1: all of it
	slow     verdict // why it is less

	group     *view // the first of those that it shares its turns with there, by the plan
	chosen    bool
	deserved  bool  // starved, and its turn anyway
	admitting bool  // its claim is being admitted by this decision
	taken     bool  // a guard acts on it: nothing else is done to it now
	leaving   bool  // its memory goes to host RAM, or is to
	leaveFor  *view // for whom it is to, nil: it is on its way
	nth       int   // its place in the order
	why       verdict

	claim, rest model.Bytes // scratch of the ledger
}

// gpuView is a GPU as one decision sees it.
type gpuView struct {
	uuid string
	gpu  *model.GPU // nil: the driver does not show it
	p    *Policy

	pack   []*view       // all that were given it, oldest first
	chosen []*view       // that compute by this decision
	picks  []*view       // that are worth most together, and those that must compute
	count  int           // of the chosen, those that take a turn
	busy   int           // that take a turn and compute now, or were just let go
	takers int           // that take turns on it
	bears  time.Duration // the shortest pause limit among them; 0: none

	refused *view // the first in the order that was kept from a turn on it
	blocked *view // that nobody may be admitted before
	short   *view // the first in the order that waits for memory

	counted bool // the ledger below is up to date
	free    model.Reading[model.Bytes]
	holders int // admitted tenants, a job and its own steps counting once
}

// stand is where a tenant stands in the order, first to last.
type stand uint8

const (
	fixed   stand = iota // computes, and cannot or must not be stopped
	starved              // was kept waiting longer than its limits allow
	queued               // by tier, turn and rank
	aside                // nothing is decided on it
)

// memo is what the decider remembers of a tenant between decisions. It is
// kept by tenant and dropped with it.
type memo struct {
	view  *view
	round uint64 // the last decision that saw the tenant

	seated  []string      // its GPUs, by the last decision
	granted bool          // it has a turn
	from    time.Duration // since when
	turn    uint64        // of all turns of the node the how manieth
	behind  *memo         // it fills in for this one, which waits for a part of its GPUs
	breath  bool          // it runs because it starved, not because it is its turn
	stay    time.Duration // how long the breath lasts
	starved model.State   // what it was for too long before
	fits    bool          // when last asked only its turn was missing
	contend bool          // it was among those that share the time
	lift    float64       // added to its service: level with its mates when it began to share the time
	stretch time.Duration // since when it runs without a stop
	off     time.Duration // since when it has no process on a GPU
	guards  []episode     // by number of the guard
	slowed  time.Duration // when its share of time was last changed
	demand  float64       // share of time on the multiprocessors while it computes; NaN: not seen yet
	plan    *plan         // of its GPUs, where it is the first on them
	read    time.Duration // the reading of the driver that demand was last learnt from
}

// episode is how long, and with what effect, a guard's condition has held.
type episode struct {
	on     bool
	fired  bool
	target *memo // of a guard that looks at a GPU: whom it acts on
	since  time.Duration
}

// reseat forgets what was of the tenant's GPUs, where these are others now.
func (m *memo) reseat(gpus []string) {
	if m.seated != nil && !slices.Equal(m.seated, gpus) {
		m.granted, m.breath, m.behind, m.guards, m.plan = false, false, nil, m.guards[:0], nil
	}
	m.seated = gpus
}

// service is the tenant's weighted service, level with its mates from when it
// began to share the time.
func (v *view) service() float64 { return v.t.Service + v.m.lift }

// admitted tells whether the tenant's claim on memory stands already. That of
// a swapped one has to be admitted again before it is restored.
func (v *view) admitted() bool {
	return (v.t.Admitted || v.t.HasRun) && v.t.State != model.Swapped
}

// maxPause is the longest pause of the tenant: the policy's, or less where its
// terms say so; 0: no limit.
func (v *view) maxPause() time.Duration { return shorter(v.p.Limits.MaxPause, v.t.Terms.MaxPause) }

// shorter is the lesser of two limits, of which 0 is none.
func shorter(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// waitsSince is when the tenant began to wait for a claim.
func (v *view) waitsSince() time.Duration {
	if v.t.HasRun {
		return v.t.LastRan
	}
	return v.t.Registered
}

// family tells whether one is the job that the other is a step of, or both
// are steps of one job.
func family(a, b *view) bool {
	return a.parent == b || b.parent == a || a.parent != nil && a.parent == b.parent
}
