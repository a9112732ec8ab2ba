package engine

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/tests/draw"
)

// throttled is a world with one tenant under a throttle since 1 s, and the truth
// about its processes.
type throttled struct {
	*world
	e       *Engine
	th      model.Throttle
	asked   int // how often the decider was
	off     bool
	since   time.Duration // of the last change of off
	ran     time.Duration
	longest time.Duration // stop
}

func newThrottled(t testing.TB, share float64, period time.Duration, change func(*Parts)) *throttled {
	t.Helper()
	w := &throttled{world: &world{}, th: model.Throttle{Share: share, Period: period}, since: sec}
	p := Parts{Source: w, Actuator: w, Journal: w, Decider: w, Wall: func() time.Time { return time.Unix(0, 0) },
		Report: func(err error) { t.Errorf("the engine reports: %v", err) }}
	if change != nil {
		change(&p)
	}
	w.e = New(model.NewNode(), p)
	w.news(registered("1@1"))
	w.choose(model.PrimRun)
	w.e.Step(0)
	w.choose(model.PrimThrottle)
	return w
}

func (w *throttled) choose(do model.Primitive) {
	w.decide = func(*model.Node) []model.Action {
		w.decide = nil
		return []model.Action{{Do: do, Tenant: "1@1", Throttle: w.th, Why: model.Reason{Code: "test"}}}
	}
}

func (w *throttled) Decide(n *model.Node, now time.Duration) ([]model.Action, time.Duration) {
	w.asked++
	return w.world.Decide(n, now)
}

// take turns what the engine did last into its outcome at a moment.
func (w *throttled) take(at time.Duration, kind model.EventKind) {
	a := w.done[len(w.done)-1]
	w.done = nil
	w.news(model.Event{Kind: kind, At: at, Tenant: a.Tenant, Action: a.ID, Do: a.Do})
	if stop := a.Do == model.PrimPause; kind == model.EvDone && stop != w.off {
		if w.off {
			w.longest = max(w.longest, at-w.since)
		} else {
			w.ran += at - w.since
		}
		w.off, w.since = stop, at
	}
}

// run lets time pass, each turn of the engine late and each operation taking a
// time as drawn.
func (w *throttled) run(until time.Duration, late, takes func() time.Duration) {
	now := sec
	for now < until {
		next := w.e.Step(now)
		if n := len(w.done); n > 0 && w.done[n-1].Beat {
			now += takes()
			w.take(now, model.EvDone)
			continue
		}
		if next == 0 {
			next = until
		}
		now = max(next, now) + late()
	}
	if !w.off {
		w.ran += until - w.since
	}
}

// TestThrottleKeepsItsShare: over ten periods a tenant runs for its share of the
// time within 5 points, although turns come late and stops take their time; no
// stop is longer than two periods; and the journal hears of none of them.
func TestThrottleKeepsItsShare(t *testing.T) {
	draw.Check(t, func(rt *rapid.T) {
		share := rapid.Float64Range(model.LeastShare, 0.95).Draw(rt, "share")
		period := time.Duration(rapid.Int64Range(int64(model.ShortestPeriod), int64(2*sec)).Draw(rt, "period"))
		upTo := func(most time.Duration, what string) func() time.Duration {
			return func() time.Duration { return time.Duration(rapid.Int64Range(1, int64(most)).Draw(rt, what)) }
		}
		w := newThrottled(t, share, period, nil)
		w.run(sec+10*period, upTo(2*time.Millisecond, "late"), upTo(3*time.Millisecond, "takes"))
		if got := float64(w.ran) / float64(10*period); math.Abs(got-share) > 0.05 {
			rt.Fatalf("ran %.3f of the time, want %.3f", got, share)
		}
		if w.longest > 2*period+5*time.Millisecond {
			rt.Fatalf("stopped for %s, the period is %s", w.longest, period)
		}
		if n := len(w.records); n != 3 { // registered, run, throttle
			rt.Fatalf("%d records: %+v", n, w.records[min(3, n):])
		}
		if tally := w.e.Node.Tenant("1@1").Tally; tally.Throttles != 1 || tally.Pauses != 0 {
			rt.Fatalf("%+v", tally)
		}
	})
}

// TestEdgesDoNotAskTheDecider: they are many, and change nothing that it sees.
func TestEdgesDoNotAskTheDecider(t *testing.T) {
	w := newThrottled(t, 0.5, 100*time.Millisecond, nil)
	none := func() time.Duration { return 0 }
	w.run(3*sec, none, func() time.Duration { return time.Millisecond })
	if w.asked > 3 {
		t.Errorf("asked %d times in 20 periods", w.asked)
	}
	w.news(model.Event{Kind: model.EvTaskExit, Tenant: "1@1"})
	before := w.asked
	if w.e.Step(3*sec + 1); w.asked != before+1 {
		t.Error("the decider did not hear of the news")
	}
}

// TestWhatFailsWithinAPeriod: a stop that fails, or has no outcome, ends the
// throttle and the tenant runs; what cannot be continued is paused; both are
// written down.
func TestWhatFailsWithinAPeriod(t *testing.T) {
	for _, c := range []struct {
		name   string
		stop   model.EventKind // how the stop ends, "" not at all
		resume model.EventKind
		want   model.State
		undone bool // a resume is asked for
	}{
		{"the stop fails", model.EvFailed, "", model.Running, false},
		{"the stop has no outcome", "", "", model.Running, true},
		{"the continuation fails", model.EvDone, model.EvFailed, model.Paused, false},
		{"the continuation has no outcome", model.EvDone, "", model.Paused, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newThrottled(t, 0.5, sec, nil)
			w.e.Step(sec)
			w.e.Step(1500 * time.Millisecond)
			at := 1500 * time.Millisecond
			if c.stop != "" {
				w.take(at, c.stop)
				w.e.Step(at)
			}
			if c.stop == model.EvDone {
				at = 2 * sec
				w.e.Step(at)
				if c.resume != "" {
					w.take(at, c.resume)
				}
			}
			w.done = nil
			w.e.Step(at + OpTimeout)
			tn := w.e.Node.Tenant("1@1")
			if tn.State != c.want || tn.Retry == 0 || tn.Throttle != (model.Throttle{}) {
				t.Errorf("%s, retried at %s, throttle %v; want %s", tn.State, tn.Retry, tn.Throttle, c.want)
			}
			if undone := len(w.done) == 1 && w.done[0].Do == model.PrimResume; undone != c.undone {
				t.Errorf("did %+v", w.done)
			}
			if r := w.records[len(w.records)-1]; r.Event == nil || r.Event.Kind != model.EvFailed || r.Tenant.State != c.want {
				t.Errorf("the last record is %+v", r)
			}
		})
	}
}

// TestNoThrottleThatIsNotWrittenDown: the tenant stays as it was.
func TestNoThrottleThatIsNotWrittenDown(t *testing.T) {
	var said error
	w := newThrottled(t, 0.5, sec, func(p *Parts) { p.Report = func(err error) { said = err } })
	w.broken = errors.New("no space left on device")
	w.e.Step(sec)
	tn := w.e.Node.Tenant("1@1")
	if tn.State != model.Running || tn.Retry <= sec || !errors.Is(said, ErrJournal) {
		t.Errorf("%s, retries at %s, said %v", tn.State, tn.Retry, said)
	}
	w.broken = nil
	w.choose(model.PrimThrottle)
	w.e.Step(3 * sec)
	w.broken = errors.New("no space left on device")
	w.th.Share = 0.25
	w.choose(model.PrimThrottle)
	w.news(model.Event{Kind: model.EvTaskExit, Tenant: "1@1"})
	w.e.Step(3*sec + 1)
	if tn.State != model.Throttled || tn.Throttle.Share != 0.5 {
		t.Errorf("%s, %v", tn.State, tn.Throttle)
	}
}

// TestNoStopBesideAnothers, TestSmooth and TestEndOfAThrottle look at what is
// asked of the actuator.
func TestNoStopBesideAnothers(t *testing.T) {
	w := newThrottled(t, 0.5, sec, nil)
	w.e.Step(sec)
	w.done = nil
	w.news(model.Event{Kind: model.EvSuspended, Tenant: "1@1", Text: "slurm"})
	for i := range 5 {
		w.e.Step(2*sec + time.Duration(i)*sec)
	}
	if len(w.done) > 0 {
		t.Errorf("did %+v over another's stop", w.done)
	}
	w.news(model.Event{Kind: model.EvUnstopped, Tenant: "1@1"})
	if w.e.Step(9 * sec); len(w.done) != 1 {
		t.Errorf("did %+v after it", w.done)
	}
}

func TestSmooth(t *testing.T) {
	w := newThrottled(t, 0.5, sec, func(p *Parts) { p.Smooth = true })
	w.e.Step(sec)
	if n := len(w.done); n != 2 || w.done[1].Throttle != w.th {
		t.Fatalf("did %+v", w.done)
	}
	for i := range 10 {
		w.e.Step(2*sec + time.Duration(i)*sec)
	}
	if len(w.done) != 2 {
		t.Errorf("did %+v", w.done[2:])
	}
}

func TestEndOfAThrottle(t *testing.T) {
	for _, off := range []bool{false, true} {
		t.Run(fmt.Sprintf("stopped=%t", off), func(t *testing.T) {
			w := newThrottled(t, 0.5, sec, nil)
			w.e.Step(sec)
			at := 1400 * time.Millisecond
			if off {
				at = 1500 * time.Millisecond
				w.e.Step(at)
				w.take(at, model.EvDone)
				w.e.Step(at)
			}
			w.done = nil
			w.news(model.Event{Kind: model.EvTaskExit, Tenant: "1@1"})
			w.choose(model.PrimResume)
			w.e.Step(at + 1)
			want, done := model.Running, 0 // there is nothing to continue
			if off {
				want, done = model.Resuming, 1
			}
			if tn := w.e.Node.Tenant("1@1"); tn.State != want || len(w.done) != done {
				t.Errorf("%s, did %+v", tn.State, w.done)
			}
		})
	}
}
