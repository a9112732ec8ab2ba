package policy

import (
	"math"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// Options are what a decider is told about the world around it. The functions
// must be pure: the same answer for the same state.
type Options struct {
	// Swap tells that swapping works on this node; without it no policy swaps.
	Swap bool
	// Speed is a tenant's learnt speed beside a mate over its speed alone, NaN
	// where nothing is learnt. nil: nothing ever is.
	Speed func(t, mate *model.Tenant) float64
	// Remaining is the computing time in seconds that a tenant still needs
	// alone, NaN where nothing is known. nil: nothing ever is.
	Remaining func(t *model.Tenant, now time.Duration) float64
	// Demand is the share of time on the multiprocessors that a tenant needs, as
	// its job was seen before, NaN where nothing is known. nil: nothing ever is.
	// Only Place asks.
	Demand func(t *model.Tenant) float64
}

// Decider decides. It keeps its buffers from one decision to the next, and of
// each live tenant when its turn began and which guards have spoken. It is not
// safe for use by several goroutines.
type Decider struct {
	set   *Set
	opts  Options
	epoch time.Time // wall clock at 0 of the monotonic one

	n       *model.Node
	now     time.Duration
	next    time.Duration
	round   uint64
	turns   uint64 // that began so far
	env     env
	views   []view
	order   []*view
	gpus    []gpuView
	seats   []int
	two     [2]*view // a pair that share.throttle is asked of
	index   map[string]int
	memos   map[model.TenantID]*memo
	devices map[string]*[]episode // of guards that look at GPUs
	planner planner
	picker  picker
	with    []*view   // scratch: who would compute together
	got     []float64 // scratch: of the GPU, by those who compute together
	actions []model.Action
}

// NewDecider makes a decider for a node whose policies are given.
func NewDecider(s *Set, o Options) *Decider {
	d := &Decider{
		set: s, opts: o,
		index: map[string]int{}, memos: map[model.TenantID]*memo{}, devices: map[string]*[]episode{},
	}
	d.env.d = d
	d.planner.of = d.worthOf
	return d
}

// SetPolicies changes the policies from the next decision on. Turns go on;
// guards begin anew.
func (d *Decider) SetPolicies(s *Set) {
	d.set = s
	clear(d.devices)
	for _, m := range d.memos {
		m.guards, m.plan = m.guards[:0], nil
	}
}

// SetSwap tells whether swapping works on this node, from the next decision on.
func (d *Decider) SetSwap(works bool) { d.opts.Swap = works }

// SetEpoch tells the wall clock at the time 0 of the monotonic one. Until it
// is told, deadlines and time limits are unknown to expressions.
func (d *Decider) SetEpoch(epoch time.Time) { d.epoch = epoch }

// Decide says what to do now, and when it wants to be asked again at the
// latest; 0: not before something happens. The engine asks on every sample,
// event and outcome too. It never changes the node. The actions have no ID,
// and are valid until the next call.
func (d *Decider) Decide(n *model.Node, now time.Duration) (actions []model.Action, next time.Duration) {
	d.begin(n, now)
	if n.Degraded != "" {
		d.letAllGo()
		return d.actions, d.next
	}
	for i := range d.views {
		d.standing(&d.views[i])
	}
	d.learnDemand()
	d.contenders()
	d.sort()
	d.walkGuards()
	d.plans()
	for i, v := range d.order {
		v.nth = i
		d.walk(v)
	}
	for _, v := range d.order {
		d.settleTurn(v)
	}
	d.emit()
	return d.actions, d.next
}

// Why is the reason, by the last decision, for which a tenant computes or
// waits; ok is false for one that it did not see.
func (d *Decider) Why(id model.TenantID) (why model.Reason, ok bool) {
	m := d.memos[id]
	if m == nil || m.view == nil || m.round != d.round {
		return model.Reason{}, false
	}
	return d.reason(m.view), true
}

// Spares says why, by the last decision, a tenant that runs would not be paused at
// once if a person ordered that, and until when at least, 0 where it never is; ok is
// false where it would be.
func (d *Decider) Spares(id model.TenantID) (why model.Reason, until time.Duration, ok bool) {
	m := d.memos[id]
	if m == nil || m.view == nil || m.round != d.round || !m.view.t.State.Runs() {
		return model.Reason{}, 0, false
	}
	v := *m.view
	switch t := v.t; {
	case t.Exempt != "":
		v.why = verdict{code: exempt}
	case t.Retry > d.now:
		v.why, until = verdict{code: failed}, t.Retry
	case t.Settle > d.now:
		v.why, until = verdict{code: settling}, t.Settle
	case d.now < d.youngUntil(&v):
		v.why, until = verdict{code: young}, d.youngUntil(&v)
	default:
		return model.Reason{}, 0, false
	}
	return d.reason(&v), until, true
}

// wake asks for a decision at a time to come.
func (d *Decider) wake(at time.Duration) {
	if at > d.now && (d.next == 0 || at < d.next) {
		d.next = at
	}
}

// begin makes the views of the node.
func (d *Decider) begin(n *model.Node, now time.Duration) {
	d.n, d.now, d.next = n, now, 0
	d.env.now = now
	d.round++
	d.actions, d.order, d.seats = d.actions[:0], d.order[:0], d.seats[:0]
	d.beginGPUs()
	d.beginTenants()
	d.forget()
}

func (d *Decider) beginGPUs() {
	clear(d.index)
	d.gpus = d.gpus[:0]
	for i := range d.n.GPUs {
		d.addGPU(d.n.GPUs[i].UUID, &d.n.GPUs[i])
	}
	for _, t := range d.n.Tenants {
		for _, uuid := range t.GPUs {
			if _, ok := d.index[uuid]; !ok {
				d.addGPU(uuid, nil)
			}
		}
	}
}

// addGPU adds a view, using again the buffers of the one that stood there.
func (d *Decider) addGPU(uuid string, gpu *model.GPU) {
	i := len(d.gpus)
	if i < cap(d.gpus) {
		d.gpus = d.gpus[:i+1]
	} else {
		d.gpus = append(d.gpus, gpuView{})
	}
	g := &d.gpus[i]
	*g = gpuView{uuid: uuid, gpu: gpu, p: d.set.For(uuid), pack: g.pack[:0], chosen: g.chosen[:0], picks: g.picks[:0]}
	d.index[uuid] = i
}

func (d *Decider) beginTenants() {
	if cap(d.views) < len(d.n.Tenants) {
		d.views = make([]view, 0, 2*len(d.n.Tenants))
	}
	d.views = d.views[:0]
	for i, t := range d.n.Tenants {
		d.views = append(d.views, view{t: t, age: i, p: d.set.Default, share: 1})
		v := &d.views[i]
		v.m = d.memo(t)
		v.m.view, v.m.round = v, d.round
		v.computes = t.State.Computes() && t.Suspended == ""
		d.seat(v)
	}
	d.rule()
	for i := range d.views {
		d.adopt(&d.views[i])
	}
}

// rule puts on each GPU the policy that all of its tenants ask for, else the
// admin's stays. The policy of its first GPU is a tenant's own.
func (d *Decider) rule() {
	for i := range d.gpus {
		if p := d.asked(&d.gpus[i]); p != nil {
			d.gpus[i].p = p
		}
	}
	for i := range d.views {
		if v := &d.views[i]; len(v.seats) > 0 {
			v.p = d.gpus[v.seats[0]].p
		}
	}
}

// asked is the policy that every tenant of a GPU asks for, nil if there is
// none such.
func (d *Decider) asked(g *gpuView) *Policy {
	name := ""
	for i, v := range g.pack {
		if i > 0 && v.t.Terms.Policy != name {
			return nil
		}
		name = v.t.Terms.Policy
	}
	return d.set.ByName[name]
}

// Ruling is the policy that the last decision found in force on a GPU.
func (d *Decider) Ruling(uuid string) *Policy {
	if i, ok := d.index[uuid]; ok && i < len(d.gpus) {
		return d.gpus[i].p
	}
	return d.set.For(uuid)
}

// seat notes the tenant's GPUs.
func (d *Decider) seat(v *view) {
	v.m.reseat(v.t.GPUs)
	start := len(d.seats)
	for _, uuid := range v.t.GPUs {
		i := d.index[uuid]
		d.seats = append(d.seats, i)
		d.gpus[i].pack = append(d.gpus[i].pack, v)
	}
	v.seats = d.seats[start:len(d.seats):len(d.seats)]
}

// adopt joins a step of its own to its job.
func (d *Decider) adopt(v *view) {
	if v.t.Parent == "" {
		return
	}
	if m := d.memos[v.t.Parent]; m != nil && m.round == d.round {
		v.parent = m.view
		m.view.child = true
	}
}

func (d *Decider) memo(t *model.Tenant) *memo {
	m := d.memos[t.ID]
	if m == nil {
		m = &memo{stretch: d.now, off: d.now, demand: math.NaN()}
		d.memos[t.ID] = m
	}
	return m
}

// forget drops what was remembered of tenants that are gone.
func (d *Decider) forget() {
	if len(d.memos) == len(d.views) {
		return
	}
	for id, m := range d.memos {
		if m.round != d.round {
			delete(d.memos, id)
		}
	}
}

// letAllGo continues everything that is stopped, and stops nothing.
func (d *Decider) letAllGo() {
	for i := range d.views {
		v := &d.views[i]
		v.why = verdict{code: degraded}
		switch {
		case v.t.State == model.Swapped && v.t.Retry > d.now:
			d.wake(v.t.Retry)
		case v.t.Suspended == "" || v.t.State == model.New:
			d.letGo(v)
		}
	}
}
