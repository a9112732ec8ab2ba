package policy

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// Placing asks which GPU a tenant is to have that is about to be launched.
type Placing struct {
	Tenant *model.Tenant // its registration and terms; not one of the node's yet, and without GPUs
	GPUs   int           // how many Slurm gave it, on all nodes
	Among  []string      // UUIDs of those that it may have: the caller counts shards
	Most   int           // tenants that a GPU may have, it included; 0: any number
}

// Placed is where a tenant is to go.
type Placed struct {
	GPU string // its UUID; "" where Slurm's choice stays
	Why string // in words
}

// Place chooses the GPU on which a tenant fits best beside those that were
// given it. Jobs of several GPUs keep Slurm's: on the same GPUs they take turns
// as one, on GPUs chosen one by one they do not.
//
// What must be comes first: the driver shows the GPU without a fault and not as
// an instance of a partitioned one, it has fewer than Most tenants, and the
// tenant's claim fits into the memory that is left when all there have what they
// may count on. Of these GPUs the one with the highest place.rank of its own
// policy is taken; of equal ones, and without it, the one
// with the fewest tenants, and of such the one where the tenant adds most: what
// all there do with it less what they do without, as share.value has it (else
// their speeds, learnt or guessed), in turns as the policy shares them. Then comes
// the least utilised, the one with most free memory, the lowest index.
//
// It is pure, and does not look at what a decision remembers: use a decider of
// its own for it, since what the last decision of this one found is forgotten.
// Demands are those of Options.Demand, else of what a tenant took so far.
func (d *Decider) Place(n *model.Node, ask Placing, now time.Duration) Placed {
	if ask.GPUs != 1 {
		return Placed{Why: fmt.Sprintf("has %d GPUs: Slurm chooses them", ask.GPUs)}
	}
	d.begin(n, now)
	for i := range d.views {
		v := &d.views[i]
		v.m.demand = d.demandBefore(v.t)
		v.admitting = v.t.State != model.Swapped && v.present()
	}
	v := &view{t: ask.Tenant, m: &memo{demand: d.demandBefore(ask.Tenant)}, share: 1}
	var offers []offer
	for i := range d.gpus {
		if slices.Contains(ask.Among, d.gpus[i].uuid) {
			if o, ok := d.offer(v, i, ask.Most); ok {
				offers = append(offers, o)
			}
		}
	}
	if len(offers) == 0 {
		return Placed{Why: fmt.Sprintf("fits on none of %d GPUs", len(ask.Among))}
	}
	slices.SortFunc(offers, better)
	return Placed{GPU: offers[0].g.uuid, Why: whyPlaced(offers)}
}

// offer is a GPU that a tenant may have.
type offer struct {
	g     *gpuView
	with  []*view // on it already
	rank  float64 // place.rank, 0 without it; NaN: unknown, the lowest
	gain  float64 // what all on it do with the tenant less what they do without it
	turns int     // in which they do it
	pace          // of the tenant on it
	free  float64 // memory before the tenant comes; NaN: unknown
}

// demandBefore is what a tenant is taken to need of the multiprocessors when it
// is placed, or another beside it.
func (d *Decider) demandBefore(t *model.Tenant) float64 {
	if d.opts.Demand != nil {
		if x := finite(d.opts.Demand(t)); !math.IsNaN(x) {
			return x
		}
	}
	return reading(t.Tally.Util())
}

// present tells whether a tenant is there for one that comes: it has not
// ended, and is no job that only waits for steps that are tenants of their own.
func (v *view) present() bool {
	return v.t.State != model.Gone && v.t.State != model.Evicting && !v.child
}

// offer looks at one GPU for a tenant that may be given it.
func (d *Decider) offer(v *view, i, most int) (offer, bool) {
	g := &d.gpus[i]
	o := offer{g: g}
	for _, t := range g.pack {
		if t.present() {
			o.with = append(o.with, t)
		}
	}
	if g.gpu == nil || g.gpu.Fault != "" || g.gpu.MIG || most > 0 && len(o.with) >= most {
		return o, false
	}
	pack, before := g.pack, g.p
	defer func() { g.pack, g.p = pack, before }()
	g.pack = append(slices.Clone(pack), v)
	if p := d.asked(g); p != nil {
		g.p = p
	}
	v.p, v.seats = g.p, []int{i}
	g.counted = false
	if ok, _ := d.fits(v, g); !ok {
		return o, false
	}
	o.free = reading(d.free(g))
	d.appraise(&o, v)
	return o, true
}

// appraise finds out what the tenant is good for on the GPU, and its rank there.
func (d *Decider) appraise(o *offer, v *view) {
	without, _, _ := d.does(o.with, o.g)
	with, turns, pace := d.does(append(slices.Clone(o.with), v), o.g)
	o.gain, o.turns, o.pace = with-without, turns, pace
	if math.Abs(o.gain) < 1e-9*math.Max(math.Abs(with), math.Abs(without)) {
		o.gain = 0 // what is left are roundings
	}
	if rank := o.g.p.Place.Rank; rank != nil {
		d.env.t, d.env.mate, d.env.g, d.env.with, d.env.offer = v, nil, o.g, nil, o
		o.rank = rank.eval(&d.env)
	}
}

// does is what tenants are worth that share the time of a GPU, in turns as long
// as each other, in how many, and how fast the last of them is then.
func (d *Decider) does(with []*view, g *gpuView) (worth float64, turns int, last pace) {
	p := &d.planner
	p.members = append(p.members[:0], with[:min(len(with), 64)]...)
	if p.most = g.p.Share.Together; g.p.Share.Value != nil {
		d.weigh(g)
		p.find()
		return p.work(p.groups), len(p.groups), d.plannedPace(g)
	}
	for rest := p.members; len(rest) > 0; turns++ {
		var group []*view
		group, rest = d.takeTurn(rest, g)
		worth += d.worth(group, g)
		if v := with[len(with)-1]; slices.Contains(group, v) {
			last = d.paceOf(v, group, g)
		}
	}
	last.share /= math.Max(float64(turns), 1)
	return worth / math.Max(float64(turns), 1), turns, last
}

// takeTurn is the first of those that wait with all that may compute beside it,
// as the walk chooses them, and who is left.
func (d *Decider) takeTurn(waiting []*view, g *gpuView) (group, rest []*view) {
	defer func() { g.chosen = g.chosen[:0] }()
	for _, v := range waiting {
		g.chosen = append(g.chosen[:0], group...)
		if g.p.Share.Together > 0 && len(group) >= g.p.Share.Together {
			rest = append(rest, v)
		} else if _, ok := d.allowed(v, group, g); !ok {
			rest = append(rest, v)
		} else {
			group = append(group, v)
		}
	}
	return group, rest
}

// better compares two offers, the better first.
func better(a, b offer) int {
	return cmp.Or(highest(a.rank, b.rank), cmp.Compare(len(a.with), len(b.with)), highest(a.gain, b.gain),
		highest(-reading(a.g.gpu.Util), -reading(b.g.gpu.Util)), highest(a.free, b.free),
		cmp.Compare(a.g.gpu.Index, b.g.gpu.Index))
}

// highest compares two numbers, the higher first and unknown last.
func highest(a, b float64) int { return cmp.Compare(b, a) } // NaN is below all others
