package report

import (
	"sort"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// GPUsOf lists the GPUs that loads tell of, in the driver's order, for a reader
// without a driver.
func GPUsOf(loads []model.Load) []model.GPU {
	seen := map[string]int{}
	var out []model.GPU
	for _, l := range loads {
		for _, g := range l.GPUs {
			i, ok := seen[g.UUID]
			if !ok {
				i = len(out)
				seen[g.UUID] = i
				out = append(out, model.GPU{})
			}
			out[i] = model.GPU{UUID: g.UUID, Index: g.Index, Name: g.Name, Total: g.Total}
		}
	}
	sort.SliceStable(out, func(i, k int) bool { return out[i].Index < out[k].Index })
	return out
}

// usage makes the pictures of what a GPU and the tenants on it took.
type usage struct {
	c     *Course
	x     Axis
	kinds map[model.TenantID]Track
}

func newUsage(c *Course, t Timeline) usage {
	u := usage{c: c, x: t.Axis(), kinds: map[model.TenantID]Track{}}
	for _, l := range t.Lanes {
		for _, tr := range l.Tracks {
			u.kinds[tr.Tenant] = tr
		}
	}
	return u
}

// quantity is one of what is recorded.
type quantity struct {
	whole  func(*model.GPULoad) model.Reading[model.Level]
	tenant func(*model.TenantLoad) model.Reading[model.Level]
}

func memoryOf() quantity {
	return quantity{func(g *model.GPULoad) model.Reading[model.Level] { return g.Used },
		func(t *model.TenantLoad) model.Reading[model.Level] { return t.Memory }}
}

func utilOf() quantity {
	return quantity{func(g *model.GPULoad) model.Reading[model.Level] { return g.Util },
		func(t *model.TenantLoad) model.Reading[model.Level] { return t.SM }}
}

// memory draws whose memory it was, up to the GPU's.
func (u usage) memory(l Lane) Stack {
	s := u.stack(l, memoryOf(), true)
	top := float64(model.GiB)
	for i := range u.c.Loads {
		if g := gpuLoad(&u.c.Loads[i], l.UUID); g != nil {
			used, _ := g.Used.Get()
			top = max(top, float64(g.Total.Or(0)), used.Max)
		}
	}
	for _, layer := range s.Layers {
		for _, st := range layer.Steps {
			top = max(top, st.High)
		}
	}
	s.Y = Even(top, float64(model.GiB), func(v float64) string { return shortNumber(v/float64(model.GiB)) + " GiB" })
	if n := len(s.Y.Ticks); n > 3 {
		s.Y.Ticks = []Tick{s.Y.Ticks[0], s.Y.Ticks[n/2], s.Y.Ticks[n-1]}
	}
	return s
}

// util draws whose kernels ran.
func (u usage) util(l Lane) Stack {
	s := u.stack(l, utilOf(), false)
	s.Y = halves()
	return s
}

// stack lays what the tenants took on each other; where rest says so, with what
// belongs to none of them on top.
func (u usage) stack(l Lane, q quantity, rest bool) Stack {
	s := Stack{Title: l.Name, X: u.x}
	layers := map[model.TenantID]int{}
	others := Layer{Name: "of no packed job", Kind: -1}
	at := 0.0
	for i := range u.c.Loads {
		load := &u.c.Loads[i]
		from := max(load.From.Sub(u.c.Start).Seconds(), 0)
		to := min(load.From.Add(load.Length).Sub(u.c.Start).Seconds(), u.x.To)
		s.gap(at, from)
		at = max(at, to)
		g := gpuLoad(load, l.UUID)
		if g == nil || to <= from {
			s.gap(from, to)
			continue
		}
		high, known := u.pile(&s, layers, g, q, from, to)
		whole, ok := q.whole(g).Get()
		if ok {
			s.Most = append(s.Most, Step{from, to, 0, max(whole.Max, high)})
			if whole.Mean > high && rest {
				others.Steps = append(others.Steps, Step{from, to, high, whole.Mean})
			}
		}
		if !ok && !known {
			s.Unknown = append(s.Unknown, Step{from, to, 0, inf})
		}
	}
	s.gap(at, u.x.To)
	if len(others.Steps) > 0 {
		s.Layers = append(s.Layers, others)
	}
	return s
}

// inf is above the top of every picture.
const inf = 1e300

// gap notes that nothing is known of a time. Short ones are between two
// readings.
func (s *Stack) gap(from, to float64) {
	const short = 0.004
	if to-from > short*s.X.To {
		s.Unknown = append(s.Unknown, Step{from, to, 0, inf})
	}
}

// pile adds what each tenant took in one stretch to its layer; it returns how
// high they are together, and whether all are known and some are there.
func (u usage) pile(s *Stack, layers map[model.TenantID]int, g *model.GPULoad, q quantity, from, to float64) (high float64, known bool) {
	known = len(g.Tenants) > 0
	for k := range g.Tenants {
		t := &g.Tenants[k]
		level, ok := q.tenant(t).Get()
		known = known && ok
		if !ok || level.Mean <= 0 {
			continue
		}
		i, there := layers[t.Tenant]
		if !there {
			i = len(s.Layers)
			layers[t.Tenant] = i
			s.Layers = append(s.Layers, u.layer(t.Tenant))
		}
		s.Layers[i].Steps = append(s.Layers[i].Steps, Step{from, to, high, high + level.Mean})
		high += level.Mean
	}
	return high, known
}

func (u usage) layer(id model.TenantID) Layer {
	t, ok := u.kinds[id]
	if !ok {
		return Layer{Name: string(id), Kind: -1}
	}
	return Layer{Name: trackLabel(t), Kind: t.Kind}
}

func gpuLoad(l *model.Load, uuid string) *model.GPULoad {
	for i := range l.GPUs {
		if l.GPUs[i].UUID == uuid {
			return &l.GPUs[i]
		}
	}
	return nil
}
