// Package engine turns samples into actions. One goroutine owns a node's
// state; everything that touches the world lies behind three interfaces, so
// that gimbald, gimbal run and gimbal simulate run the same engine.
package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// Source tells what is new. Sample must not block: what takes long is read
// elsewhere and handed over when it is there.
type Source interface {
	Sample(now time.Duration) model.Sample
}

// Actuator carries out actions. Do only starts an action; how it ended comes
// back as an EvDone or EvFailed event in a later sample. The tenant is as it
// was when the action was chosen and may be read until Do returns.
type Actuator interface {
	Do(a model.Action, t *model.Tenant)
}

// Journal keeps what happened and what was decided, in order.
type Journal interface {
	Append(r model.Record) error
}

// Learner is shown the node in each turn, before anything is decided.
type Learner interface {
	Observe(n *model.Node, now time.Duration, wall time.Time)
}

// Decider chooses actions. It never changes the node. next is when it wants
// to be asked again at the latest, zero for "only when something happens".
type Decider interface {
	Decide(n *model.Node, now time.Duration) (actions []model.Action, next time.Duration)
}

// OpTimeout is after how long an operation without an outcome counts as
// failed. Actuators bound their own work far below this: it is the net under
// an actuator that hangs.
const OpTimeout = 30 * time.Second

// LongTimeout is OpTimeout for what takes its time: memory that moves, and a
// tenant that is being ended kindly.
const LongTimeout = 11 * time.Minute

// timeout is how long an operation may take that has put a tenant into a state.
func timeout(s model.State) time.Duration {
	switch s {
	case model.Swapping, model.Restoring, model.Evicting:
		return LongTimeout
	}
	return OpTimeout
}

// Engine holds one node. It is not safe for concurrent use.
type Engine struct {
	Node    *model.Node
	source  Source
	act     Actuator
	journal Journal
	decider Decider
	wall    func() time.Time
	lastID  uint64
	owed    map[model.TenantID]debt
	beats   map[model.TenantID]*beat
	smooth  bool
	news    bool          // something changed since the decider was asked
	due     time.Duration // when the decider wants to be asked again, 0 never
	report  func(error)
	gauge   *gauge  // nil: nobody wants to know
	learner Learner // nil: nobody learns
}

// Parts are what an engine is made of.
type Parts struct {
	Source   Source
	Actuator Actuator
	Journal  Journal
	Decider  Decider
	Wall     func() time.Time // the wall clock, for records only
	FirstID  uint64           // action ids start above it; a restarted daemon never uses one again
	Report   func(error)      // told of what went wrong inside a step; may be nil
	Learner  Learner          // nil: nobody learns
	Meter    Meter            // keeps what GPUs and tenants took; nil: nobody does
	Smooth   bool             // a throttle is the actuator's own affair: nothing is stopped within its periods
}

// New makes an engine over a node's state.
func New(node *model.Node, p Parts) *Engine {
	if p.Report == nil {
		p.Report = func(error) {}
	}
	e := &Engine{Node: node, source: p.Source, act: p.Actuator, journal: p.Journal,
		decider: p.Decider, wall: p.Wall, lastID: p.FirstID, report: p.Report,
		smooth: p.Smooth, owed: map[model.TenantID]debt{}, beats: map[model.TenantID]*beat{},
		learner: p.Learner}
	if p.Meter != nil {
		e.gauge = newGauge(p.Meter)
	}
	return e
}

// Step does one turn: take in what is new, decide, write down, act. It returns
// when it wants to run again at the latest; something new may call it sooner.
func (e *Engine) Step(now time.Duration) (next time.Duration) {
	e.Node.Advance(now)
	now = e.Node.Now()
	s := e.source.Sample(now)
	e.look(s, now)
	e.news = e.news || s.GPUs != nil || s.Tenants != nil
	for _, ev := range s.Events {
		if !e.beaten(ev, now) {
			e.take(ev, now)
		}
	}
	if e.learner != nil {
		e.learner.Observe(e.Node, now, e.wall())
	}
	next = earlier(e.expire(now), e.payDebts(now))
	e.decide(now)
	return earlier(earlier(next, e.beat(now)), e.due)
}

// decide asks the decider, unless this turn is nothing but the edge of a
// throttle's period, and starts what it chose.
func (e *Engine) decide(now time.Duration) {
	if len(e.beats) > 0 && !e.news && (e.due == 0 || now < e.due) {
		return
	}
	e.news = false
	var actions []model.Action
	actions, e.due = e.decider.Decide(e.Node, now)
	for _, a := range actions {
		if err := e.start(a, now); err != nil {
			e.report(err)
		}
	}
}

// look takes readings in, and adds up those that they replace.
func (e *Engine) look(s model.Sample, now time.Duration) {
	if e.gauge == nil || s.GPUs == nil {
		e.Node.Look(s, now)
		return
	}
	e.gauge.add(e.Node, now)
	if err := e.gauge.tell(e.Node, now, e.wall); err != nil {
		e.report(fmt.Errorf("keep what the GPUs took: %w", err))
	}
	e.gauge.blind = s.GPUs.Fault != ""
	e.Node.Look(s, now)
}

// earlier is the sooner of two times, where zero means never.
func earlier(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// take applies one event and writes it down with what became of the tenant.
func (e *Engine) take(ev model.Event, now time.Duration) {
	e.news = true
	if e.late(ev, now) {
		return
	}
	e.settleDebt(ev, now)
	ev = e.overdue(ev)
	stuck, spared := e.fails(ev, model.Resuming), e.fails(ev, model.Evicting)
	t, err := e.Node.Apply(ev, now)
	if err != nil {
		e.report(fmt.Errorf("apply event %s: %w", ev.Kind, err))
	}
	if stuck {
		e.owed[t.ID] = debt{at: t.Retry + retryOwn, tries: t.Failures, resume: true}
	}
	if spared { // it may have been stopped before, and counts as running
		e.undo(t, now)
	}
	if err := e.append(model.Record{At: now, Event: &ev, Tenant: t}); err != nil {
		e.report(err)
	}
}

// late tells whether the event is the success of a stop that was given up
// before it came. What was stopped is then continued at once: nothing may
// stay stopped that counts as running. A stop that was begun since governs
// what becomes of the tenant, and is not to be undone by this.
func (e *Engine) late(ev model.Event, now time.Duration) bool {
	if ev.Kind != model.EvDone || !stops(ev.Do) {
		return false
	}
	t := e.Node.Tenant(ev.Tenant)
	if t == nil || t.Action == ev.Action || !t.State.Computes() {
		return false
	}
	if !stopping(t.State) {
		e.undo(t, now)
	}
	return true
}

// overdue makes the success of a resume that was given up before it came what
// it is by then: somebody continued what counts as stopped, or is being resumed
// once more. Outcomes come in the order in which the operations had their
// effect.
func (e *Engine) overdue(ev model.Event) model.Event {
	if ev.Kind != model.EvDone || ev.Do != model.PrimResume && ev.Do != model.PrimRestore {
		return ev
	}
	t := e.Node.Tenant(ev.Tenant)
	if t == nil || t.Action == ev.Action || !t.State.Stopped() && t.State != model.Resuming && t.State != model.Restoring {
		return ev
	}
	ev.Kind, ev.Text = model.EvContinued, "resumed, after that had been given up"
	return ev
}

// retryOwn is how long the policy has to ask again itself for a resume that
// failed.
const retryOwn = time.Second

// fails tells whether the event is the failure of what is under way in a state.
// Whether a resume or an eviction that failed had continued the tenant, all of
// it or some, is not known.
func (e *Engine) fails(ev model.Event, in model.State) bool {
	t := e.Node.Tenant(ev.Tenant)
	return ev.Kind == model.EvFailed && t != nil && t.State == in && t.Action == ev.Action
}

// stopping tells whether a stop is under way.
func stopping(s model.State) bool {
	return s == model.Holding || s == model.Pausing || s == model.Swapping
}

// expire fails what has had no outcome for too long, and says when to look
// again.
func (e *Engine) expire(now time.Duration) (next time.Duration) {
	for _, t := range e.Node.Tenants {
		if !t.State.Transient() || t.Action == 0 {
			continue
		}
		due := t.Since + timeout(t.State)
		if now < due {
			next = earlier(next, due)
			continue
		}
		stop := stopping(t.State)
		e.take(model.Event{Kind: model.EvFailed, At: now, Tenant: t.ID, Action: t.Action,
			Text: fmt.Sprintf("%s: no outcome within %s", t.State, timeout(t.State))}, now)
		if stop {
			e.undo(t, now)
		}
	}
	return next
}

// start writes an action down, enters the state it leads to and hands it over.
// An action that stops something is not started where it cannot be written
// down: after a crash nobody would know of it.
func (e *Engine) start(a model.Action, now time.Duration) error {
	t := e.Node.Tenant(a.Tenant)
	if t == nil {
		return fmt.Errorf("%s of tenant %s: there is no such tenant", a.Do, a.Tenant)
	}
	trig, moves := a.Do.Trigger()
	if moves {
		if _, ok := model.Next(t.State, trig); !ok {
			return fmt.Errorf("%s of tenant %s: not in the lifecycle while it is %s", a.Do, a.Tenant, t.State)
		}
	}
	e.lastID++
	a.ID = e.lastID
	switch {
	case a.Do == model.PrimThrottle:
		return e.throttle(a, t, now)
	case a.Do == model.PrimResume && e.runsNow(t):
		return e.unthrottle(a, t, now)
	}
	if stops(a.Do) {
		if err := e.append(model.Record{At: now, Action: &a}); err != nil {
			t.Retry = now + time.Second
			return fmt.Errorf("%s of tenant %s not done, since it could not be written down: %w", a.Do, a.Tenant, err)
		}
	}
	if moves {
		if err := e.Node.Fire(t, trig, a.Why, now); err != nil {
			return err
		}
		if t.State.Transient() {
			t.Action = a.ID
		}
	}
	e.act.Do(a, t)
	if stops(a.Do) {
		return nil
	}
	return e.append(model.Record{At: now, Action: &a, Tenant: t})
}

// Act carries out an action that no policy chose: a person's order.
func (e *Engine) Act(a model.Action, now time.Duration) error {
	e.Node.Advance(now)
	e.news = true
	return e.start(a, e.Node.Now())
}

func stops(p model.Primitive) bool {
	switch p {
	case model.PrimHold, model.PrimThrottle, model.PrimPause, model.PrimSwap, model.PrimEvict:
		return true
	}
	return false
}

// ErrJournal marks a failure of the journal.
var ErrJournal = errors.New("journal")

func (e *Engine) append(r model.Record) error {
	r.Wall = e.wall()
	if err := e.journal.Append(r); err != nil {
		return fmt.Errorf("%w: %w", ErrJournal, err)
	}
	return nil
}
