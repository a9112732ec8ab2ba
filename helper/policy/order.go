package policy

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// sort puts the tenants in the order in which they choose: those that cannot
// be stopped, those that starve, and the rest by tier, turn and rank.
func (d *Decider) sort() {
	for i := range d.views {
		v := &d.views[i]
		if v.stand == queued {
			v.tier, v.rank = d.tierOf(v), d.rankOf(v)
		}
		d.order = append(d.order, v)
	}
	for _, v := range d.order {
		d.fillIn(v)
	}
	slices.SortFunc(d.order, d.before)
}

func (d *Decider) tierOf(v *view) float64 {
	if v.p.Share.Tier == nil {
		return 0
	}
	d.env.t, d.env.mate, d.env.g = v, nil, nil
	if x := v.p.Share.Tier.eval(&d.env); !math.IsNaN(x) {
		return x
	}
	return 0
}

func (d *Decider) rankOf(v *view) float64 {
	if v.p.Share.Rank == nil {
		return -v.service()
	}
	d.env.t, d.env.mate, d.env.g = v, nil, nil
	if x := v.p.Share.Rank.eval(&d.env); !math.IsNaN(x) {
		return x
	}
	return math.Inf(-1)
}

// fillIn gives a tenant that fills in for one that waits for a part of its
// GPUs the place right behind that one, so that nobody else takes the seat
// over in the meantime.
func (d *Decider) fillIn(v *view) {
	m := v.m.behind
	if m == nil {
		return
	}
	if m.round != d.round || m.view.stand != queued || !m.view.t.State.Stopped() || m.view.tier != v.tier || d.now >= v.m.from+v.quantum {
		v.m.behind = nil
		return
	}
	v.rank = m.view.rank
}

// before compares two tenants in the order of the walk.
func (d *Decider) before(a, b *view) int {
	if c := cmp.Compare(a.stand, b.stand); c != 0 {
		return c
	}
	switch a.stand {
	case starved:
		return cmp.Or(cmp.Compare(a.t.Since, b.t.Since), cmp.Compare(a.age, b.age))
	case queued:
		return cmp.Or(
			cmp.Compare(b.tier, a.tier),
			first(d.inTurn(a), d.inTurn(b)),
			first(d.tooLong(a), d.tooLong(b)),
			cmp.Compare(b.rank, a.rank),
			first(b.m.behind != nil, a.m.behind != nil),
			cmp.Compare(a.age, b.age),
		)
	}
	return cmp.Compare(a.age, b.age)
}

// first puts what is true before what is not.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// inTurn tells whether the tenant has a turn that has not ended. One that
// waits for its mates to stop keeps its turn; it ends a quantum after it
// began to run.
func (d *Decider) inTurn(v *view) bool {
	if !v.m.granted || v.m.behind != nil {
		return false
	}
	return !v.computes || d.now < d.turnEnd(v)
}

func (d *Decider) turnEnd(v *view) time.Duration {
	return max(v.m.from, v.t.Since) + v.quantum
}

// tooLong tells whether a tenant without a claim on memory has waited so long
// that nobody is admitted before it.
func (d *Decider) tooLong(v *view) bool {
	l := v.p.Limits
	if v.admitted() {
		return false
	}
	return l.MaxPassed > 0 && v.t.PassedOver >= l.MaxPassed ||
		l.Patience > 0 && d.now-v.t.Registered >= l.Patience
}
