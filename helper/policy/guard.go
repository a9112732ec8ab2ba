package policy

import (
	"slices"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// walkGuards evaluates every guard and does what the crossed limits ask for.
func (d *Decider) walkGuards() {
	for i := range d.views {
		d.guardTenant(&d.views[i])
	}
	for i := range d.gpus {
		d.guardGPU(&d.gpus[i])
	}
	if d.anyBanned() {
		slices.SortFunc(d.order, d.before) // they choose last
	}
	d.forgetDevices()
}

func (d *Decider) anyBanned() bool {
	return slices.ContainsFunc(d.order, func(v *view) bool { return v.banned != nil })
}

// restsAfter is after how long without work a tenant counts as one that would
// not notice another.
const restsAfter = 900 * time.Millisecond

// inTheWay tells whether a tenant that a guard pauses would compute beside
// somebody. While nobody else does it may: a pause frees no memory, and the GPU
// would only stand idle. Of several such tenants one computes at a time.
func (d *Decider) inTheWay(v *view) bool {
	if d.besideUnmanaged(v) {
		return true
	}
	for _, s := range v.seats {
		for _, o := range d.gpus[s].chosen {
			if o.noticed() && !family(v, o) && (o.banned != nil || o.t.State != model.Running || o.t.Idle(d.now) <= restsAfter) {
				return true
			}
		}
	}
	return false
}

// besideUnmanaged tells whether a job that is not packed is on one of the tenant's
// GPUs.
func (d *Decider) besideUnmanaged(v *view) bool {
	return slices.ContainsFunc(v.seats, func(s int) bool { return d.unmanaged(d.gpus[s].uuid) > 0 })
}

// guardTenant evaluates the guards that look at tenants, those of the policy
// of the tenant's first GPU, on each of its GPUs.
func (d *Decider) guardTenant(v *view) {
	if len(v.p.Guards) == 0 || v.t.State == model.Gone || v.t.State == model.Evicting {
		return
	}
	for len(v.m.guards) < len(v.p.Guards) {
		v.m.guards = append(v.m.guards, episode{})
	}
	for i := range v.p.Guards {
		g := &v.p.Guards[i]
		if g.Scope == ScopeTenant && d.crossed(g, &v.m.guards[i], d.anywhere(g, v)) {
			d.guardActs(g, v, &v.m.guards[i])
		}
	}
}

// anywhere tells whether the guard's rule holds on one of the tenant's GPUs.
func (d *Decider) anywhere(g *Guard, v *view) truth {
	found := no
	for _, s := range v.seats {
		d.env.t, d.env.mate, d.env.g = v, nil, &d.gpus[s]
		found = found.or(g.When.eval(&d.env))
	}
	return found
}

func (d *Decider) guardGPU(g *gpuView) {
	if len(g.p.Guards) == 0 || len(g.pack) == 0 {
		return
	}
	episodes := d.devices[g.uuid]
	if episodes == nil {
		all := make([]episode, len(g.p.Guards))
		episodes = &all
		d.devices[g.uuid] = episodes
	}
	for i := range g.p.Guards {
		guard, e := &g.p.Guards[i], &(*episodes)[i]
		if guard.Scope != ScopeGPU {
			continue
		}
		d.env.t, d.env.mate, d.env.g = nil, nil, g
		if d.crossed(guard, e, guard.When.eval(&d.env)) {
			d.guardLowest(guard, g, e)
		}
	}
}

// crossed brings an episode up to date and tells whether the limit has been
// crossed for long enough. An unknown reading is no news: the time begins
// anew, and what was said is not said again.
func (d *Decider) crossed(g *Guard, e *episode, t truth) bool {
	switch t {
	case no:
		*e = episode{}
		return false
	case unknown:
		e.on = false
		return false
	}
	if !e.on {
		e.on, e.since = true, d.now
	}
	d.wake(e.since + g.For)
	return d.now-e.since >= g.For
}

// guardLowest acts on the last tenant in the order on a GPU, and on the same
// one as long as the limit stays crossed and it has its memory there.
func (d *Decider) guardLowest(g *Guard, on *gpuView, e *episode) {
	if e.target != nil && e.target.round == d.round && e.target.view.t.State != model.Swapped {
		d.guardActs(g, e.target.view, e)
		return
	}
	if e.target != nil { // gone, or swapped: see first what that changed
		*e = episode{on: true, since: d.now}
		d.wake(d.now + g.For)
		if g.For > 0 {
			return
		}
	}
	if v := d.lowest(on); v != nil {
		e.target = v.m
		d.guardActs(g, v, e)
	}
}

// lowest is the tenant on the GPU of the lowest tier, and rank in it, of those
// that were admitted and can be stopped.
func (d *Decider) lowest(g *gpuView) *view {
	var low *view
	for _, v := range g.pack {
		if v.t.Exempt != "" || !v.admitted() || v.t.State == model.Evicting {
			continue
		}
		if low == nil || v.tier < low.tier || v.tier == low.tier && v.rank <= low.rank {
			low = v
		}
	}
	return low
}

// guardActs does the first of the guard's primitives that is possible. One
// that is not possible just now, because the tenant was only launched or an
// operation is under way, is waited for: it never leads to a harsher one.
func (d *Decider) guardActs(g *Guard, v *view, e *episode) {
	for _, do := range g.Do {
		if !d.possible(do, v) {
			continue
		}
		switch do {
		case model.PrimPause:
			v.banned = g
		case model.PrimThrottle:
			v.giveShare(g.Share, verdict{code: slowed, guard: g})
		case model.PrimSwap, model.PrimEvict:
			d.guardMoves(g, v, do)
		default:
			d.guardSays(g, v, e, do)
		}
		return
	}
}

func (d *Decider) possible(do model.Primitive, v *view) bool {
	switch do {
	case model.PrimSwap:
		return d.opts.Swap && (d.movable(v) || d.movableSoon(v))
	case model.PrimPause, model.PrimEvict:
		return v.t.Exempt == ""
	case model.PrimThrottle:
		return d.throttles(v)
	case model.PrimNotify:
		return v.t.Terms.Signal != 0
	}
	return true
}

// guardMoves swaps or evicts, once the lifecycle allows it.
func (d *Decider) guardMoves(g *Guard, v *view, do model.Primitive) {
	trigger, _ := do.Trigger()
	_, allowed := model.Next(v.t.State, trigger)
	if do == model.PrimSwap && !d.movable(v) {
		return
	}
	if v.taken || !allowed || v.t.Retry > d.now || v.t.Settle > d.now || v.t.Suspended != "" {
		return
	}
	v.taken, v.stand = true, aside
	v.why = verdict{code: guarded, guard: g}
	d.act(v, do)
}

// guardSays warns or notifies, once in an episode.
func (d *Decider) guardSays(g *Guard, v *view, e *episode, do model.Primitive) {
	if e.fired {
		return
	}
	e.fired = true
	d.actions = append(d.actions, model.Action{
		Do: do, Tenant: v.t.ID, Why: model.Reason{Code: codeNames[guarded], Text: d.guardWords(v, g)},
		Signal: signalOf(do, v.t),
	})
}

func signalOf(do model.Primitive, t *model.Tenant) int {
	if do == model.PrimNotify {
		return t.Terms.Signal
	}
	return 0
}

// forgetDevices drops the episodes of GPUs that are gone.
func (d *Decider) forgetDevices() {
	if len(d.devices) <= len(d.gpus) {
		return
	}
	for uuid := range d.devices {
		if _, ok := d.index[uuid]; !ok {
			delete(d.devices, uuid)
		}
	}
}
