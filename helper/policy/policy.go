// Package policy is the pure core of Gimbal: it reads a policy's TOML into a
// Policy and decides, from the state of a node and the time, which tenants
// compute. It never touches the clock, the system, the network, random
// numbers or goroutines, so that what wins in the simulator is what runs on
// the node.
//
// # The language
//
// A policy is a TOML file. Keys() lists its keys and Variables() what its
// expressions see; both are the one source of the manual page and of
// `gimbal policies variables`.
//
// Expressions are written in the syntax of github.com/expr-lang/expr, are
// typed and compiled when the file is loaded, and can only compute: no loops,
// ranges, closures, variables of their own, clocks or side effects. They know
// numbers, truth values and text, the operators
//
//   - - * / **   < <= > >= == !=   and or not   ?:   ??
//     in contains startsWith endsWith matches
//
// and the functions that Functions() lists. Times are in seconds, sizes in
// bytes, shares between 0 and 1; the constants second, minute, hour, day, KiB,
// MiB, GiB and TiB give literals their unit. An expression has at most 256
// parts, which bounds what one evaluation costs.
//
// A reading that is missing is unknown, and so is a division by zero and every
// other result that is no finite number. Unknown spreads through arithmetic
// and comparison as null does in SQL; known(x) tells, and x ?? y is y where x
// is unknown. As ?? binds tightest, a / b ?? c is written (a / b) ?? c. At the
// end an unknown tier is 0, an unknown rank is the lowest, and an unknown rule
// (admit, pair, when) does not hold: nobody is packed, and nothing is done to
// anybody, on a reading that is not there.
package policy

import (
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// Policy says which tenants of a GPU compute together, in what order, for how
// long, and what is done when a limit is crossed.
type Policy struct {
	Name      string
	Objective string // what it is good for, in a line
	Origin    string // whose idea it is: paper, year
	Caveat    string // what it cannot do
	File      string // that it was read from
	Share     Share
	Place     Preference
	Cap       Cap
	Limits    Limits
	Guards    []Guard
}

// Share is who computes, and for how long.
type Share struct {
	Together    int           // tenants that compute at once on a GPU; 0: all that fit
	Quantum     time.Duration // how long a choice stands
	Swap        bool          // a tenant whose turn has ended may be swapped out to make room for the next
	Tier        *Number       // nil: 0
	Rank        *Number       // nil: the least weighted service first
	Admit       *Rule         // nil: yes
	Pair        *Rule         // nil: yes
	Value       *Number       // what a tenant's computing is worth; nil: nobody asks
	Plan        bool          // who shares a turn is planned by Value
	Best        bool          // those compute that are worth most together by Value
	AdmitReason string        // what a tenant is told that Admit keeps out
	PairReason  string        // what a tenant is told that Pair keeps from running

	Throttle       *Number       // share of time beside one that was chosen before; nil: all of it
	ThrottleReason string        // what a tenant is told that is throttled
	Period         time.Duration // of a throttle
}

// Preference is which of a node's GPUs a tenant is given, where Gimbal chooses.
type Preference struct {
	Rank *Number // the highest first; nil: what the tenant adds there
}

// Limits bound what the sharing may do to a tenant.
type Limits struct {
	MinRun      time.Duration // not paused so soon after its youngest task was launched
	MaxPause    time.Duration // longest pause while its mates can be paused; 0: none
	MaxHold     time.Duration // after which a held tenant that fits goes before any turn; 0: none
	MaxSwap     time.Duration // the same for a swapped tenant; 0: none
	Patience    time.Duration // waiting after which nobody is admitted before it; 0: none
	MaxPassed   int           // later ones admitted before it, after which nobody is; 0: none
	LaunchGrace time.Duration // in which a tenant that was let go may reach its GPU
	Breath      time.Duration // how long a tenant runs at least that was paused for MaxPause
	GPUMemory   model.Bytes   // a GPU's memory where the driver does not tell it; 0: unknown
}

// Scope is what a guard looks at.
type Scope string

// The scopes of a guard.
const (
	ScopeTenant Scope = "tenant" // each tenant, on each of its GPUs
	ScopeGPU    Scope = "gpu"    // each GPU
)

// Who names the tenant that a guard acts on.
type Who string

// Whom a guard can act on.
const (
	Offender   Who = "offender"    // the tenant that it looked at
	LowestRank Who = "lowest rank" // the admitted one of the lowest tier, and rank in it, on that GPU
)

// Guard is what is done when a limit is crossed.
type Guard struct {
	Name  string
	Scope Scope
	When  *Rule
	For   time.Duration     // how long the limit has to be crossed
	Do    []model.Primitive // the first that is possible
	Who   Who
	Say   string  // what the tenant is told
	Share float64 // of time, of one that is throttled
}

// Set is the policies of a node. A GPU has one policy at a time.
type Set struct {
	Default *Policy            // never nil
	ByGPU   map[string]*Policy // by UUID
	ByName  map[string]*Policy // that a GPU's tenants may ask for together
}

// For returns the policy of a GPU.
func (s *Set) For(uuid string) *Policy {
	if p, ok := s.ByGPU[uuid]; ok && p != nil {
		return p
	}
	return s.Default
}
