package policy

import (
	"math"
	"slices"
)

// joins tells whether v may compute with those that were chosen before it on
// its GPUs: where the rules allow it on each of them, and it is worth it on all
// of them taken together. If not it says where, and beside whom. A choice
// stands for a quantum: of those whose turns last nobody asks anew what they
// are worth together, or the answer would change with the order of asking.
func (d *Decider) joins(v *view) (g *gpuView, beside *view, ok bool) {
	asked := false
	for _, s := range v.seats {
		on := &d.gpus[s]
		others := d.noticedOn(on)
		if o, ok := d.allowed(v, others, on); !ok {
			return on, o, false
		}
		if len(others) > 0 {
			g, beside, asked = on, others[0], asked || !planned(v, others) && !stands(v, others)
		}
	}
	return g, beside, !asked || v.p.Share.Value == nil || d.gains(v) > 0
}

// gains is what more the tenants on all of v's GPUs are worth with it than
// without.
func (d *Decider) gains(v *view) float64 {
	sum := 0.0
	for _, s := range v.seats {
		if g := &d.gpus[s]; g.p.Share.Value != nil {
			sum += d.gain(v, d.noticedOn(g), g)
		}
	}
	return sum
}

// noticedOn is those of the chosen on a GPU that would be noticed there.
func (d *Decider) noticedOn(g *gpuView) []*view {
	d.with = d.with[:0]
	for _, o := range g.chosen {
		if o.noticed() {
			d.with = append(d.with, o)
		}
	}
	return d.with
}

// planned tells whether the plan lets v compute with all of these.
func planned(v *view, others []*view) bool {
	for _, o := range others {
		if !inPlan(v, o) || v.group != o.group {
			return false
		}
	}
	return true
}

// stands tells whether the choices of v and of all of these stand.
func stands(v *view, others []*view) bool {
	for _, o := range others {
		if o.stand == queued && !o.lasts() {
			return false
		}
	}
	return v.lasts()
}

// lasts tells whether the tenant is in its turn, or still fills in for another.
func (v *view) lasts() bool { return v.inTurn || v.m.behind != nil }

// inPlan tells whether two tenants are in the same plan.
func inPlan(a, b *view) bool { return a.group != nil && b.group != nil && sameSeats(a, b) }

// gain is what more the tenants on a GPU are worth with v than without.
func (d *Decider) gain(v *view, others []*view, g *gpuView) float64 {
	before := d.worth(others, g)
	d.with = append(others, v)
	return d.worth(d.with, g) - before
}

// allowed asks whether v may compute beside each of others: by the plan where
// it has both, else by the pair rule. A new plan parts nobody before the turns end.
func (d *Decider) allowed(v *view, others []*view, g *gpuView) (*view, bool) {
	rule := g.p.Share.Pair
	for _, o := range others {
		if inPlan(v, o) && v.group != o.group && !(v.inTurn && o.inTurn) {
			return o, false
		}
	}
	if rule == nil || planned(v, others) {
		return nil, true
	}
	d.with = append(others, v)
	for _, o := range others {
		if !d.pairs(v, o, d.with, g) {
			return o, false
		}
	}
	return nil, true
}

// pairs asks the pair rule whether v may compute beside one other, among all
// that would compute with it.
func (d *Decider) pairs(v, o *view, with []*view, g *gpuView) bool {
	d.env.t, d.env.mate, d.env.g, d.env.with = v, o, g, with
	return g.p.Share.Pair.holds(&d.env)
}

// worth is what tenants are worth that compute together, unknown where that of
// one of them is. Where the policy does not say, it is their speeds.
func (d *Decider) worth(with []*view, g *gpuView) float64 {
	d.env.g, d.env.with, d.env.mate = g, with, nil
	sum := 0.0
	for _, v := range with {
		d.env.t = v
		sum += d.env.valueOf(v, g)
	}
	return sum
}

func (e *env) valueOf(v *view, g *gpuView) float64 {
	if g.p.Share.Value != nil {
		return g.p.Share.Value.eval(e)
	}
	if x := finite(e.speedOf(v)); !math.IsNaN(x) {
		return x
	}
	return e.speedGuess()
}

// speedOf is a tenant's speed beside all that compute with it: as they delay it,
// and no more than its part of the GPU allows, where it is known how much of it a
// tenant needs.
func (e *env) speedOf(v *view) float64 {
	x := e.delayed(v)
	if len(e.with) > 2 && x > 0 && v.m.demand > 0 {
		x = math.Min(x, e.part()/v.m.demand)
	}
	return x
}

// delayed is how fast a tenant is that the others delay one by one: beside two of
// which each makes its work last d1 and d2 times as long it lasts
// 1 + (d1-1) + (d2-1) times as long.
func (e *env) delayed(v *view) float64 {
	longer := 1.0
	for _, o := range e.with {
		if o != v {
			longer += 1/e.d.speed(v, o) - 1
		}
	}
	return 1 / longer // 0 beside one that stops it, NaN beside one of which nothing is known
}

// busy is the demand from which on a tenant alone leaves nothing of the GPU idle.
const busy = 0.95

// part is the most of the GPU's time that one of several tenants gets where their
// delays alone would give them more than there is: who wants less leaves the rest
// to the others (max-min fairness). How much there is, the two show that get most
// of it together, and it is all of it at least where nobody would keep it busy
// alone. Who was not seen yet does not count.
func (e *env) part() float64 {
	got, most, full := e.d.got[:0], 0.0, false
	for i, o := range e.with {
		if x := o.m.demand * e.delayed(o); x > 0 {
			got = append(got, x)
		}
		full = full || o.m.demand >= busy
		for _, p := range e.with[:i] {
			most = math.Max(most, e.gets(o, p)+e.gets(p, o))
		}
	}
	if !full {
		most = math.Max(1, most)
	}
	e.d.got = got
	slices.Sort(got)
	for k, x := range got {
		part := most / float64(len(got)-k)
		if x > part {
			return part
		}
		most -= x
	}
	return math.Inf(1)
}

// gets is how much of the GPU's time a gets beside b, as far as it is known.
func (e *env) gets(a, b *view) float64 {
	if x := a.m.demand * e.d.speed(a, b); x > 0 {
		return x
	}
	return 0
}

// unseenDemand is taken for what a tenant needs of the multiprocessors before
// it was seen on them.
const unseenDemand = 0.7

// speedGuess is the speed of all that compute together, by their demands.
func (e *env) speedGuess() float64 {
	sum := 0.0
	for _, v := range e.with {
		if math.IsNaN(v.m.demand) {
			sum += unseenDemand
			continue
		}
		sum += v.m.demand
	}
	return 1 / math.Max(1, sum)
}

// speed is how fast a is beside b, over its speed alone.
func (d *Decider) speed(a, b *view) float64 {
	if d.opts.Speed == nil {
		return math.NaN()
	}
	return finite(d.opts.Speed(a.t, b.t))
}
