package engine

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// shelf keeps loads, and asks for stretches of a length.
type shelf struct {
	kept []model.Load
	next time.Duration
}

func (s *shelf) Load(l model.Load) (time.Duration, error) {
	s.kept = append(s.kept, l)
	return s.next, nil
}

// metered is an engine with a tenant "1@1" that a meter watches.
type metered struct {
	w   *world
	e   *Engine
	now time.Duration
}

func newMetered(to Meter) *metered {
	m := &metered{w: &world{}}
	m.e = New(model.NewNode(), Parts{Source: m.w, Actuator: m.w, Journal: m.w, Decider: m.w, Meter: to,
		Wall: func() time.Time { return time.Unix(0, 0).Add(m.now) }})
	m.w.news(registered("1@1"))
	m.e.Step(0)
	return m
}

// look shows memory and a share of time on one GPU, or a driver that fails.
func (m *metered) look(at time.Duration, memory model.Bytes, sm float64, fault string) {
	m.now = at
	gpu := model.GPU{UUID: "GPU-0", Total: model.Known(80 * model.GiB), Used: model.Known(memory), Util: model.Known(sm)}
	use := map[string]model.Usage{"GPU-0": {Procs: 1, Memory: model.Known(memory), SM: model.Known(sm)}}
	m.w.sample = model.Sample{GPUs: &model.GPUReport{Fault: fault}}
	if fault == "" {
		m.w.sample.GPUs.GPUs = []model.GPU{gpu}
		m.w.sample.Tenants = []model.TenantSample{{Tenant: "1@1", Procs: 1, Use: use}}
	}
	m.e.Step(at)
}

// TestGauge: a reading counts for as long as it held, one that is missing for
// nothing, and a stretch lasts as long as the meter asks for.
func TestGauge(t *testing.T) {
	s := &shelf{next: 90 * time.Second}
	m := newMetered(s)
	m.look(0, 10, 1, "")                 // until 3 s
	m.look(3*time.Second, 30, .5, "")    // until 6 s
	m.look(6*time.Second, 0, 0, "gone")  // what was seen before says nothing of now
	m.look(10*time.Second, 30, 0, "")    // the first stretch ends
	m.look(90*time.Second, 50, .25, "")  // 80 s of the second: too short
	m.look(100*time.Second, 50, .25, "") // it ends
	m.look(10*time.Minute, 50, .25, "")  // a long one
	level := func(mean, most float64) model.Reading[model.Level] {
		return model.Known(model.Level{Mean: mean, Max: most})
	}
	load := func(from, length int, mem, share model.Reading[model.Level]) model.Load {
		return model.Load{From: time.Unix(int64(from), 0), Length: time.Duration(length) * time.Second,
			GPUs: []model.GPULoad{{UUID: "GPU-0", Total: model.Known(80 * model.GiB), Used: mem, Util: share,
				Tenants: []model.TenantLoad{{Tenant: "1@1", Memory: mem, SM: share}}}}}
	}
	want := []model.Load{
		load(0, 10, level(20, 30), level(.75, 1)),
		load(10, 90, level((80*30.+10*50)/90, 50), level(10*.25/90, .25)),
		load(100, 500, level(50, 50), level(.25, .25)),
	}
	opts := cmp.AllowUnexported(model.Reading[model.Level]{}, model.Reading[model.Bytes]{})
	near := cmp.Comparer(func(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 })
	if d := cmp.Diff(want, s.kept, opts, near); d != "" {
		t.Errorf("loads (-want +got):\n%s", d)
	}
}
