package node

import (
	"slices"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/proc"
)

// Which of its processes are on a GPU tells of a tenant what its names do not: whoever
// computes is neither a shell nor a program of Slurm's, and is stopped with the rest.

// add notes that a process is on a GPU.
func (s *sharing) add(p owned) {
	if s.onGPU[p.by] == nil {
		s.onGPU[p.by] = map[proc.ID]bool{}
	}
	s.onGPU[p.by][p.id] = true
}

// placeProcesses tells each tenant which of its processes are on a GPU. Where those of
// one could not be read, whoever was on a GPU counts as being there still.
func (s *sharing) placeProcesses() {
	for _, e := range s.entries {
		e.place(s.onGPU[e], s.unread)
	}
}

func (e *entry) place(on map[proc.ID]bool, more bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if more && on == nil {
		return
	}
	for id := range e.onGPU {
		if more {
			on[id] = true
		}
	}
	e.onGPU = on
}

// placed are the tenant's processes that were last seen on a GPU. Nobody may change
// them.
func (e *entry) placed() map[proc.ID]bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.onGPU
}

// stopLate stops a tenant again of which a process computes that its stop left
// running: one that an interactive step's shell has started since, or that reached the
// GPU only then.
func (n *Node) stopLate(e *entry) {
	if e.wants() == "" || !n.anyRuns(e.placed()) {
		return
	}
	n.beside(func() {
		if !e.op.TryLock() {
			return // an operation is under way, and the next look comes
		}
		defer e.op.Unlock()
		kind := e.wants()
		if kind == "" || e.moved != nil || e.grip.foreign || !n.computesLate(e) {
			return
		}
		n.charge(e)
		if err := n.pause(e, kind); err != nil {
			n.push(model.Event{Kind: model.EvContinued, Tenant: e.id, Text: "what reached the GPU could not be stopped: " + err.Error()})
		}
	})
}

func (n *Node) anyRuns(ids map[proc.ID]bool) bool {
	for id := range ids {
		if n.Host.Look(id) == proc.ConditionRunning {
			return true
		}
	}
	return false
}

// computesLate tells whether a process on a GPU runs that a stop would stop, and that
// is none of those that were stopped: whoever continued those is seen elsewhere. What
// is in a frozen cgroup does not run, whatever it looks like. The caller holds e.op.
func (n *Node) computesLate(e *entry) bool {
	if len(e.grip.frozen) > 0 {
		return false
	}
	for id := range e.placed() {
		if n.Host.Look(id) == proc.ConditionRunning && !slices.Contains(e.grip.procs, id) &&
			(!e.reg.Run() || n.Host.OwnedBy(id, e.reg.UID)) {
			return true
		}
	}
	return false
}
