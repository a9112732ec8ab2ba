package engine

import (
	"fmt"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// beat is where a throttled tenant stands in its period. Its running time is
// kept as a credit that grows by its share of the time and is spent by running:
// so a stop that comes late is made up for in the next period, and the share
// holds over any number of them (a token bucket, Turner 1986).
type beat struct {
	off    bool          // stopped for the rest of the period
	action uint64        // the stop or the continuation under way, 0 none
	asked  time.Duration // when that was asked for
	at     time.Duration // up to when the credit is reckoned
	credit time.Duration // running time that it is owed
}

// throttle puts a share of time on a tenant, or changes it. This is the one
// record that the journal gets of it: the stops within the periods have none of
// their own. Where it cannot be written the tenant is left as it was.
func (e *Engine) throttle(a model.Action, t *model.Tenant, now time.Duration) error {
	if !a.Throttle.Valid() {
		return fmt.Errorf("throttle tenant %s: a share of %g of each %s is none", t.ID, a.Throttle.Share, a.Throttle.Period)
	}
	before, state := t.Throttle, t.State
	if err := e.Node.Fire(t, model.DoThrottle, a.Why, now); err != nil {
		return err
	}
	t.Throttle = a.Throttle
	if err := e.append(model.Record{At: now, Action: &a, Tenant: t}); err != nil {
		t.Throttle, t.Retry = before, now+time.Second
		if state != model.Throttled {
			_ = e.Node.Fire(t, model.OpFailed, model.Reason{}, now) // a cell of the table
		}
		return fmt.Errorf("throttle of tenant %s not done, since it could not be written down: %w", a.Tenant, err)
	}
	if state != model.Throttled {
		e.firstBeat(t, now)
	}
	e.act.Do(a, t)
	return nil
}

// firstBeat begins a throttle with the running part of a period. An operation
// of an earlier throttle that has had no outcome yet is still awaited.
func (e *Engine) firstBeat(t *model.Tenant, now time.Duration) {
	b := beat{at: now, credit: rests(t.Throttle)}
	if old := e.beats[t.ID]; old != nil {
		b.action, b.asked = old.action, old.asked
	}
	e.beats[t.ID] = &b
}

// runsNow tells whether a throttled tenant is in the running part of its period:
// nothing of it is stopped, nor being stopped.
func (e *Engine) runsNow(t *model.Tenant) bool {
	b := e.beats[t.ID]
	return t.State == model.Throttled && b != nil && !b.off && b.action == 0
}

// unthrottle takes the throttle off a tenant that runs anyway: there is nothing
// to be done to its processes.
func (e *Engine) unthrottle(a model.Action, t *model.Tenant, now time.Duration) error {
	for _, trig := range []model.Trigger{model.DoResume, model.OpDone} {
		if err := e.Node.Fire(t, trig, a.Why, now); err != nil {
			return err
		}
	}
	delete(e.beats, t.ID)
	return e.append(model.Record{At: now, Action: &a, Tenant: t})
}

// rests is the credit with which a tenant begins to run, so that running it down
// and gathering it again takes a period.
func rests(th model.Throttle) time.Duration {
	return time.Duration(th.Share * (1 - th.Share) * float64(th.Period))
}

// beat stops and continues the throttled tenants at the edges of their periods,
// and says when the next edge comes.
func (e *Engine) beat(now time.Duration) (next time.Duration) {
	if e.smooth || len(e.beats) == 0 {
		return 0
	}
	for _, t := range e.Node.Tenants {
		b := e.beats[t.ID]
		switch {
		case b == nil:
		case b.action != 0:
			next = earlier(next, e.awaitBeat(t, b, now))
		case t.State != model.Throttled:
			delete(e.beats, t.ID)
		case t.Suspended == "": // else another's stop is in force
			next = earlier(next, e.turnBeat(t, b, now))
		}
	}
	return next
}

// turnBeat stops or continues a tenant if its time has come, and says when it
// will.
func (e *Engine) turnBeat(t *model.Tenant, b *beat, now time.Duration) time.Duration {
	b.reckon(t.Throttle, now)
	if wait := b.wait(t.Throttle); wait > 0 {
		return now + wait
	}
	a := model.Action{Do: model.PrimPause, Tenant: t.ID, Why: t.Reason, Beat: true}
	if b.off {
		a.Do = model.PrimResume
	}
	e.lastID++
	a.ID = e.lastID
	b.action, b.asked = a.ID, now
	e.act.Do(a, t)
	return now + OpTimeout
}

// awaitBeat fails a stop or a continuation that has had no outcome for too long.
func (e *Engine) awaitBeat(t *model.Tenant, b *beat, now time.Duration) time.Duration {
	if due := b.asked + OpTimeout; now < due {
		return due
	}
	throttled, stop := t.State == model.Throttled, !b.off
	e.beaten(model.Event{Kind: model.EvFailed, At: now, Tenant: t.ID, Action: b.action,
		Text: fmt.Sprintf("%s: no outcome within %s", t.State, OpTimeout)}, now)
	if throttled && stop {
		e.undo(t, now)
	}
	return now + time.Millisecond // the decider is to hear of it
}

// beaten takes in the outcome of a stop or a continuation within a period, of
// which the journal hears only where it failed. It returns false for every
// other event.
func (e *Engine) beaten(ev model.Event, now time.Duration) bool {
	b := e.beats[ev.Tenant]
	outcome := ev.Kind == model.EvDone || ev.Kind == model.EvFailed
	if b == nil || !outcome || b.action == 0 || ev.Action < b.action {
		return false
	}
	overtaken := ev.Action > b.action // outcomes come in order: that of the beat is lost
	b.action = 0
	if overtaken {
		return false
	}
	t := e.Node.Tenant(ev.Tenant)
	switch {
	case t == nil:
		delete(e.beats, ev.Tenant)
	case t.State != model.Throttled: // a later operation governs; only a stop may be left over
		e.late(ev, now)
	case ev.Kind == model.EvDone:
		b.reckon(t.Throttle, min(max(ev.At, b.at), now))
		b.off = !b.off
	default:
		e.failBeat(t, b, ev, now)
	}
	return true
}

// failBeat ends a throttle whose stop or continuation failed: a stop was rolled
// back; what could not be continued is paused, by another's stop beside ours.
func (e *Engine) failBeat(t *model.Tenant, b *beat, ev model.Event, now time.Duration) {
	delete(e.beats, t.ID)
	if b.off {
		_ = e.Node.Fire(t, model.DoResume, model.Reason{}, now) // a cell of the table
	}
	t.Action = ev.Action
	e.take(ev, now)
}

// reckon brings the credit up to a moment. It is bounded, so that no stop lasts
// longer than two periods and no run twice its share of one.
func (b *beat) reckon(th model.Throttle, now time.Duration) {
	d := max(now-b.at, 0)
	b.at += d
	b.credit += time.Duration(th.Share * float64(d))
	if !b.off {
		b.credit -= d
	}
	full := rests(th)
	b.credit = min(max(b.credit, full-2*time.Duration(th.Share*float64(th.Period))), 2*full)
}

// wait is the time until the next edge: when the credit is spent, or gathered.
func (b *beat) wait(th model.Throttle) time.Duration {
	if b.off {
		return time.Duration(float64(rests(th)-b.credit) / th.Share)
	}
	return time.Duration(float64(b.credit) / (1 - th.Share))
}
