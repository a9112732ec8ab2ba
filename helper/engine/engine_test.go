package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

const sec = time.Second

// world is a fake source, actuator, journal and decider in one.
type world struct {
	sample  model.Sample
	done    []model.Action
	records []model.Record
	broken  error
	decide  func(*model.Node) []model.Action
}

func (w *world) Sample(time.Duration) model.Sample {
	s := w.sample
	w.sample = model.Sample{}
	return s
}
func (w *world) Do(a model.Action, _ *model.Tenant) { w.done = append(w.done, a) }
func (w *world) Append(r model.Record) error {
	if w.broken != nil {
		return w.broken
	}
	w.records = append(w.records, r)
	return nil
}
func (w *world) Decide(n *model.Node, _ time.Duration) ([]model.Action, time.Duration) {
	if w.decide == nil {
		return nil, 0
	}
	return w.decide(n), 0
}

func newWorld() (*world, *Engine) {
	w := &world{}
	e := New(model.NewNode(), Parts{Source: w, Actuator: w, Journal: w, Decider: w,
		Wall: func() time.Time { return time.Unix(0, 0) }})
	return w, e
}

func (w *world) news(evs ...model.Event) { w.sample.Events = append(w.sample.Events, evs...) }

func registered(id model.TenantID) model.Event {
	return model.Event{Kind: model.EvRegistered, Tenant: id,
		Reg:   &model.Registration{Proc: model.ProcID{PID: 2, Start: 1}},
		Grant: &model.Grant{Terms: model.Terms{Weight: 1}}}
}

// order makes the decider choose one action, once.
func (w *world) order(do model.Primitive) {
	w.decide = func(*model.Node) []model.Action {
		w.decide = nil
		return []model.Action{{Do: do, Tenant: "1@1", Why: model.Reason{Code: "test"}}}
	}
}

// running registers a tenant and brings it to running.
func running(t *testing.T) (*world, *Engine, *model.Tenant) {
	t.Helper()
	w, e := newWorld()
	w.news(registered("1@1"))
	w.order(model.PrimRun)
	e.Step(0)
	tn := e.Node.Tenant("1@1")
	if tn == nil || tn.State != model.Running {
		t.Fatalf("the tenant is %+v, want it running", tn)
	}
	w.done = nil
	return w, e, tn
}

func TestIntentComesBeforeTheAct(t *testing.T) {
	w, e, tn := running(t)
	w.order(model.PrimPause)
	e.Step(sec)
	last := w.records[len(w.records)-1]
	if last.Action == nil || last.Action.Do != model.PrimPause {
		t.Fatalf("the last record is %+v, want the pause", last)
	}
	if len(w.done) != 1 || tn.State != model.Pausing || tn.Action != w.done[0].ID {
		t.Fatalf("did %v, state %s, waits for %d", w.done, tn.State, tn.Action)
	}
	w.news(model.Event{Kind: model.EvDone, Do: model.PrimPause, Tenant: "1@1", Action: tn.Action})
	e.Step(2 * sec)
	if tn.State != model.Paused {
		t.Errorf("state %s after the pause was confirmed", tn.State)
	}
}

func TestNothingIsStoppedThatCannotBeWrittenDown(t *testing.T) {
	w, e, tn := running(t)
	w.broken = errors.New("no space left on device")
	w.order(model.PrimPause)
	var said error
	e.report = func(err error) { said = err }
	e.Step(sec)
	if len(w.done) != 0 || tn.State != model.Running {
		t.Errorf("did %v, state %s", w.done, tn.State)
	}
	if !errors.Is(said, ErrJournal) || tn.Retry <= sec {
		t.Errorf("said %v, retries at %s", said, tn.Retry)
	}
}

func TestResumeGoesOnWithoutAJournal(t *testing.T) {
	w, e, tn := running(t)
	tn.State = model.Paused
	w.broken = errors.New("read-only file system")
	w.order(model.PrimResume)
	e.Step(sec)
	if len(w.done) != 1 || tn.State != model.Resuming {
		t.Errorf("did %v, state %s", w.done, tn.State)
	}
}

func TestAStopWithoutOutcomeIsUndone(t *testing.T) {
	w, e, tn := running(t)
	w.order(model.PrimPause)
	e.Step(sec)
	pause := tn.Action
	if next := e.Step(2 * sec); next != sec+OpTimeout {
		t.Errorf("asks to be called at %s, want %s", next, sec+OpTimeout)
	}
	e.Step(sec + OpTimeout)
	if tn.State != model.Running || w.done[len(w.done)-1].Do != model.PrimResume {
		t.Fatalf("state %s, did %v", tn.State, w.done)
	}
	// The stop succeeds after all: what was stopped is continued once more.
	did := len(w.done)
	w.news(model.Event{Kind: model.EvDone, Do: model.PrimPause, Tenant: "1@1", Action: pause})
	e.Step(40 * sec)
	if tn.State != model.Running || len(w.done) != did+1 || w.done[did].Do != model.PrimResume {
		t.Errorf("state %s, did %v", tn.State, w.done[did:])
	}
}

func TestRefusedActionIsNotDone(t *testing.T) {
	w, e, tn := running(t)
	w.order(model.PrimResume)
	e.Step(sec)
	if len(w.done) != 0 || tn.State != model.Running {
		t.Errorf("did %v, state %s", w.done, tn.State)
	}
}

func TestLoopStepsOnWakeAndAsk(t *testing.T) {
	defer goleak.VerifyNone(t)
	w, e := newWorld()
	w.news(registered("1@1"))
	w.order(model.PrimRun)
	wake := make(chan struct{}, 1)
	beats := 0
	l := NewLoop(e, func() time.Duration { return sec }, wake, func() { beats++ }, time.Hour)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { l.Run(ctx); close(ended) }()
	wake <- struct{}{}
	deadline := time.Now().Add(10 * time.Second)
	for {
		var n int
		if err := l.Ask(ctx, func(e *Engine) { n = len(e.Snapshot(sec)) }); err != nil {
			t.Fatal(err)
		}
		if n == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the loop never took the registration in")
		}
	}
	cancel()
	<-ended
	if beats == 0 {
		t.Error("the loop turned without a beat")
	}
	if err := l.Ask(ctx, func(*Engine) {}); err == nil {
		t.Error("a loop that has ended answered")
	}
}

func TestAnUndoingThatFailsIsTriedAgain(t *testing.T) {
	w, e, tn := running(t)
	w.order(model.PrimPause)
	e.Step(sec)
	now := sec + OpTimeout
	e.Step(now)
	for range 3 {
		undo := w.done[len(w.done)-1]
		if undo.Do != model.PrimResume || tn.State != model.Running {
			t.Fatalf("did %v while it is %s", undo, tn.State)
		}
		w.news(model.Event{Kind: model.EvFailed, Do: model.PrimResume, Tenant: "1@1", Action: undo.ID})
		next := e.Step(now)
		if next <= now || next > now+time.Minute {
			t.Fatalf("asks to be called at %s, it is %s", next, now)
		}
		did := len(w.done)
		now = next
		if e.Step(now); len(w.done) != did+1 {
			t.Fatalf("did %v, want one more resume", w.done[did:])
		}
	}
	w.news(model.Event{Kind: model.EvDone, Do: model.PrimResume, Tenant: "1@1", Action: w.done[len(w.done)-1].ID})
	if next := e.Step(now); next != 0 {
		t.Errorf("asks to be called at %s although nothing is owed", next)
	}
}

func TestALateStopDoesNotUndoTheNextOne(t *testing.T) {
	w, e, tn := running(t)
	w.order(model.PrimPause)
	e.Step(sec)
	first := tn.Action
	e.Step(sec + OpTimeout)
	w.order(model.PrimPause)
	e.Step(sec + OpTimeout + 2*sec)
	did := len(w.done)
	w.news(model.Event{Kind: model.EvDone, Do: model.PrimPause, Tenant: "1@1", Action: first})
	e.Step(sec + OpTimeout + 3*sec)
	if len(w.done) != did || tn.State != model.Pausing {
		t.Errorf("did %v while it is %s", w.done[did:], tn.State)
	}
}

func TestALateResumeIsSeen(t *testing.T) {
	w, e, tn := running(t)
	tn.State = model.Paused
	w.order(model.PrimResume)
	e.Step(sec)
	resume := tn.Action
	e.Step(sec + OpTimeout)
	if tn.State != model.Paused {
		t.Fatalf("it is %s", tn.State)
	}
	w.news(model.Event{Kind: model.EvDone, Do: model.PrimResume, Tenant: "1@1", Action: resume})
	e.Step(2*sec + OpTimeout)
	if tn.State != model.Running {
		t.Errorf("it runs, but counts as %s", tn.State)
	}
}

// TestLateResumeEndsTheNextOne: the success of a resume that was given up,
// coming while the next one is under way, says that the tenant runs.
func TestLateResumeEndsTheNextOne(t *testing.T) {
	w, e, tn := running(t)
	tn.State = model.Paused
	w.order(model.PrimResume)
	e.Step(sec)
	first := tn.Action
	e.Step(sec + OpTimeout)
	if tn.State != model.Paused {
		t.Fatalf("state %s after the resume was given up", tn.State)
	}
	w.order(model.PrimResume)
	e.Step(50 * sec)
	w.news(model.Event{Kind: model.EvDone, Do: model.PrimResume, Tenant: "1@1", Action: first})
	e.Step(51 * sec)
	if tn.State != model.Running {
		t.Errorf("state %s, though the first resume had its effect", tn.State)
	}
}
