package node

import (
	"maps"
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
	if more {
		maps.Copy(on, e.onGPU)
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
	if e.wants() == "" || !e.op.TryLock() {
		return // in the latter case an operation is under way, and the next look comes
	}
	late := n.computesLate(e)
	e.op.Unlock()
	if !late {
		return
	}
	n.beside(func() {
		if !e.op.TryLock() {
			return
		}
		defer e.op.Unlock()
		if !n.computesLate(e) {
			return
		}
		n.charge(e)
		if err := n.pause(e, e.wants()); err != nil {
			n.push(model.Event{Kind: model.EvContinued, Tenant: e.id, Text: "what reached the GPU could not be stopped: " + err.Error()})
		}
	})
}

// computesLate tells whether a process on a GPU runs that a stop would stop, and that
// is none of those that were stopped: whoever continued those is seen elsewhere. What
// is in a frozen cgroup does not run, whatever it looks like. The caller holds e.op.
func (n *Node) computesLate(e *entry) bool {
	if e.wants() == "" || e.moved != nil || e.grip.foreign || len(e.grip.frozen) > 0 {
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

// takeIn has a process on a GPU belong to the tenant in one of whose steps it was
// started, though it descends from none of the tasks: a task may have children that the
// kernel makes its siblings (CLONE_PARENT). They are slurmstepd's then, of the job's
// user, and no other step's.
func (n *Node) takeIn(s *sharing, pid int) owned {
	if s.stepds == nil {
		s.stepds = n.book.slurmstepds(s.entries)
	}
	id, err := n.Host.Identify(pid)
	if err != nil || len(s.stepds) == 0 {
		return owned{}
	}
	stepd, child, ok := n.Host.Below(id, func(p proc.ID) bool { return s.stepds[p] != nil })
	e := s.stepds[stepd]
	if !ok || !n.Host.OwnedBy(child, e.reg.UID) || n.Holder(child.PID) != "" || n.Tracker.Watch(child, false) != nil {
		return owned{}
	}
	if n.book.addRoot(e, root{ID: child, step: model.NoVal}) {
		n.logf("tenant %s: process %s is of its step and on a GPU, and descends from none of its tasks: it belongs to it", e.id, child)
	}
	n.owner[pid] = owned{e, id}
	return n.owner[pid]
}
