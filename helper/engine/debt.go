package engine

import (
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// debt is a stop that was given up and is to be undone, or a resume that
// failed: nobody knows what of the tenant runs. Either way it is to run, which
// is asked for until it is seen.
type debt struct {
	action uint64        // that continues it, 0 where none was begun yet
	asked  time.Duration // when that was begun
	at     time.Duration // when it is asked for again
	tries  int
	resume bool // a resume failed: the tenant counts as stopped
}

// moot tells whether a tenant is owed nothing any more: it was stopped anew, or it
// runs.
func (d debt) moot(t *model.Tenant) bool {
	if d.resume {
		return !t.State.Stopped() && t.State != model.Resuming
	}
	return !t.State.Computes() || stopping(t.State)
}

// waits tells whether a tenant is not to be continued for now: the policy's own try
// is under way, or somebody else wants it stopped. After that it is.
func (d debt) waits(t *model.Tenant) bool {
	return d.resume && (t.State == model.Resuming || t.Suspended != "")
}

// undo continues a tenant that counts as running, or that a resume has failed to
// continue.
func (e *Engine) undo(t *model.Tenant, now time.Duration) {
	e.lastID++
	d := e.owed[t.ID]
	e.owed[t.ID] = debt{action: e.lastID, asked: now, at: now + OpTimeout, tries: d.tries + 1, resume: d.resume}
	why := model.Reason{Code: "rollback", Text: "the stop was given up"}
	if d.resume {
		why.Text = "a resume failed: what of it runs is not known"
	}
	e.act.Do(model.Action{ID: e.lastID, Do: model.PrimResume, Tenant: t.ID, Why: why}, t)
}

// settleDebt takes in how an undoing ended.
func (e *Engine) settleDebt(ev model.Event, now time.Duration) {
	d, ok := e.owed[ev.Tenant]
	switch {
	case !ok:
	case ev.Kind == model.EvEnded || ev.Kind == model.EvContinued:
		delete(e.owed, ev.Tenant)
	case d.action == 0 || ev.Action != d.action:
	case ev.Kind == model.EvFailed:
		d.at = max(d.asked+min(time.Second<<min(d.tries-1, 6), time.Minute), now+retryOwn)
		e.owed[ev.Tenant] = d
	case ev.Kind == model.EvDone:
		delete(e.owed, ev.Tenant)
	}
}

// payDebts asks again for what has not been undone, and says when to look
// again.
func (e *Engine) payDebts(now time.Duration) (next time.Duration) {
	if len(e.owed) == 0 {
		return 0
	}
	for _, t := range e.Node.Tenants {
		d, ok := e.owed[t.ID]
		switch {
		case !ok:
			continue
		case d.moot(t):
			delete(e.owed, t.ID)
			continue
		case d.waits(t):
			continue
		case now >= d.at:
			e.undo(t, now)
		}
		next = earlier(next, e.owed[t.ID].at)
	}
	return next
}
