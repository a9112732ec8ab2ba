package learn

import (
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// point is how far a tenant was at a time. Amounts of another source than the
// one before have nothing to do with it.
type point struct {
	at     time.Duration
	amount float64
	source uint64
}

// window measures a rate between two points. It stands for a while before it
// counts, so that what came just before a change is left out.
type window struct {
	open    bool
	base    point
	waiting []measured
}

type measured struct {
	at   time.Duration // its end
	rate float64
}

// reset forgets what was not counted yet.
func (w *window) reset() { w.open, w.waiting = false, w.waiting[:0] }

// add takes a point in. Those from before a time do not count.
func (w *window) add(p point, from, length time.Duration) {
	switch {
	case p.at < from:
		return
	case !w.open || p.source != w.base.source || p.amount < w.base.amount:
		w.reset()
		w.open, w.base = true, p
		return
	}
	if d := p.at - w.base.at; d >= length {
		w.waiting = append(w.waiting, measured{p.at, (p.amount - w.base.amount) / d.Seconds()})
		w.base = p
	}
}

// take gives the rates of the windows that ended before a time, oldest first.
func (w *window) take(before time.Duration, each func(rate float64)) {
	for len(w.waiting) > 0 && w.waiting[0].at <= before {
		each(w.waiting[0].rate)
		w.waiting = append(w.waiting[:0], w.waiting[1:]...)
	}
}

// company is who computes beside a tenant.
type company struct {
	steady bool // all of them run, nobody is being stopped or continued
	mates  int
	mate   model.TenantID // of one
	job    Job            // the mate's
}

// companyOf tells who computes beside a tenant, on any of its GPUs.
func companyOf(n *model.Node, t *model.Tenant, now, idle time.Duration) company {
	c := company{steady: runs(t) && t.OnGPU && n.Degraded == ""}
	if !c.steady {
		return c
	}
	for _, o := range n.Tenants {
		if o == t || !o.OnGPU || !o.State.Computes() || o.Suspended != "" || o.Idle(now) > idle || !meets(o, t) {
			continue
		}
		c.steady = c.steady && runs(o)
		c.mates++
		c.mate = o.ID
		c.job, _ = jobOf(o)
	}
	return c
}

// runs tells whether a tenant runs and is left to.
func runs(t *model.Tenant) bool { return t.State == model.Running && t.Suspended == "" }

func meets(a, b *model.Tenant) bool {
	for _, g := range a.GPUs {
		if b.Uses(g) {
			return true
		}
	}
	return false
}
