package policy

import (
	"math"
	"math/bits"
	"slices"
)

// Bounds of a plan: up to planExact tenants on a GPU the best one is found,
// beyond that a good one. A plan that stands is only changed for one that does
// more work by planGain.
const (
	planExact = 8
	planGain  = 1.02
)

// plan says which tenants of a GPU share a turn, for a policy with
// share.value: those for which the whole pack does the most work when every
// turn is as long as the others. Only tenants of this one GPU are planned.
type plan struct {
	members []*memo
	partner []int // by number of the member, itself where it has none
	worth   []float64
}

// planner finds plans. It keeps its buffers.
type planner struct {
	members []*view
	worth   []float64 // work of two together, by their numbers; NaN: not together
	partner []int
	best    [planExact + 1][1 << planExact]float64
	from    [planExact + 1][1 << planExact]int // the group that was added, as a mask
}

// plan makes the plan of each GPU whose policy has a value.
func (d *Decider) plan() {
	for i := range d.gpus {
		if g := &d.gpus[i]; g.p.Share.Value != nil {
			d.planGPU(g)
		}
	}
	if len(d.plans) > len(d.gpus) {
		for uuid := range d.plans {
			if _, ok := d.index[uuid]; !ok {
				delete(d.plans, uuid)
			}
		}
	}
}

func (d *Decider) planGPU(g *gpuView) {
	p := &d.planner
	p.members = p.members[:0]
	for _, v := range g.pack {
		if v.counts && len(v.seats) == 1 && (v.admitted() || v.m.fits) {
			p.members = append(p.members, v)
		}
	}
	d.weigh(g)
	old := d.plans[g.uuid]
	if old == nil {
		old = &plan{}
		d.plans[g.uuid] = old
	}
	if !old.of(p.members) || old.moved(p.worth) {
		p.find()
		old.keep(p)
	}
	for i, v := range p.members {
		v.planned = true
		if j := old.partner[i]; j != i {
			v.partner = p.members[j]
		}
	}
}

// weigh evaluates the worth of every two members that may run together.
func (d *Decider) weigh(g *gpuView) {
	p, n := &d.planner, len(d.planner.members)
	p.worth = slices.Grow(p.worth[:0], n*n)[:n*n]
	for i, a := range p.members {
		p.worth[i*n+i] = 1
		for j, b := range p.members[:i] {
			w := d.worth(a, b, g)
			p.worth[i*n+j], p.worth[j*n+i] = w, w
		}
	}
}

// worth is what two do together, NaN where they may not.
func (d *Decider) worth(a, b *view, g *gpuView) float64 {
	if g.p.Share.Pair != nil && (!d.pairs(a, b, g) || !d.pairs(b, a, g)) {
		return math.NaN()
	}
	d.env.t, d.env.mate, d.env.g = a, b, g
	w := g.p.Share.Value.eval(&d.env)
	if g.p.Share.Pair == nil && w <= 1 {
		return math.NaN()
	}
	return w
}

// of tells whether the plan is one of these members.
func (pl *plan) of(members []*view) bool {
	return slices.EqualFunc(pl.members, members, func(m *memo, v *view) bool { return m == v.m })
}

// moved tells whether a worth is no more what it was when the plan was made.
func (pl *plan) moved(worth []float64) bool {
	return !slices.EqualFunc(pl.worth, worth, func(a, b float64) bool {
		return math.Abs(a-b) <= (planGain-1)*math.Abs(a) || math.IsNaN(a) && math.IsNaN(b)
	})
}

// keep takes the planner's plan, unless the one that stands, of the same
// members, does nearly as much.
func (pl *plan) keep(p *planner) {
	pl.worth = append(pl.worth[:0], p.worth...)
	if pl.of(p.members) && p.work(p.partner) <= planGain*p.work(pl.partner) {
		return
	}
	pl.members = pl.members[:0]
	for _, v := range p.members {
		pl.members = append(pl.members, v.m)
	}
	pl.partner = append(pl.partner[:0], p.partner...)
}

// work is what the members do with a plan in a second, each turn being as
// long as the others; 0 for a plan that they must not follow any more.
func (p *planner) work(partner []int) float64 {
	n, sum, groups := len(p.members), 0.0, 0.0
	for i, j := range partner {
		worth, share := 1.0, 1.0
		if j != i {
			worth, share = p.worth[i*n+j]/2, 0.5
		}
		if math.IsNaN(worth) {
			return 0
		}
		sum += worth
		groups += share
	}
	return sum / max(groups, 1)
}

// find finds the partners for which the members do most.
func (p *planner) find() {
	p.partner = p.partner[:0]
	for i := range p.members {
		p.partner = append(p.partner, i)
	}
	if len(p.members) <= planExact {
		p.exact()
		return
	}
	p.greedy()
}

// exact tries every way to make groups of one and two: best[k][set] is the
// most that k groups of exactly this set do.
func (p *planner) exact() {
	n := len(p.members)
	all := 1<<n - 1
	for k := range n + 1 {
		for set := range all + 1 {
			p.best[k][set] = math.Inf(-1)
		}
	}
	p.best[0][0] = 0
	for k := range n {
		for set := range all {
			if !math.IsInf(p.best[k][set], -1) {
				p.extend(k, set)
			}
		}
	}
	groups := 0
	for k := 1; k <= n; k++ {
		if groups == 0 || p.best[k][all]/float64(k) > p.best[groups][all]/float64(groups) {
			groups = k
		}
	}
	p.unfold(groups, all)
}

// extend adds a group with the first member that is not in the set.
func (p *planner) extend(k, set int) {
	n := len(p.members)
	i := bits.TrailingZeros(^uint(set))
	p.offer(k, set, 1<<i, 1)
	for j := i + 1; j < n; j++ {
		if w := p.worth[i*n+j]; set&(1<<j) == 0 && !math.IsNaN(w) {
			p.offer(k, set, 1<<i|1<<j, w)
		}
	}
}

func (p *planner) offer(k, set, group int, worth float64) {
	if sum := p.best[k][set] + worth; sum > p.best[k+1][set|group] {
		p.best[k+1][set|group], p.from[k+1][set|group] = sum, group
	}
}

// unfold reads the partners off the best way.
func (p *planner) unfold(k, set int) {
	for ; k > 0; k-- {
		group := p.from[k][set]
		i, j := bits.TrailingZeros(uint(group)), bits.Len(uint(group))-1
		p.partner[i], p.partner[j] = j, i
		set &^= group
	}
}

// greedy takes the pair of the highest worth, again and again, while it is
// worth more than one tenant alone.
func (p *planner) greedy() {
	n := len(p.members)
	for {
		a, b, most := 0, 0, 1.0
		for i := range n {
			for j := range i {
				if w := p.worth[i*n+j]; w > most && p.partner[i] == i && p.partner[j] == j {
					a, b, most = i, j, w
				}
			}
		}
		if most == 1 {
			return
		}
		p.partner[a], p.partner[b] = b, a
	}
}
