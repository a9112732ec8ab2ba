package journal

import (
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// Merger joins loads that follow each other, so that a long time becomes a few
// stretches. One that is long enough stays as it is.
type Merger struct {
	least time.Duration
	out   []model.Load
	to    time.Time // end of the last stretch
}

// NewMerger makes a merger whose stretches are at least so long.
func NewMerger(least time.Duration) *Merger { return &Merger{least: least} }

// Take takes the next load.
func (m *Merger) Take(l model.Load) {
	const gap = time.Second
	n := len(m.out) - 1
	joins := n >= 0 && m.out[n].Length < m.least && l.From.Sub(m.to).Abs() <= gap
	m.to = l.From.Add(l.Length)
	if !joins {
		m.out = append(m.out, l)
		return
	}
	join(&m.out[n], &l)
}

// Loads returns what has come of all that was taken.
func (m *Merger) Loads() []model.Load { return m.out }

func join(a, b *model.Load) {
	for i := range b.GPUs {
		g := &b.GPUs[i]
		if k := indexGPU(a.GPUs, g.UUID); k >= 0 {
			joinGPU(&a.GPUs[k], g, a.Length, b.Length)
			continue
		}
		a.GPUs = append(a.GPUs, *g)
	}
	a.Length += b.Length
}

func indexGPU(list []model.GPULoad, uuid string) int {
	for i := range list {
		if list[i].UUID == uuid {
			return i
		}
	}
	return -1
}

func joinGPU(a, b *model.GPULoad, la, lb time.Duration) {
	a.Used, a.Util = joinLevel(a.Used, b.Used, la, lb), joinLevel(a.Util, b.Util, la, lb)
	a.Index, a.Name, a.Total = b.Index, b.Name, b.Total
	all := make([]model.TenantLoad, 0, len(a.Tenants)+len(b.Tenants))
	for _, t := range a.Tenants {
		k := indexTenant(b.Tenants, t.Tenant)
		if k < 0 {
			all = append(all, thin(t, la, la+lb))
			continue
		}
		o := b.Tenants[k]
		all = append(all, model.TenantLoad{Tenant: t.Tenant, Memory: joinLevel(t.Memory, o.Memory, la, lb), SM: joinLevel(t.SM, o.SM, la, lb)})
	}
	for _, t := range b.Tenants {
		if indexTenant(a.Tenants, t.Tenant) < 0 {
			all = append(all, thin(t, lb, la+lb))
		}
	}
	a.Tenants = all
}

// thin spreads over the whole what a tenant took while it was there.
func thin(t model.TenantLoad, there, whole time.Duration) model.TenantLoad {
	spread := func(r model.Reading[model.Level]) model.Reading[model.Level] {
		l, ok := r.Get()
		if !ok {
			return r
		}
		return model.Known(model.Level{Mean: l.Mean * there.Seconds() / whole.Seconds(), Max: l.Max})
	}
	return model.TenantLoad{Tenant: t.Tenant, Memory: spread(t.Memory), SM: spread(t.SM)}
}

func indexTenant(list []model.TenantLoad, id model.TenantID) int {
	for i := range list {
		if list[i].Tenant == id {
			return i
		}
	}
	return -1
}

// joinLevel is the level over both; where one is not known, that of the other, unless
// that is nothing: a job that was paused tells nothing of the time in which it computed.
func joinLevel(a, b model.Reading[model.Level], la, lb time.Duration) model.Reading[model.Level] {
	x, okA := a.Get()
	y, okB := b.Get()
	switch {
	case !okA && !okB || !okA && y.Max == 0 || !okB && x.Max == 0:
		return model.Unknown[model.Level]()
	case !okA:
		return b
	case !okB:
		return a
	}
	whole := la.Seconds() + lb.Seconds()
	return model.Known(model.Level{Mean: (x.Mean*la.Seconds() + y.Mean*lb.Seconds()) / whole, Max: max(x.Max, y.Max)})
}
