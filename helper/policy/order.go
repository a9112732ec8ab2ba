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
		v.tier, v.rank = d.tierOf(v), d.rankOf(v)
		v.inTurn, v.first = d.inTurn(v), d.tooLong(v)
		v.place, v.last = v.age, v.m.turn
		d.order = append(d.order, v)
	}
	for _, v := range d.order {
		d.fillIn(v)
	}
	d.pick()
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
	if m.round != d.round || m.view.stand != queued || m.view.t.State.Computes() || m.view.tier != v.tier || d.now >= v.turnEnd() {
		v.m.behind = nil
		return
	}
	v.rank, v.first, v.place, v.last = m.view.rank, m.view.first, m.view.age, m.turn
}

// before compares two tenants in the order of the walk.
func (d *Decider) before(a, b *view) int {
	if c := cmp.Compare(a.stand, b.stand); c != 0 {
		return c
	}
	c := 0
	switch a.stand {
	case starved:
		c = cmp.Compare(a.t.Since, b.t.Since)
	case queued:
		c = byTurn(a, b)
	}
	if c != 0 {
		return c
	}
	return cmp.Compare(a.age, b.age)
}

// byTurn compares two tenants by tier, turn, patience and rank, and of equals those
// whose last turn began longest ago: a newcomer, which is level with the others, does
// not wait for one more turn of whoever has just had one. Those that a guard pauses
// come behind the others. Those in their turns are asked in the order in
// which these began, each beside whom it was let in: asked beside fewer, a rule of the
// policy may say no, and then, of one that waits, yes again, without end.
func byTurn(a, b *view) int {
	switch {
	case (a.banned != nil) != (b.banned != nil):
		return first(b.banned != nil)
	case a.tier != b.tier:
		return cmp.Compare(b.tier, a.tier)
	case a.inTurn != b.inTurn:
		return first(a.inTurn)
	case a.inTurn:
		return cmp.Compare(a.m.turn, b.m.turn)
	case a.first != b.first:
		return first(a.first)
	case a.picked != b.picked:
		return first(a.picked)
	case a.rank != b.rank:
		return cmp.Compare(b.rank, a.rank)
	}
	return cmp.Or(cmp.Compare(a.last, b.last), cmp.Compare(a.place, b.place), cmp.Compare(oneIf(a.m.behind != nil), oneIf(b.m.behind != nil)))
}

// first puts a before b where it is true of a, and not of b.
func first(ofA bool) int {
	if ofA {
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
	return !v.computes || d.now < v.turnEnd()
}

func (v *view) turnEnd() time.Duration { return v.turnBegan() + v.quantum }

// turnBegan is when the tenant began to run in the turn that it was given last.
func (v *view) turnBegan() time.Duration { return max(v.m.from, v.t.Since) }

// tooLong tells whether a tenant without a claim on memory has waited so long
// that nobody is admitted before it.
func (d *Decider) tooLong(v *view) bool {
	l := v.p.Limits
	if v.admitted() {
		return false
	}
	return l.MaxPassed > 0 && v.t.PassedOver >= l.MaxPassed ||
		l.Patience > 0 && d.now-v.waitsSince() >= l.Patience
}
