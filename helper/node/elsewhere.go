package node

import (
	"maps"
	"slices"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// elsewhereFor is for how many looks in a row a tenant computes on other GPUs than
// it was given, and on none of those, until it takes its turns there.
const elsewhereFor = 5

// findElsewhere has tenants take their turns where they compute. By which numbers a
// job was given GPUs, and what CUDA makes of them, may differ: by
// CUDA_DEVICE_ORDER, or by what the job itself writes into CUDA_VISIBLE_DEVICES.
// Where the processes on one of a tenant's GPUs are not known nothing is
// concluded.
func (n *Node) findElsewhere(s *sharing) {
	for i, e := range s.entries {
		given := e.gpus()
		at, known := elsewhere(given, s.samples[i].Use)
		switch {
		case !known:
			continue
		case !slices.Equal(at, e.at):
			e.at, e.atFor = at, 0
		}
		if e.atFor++; len(at) == 0 || len(at) != len(given) || e.atFor < elsewhereFor {
			continue
		}
		n.moveTo(e, at)
	}
}

// elsewhere lists the GPUs on which a tenant has processes, nil where it has one on
// a GPU that it was given.
func elsewhere(given []string, use map[string]model.Usage) (at []string, known bool) {
	for _, uuid := range given {
		u, ok := use[uuid]
		if !ok {
			return nil, false
		}
		if u.Procs > 0 {
			return nil, true
		}
	}
	for _, uuid := range slices.Sorted(maps.Keys(use)) {
		if use[uuid].Procs > 0 {
			at = append(at, uuid)
		}
	}
	return at, true
}

func (n *Node) moveTo(e *entry, gpus []string) {
	g := e.moveTo(gpus)
	if n.Policy != nil {
		g.Policy = n.Policy(gpus[0])
	}
	n.logf("tenant %s computes on other GPUs than it was given: it takes its turns on %v", e.id, gpus)
	n.push(model.Event{Kind: model.EvMoved, Tenant: e.id, Grant: &g})
}

// gpus are those on which the tenant takes its turns.
func (e *entry) gpus() []string { return e.granted().GPUs }

// granted is what the tenant was given, with its GPUs of now.
func (e *entry) granted() model.Grant {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.grant
}

func (e *entry) moveTo(gpus []string) model.Grant {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.grant.GPUs = gpus
	return e.grant
}
