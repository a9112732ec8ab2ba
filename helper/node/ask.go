package node

import (
	"context"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// How Slurm is asked about a tenant that somebody else continued: not at once,
// since it continues a job in the moment in which it begins to end it; not more
// often than so, however often a user continues the own job; and while it does
// not answer only so many times.
const (
	askAfter = time.Second
	askEvery = 5 * time.Second
	askLimit = 15 * time.Second
	askTries = 6
)

// ask asks Slurm whether a tenant that somebody else continued is being ended.
// It runs while it is, and while Slurm does not say; see setBack for one that is
// stopped meanwhile. Where there is no Slurm to ask, the time for which it is left
// alone runs out.
func (n *Node) ask(e *entry) {
	if n.Slurm == nil || e.reg.Run() || e.asking.Add(1) > 1 {
		return
	}
	n.beside(func() {
		wait := askAfter
		if e.asked != 0 {
			wait = max(wait, e.asked+askEvery-n.Clock())
		}
		for unanswered := 0; unanswered < askTries && n.rest(wait) && n.book.find(e.id) == e; wait = askEvery {
			wanted := e.asking.Load()
			ending, err := n.completing(e)
			switch {
			case err != nil:
				unanswered++
				n.mayEnd(e, "Slurm does not say whether it is ending the job")
			case ending:
				unanswered = 0
				n.mayEnd(e, "Slurm is ending the job")
			default:
				e.notEnding.Store(int64(n.Clock()))
				n.push(model.Event{Kind: model.EvAsked, Tenant: e.id})
				if e.asking.CompareAndSwap(wanted, 0) { // else it was continued once more since
					return
				}
			}
		}
		e.asking.Store(0)
	})
}

// mayEnd lets a tenant go on that Slurm is ending, or may be.
func (n *Node) mayEnd(e *entry, why string) {
	e.op.Lock()
	if !e.grip.empty() && e.moved == nil {
		n.letGo(e, continuedByAnother)
	}
	e.op.Unlock()
	n.push(model.Event{Kind: model.EvAsked, Tenant: e.id, Text: why})
}

func (n *Node) completing(e *entry) (bool, error) {
	e.asked = n.Clock()
	ctx, cancel := context.WithTimeout(n.life, askLimit)
	defer cancel()
	return n.Slurm.Completing(ctx, e.reg.JobID)
}

// rest waits; it returns false when the node ends.
func (n *Node) rest(d time.Duration) bool {
	select {
	case <-n.life.Done():
		return false
	case <-time.After(d):
		return true
	}
}
