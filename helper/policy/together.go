package policy

import "math"

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

// stands tells whether v and all of these are in their turns.
func stands(v *view, others []*view) bool {
	for _, o := range others {
		if o.stand == queued && !o.inTurn {
			return false
		}
	}
	return v.inTurn
}

// inPlan tells whether two tenants are in the same plan.
func inPlan(a, b *view) bool { return a.group != nil && b.group != nil && sameSeats(a, b) }

// gain is what more the tenants on a GPU are worth with v than without.
func (d *Decider) gain(v *view, others []*view, g *gpuView) float64 {
	before := d.worth(others, g)
	d.with = append(others, v)
	return d.worth(d.with, g) - before
}

// allowed asks whether v may compute beside each of others: by the plan where
// it has both, else by the pair rule.
func (d *Decider) allowed(v *view, others []*view, g *gpuView) (*view, bool) {
	rule := g.p.Share.Pair
	for _, o := range others {
		if inPlan(v, o) && v.group != o.group {
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

// speedOf is a tenant's speed beside all that compute with it. They delay it
// one by one: beside two of which each makes its work last d1 and d2 times as
// long it lasts 1 + (d1-1) + (d2-1) times as long.
func (e *env) speedOf(v *view) float64 {
	longer := 1.0
	for _, o := range e.with {
		if o != v {
			longer += 1/e.d.speed(v, o) - 1
		}
	}
	return 1 / longer // 0 beside one that stops it, NaN beside one of which nothing is known
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
