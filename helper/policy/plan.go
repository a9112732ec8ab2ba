package policy

import (
	"math"
	"math/bits"
	"slices"
	"time"
)

// Bounds of a plan: up to planExact tenants the best one is found, beyond that
// a good one. A plan that stands is only changed for one that is worth planGain
// times as much.
const (
	planExact = 8
	planGain  = 1.02
)

// plan says which tenants share a turn, for a policy with share.plan: those
// for which the whole pack is worth most when every turn is as long as the
// others. A plan is for tenants that all have the same GPUs.
type plan struct {
	members []*memo
	pairs   []float64     // what two are worth together, when the plan was made
	read    time.Duration // the reading of the driver at which it was looked at
	groups  []set
}

// set is a set of members, a bit for each.
type set uint64

func (s set) has(i int) bool { return s>>i&1 == 1 }

// planner finds plans. It keeps its buffers.
type planner struct {
	members []*view
	most    int                         // members of a group
	of      func(set, *gpuView) float64 // what a group is worth; NaN: they do not go together
	g       *gpuView
	pairs   []float64            // worth of two together, by their numbers
	known   [1 << planExact]bool // whose worth is in the next one
	worths  [1 << planExact]float64
	best    [planExact + 1][1 << planExact]float64 // most that so many groups of exactly this set are worth
	from    [planExact + 1][1 << planExact]set     // the group that was added
	groups  []set
}

// plans makes the plan of every pack whose policy asks for one.
func (d *Decider) plans() {
	for i := range d.views {
		v := &d.views[i]
		if v.group == nil && v.plannable(d) {
			d.planWith(v)
		}
	}
}

func (v *view) plannable(d *Decider) bool {
	if len(v.seats) == 0 || !v.counts || !v.admitted() && !v.m.fits {
		return false
	}
	share := &d.gpus[v.seats[0]].p.Share
	return share.Plan && share.Value != nil
}

func sameSeats(a, b *view) bool { return slices.Equal(a.seats, b.seats) }

// planWith makes the plan of a tenant and all that have its GPUs.
func (d *Decider) planWith(first *view) {
	p, g := &d.planner, &d.gpus[first.seats[0]]
	p.members, p.most = p.members[:0], g.p.Share.Together
	for _, v := range g.pack {
		if v.plannable(d) && sameSeats(v, first) && len(p.members) < 64 {
			p.members = append(p.members, v)
		}
	}
	if first.m.plan == nil {
		first.m.plan = &plan{}
	}
	pl := first.m.plan
	if pl.read != d.n.Read || !pl.of(p.members) {
		pl.read = d.n.Read
		d.replan(pl, g)
	}
	for _, group := range pl.groups {
		for s := group; s != 0; s &= s - 1 {
			p.members[bits.TrailingZeros64(uint64(s))].group = p.members[bits.TrailingZeros64(uint64(group))]
		}
	}
}

// replan looks at a plan anew: with each reading of the driver, and when other
// tenants take part.
func (d *Decider) replan(pl *plan, g *gpuView) {
	p := &d.planner
	d.weigh(g)
	if !pl.of(p.members) || pl.moved(p.pairs) || p.work(pl.groups) == 0 {
		p.find()
		pl.keep(p)
	}
}

// weigh evaluates what every two members are worth together.
func (d *Decider) weigh(g *gpuView) {
	p, n := &d.planner, len(d.planner.members)
	clear(p.known[:])
	p.g = g
	p.pairs = slices.Grow(p.pairs[:0], n*n)[:n*n]
	for i := range n {
		p.pairs[i*n+i] = p.worth(1 << i)
		for j := range i {
			w := p.worth(1<<i | 1<<j)
			p.pairs[i*n+j], p.pairs[j*n+i] = w, w
		}
	}
}

// worthOf is what a group is worth, NaN where the pair rule keeps two of them
// apart.
func (d *Decider) worthOf(s set, g *gpuView) float64 {
	d.with = d.with[:0]
	for ; s != 0; s &= s - 1 {
		d.with = append(d.with, d.planner.members[bits.TrailingZeros64(uint64(s))])
	}
	if g.p.Share.Pair != nil && !d.allPair(d.with, g) {
		return math.NaN()
	}
	return d.worth(d.with, g)
}

// allPair tells whether the pair rule allows every two of these.
func (d *Decider) allPair(with []*view, g *gpuView) bool {
	for i, a := range with {
		for _, b := range with[:i] {
			if !d.pairs(a, b, with, g) || !d.pairs(b, a, with, g) {
				return false
			}
		}
	}
	return true
}

// worth is what a group is worth, NaN where its members do not go together, or
// are worth no more than without one of them.
func (p *planner) worth(s set) float64 {
	if s >= 1<<planExact {
		return p.weighGroup(s)
	}
	if !p.known[s] {
		p.worths[s], p.known[s] = p.weighGroup(s), true
	}
	return p.worths[s]
}

func (p *planner) weighGroup(s set) float64 {
	w := p.of(s, p.g)
	if s >= 1<<planExact {
		return w
	}
	for rest := s; rest != 0 && s&(s-1) != 0; rest &= rest - 1 {
		if !(w > p.worth(s&^(rest&-rest))) {
			return math.NaN()
		}
	}
	return w
}

// of tells whether the plan is one of these members.
func (pl *plan) of(members []*view) bool {
	return slices.EqualFunc(pl.members, members, func(m *memo, v *view) bool { return m == v.m })
}

// moved tells whether a worth is no more what it was when the plan was made.
func (pl *plan) moved(pairs []float64) bool {
	return !slices.EqualFunc(pl.pairs, pairs, func(a, b float64) bool {
		return math.Abs(a-b) <= (planGain-1)*math.Abs(a) || math.IsNaN(a) && math.IsNaN(b)
	})
}

// keep takes the planner's plan, unless the one that stands, of the same
// members, does nearly as much.
func (pl *plan) keep(p *planner) {
	pl.pairs = append(pl.pairs[:0], p.pairs...)
	if pl.of(p.members) && p.work(p.groups) <= planGain*p.work(pl.groups) {
		return
	}
	pl.members = pl.members[:0]
	for _, v := range p.members {
		pl.members = append(pl.members, v.m)
	}
	pl.groups = append(pl.groups[:0], p.groups...)
}

// work is what the members are worth with a plan, each turn being as long as
// the others; 0 for a plan that they must not follow any more.
func (p *planner) work(groups []set) float64 {
	sum := 0.0
	for _, s := range groups {
		w := p.worth(s)
		if math.IsNaN(w) {
			return 0
		}
		sum += w
	}
	return sum / max(float64(len(groups)), 1)
}

// find finds the groups for which the members do most.
func (p *planner) find() {
	if len(p.members) <= planExact {
		p.exact()
		return
	}
	p.greedy()
}

// exact tries every way to make groups.
func (p *planner) exact() {
	n := len(p.members)
	all := set(1)<<n - 1
	for k := range n + 1 {
		for s := range all + 1 {
			p.best[k][s] = math.Inf(-1)
		}
	}
	p.best[0][0] = 0
	for k := range n {
		for s := range all {
			if !math.IsInf(p.best[k][s], -1) {
				p.extend(k, s, all)
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

// extend adds every group with the first member that is not in the set.
func (p *planner) extend(k int, s, all set) {
	rest := all &^ s
	first := rest & -rest
	rest &^= first
	for more := rest; ; more = (more - 1) & rest {
		group := first | more
		if p.most == 0 || bits.OnesCount64(uint64(group)) <= p.most {
			p.offer(k, s, group)
		}
		if more == 0 {
			return
		}
	}
}

func (p *planner) offer(k int, s, group set) {
	if sum := p.best[k][s] + p.worth(group); sum > p.best[k+1][s|group] {
		p.best[k+1][s|group], p.from[k+1][s|group] = sum, group
	}
}

// unfold reads the groups off the best way.
func (p *planner) unfold(k int, s set) {
	p.groups = p.groups[:0]
	for ; k > 0; k-- {
		p.groups = append(p.groups, p.from[k][s])
		s &^= p.from[k][s]
	}
}

// greedy joins the two groups for which that does most, again and again, while
// it does more than they do apart.
func (p *planner) greedy() {
	p.groups = p.groups[:0]
	for i := range p.members {
		p.groups = append(p.groups, 1<<i)
	}
	for p.join() {
	}
}

func (p *planner) join() bool {
	most, a, b := p.work(p.groups), -1, -1
	k := float64(len(p.groups))
	sum := most * k
	for i, x := range p.groups {
		for j, y := range p.groups[:i] {
			if p.most > 0 && bits.OnesCount64(uint64(x|y)) > p.most {
				continue
			}
			w := p.worth(x | y)
			if work := (sum - p.worth(x) - p.worth(y) + w) / (k - 1); work > most && w > p.worth(x) && w > p.worth(y) {
				most, a, b = work, j, i
			}
		}
	}
	if a < 0 {
		return false
	}
	p.groups[a] |= p.groups[b]
	p.groups = slices.Delete(p.groups, b, b+1)
	return true
}
