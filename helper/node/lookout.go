package node

import (
	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/proc"
)

// maxLookouts bounds how many processes are looked at through files that are
// kept open, two for each.
const maxLookouts = 256

// lookout is the tenant's for a root process, nil if there may be no more of
// them; gone says that the process was found to have ended before. The caller
// holds e.op.
func (n *Node) lookout(e *entry, id proc.ID) (l *proc.Lookout, gone bool) {
	l, known := e.lookouts[id]
	if known || e.ended || n.lookouts.Load() >= maxLookouts {
		return l, known && l == nil
	}
	if e.lookouts == nil {
		e.lookouts = map[proc.ID]*proc.Lookout{}
	}
	n.lookouts.Add(1)
	l = n.Host.NewLookout(id)
	e.lookouts[id] = l
	return l, false
}

// closeLookout gives up the lookout for a process that has ended.
func (n *Node) closeLookout(e *entry, id proc.ID) {
	if l := e.lookouts[id]; l != nil {
		l.Close()
		e.lookouts[id] = nil
		n.lookouts.Add(-1)
	}
}

// closeLookouts gives up all files that are kept open of a tenant that has ended.
func (n *Node) closeLookouts(e *entry) {
	e.ended = true
	n.closeVigil(e)
	for id := range e.lookouts {
		n.closeLookout(e, id)
	}
}

// foreignStop says how somebody else has stopped a root process of a tenant, ""
// if nobody has. Most often the two reads of a lookout tell. The caller holds
// e.op.
func (n *Node) foreignStop(e *entry, id proc.ID) string {
	l, gone := n.lookout(e, id)
	switch {
	case gone:
		return "gone"
	case l != nil && l.Quiet():
		return ""
	}
	how := n.inspectStop(id)
	if how == "gone" {
		n.closeLookout(e, id)
	}
	return how
}

// inspectStop is foreignStop by all that can be known.
func (n *Node) inspectStop(id proc.ID) string {
	c, f := n.Host.Inspect(id)
	switch {
	case c == proc.ConditionGone:
		return "gone"
	case c == proc.ConditionForeign && (f.Pending.Has(unix.SIGTSTP) || f.StopSignal == unix.SIGTSTP):
		return "slurm"
	case c == proc.ConditionForeign || c == proc.ConditionStopped:
		return "external"
	}
	dir, err := n.Host.FreezerOf(id)
	if err != nil {
		return ""
	}
	if s, err := n.Host.FreezerState(dir); err == nil && (s.Self || s.Parent) && s.Frozen {
		return "frozen"
	}
	return ""
}
