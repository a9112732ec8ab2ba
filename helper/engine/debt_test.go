package engine

import (
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// owed is a paused tenant whose resume failed at the second.
func owed(t *testing.T) (*world, *Engine, *model.Tenant) {
	t.Helper()
	w, e, tn := running(t)
	tn.State = model.Paused
	w.order(model.PrimResume)
	e.Step(sec)
	w.fail(e, sec)
	if tn.State != model.Paused {
		t.Fatalf("state %s after the resume failed", tn.State)
	}
	return w, e, tn
}

// fail lets what was begun last fail.
func (w *world) fail(e *Engine, now time.Duration) {
	a := w.done[len(w.done)-1]
	w.news(model.Event{Kind: model.EvFailed, Do: a.Do, Tenant: a.Tenant, Action: a.ID})
	e.Step(now)
}

// resumes is how often a resume was begun.
func (w *world) resumes() (n int) {
	for _, a := range w.done {
		if a.Do == model.PrimResume {
			n++
		}
	}
	return n
}

// TestAResumeThatFailedIsOwedWhateverComes: what happens to a tenant meanwhile does
// not keep it from being asked for again.
func TestAResumeThatFailedIsOwedWhateverComes(t *testing.T) {
	reg := *registered("1@1").Reg
	for name, ev := range map[string]model.Event{
		"nothing":        {},
		"another task":   {Kind: model.EvRegistered, Reg: &reg},
		"a task's end":   {Kind: model.EvTaskExit, Proc: model.ProcID{PID: 9, Start: 9}},
		"a signal":       {Kind: model.EvSignalled, Text: "TERM"},
		"the stop's end": {Kind: model.EvUnstopped},
		"the driver":     {Kind: model.EvRecovered},
	} {
		t.Run(name, func(t *testing.T) {
			w, e, tn := owed(t)
			if ev.Kind != "" {
				ev.Tenant = tn.ID
				w.news(ev)
			}
			e.Step(sec + time.Millisecond)
			if e.Step(10 * sec); w.resumes() != 2 {
				t.Errorf("%s: did %v, want it resumed again", tn.State, w.done)
			}
		})
	}
}

// TestAResumeThatFailedWaitsForAnothersStop: while somebody else wants the tenant
// stopped it is left alone, and continued after that.
func TestAResumeThatFailedWaitsForAnothersStop(t *testing.T) {
	w, e, tn := owed(t)
	w.news(model.Event{Kind: model.EvSuspended, Tenant: tn.ID, Text: "slurm"})
	for now := sec; now < 100*sec; now += sec {
		e.Step(now)
	}
	if w.resumes() != 1 {
		t.Fatalf("did %v while it was suspended", w.done)
	}
	w.news(model.Event{Kind: model.EvUnstopped, Tenant: tn.ID})
	if e.Step(100 * sec); w.resumes() != 2 {
		t.Errorf("%s: did %v, want it resumed", tn.State, w.done)
	}
}

// TestTheWaitCountsFromTheTry: an undoing that took long to fail is tried again at
// once, however many failed before it.
func TestTheWaitCountsFromTheTry(t *testing.T) {
	w, e, _ := owed(t)
	now := 10 * sec
	for range 6 { // until there is half a minute between two
		e.Step(now)
		w.fail(e, now)
		now += time.Minute
	}
	e.Step(now)
	did := w.resumes()
	w.fail(e, now+29*sec)
	e.Step(now + 29*sec)
	if e.Step(now + 61*sec); w.resumes() != did+1 {
		t.Errorf("%d more resumes a minute after one was begun, want one", w.resumes()-did)
	}
}
