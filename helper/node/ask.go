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
// It is left alone while it is; a user who continues the own job gains nothing.
// Where there is no Slurm to ask, the time for which it is left alone runs out.
func (n *Node) ask(e *entry) {
	if n.Slurm == nil || e.reg.Run() || !e.asking.CompareAndSwap(false, true) {
		return
	}
	n.beside(func() {
		defer e.asking.Store(false)
		wait := askAfter
		if e.asked != 0 {
			wait = max(wait, e.asked+askEvery-n.Clock())
		}
		for unanswered := 0; unanswered < askTries && n.rest(wait) && n.book.find(e.id) == e; wait = askEvery {
			ending, err := n.completing(e)
			switch {
			case err != nil:
				unanswered++
				n.push(model.Event{Kind: model.EvAsked, Tenant: e.id, Text: "Slurm does not say whether it is ending the job"})
			case !ending:
				n.push(model.Event{Kind: model.EvAsked, Tenant: e.id})
				return
			default:
				unanswered = 0
				n.push(model.Event{Kind: model.EvAsked, Tenant: e.id, Text: "Slurm is ending the job"})
			}
		}
	})
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
