package policy

import (
	"math"
	"slices"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// reading turns a measured value into a number, unknown into NaN.
func reading[T model.Bytes | float64](r model.Reading[T]) float64 {
	if x, ok := r.Get(); ok {
		return float64(x)
	}
	return math.NaN()
}

// orUnknown takes a count in which 0 means that nobody told it.
func orUnknown(n uint32) float64 {
	if n == 0 {
		return math.NaN()
	}
	return float64(n)
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func stateNames() []string {
	names := make([]string, 0, 12)
	for _, s := range model.States() {
		names = append(names, s.String())
	}
	return names
}

func waited(e *env, v *view) float64 {
	t := v.t
	switch {
	case t.State.Computes():
		return 0
	case t.HasRun:
		return (e.now - t.LastRan).Seconds()
	}
	return (e.now - t.Registered).Seconds()
}

func over(e *env, v *view) float64 {
	if v.t.Over == 0 {
		return 0
	}
	return (e.now - v.t.Over).Seconds()
}

func deadlineIn(e *env, v *view) float64 { return e.until(v.t.Terms.Deadline) }

func limitIn(e *env, v *view) float64 {
	if v.t.Reg.EndTime == 0 {
		return math.NaN()
	}
	return e.until(time.Unix(v.t.Reg.EndTime, 0))
}

// until is the time left to a moment on the wall clock, unknown where there is
// none or the decider was not told the wall clock.
func (e *env) until(at time.Time) float64 {
	if at.IsZero() || e.d.epoch.IsZero() {
		return math.NaN()
	}
	return at.Sub(e.d.epoch).Seconds() - e.now.Seconds()
}

func remaining(e *env, v *view) float64 {
	if e.d.opts.Remaining == nil {
		return math.NaN()
	}
	return finite(e.d.opts.Remaining(v.t, e.now))
}

// most is the highest of a reading over the GPUs that are meant: the one of
// the env, else all of the tenant's. It is unknown where one of them is.
func (e *env) most(v *view, f func(g *gpuView) float64) float64 {
	if e.g != nil {
		return f(e.g)
	}
	most := math.NaN()
	for i, s := range v.seats {
		x := f(&e.d.gpus[s])
		if i == 0 {
			most = x
		}
		most = math.Max(most, x)
	}
	return most
}

func memoryUsed(e *env, v *view) float64 {
	return e.most(v, func(g *gpuView) float64 { return reading(v.t.Use[g.uuid].Memory) })
}

func smShare(e *env, v *view) float64 {
	return e.most(v, func(g *gpuView) float64 { return reading(v.t.Use[g.uuid].SM) })
}

func memoryPeak(e *env, v *view) float64 {
	return e.most(v, func(g *gpuView) float64 {
		if peak, ok := v.t.Peak[g.uuid]; ok {
			return float64(peak)
		}
		return math.NaN()
	})
}

func memoryClaim(e *env, v *view) float64 {
	return e.most(v, func(g *gpuView) float64 { return reading(g.claim(v.t)) })
}

func ofDevice(e *env, f func(*model.GPU) float64) float64 {
	if e.g.gpu == nil {
		return math.NaN()
	}
	return f(e.g.gpu)
}

// gpu is the GPU that is meant: the env's, else the tenant's fullest.
func (e *env) gpu() *gpuView {
	if e.g != nil {
		return e.g
	}
	return e.d.fullest(e.t)
}

// fullest is the tenant's GPU with the most tenants, nil if it has none.
func (d *Decider) fullest(v *view) *gpuView {
	var most *gpuView
	for _, s := range v.seats {
		if g := &d.gpus[s]; most == nil || len(g.pack) > len(most.pack) {
			most = g
		}
	}
	return most
}

func (g *gpuView) packOr() []*view {
	if g == nil {
		return nil
	}
	return g.pack
}

func (g *gpuView) chosenOr() []*view {
	if g == nil {
		return nil
	}
	return g.chosen
}

func packSum(f func(*view) float64) func(*env, *view) float64 {
	return func(e *env, _ *view) float64 {
		sum := 0.0
		for _, v := range e.gpu().packOr() {
			sum += f(v)
		}
		return sum
	}
}

func packSM(e *env, _ *view) float64 {
	g := e.gpu()
	sum := 0.0
	for _, v := range g.packOr() {
		if v.computes {
			sum += reading(v.t.Use[g.uuid].SM)
		}
	}
	return sum
}

func userSum(f func(*view) float64) func(*env, *view) float64 {
	return func(e *env, _ *view) float64 {
		sum := 0.0
		for i := range e.d.views {
			if v := &e.d.views[i]; v.t.Reg.UID == e.t.t.Reg.UID {
				sum += f(v)
			}
		}
		return sum
	}
}

// contested is on how many of the tenant's GPUs others take turns too.
func contested(e *env, v *view) float64 {
	n := 0.0
	for _, s := range v.seats {
		if slices.ContainsFunc(e.d.gpus[s].pack, func(o *view) bool { return o != v && o.counts }) {
			n++
		}
	}
	return n
}

// followers counts those whom a tenant's work delays where they go by rank. One on
// several GPUs waits on each of them for a part of its time.
func followers(e *env, v *view) float64 {
	g := e.g
	if g == nil {
		g = e.d.fullest(v)
	}
	n := 0.0
	for _, o := range g.packOr() {
		if o.counts && o.rank <= v.rank {
			n += o.part()
		}
	}
	return math.Max(n, v.part())
}

// part is what a tenant counts for on one of its GPUs: on all together for 1.
func (v *view) part() float64 { return 1 / float64(max(1, len(v.seats))) }
