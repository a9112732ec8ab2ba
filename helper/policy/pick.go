package policy

import (
	"cmp"
	"math"
	"slices"
)

// pick chooses, for policies with share.best, who computes next of those whose
// turns do not last: those that are worth most together over all of the node's
// GPUs, one added after the other, the one that adds most first, and dropped
// again where the others are worth more without it. That is the best that no
// single tenant could improve, not always the best there is. Tiers are filled
// one after the other.
func (d *Decider) pick() {
	p := &d.picker
	p.open = p.open[:0]
	for i := range d.views {
		v := &d.views[i]
		switch {
		case d.pickable(v):
			p.open = append(p.open, v)
		case v.noticed() && (v.stand < queued || v.stand == queued && v.inTurn):
			d.take(v)
		}
	}
	slices.SortStableFunc(p.open, func(a, b *view) int { return cmp.Compare(b.tier, a.tier) })
	for open := p.open; len(open) > 0; {
		n := 1
		for n < len(open) && open[n].tier == open[0].tier {
			n++
		}
		d.pickTier(open[:n])
		open = open[n:]
	}
}

// picker keeps the buffers of pick.
type picker struct {
	open  []*view
	gains []float64 // of adding each of these, or of dropping it
	stale []bool    // which gains have to be found anew
}

// pickable tells whether it is to be found out if a tenant computes next.
func (d *Decider) pickable(v *view) bool {
	return v.p.Share.Best && v.stand == queued && v.counts && v.banned == nil && !v.inTurn && (v.admitted() || v.m.fits)
}

// take lets a tenant be one of the picked.
func (d *Decider) take(v *view) {
	for _, s := range v.seats {
		d.gpus[s].picks = append(d.gpus[s].picks, v)
	}
}

// drop takes it back.
func (d *Decider) drop(v *view) {
	for _, s := range v.seats {
		g := &d.gpus[s]
		g.picks = slices.DeleteFunc(g.picks, func(o *view) bool { return o == v })
	}
}

// pickTier adds and drops tenants of one tier until nothing is better.
func (d *Decider) pickTier(open []*view) {
	p := &d.picker
	p.gains = slices.Grow(p.gains[:0], len(open))[:len(open)]
	p.stale = slices.Grow(p.stale[:0], len(open))[:len(open)]
	for i := range open {
		p.stale[i] = true
	}
	for range 4 * len(open) { // each step is worth something: this only bounds the time
		at := d.bestStep(open)
		if at < 0 {
			return
		}
		v := open[at]
		if v.picked = !v.picked; v.picked {
			d.take(v)
		} else {
			d.drop(v)
		}
		for i, o := range open {
			p.stale[i] = p.stale[i] || meet(v, o)
		}
	}
}

// bestStep is which of these is best added or dropped, -1 where nothing is better.
func (d *Decider) bestStep(open []*view) int {
	p, at := &d.picker, -1
	for i, v := range open {
		if p.stale[i] {
			p.gains[i], p.stale[i] = d.changes(v), false
		}
		if p.gains[i] > 0 && (at < 0 || p.gains[i] > p.gains[at]) {
			at = i
		}
	}
	return at
}

// meet tells whether two tenants share a GPU.
func meet(a, b *view) bool {
	for _, s := range a.seats {
		if slices.Contains(b.seats, s) {
			return true
		}
	}
	return false
}

// changes is what more all are worth if the tenant is added, or dropped where it
// is picked; what is only rounding counts as nothing.
func (d *Decider) changes(v *view) float64 {
	before, after := 0.0, 0.0
	for _, s := range v.seats {
		g := &d.gpus[s]
		if g.p.Share.Value == nil {
			continue
		}
		d.with = d.with[:0]
		for _, o := range g.picks {
			if o != v {
				d.with = append(d.with, o)
			}
		}
		others := d.with
		if !v.picked && !d.mayJoin(v, others, g) {
			return 0
		}
		without := d.worth(others, g)
		with := d.worth(append(others, v), g)
		if v.picked {
			with, without = without, with
		}
		before, after = before+without, after+with
	}
	if !(math.Abs(after-before) > 1e-9*math.Abs(before)) {
		return 0
	}
	return after - before
}

// mayJoin tells whether the rules let a tenant compute beside others.
func (d *Decider) mayJoin(v *view, others []*view, g *gpuView) bool {
	if g.p.Share.Together > 0 && len(others) >= g.p.Share.Together {
		return false
	}
	_, ok := d.allowed(v, others, g)
	return ok
}
