package learn_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gimbal-hpc/gimbal/helper/learn"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/tests/draw"
)

const (
	tick  = 100 * time.Millisecond
	total = 1e5 // iterations that each job states
)

var opts = learn.Options{Window: time.Second, Keep: 24 * time.Hour}

// rig is a node with one GPU on which tenants make progress at rates that the
// test says.
type rig struct {
	n    *model.Node
	l    *learn.Learner
	now  time.Duration
	wall time.Time
	rate map[string]func(mates int) float64 // iterations per second
	done map[string]float64
	sm   bool // nobody writes a counter
}

func newRig(kept []learn.Kept) *rig {
	return &rig{n: model.NewNode(), l: learn.New(opts, kept), wall: time.Unix(1e9, 0),
		rate: map[string]func(int) float64{}, done: map[string]float64{}}
}

// job adds a running tenant.
func (r *rig) job(name string, rate func(mates int) float64) *model.Tenant {
	t := &model.Tenant{ID: model.TenantID(fmt.Sprintf("%s@%d", name, len(r.n.Tenants))), GPUs: []string{"G"},
		Reg: model.Registration{UID: 7, JobName: name}, State: model.Running, OnGPU: true, Use: map[string]model.Usage{}}
	r.n.Tenants = append(r.n.Tenants, t)
	r.rate[name] = rate
	return t
}

// run lets those run that are named, for a while.
func (r *rig) run(d time.Duration, names ...string) {
	on := map[string]bool{}
	for _, name := range names {
		on[name] = true
	}
	for end := r.now + d; r.now < end; {
		r.now += tick
		r.wall = r.wall.Add(tick)
		r.n.Advance(r.now)
		r.n.Read = r.now
		for _, t := range r.n.Tenants {
			r.advance(t, on[t.Reg.JobName], len(names)-1)
		}
		r.l.Observe(r.n, r.now, r.wall)
	}
}

func (r *rig) advance(t *model.Tenant, on bool, mates int) {
	name, rate := t.Reg.JobName, 0.0
	t.State = model.Paused
	if on {
		t.State, t.BusyAt, rate = model.Running, r.now, r.rate[name](mates)
	}
	t.Use["G"] = model.Usage{Procs: 1, SM: model.Known(rate / 100)}
	was := math.Floor(r.done[name])
	r.done[name] += rate * tick.Seconds()
	if is := math.Floor(r.done[name]); is > was && !r.sm {
		late := time.Duration((r.done[name] - is) / rate * float64(time.Second))
		t.Progress = model.Known(model.Progress{At: r.now - late, Source: 1, Count: is, Total: total})
	}
}

func fixed(alone, beside float64) func(int) float64 {
	return func(mates int) float64 {
		if mates == 0 {
			return alone
		}
		return beside
	}
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 0.05*want) {
		t.Errorf("%s is %.4f, want %.4f", what, got, want)
	}
}

// TestSpeeds: in turns and together, by counters and without, whatever their pace.
func TestSpeeds(t *testing.T) {
	for _, c := range []struct {
		name   string
		sm     bool
		ra, rb func(int) float64
		a, b   float64
	}{
		{"counters", false, fixed(40, 30), fixed(9, 4.5), 0.75, 0.5},
		{"slow counters", false, fixed(0.5, 0.4), fixed(0.4, 0.3), 0.8, 0.75},
		{"SM time", true, fixed(80, 60), fixed(50, 35), 0.75, 0.7},
		{"no delay", false, fixed(40, 40), fixed(9, 9.1), 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(nil)
			r.sm = c.sm
			a, b := r.job("a", c.ra), r.job("b", c.rb)
			for _, x := range []float64{r.l.Speed(a, b), r.l.Speed(b, a), r.l.Remaining(a, 0)} {
				if !math.IsNaN(x) {
					t.Fatalf("%v is known before anything was seen", x)
				}
			}
			for range 3 {
				r.run(12*time.Second, "a")
				r.run(12*time.Second, "b")
				r.run(16*time.Second, "a", "b")
			}
			near(t, "a beside b", r.l.Speed(a, b), c.a)
			near(t, "b beside a", r.l.Speed(b, a), c.b)
			if left := r.l.Remaining(a, r.now); !c.sm {
				near(t, "what a still needs", left, (total-math.Floor(r.done["a"]))/c.ra(0))
			} else if !math.IsNaN(left) {
				t.Errorf("%.1f s are left of a job that does not say its total", left)
			}
		})
	}
}

// TestNotLearnt: what does not tell a speed is not taken for one.
func TestNotLearnt(t *testing.T) {
	for name, f := range map[string]func(r *rig){
		"never alone":         func(r *rig) { r.run(time.Minute, "a", "b") },
		"never together":      func(r *rig) { r.run(time.Minute, "a"); r.run(time.Minute, "b") },
		"beside several only": func(r *rig) { r.run(time.Minute, "a"); r.run(time.Minute, "a", "b", "c") },
		"windows too short": func(r *rig) {
			for range 100 {
				r.run(time.Second, "a")
				r.run(time.Second, "a", "b")
			}
		},
		"too few windows": func(r *rig) { r.run(3*time.Second, "a"); r.run(3*time.Second, "a", "b") },
		"degraded":        func(r *rig) { r.n.Degraded = "gone"; r.run(time.Minute, "a"); r.run(time.Minute, "a", "b") },
		"another's stop": func(r *rig) {
			r.n.Tenants[0].Suspended = "slurm"
			r.run(time.Minute, "a")
			r.run(time.Minute, "a", "b")
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(nil)
			a, b := r.job("a", fixed(40, 30)), r.job("b", fixed(40, 30))
			r.job("c", fixed(40, 30))
			f(r)
			if x := r.l.Speed(a, b); !math.IsNaN(x) {
				t.Errorf("its speed is %.3f", x)
			}
		})
	}
}

// TestUncertain: a speed that varies too much is told once there are enough
// windows, and not before.
func TestUncertain(t *testing.T) {
	r := newRig(nil)
	a := r.job("a", func(mates int) float64 {
		return fixed(40, 20)(mates) * (1 + 0.35*math.Sin(2.1*r.now.Seconds()))
	})
	b := r.job("b", fixed(40, 30))
	r.run(6*time.Second, "a")
	r.run(6*time.Second, "a", "b")
	if x := r.l.Speed(a, b); !math.IsNaN(x) {
		t.Errorf("known after a few windows: %.3f", x)
	}
	r.run(2*time.Minute, "a")
	r.run(2*time.Minute, "a", "b")
	if x := r.l.Speed(a, b); !(math.Abs(x-0.5) < 3*learn.MaxError) {
		t.Errorf("%.3f after two minutes each, want 0.5", x)
	}
}

// TestAgain: a job that comes again is known by its name, until that was too long
// ago, and another user's of the same name is not.
func TestAgain(t *testing.T) {
	r := newRig(nil)
	r.job("a", fixed(40, 30))
	r.job("b", fixed(10, 5))
	r.run(20*time.Second, "a")
	r.run(20*time.Second, "a", "b")
	kept := r.l.Kept(r.wall)
	again := newRig(kept)
	a, b := again.job("a", fixed(40, 30)), again.job("b", fixed(10, 5))
	near(t, "a beside b, again", again.l.Speed(a, b), 0.75)
	a.Progress = model.Known(model.Progress{Count: 600, Total: 1000})
	near(t, "what a needs, again", again.l.Remaining(a, 0), 10)
	if x := again.l.Speed(b, a); !math.IsNaN(x) {
		t.Errorf("b was never alone, but its speed is %.3f", x)
	}
	b.Reg.UID++
	if x := again.l.Speed(a, b); !math.IsNaN(x) {
		t.Errorf("another user's b: %.3f", x)
	}
	if left := again.l.Kept(r.wall.Add(opts.Keep + time.Minute)); len(left) != 0 {
		t.Errorf("not forgotten: %+v", left)
	}
}

// TestChanges: what a job does now is taken over what it did.
func TestChanges(t *testing.T) {
	r := newRig(nil)
	a, b := r.job("a", fixed(40, 30)), r.job("b", fixed(40, 30))
	r.run(time.Minute, "a")
	r.run(time.Minute, "a", "b")
	r.rate["a"] = fixed(10, 4)
	r.run(12*time.Second, "a")
	r.run(12*time.Second, "a", "b")
	near(t, "a beside b, since it changed", r.l.Speed(a, b), 0.4)
}

// TestBounds: whatever comes, what is told is a speed above 0 and at most 1 or not
// known, time that is left is finite, what is kept is bounded and comes back as
// it was.
func TestBounds(t *testing.T) {
	draw.Check(t, func(rt *rapid.T) {
		odd := rapid.SampledFrom([]float64{0, -1, math.NaN(), math.Inf(1), 1e300, 1e-300, 5, 6, 7})
		r := newRig(nil)
		names := []string{"a", "b", "c", "", "\x00d", "\xff" + string(make([]byte, 300))}
		for _, name := range names {
			r.job(name, func(int) float64 { return rapid.Float64Range(0, 90).Draw(rt, "rate") })
		}
		for range rapid.IntRange(1, 12).Draw(rt, "runs") {
			some := rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 3, rapid.ID[string]).Draw(rt, "who")
			r.run(time.Duration(rapid.IntRange(1, 60).Draw(rt, "ticks"))*tick, some...)
			t := rapid.SampledFrom(r.n.Tenants).Draw(rt, "odd one")
			t.Progress = model.Known(model.Progress{At: r.now + time.Duration(rapid.IntRange(-5, 5).Draw(rt, "s"))*time.Second,
				Source: 1, Count: odd.Draw(rt, "count"), Total: odd.Draw(rt, "total")})
			checkBounds(rt, r)
		}
		kept := r.l.Kept(r.wall)
		if diff := cmp.Diff(kept, learn.New(opts, kept).Kept(r.wall)); diff != "" {
			rt.Fatal(diff)
		}
	})
}

func checkBounds(rt *rapid.T, r *rig) {
	for _, t := range r.n.Tenants {
		if left := r.l.Remaining(t, r.now); left < 0 || math.IsInf(left, 0) {
			rt.Fatalf("%s: %v s are left", t.ID, left)
		}
		for _, o := range r.n.Tenants {
			if x := r.l.Speed(t, o); !math.IsNaN(x) && !(x > 0 && x <= 1) {
				rt.Fatalf("%s beside %s: %v", t.ID, o.ID, x)
			}
		}
	}
}

// BenchmarkObserve is one look at 64 tenants on 8 GPUs.
func BenchmarkObserve(b *testing.B) {
	r := newRig(nil)
	for i := range 64 {
		t := r.job(fmt.Sprint(i), fixed(40, 30))
		t.GPUs = []string{fmt.Sprintf("GPU-00000000-0000-0000-0000-00000000000%d", i%8)}
		t.Progress = model.Known(model.Progress{Source: 1})
	}
	b.ReportAllocs()
	for b.Loop() {
		r.now += tick
		r.n.Read = r.now
		r.l.Observe(r.n, r.now, r.wall)
	}
}

// lived asks how fast a tenant was that ran for a time by its tally.
func (r *rig) lived(t *model.Tenant, ran time.Duration) (model.Speed, bool) {
	t.HasRun, t.Tally.Running = true, ran
	return r.l.Lived(t, r.now).Get()
}

// TestLived: the speed since the first run adds up what a tenant did alone, beside
// a mate at the speed learnt, and while it was stopped; the time of which nothing is
// known bounds it, and hides it where that is much.
func TestLived(t *testing.T) {
	r := newRig(nil)
	a, b := r.job("a", fixed(40, 30)), r.job("b", fixed(9, 4.5))
	r.run(10*time.Second, "a")
	r.run(10*time.Second, "b")
	r.run(20*time.Second, "a", "b")
	for _, c := range []struct {
		t    *model.Tenant
		want float64
	}{{a, (10 + 20*0.75) / 40}, {b, (10 + 20*0.5) / 40}} {
		s, ok := r.lived(c.t, 30*time.Second)
		if !ok || math.Abs(s.Mean-c.want) > 0.02 || s.Error <= 0 || s.Error > learn.MaxError {
			t.Errorf("%s: %v (%t), want %.3f", c.t.ID, s, ok, c.want)
		}
	}
	// An earlier daemon saw it run for two seconds more, and for much more.
	some, ok := r.lived(a, 32*time.Second)
	if whole, _ := r.lived(a, 30*time.Second); !ok || some.Error < whole.Error+0.9/40 {
		t.Errorf("two seconds of which nothing is known: %v (%t), without them %v", some, ok, whole)
	}
	if s, ok := r.lived(a, 40*time.Second); ok {
		t.Errorf("%v is told though ten seconds of forty are not known", s)
	}
}

// TestLivedInTurns: who takes turns is as fast as its share of the time, and nothing
// has to be learnt for that.
func TestLivedInTurns(t *testing.T) {
	r := newRig(nil)
	a, b := r.job("a", fixed(40, 30)), r.job("b", fixed(9, 4.5))
	for range 5 {
		r.run(3*time.Second, "a")
		r.run(time.Second, "b")
	}
	for tenant, want := range map[*model.Tenant]float64{a: 0.75, b: 0.25} {
		if s, ok := r.lived(tenant, time.Duration(want*20)*time.Second); !ok || math.Abs(s.Mean-want) > 0.01 {
			t.Errorf("%s: %v (%t), want %.2f", tenant.ID, s, ok, want)
		}
	}
}

// TestLivedUnknown: nothing is told of a tenant that never ran, of one beside several,
// and of one beside a mate for which no speed is learnt.
func TestLivedUnknown(t *testing.T) {
	r := newRig(nil)
	a := r.job("a", fixed(40, 30))
	if s, ok := r.l.Lived(a, r.now).Get(); ok {
		t.Errorf("%v of one that has not run", s)
	}
	r.job("b", fixed(9, 4.5))
	r.run(10*time.Second, "a", "b")
	if s, ok := r.lived(a, 10*time.Second); ok {
		t.Errorf("%v beside a mate that was never seen alone", s)
	}
	r.job("c", fixed(9, 4.5))
	r.run(10*time.Second, "a", "b", "c")
	if s, ok := r.lived(a, 20*time.Second); ok {
		t.Errorf("%v beside two mates", s)
	}
}
