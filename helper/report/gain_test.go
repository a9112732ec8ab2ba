package report

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/tests/draw"
)

// minutes makes a track of tenant id that does something in each minute: one
// letter for each.
func minutes(id model.TenantID, what string) Track {
	t := Track{Name: string(id), Tenant: id}
	names := map[rune]Activity{'#': Computing, '-': Waiting, '.': Paused, '~': Swapped, 's': Suspended}
	for i, r := range []rune(what) {
		if a := names[r]; a != Absent {
			t.Stretches = append(t.Stretches, Stretch{time.Duration(i) * time.Minute, time.Duration(i+1) * time.Minute, a, 0})
		}
	}
	return t
}

// sm makes a load of one minute with the tenants' shares; below 0 is unknown.
func sm(minute int, shares map[model.TenantID]float64) model.Load {
	l := model.Load{From: noon.Add(time.Duration(minute) * time.Minute), Length: time.Minute, GPUs: []model.GPULoad{{UUID: "GPU-aa"}}}
	for id, v := range shares {
		t := model.TenantLoad{Tenant: id}
		if v >= 0 {
			t.SM = model.Known(model.Level{Mean: v, Max: v})
		}
		l.GPUs[0].Tenants = append(l.GPUs[0].Tenants, t)
	}
	return l
}

// half is a load of the first two minutes.
func half(shares map[model.TenantID]float64) model.Load {
	l := sm(0, shares)
	l.Length = 2 * time.Minute
	return l
}

func TestGain(t *testing.T) {
	m := func(n float64) time.Duration { return time.Duration(n * float64(time.Minute)) }
	known := func(n float64) model.Reading[time.Duration] { return model.Known(m(n)) }
	unknown := model.Unknown[time.Duration]()
	for name, tt := range map[string]struct {
		a, b  string
		loads []model.Load
		want  Gain
	}{
		"turns gain nothing": {"#.#.", "-#.#", nil, Gain{Busy: m(4), Most: m(4), Least: known(4), Likely: known(4)}},
		"time between turns": {"#..#", "-.#.", nil, Gain{Busy: m(3), Wait: m(1), Most: m(3), Least: known(3), Likely: known(3)}},
		"together, never alone": {"##", "##", []model.Load{sm(0, map[model.TenantID]float64{"a": .6, "b": .3}), sm(1, map[model.TenantID]float64{"a": .6, "b": .3})},
			Gain{Busy: m(2), Shared: m(2), Most: m(4), Least: known(1.8), Likely: unknown}},
		"both were seen alone": {"## #", "# ##", []model.Load{sm(0, map[model.TenantID]float64{"a": .4, "b": .4}), sm(1, map[model.TenantID]float64{"a": .8}),
			sm(2, map[model.TenantID]float64{"b": .5}), sm(3, map[model.TenantID]float64{"a": .4, "b": .4})},
			Gain{Busy: m(4), Shared: m(2), Most: m(6), Least: known(2 + 4*.4), Likely: known(2 + 2*.5 + 2*.8)}},
		"a share is not known":           {"#", "#", []model.Load{sm(0, map[model.TenantID]float64{"a": .4, "b": -1})}, Gain{Busy: m(1), Shared: m(1), Most: m(2), Least: unknown, Likely: unknown}},
		"nothing was recorded":           {"#", "#", nil, Gain{Busy: m(1), Shared: m(1), Most: m(2), Least: unknown, Likely: unknown}},
		"beside for a part of a stretch": {"##", " #", []model.Load{half(map[model.TenantID]float64{"a": .8, "b": .2})}, Gain{Busy: m(2), Shared: m(1), Most: m(3), Least: known(1 + .6 + .4), Likely: unknown}},
		"suspended by Slurm":             {"s#", "", nil, Gain{Busy: m(1), Most: m(1), Least: known(1), Likely: known(1)}},
	} {
		got := gainOf(Lane{UUID: "GPU-aa", Tracks: []Track{minutes("a", tt.a), minutes("b", tt.b)}}, tt.loads, noon)
		near := cmp.Comparer(func(a, b time.Duration) bool { return (a - b).Abs() < time.Millisecond })
		if d := cmp.Diff(tt.want, got, cmp.AllowUnexported(model.Reading[time.Duration]{}), near); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// TestGainIsBounded: work is never more than the time in which tracks computed,
// never less at the least than at the most, and who is alone gains nothing.
func TestGainIsBounded(t *testing.T) {
	draw.Check(t, func(t *rapid.T) {
		acts := rapid.StringMatching(`[#. s-]{6}`)
		l := Lane{UUID: "GPU-aa"}
		for _, id := range []model.TenantID{"a", "b", "c"} {
			l.Tracks = append(l.Tracks, minutes(id, acts.Draw(t, string(id))))
		}
		var loads []model.Load
		for i := range 6 {
			v := rapid.Float64Range(0, 1)
			loads = append(loads, sm(i, map[model.TenantID]float64{"a": v.Draw(t, "a"), "b": v.Draw(t, "b"), "c": v.Draw(t, "c")}))
		}
		g := gainOf(l, loads, noon)
		least, ok := g.Least.Get()
		if !ok || least > g.Most || g.Busy > g.Most || g.Shared > g.Busy || g.Took() > 6*time.Minute {
			t.Fatalf("%+v", g)
		}
		if likely, ok := g.Likely.Get(); ok && (likely > g.Most || likely < least) {
			t.Fatalf("likely is not between: %+v", g)
		}
		if g.Shared == 0 && (least != g.Most || g.Busy != g.Most) {
			t.Fatalf("nothing was shared: %+v", g)
		}
	})
}

// TestGainInWords: what is said of a time is what is shown of it.
func TestGainInWords(t *testing.T) {
	m := time.Minute
	for want, g := range map[string]Gain{
		"nobody computed":         {},
		"none: never two at once": {Busy: m, Most: m, Least: model.Known(m), Likely: model.Known(m), Wait: time.Millisecond},
		"0.50 times: never two at once, and time passed between turns": {Busy: m, Most: m, Least: model.Known(m), Likely: model.Known(m), Wait: m},
	} {
		if got := g.words(); got != want {
			t.Errorf("%+v: %s, want %s", g, got, want)
		}
	}
}
