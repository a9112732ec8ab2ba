package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/gimbal-hpc/gimbal/helper/engine"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/policy"
)

// life is a node in virtual time: the truth about processes, GPUs and the
// disk, with the engine, the real decider and a shipped policy on top. It
// holds, after every turn, what must always hold.
type life struct {
	rt     *rapid.T
	p      *policy.Policy
	swap   bool
	now    time.Duration // of the world
	skew   time.Duration // of the clock that the engine is shown
	calm   bool          // nothing fails any more
	calmed time.Duration // since when
	broken bool          // the journal cannot be written

	engine  *engine.Engine
	decider *policy.Decider
	next    time.Duration // when the engine wants its turn, on its own clock
	events  []model.Event
	ticked  time.Duration
	records []model.Record
	lastID  uint64
	jobs    []*job
	excused map[model.TenantID]time.Duration
	log     []string
}

// job is the truth about one tenant's processes.
type job struct {
	id      model.TenantID
	parent  model.TenantID
	gpus    []string
	memory  model.Bytes // it uses once it computes
	reg     model.Event
	taken   bool // the engine has seen its registration
	alive   bool
	started bool
	stopped bool          // by us
	beat    time.Duration // when it was last stopped for the rest of a throttle's period
	held    bool          // stopped before its first run
	swapped bool
	asked   time.Duration // when it was last to be continued
	told    time.Duration // when it was last told that this could not be done
	lost    bool          // it was continued, and nobody was told
	foreign bool          // somebody else wants it stopped
	free    time.Duration
	ops     []op
	tasks   int
}

type op struct {
	a    model.Action
	at   time.Duration
	fate string
}

const (
	gib   = model.GiB
	total = 80 * gib
)

func gpuName(i int) string { return fmt.Sprintf("GPU-%d", i) }

func newLife(rt *rapid.T, p *policy.Policy, swap bool) *life {
	p.Share.Period = rapid.SampledFrom([]time.Duration{time.Second, model.LongestPeriod}).Draw(rt, "period") // shorter ones take the test longer
	l := &life{rt: rt, p: p, swap: swap, now: time.Second, excused: map[model.TenantID]time.Duration{}}
	l.boot()
	return l
}

// boot starts a daemon that knows nothing yet.
func (l *life) boot() {
	l.decider = policy.NewDecider(&policy.Set{Default: l.p}, policy.Options{Swap: l.swap})
	var first uint64
	for _, r := range l.records {
		if r.Action != nil {
			first = max(first, r.Action.ID)
		}
	}
	l.lastID = first
	l.engine = engine.New(model.NewNode(), engine.Parts{
		Source: l, Actuator: l, Journal: l, Decider: l, FirstID: first,
		Wall: func() time.Time { return time.Unix(1, 0) },
		Report: func(err error) {
			if !errors.Is(err, engine.ErrJournal) {
				l.fail("the engine reports: %v", err)
			}
		},
	})
	l.events = nil
	l.lookNext()
}

func (l *life) fail(format string, args ...any) {
	l.rt.Helper()
	l.rt.Fatalf("%v: %s\n%s", l.now, fmt.Sprintf(format, args...), strings.Join(l.log, "\n"))
}

func (l *life) note(format string, args ...any) {
	l.log = append(l.log, fmt.Sprintf("%-9s ", l.now.Round(time.Millisecond))+fmt.Sprintf(format, args...))
}

func (l *life) job(id model.TenantID) *job {
	for _, j := range l.jobs {
		if j.id == id {
			return j
		}
	}
	return nil
}

// Append is the journal.
func (l *life) Append(r model.Record) error {
	if l.broken {
		return errors.New("no space left on device")
	}
	if r.Tenant != nil {
		c := r.Tenant.Clone()
		r.Tenant = &c
	}
	l.records = append(l.records, r)
	return nil
}

// Decide is the real decider, with a look at what it admits.
func (l *life) Decide(n *model.Node, now time.Duration) ([]model.Action, time.Duration) {
	actions, next := l.decider.Decide(n, now)
	l.checkAdmissions(n, actions)
	return actions, next
}

// Do is the actuator. Operations on one tenant wait for each other, as those
// of a node do.
func (l *life) Do(a model.Action, t *model.Tenant) {
	j := l.job(a.Tenant)
	if a.ID <= l.lastID {
		l.fail("action %d after %d", a.ID, l.lastID)
	}
	l.lastID = a.ID
	switch a.Do {
	case model.PrimHold, model.PrimPause, model.PrimSwap, model.PrimEvict:
		l.checkStop(a, t)
		if a.Beat {
			j.beat = l.now
		}
	case model.PrimResume, model.PrimRestore:
		j.asked = l.now
	default:
		l.note("%s %s", a.Do, a.Tenant)
		if a.Do == model.PrimRun {
			j.started = true
		}
		return
	}
	o := op{a: a, fate: l.fate(a)}
	took := 5 * time.Millisecond
	switch o.fate {
	case "slow":
		took = 2 * time.Second
	case "late":
		took = engine.OpTimeout + 7*time.Second
		if a.Do == model.PrimSwap || a.Do == model.PrimRestore || a.Do == model.PrimEvict {
			took = engine.LongTimeout + 7*time.Second
		}
	}
	j.free = max(j.free, l.now) + took
	o.at = j.free
	j.ops = append(j.ops, o)
	l.note("%s %s #%d (%s): %s", a.Do, a.Tenant, a.ID, o.fate, a.Why.Text)
}

func (l *life) fate(a model.Action) string {
	if l.calm {
		return "done"
	}
	return rapid.SampledFrom([]string{"done", "done", "done", "done", "done", "slow", "fails", "silent", "silent without effect", "late"}).
		Draw(l.rt, fmt.Sprintf("fate of %s", a.Do))
}

// Sample is the source.
func (l *life) Sample(time.Duration) model.Sample {
	s := model.Sample{Events: l.events}
	l.events = nil
	if l.now >= l.ticked+time.Second {
		l.ticked = l.now
		s.GPUs, s.Tenants, s.Foreign = l.look()
	}
	for _, ev := range s.Events {
		if j := l.job(ev.Tenant); j != nil && (ev.Kind == model.EvRegistered || ev.Kind == model.EvAdopted) {
			j.taken = true
		}
	}
	return s
}

// lookNext makes the next turn look at the GPUs.
func (l *life) lookNext() { l.ticked = l.now - time.Second }

func (l *life) look() (*model.GPUReport, []model.TenantSample, map[string]model.Reading[model.Bytes]) {
	dark := "no"
	if !l.calm {
		dark = rapid.SampledFrom([]string{"no", "no", "no", "no", "no", "no", "all", "memory", "foreign"}).Draw(l.rt, "unknown")
	}
	if dark == "all" {
		return nil, nil, nil
	}
	r := &model.GPUReport{}
	foreign := map[string]model.Reading[model.Bytes]{}
	for i := range 3 {
		r.GPUs = append(r.GPUs, model.GPU{UUID: gpuName(i), Index: i, Minor: i, Total: model.Known(total), Reserved: model.Known(model.Bytes(0))})
		foreign[gpuName(i)] = model.Known(model.Bytes(0))
		if dark == "foreign" {
			foreign[gpuName(i)] = model.Unknown[model.Bytes]()
		}
	}
	var out []model.TenantSample
	for _, j := range l.jobs {
		if !j.alive {
			continue
		}
		s := model.TenantSample{Tenant: j.id, Procs: 1, Use: map[string]model.Usage{}}
		for _, g := range j.gpus {
			u := model.Usage{Memory: model.Known(model.Bytes(0)), SM: model.Known(0.0)}
			if j.started && !j.swapped {
				u = model.Usage{Procs: 1, Memory: model.Known(j.memory), SM: model.Known(0.8)}
			}
			if dark == "memory" {
				u.Memory = model.Unknown[model.Bytes]()
			}
			s.Use[g] = u
		}
		s.Busy = j.started && !j.stopped && !j.foreign
		out = append(out, s)
	}
	return r, out, foreign
}

// run lets the world go on until a moment.
func (l *life) run(until time.Duration) {
	for turns := 0; ; turns++ {
		if turns > 200000 {
			l.fail("time does not pass")
		}
		at := min(until, l.ticked+time.Second)
		for _, j := range l.jobs {
			if len(j.ops) > 0 {
				at = min(at, j.ops[0].at)
			}
		}
		if l.next != 0 {
			at = min(at, max(l.next-l.skew, l.now+time.Millisecond))
		}
		l.now = max(at, l.now)
		l.finishOps()
		l.step(0)
		if l.now >= until {
			return
		}
	}
}

// step gives the engine its turn, by a clock that is off by as much.
func (l *life) step(off time.Duration) {
	l.next = l.engine.Step(l.now + l.skew + off)
	l.checkPauses()
	l.checkTruth()
}

func (l *life) finishOps() {
	for _, j := range l.jobs {
		for len(j.ops) > 0 && j.ops[0].at <= l.now {
			o := j.ops[0]
			j.ops = j.ops[1:]
			if j.alive {
				l.finish(j, o)
			}
		}
	}
}

// finish lets an operation have its effect, and tells its outcome.
func (l *life) finish(j *job, o op) {
	ev := model.Event{Kind: model.EvDone, Tenant: j.id, Action: o.a.ID, Do: o.a.Do}
	switch {
	case o.fate == "silent without effect":
		j.lost = j.lost || o.a.Beat || !j.stopped // nobody knows whether it is stopped
		return
	case o.fate == "fails":
		ev.Kind, ev.Text = model.EvFailed, "it could not be done"
		switch o.a.Do {
		case model.PrimHold, model.PrimPause, model.PrimSwap: // rolled back
			j.stopped, j.swapped, j.started = false, false, true
		}
	case j.foreign && (o.a.Do == model.PrimResume || o.a.Do == model.PrimRestore || o.a.Do == model.PrimEvict):
		ev.Kind, ev.Text = model.EvFailed, "stopped by somebody else"
		l.tell(j, model.EvSuspended, "slurm")
	default:
		l.effect(j, o.a.Do)
		if o.a.Do == model.PrimEvict {
			l.end(j)
			return
		}
	}
	j.lost = o.fate == "silent" || o.fate == "fails" && (j.lost || !j.stopped) // a failure does not tell whether it ran
	if o.fate != "silent" {
		l.events = append(l.events, ev)
	}
	if ev.Kind == model.EvFailed && o.a.Do == model.PrimResume {
		j.told = l.now
	}
}

func (l *life) effect(j *job, do model.Primitive) {
	switch do {
	case model.PrimHold:
		j.stopped, j.held = true, true
	case model.PrimPause:
		j.stopped, j.held = true, false
	case model.PrimSwap:
		j.stopped, j.held, j.swapped = true, false, true
	case model.PrimResume:
		j.stopped, j.started = false, true
	case model.PrimRestore, model.PrimEvict:
		j.stopped, j.swapped, j.started = false, false, true
	}
}

func (l *life) tell(j *job, kind model.EventKind, text string) {
	l.note("%s %s %s", kind, j.id, text)
	l.events = append(l.events, model.Event{Kind: kind, Tenant: j.id, Text: text})
}

func (l *life) end(j *job) {
	if !j.alive {
		return
	}
	j.alive, j.ops = false, nil
	l.tell(j, model.EvEnded, "")
}
