package policy

import (
	"slices"
	"strings"
)

// scope is where an expression stands, which says what it sees.
type scope string

const (
	inOrder  scope = "share.tier and share.rank"
	inAdmit  scope = "share.admit"
	inPlace  scope = "place.rank"
	inCap    scope = "cap"
	inPair   scope = "share.pair and share.throttle"
	inValue  scope = "share.value"
	inGuard  scope = "a guard of tenants"
	inDevice scope = "a guard of GPUs"
)

// visible are the groups of variables that each place sees.
var visible = map[scope][]string{
	inOrder:  {"tenant", "pack", "user", "now"},
	inAdmit:  {"tenant", "gpu", "pack", "user", "now"},
	inPlace:  {"tenant", "gpu", "pack", "user", "place", "now"},
	inCap:    {"tenant", "pack", "user", "now"},
	inPair:   {"tenant", "mate", "speed", "gpu", "pack", "user", "now"},
	inValue:  {"tenant", "gpu", "pack", "user", "now"},
	inGuard:  {"tenant", "gpu", "pack", "user", "now"},
	inDevice: {"gpu", "pack", "now"},
}

// onlyTogether are the variables of a tenant among others that compute, and
// onlyInValue those that need the order of the tenants.
var (
	onlyTogether = []string{"tenant.speed", "mate.speed", "tenant.speed_guess", "mate.speed_guess"}
	onlyInValue  = []string{"tenant.behind", "mate.behind"}
)

func (s scope) sees(name string) bool {
	if s != inPair && s != inValue && slices.Contains(onlyTogether, name) {
		return false
	}
	if s != inValue && slices.Contains(onlyInValue, name) {
		return false
	}
	group, _, _ := strings.Cut(name, ".")
	return slices.Contains(visible[s], group)
}

func (s scope) groups() string { return strings.Join(visible[s], ", ") }

// names are all that an expression here can use.
func (s scope) names() []string {
	var all []string
	for name := range accessors {
		if s.sees(name) {
			all = append(all, name)
		}
	}
	for name := range constants {
		all = append(all, name)
	}
	return all
}

func isMate(name string) bool { return strings.HasPrefix(name, "mate.") }

// tables are the groups of variables, in the order in which they are shown.
var tables = [][]accessor{ofTenant, ofGPU, ofPack, ofUser, ofPair, ofPlace, ofNode}

// accessors finds a variable by name; mate has those of tenant.
var accessors = byName(tables)

func byName(tables [][]accessor) map[string]accessor {
	all := map[string]accessor{}
	for _, table := range tables {
		for _, a := range table {
			all[a.Name] = a
			if rest, ok := strings.CutPrefix(a.Name, "tenant."); ok {
				a.Name = "mate." + rest
				all[a.Name] = a
			}
		}
	}
	return all
}

// Variables lists what expressions can use, in the order in which it is shown.
// Each tenant.NAME is there as mate.NAME too, in share.pair, share.value and
// share.throttle.
func Variables() []Variable {
	var all []Variable
	for _, table := range tables {
		for _, a := range table {
			all = append(all, a.Variable)
		}
	}
	return all
}

// Place is a key that holds an expression, with the groups that it sees.
type Place struct {
	Key    string
	Groups []string
}

// Places lists where expressions stand and what each sees.
func Places() []Place {
	return []Place{
		{"share.tier", visible[inOrder]}, {"share.rank", visible[inOrder]},
		{"share.admit", visible[inAdmit]}, {"share.pair", visible[inPair]}, {"share.value", visible[inValue]},
		{"share.throttle", visible[inPair]},
		{"place.rank", visible[inPlace]},
		{"cap.sm", visible[inCap]}, {"cap.priority", visible[inCap]}, {"cap.memory", visible[inCap]},
		{`guard.when, scope = "tenant"`, visible[inGuard]},
		{`guard.when, scope = "gpu"`, visible[inDevice]},
	}
}
