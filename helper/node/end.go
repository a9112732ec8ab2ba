package node

import (
	"time"

	"github.com/gimbal-hpc/gimbal/helper/failpoint"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/proc"
)

// settle ends a tenant of which nothing is left: no process, and no
// slurmstepd that could start one.
func (n *Node) settle(e *entry) {
	roots, stepds := n.book.snapshot(e)
	if n.anyAlive(stepds) || n.anyAlive(n.Tracker.Members(rootIDs(roots)...)) {
		return
	}
	if !n.book.remove(e, len(roots)) {
		return
	}
	for _, r := range roots {
		n.Tracker.Unwatch(r.ID)
	}
	failpoint.At("end.seen")
	n.push(model.Event{Kind: model.EvEnded, Tenant: e.id})
	n.beside(func() { // an operation that is under way writes its stop down first
		e.op.Lock()
		defer e.op.Unlock()
		n.closeLookouts(e)
		if err := n.Stops.Drop(e.id); err != nil {
			n.logf("tenant %s ended, but stays among what is stopped: %v", e.id, err)
		}
		if e.moved = nil; n.Moves == nil {
			return
		}
		if err := n.Moves.Drop(e.id); err != nil {
			n.logf("tenant %s ended, but stays among what is swapped: %v", e.id, err)
		}
	})
}

func (n *Node) anyAlive(ids []proc.ID) bool {
	for _, id := range ids {
		if n.Host.Alive(id) {
			return true
		}
	}
	return false
}

// onExit is told of root processes that have ended.
func (n *Node) onExit(root proc.ID) {
	if e := n.book.ofRoot(root); e != nil {
		n.settle(e)
	}
}

// orphanWindow is how long after a stop of ours what Slurm leaves behind of a
// step is put down to that stop.
const orphanWindow = 15 * time.Second

// endOrphans passes on the end of a job to those of its processes that Slurm
// did not see. Slurm continues a job and then signals it: a script that was
// held just after its exec forks in between, and under proctrack/linuxproc the
// child of a shell that is dead is lost to Slurm. Only what we stopped a short
// while ago is meant: everything else is Slurm's own affair.
func (n *Node) endOrphans(e *entry) {
	roots, stepds := n.book.snapshot(e)
	if len(stepds) > 0 || e.reg.Run() { // what a command leaves behind is its user's
		return
	}
	n.beside(func() {
		e.op.Lock()
		defer e.op.Unlock()
		if e.grip.empty() && (e.loosed == 0 || n.Clock()-e.loosed > orphanWindow) {
			return
		}
		left := n.Tracker.Members(rootIDs(roots)...)
		if len(left) == 0 {
			return
		}
		if err := n.resume(e); err != nil {
			n.logf("tenant %s: continue what its steps left: %v", e.id, err)
		}
		failpoint.At("orphans.continued")
		told, err := n.Host.Terminate(left)
		if err != nil {
			n.logf("tenant %s: end what its steps left: %v", e.id, err)
		}
		if len(told.Sent) > 0 {
			n.logf("tenant %s: its steps have ended; SIGTERM to %d processes that Slurm did not see", e.id, len(told.Sent))
		}
	})
}
