package node

import (
	"fmt"
	"slices"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/proc"
)

// A command that gimbal run started differs from a job of Slurm's in what may
// be done to it: nobody but its user is behind it, and he may have a tree in
// which processes of others run (sudo). It is stopped by signals, to processes
// that he may signal himself.

// Holder names the tenant in whose tree a process is, "" if it is in none.
func (n *Node) Holder(pid int) string {
	root, _, ok := n.Tracker.Owner(pid)
	if !ok {
		return ""
	}
	if e := n.book.ofRoot(root); e != nil {
		return e.reg.JobLabel()
	}
	return ""
}

// Runs counts the live commands of a user, and tells whether the job id is one
// of a live command of anybody.
func (n *Node) Runs(uid, job uint32) (count int, taken bool) {
	for _, e := range n.book.all(nil) {
		if e.reg.Run() {
			if e.reg.UID == uid {
				count++
			}
			taken = taken || e.reg.JobID == job
		}
	}
	return count, taken
}

// Count counts the live tenants.
func (n *Node) Count() int { return len(n.book.all(nil)) }

// RunOf returns the registration of a live command; ok is false where there is
// none of that job id.
func (n *Node) RunOf(job uint32) (reg model.Registration, ok bool) {
	e := n.book.ofStep(model.StepKey{JobID: job})
	if e == nil || !e.reg.Run() {
		return reg, false
	}
	return e.reg, true
}

// RunBy returns the registration of a live command that a process has started; ok is
// false where that one has not told of it.
func (n *Node) RunBy(command, by model.ProcID) (reg model.Registration, ok bool) {
	e := n.book.ofRoot(proc.ID(command))
	if e == nil || !e.reg.Run() || e.reg.Stepd != by {
		return reg, false
	}
	return e.reg, true
}

// RunSeen looks at once at a command that somebody stopped or continued: its
// shell, by ^Z or fg.
func (n *Node) RunSeen(job uint32) {
	e := n.book.ofStep(model.StepKey{JobID: job})
	if e == nil {
		return
	}
	e.op.Lock()
	if n.astray(e) && slices.ContainsFunc(e.grip.procs, n.goesOn) && !n.setBack(e) {
		n.letGo(e, continuedByAnother)
	}
	e.op.Unlock()
	n.lookForeign(e)
}

// suspender is who stops a tenant by SIGTSTP: Slurm, or a terminal's ^Z.
func (e *entry) suspender() string {
	if e.reg.Run() {
		return "external"
	}
	return "slurm"
}

// theirs keeps of a command's processes those that its user may signal.
func (n *Node) theirs(e *entry, ids []proc.ID) []proc.ID {
	if !e.reg.Run() {
		return ids
	}
	return slices.DeleteFunc(ids, func(id proc.ID) bool { return !n.Host.OwnedBy(id, e.reg.UID) })
}

// endRun ends a command: there is nobody who could requeue it.
func (n *Node) endRun(e *entry) error {
	roots, _ := n.book.snapshot(e)
	told, err := n.Host.Terminate(n.theirs(e, n.Tracker.Members(rootIDs(roots)...)))
	n.logf("tenant %s: evicted, SIGTERM to %d processes", e.id, len(told.Sent))
	if err != nil {
		return fmt.Errorf("evict: %w", err)
	}
	return nil
}
