package policy

import (
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// walk decides on one tenant: it computes if on every GPU that it needs the
// room, the admit rule, the number together and the pair rule allow it beside
// those that were chosen before. It gets all of its GPUs or none.
func (d *Decider) walk(v *view) {
	switch {
	case v.stand == aside:
		return
	case v.stand == fixed:
		d.choose(v)
		return
	case v.leaving:
		d.refuse(v, verdict{code: swapOut, other: v.leaveFor})
		return
	case v.banned != nil && v.stand != starved && d.inTheWay(v):
		v.why = verdict{code: guarded, guard: v.banned}
		return
	}
	if why, ok := d.mayRun(v); !ok {
		d.refuse(v, why)
		return
	}
	if !v.admitted() {
		d.spare(v)
		d.admit(v)
	}
	if v.stand == starved && !v.m.breath {
		v.deserved = d.deserves(v)
	}
	if v.why.code == 0 || v.deserved || v.stand == starved && v.m.breath && v.m.granted {
		v.why = verdict{code: turn}
	}
	if d.shareOf(v) < 1 {
		v.why = v.slow
	}
	d.choose(v)
}

func (d *Decider) mayRun(v *view) (verdict, bool) {
	if !v.admitted() {
		if why, ok := d.mayStart(v); !ok {
			return why, false
		}
	}
	for _, s := range v.seats {
		g := &d.gpus[s]
		if v.counts && g.p.Share.Together > 0 && g.count >= g.p.Share.Together {
			return verdict{code: othersTurn, gpu: g, other: g.turnTaker()}, false
		}
	}
	if g, o, ok := d.joins(v); !ok {
		return verdict{code: noPair, gpu: g, other: o}, false
	}
	return d.slows(v)
}

// mayStart is what is asked of a tenant whose claim does not stand yet.
func (d *Decider) mayStart(v *view) (verdict, bool) {
	for _, s := range v.seats {
		g := &d.gpus[s]
		if why, ok := d.queues(v, g); ok {
			return why, false
		}
		if ok, why := d.fits(v, g); !ok {
			if why, ok = d.makeRoom(v, g, why); !ok {
				return why, false
			}
		}
		if r := g.p.Share.Admit; r != nil {
			d.env.t, d.env.mate, d.env.g = v, nil, g
			if !r.holds(&d.env) {
				return verdict{code: notAdmitted, gpu: g}, false
			}
		}
	}
	return verdict{}, true
}

// queues tells whether a tenant has to leave the room on a GPU to another: to
// one that nobody is admitted before; and one that a guard swapped out, to any
// that stands before it in the order.
func (d *Decider) queues(v *view, g *gpuView) (verdict, bool) {
	if b := g.blocked; b != nil && !family(b, v) {
		return verdict{code: behind, gpu: g, other: b}, true
	}
	if s := g.short; s != nil && v.t.State == model.Swapped && v.stand == queued && !g.p.Share.Swap && !family(s, v) {
		return verdict{code: behindShort, gpu: g, other: s}, true
	}
	return verdict{}, false
}

// noticed tells whether a tenant that was chosen would be noticed by
// those beside it; one without a process on a GPU is not.
func (v *view) noticed() bool { return v.counts || v.t.OnGPU }

// turnTaker is the first of the chosen that takes a turn.
func (g *gpuView) turnTaker() *view {
	for _, v := range g.chosen {
		if v.counts {
			return v
		}
	}
	return nil
}

func (d *Decider) choose(v *view) {
	v.chosen = true
	for _, s := range v.seats {
		g := &d.gpus[s]
		g.chosen = append(g.chosen, v)
		if v.counts {
			g.count++
		}
	}
}

// admit lets the tenant's claim stand for the rest of this decision.
func (d *Decider) admit(v *view) {
	v.admitting = true
	for _, s := range v.seats {
		d.gpus[s].counted = false
	}
}

// refuse notes on the tenant's GPUs that it was kept from them.
func (d *Decider) refuse(v *view, why verdict) {
	v.why = why
	d.keepRoom(v)
	for _, s := range v.seats {
		g := &d.gpus[s]
		if why.needsMemory() {
			if g.short == nil {
				g.short = v
			}
			if g.blocked == nil && d.tooLong(v) {
				g.blocked = v
			}
			continue
		}
		if g.refused == nil && why.code == othersTurn {
			g.refused = v
		}
	}
}

// settleTurn keeps the books of who has a turn since when.
func (d *Decider) settleTurn(v *view) {
	m := v.m
	m.fits = v.chosen || !v.why.needsMemory()
	d.level(v) // from when it fits, not from the next look on
	switch {
	case v.chosen && v.stand == starved:
		if !m.breath {
			d.beginTurn(m, d.now)
			m.breath, m.granted, m.behind, m.stay, m.starved = true, v.deserved, nil, d.stay(v), v.t.State
		}
	case v.chosen && v.counts:
		d.keepTurn(v)
	default:
		m.granted, m.breath, m.behind = false, false, nil
		if d.tooLongSoon(v) {
			d.wake(v.waitsSince() + v.p.Limits.Patience)
		}
	}
}

// deserves tells whether it would be the turn of a tenant that starves anyway;
// if not it only gets a breath.
func (d *Decider) deserves(v *view) bool {
	for _, s := range v.seats {
		for _, o := range d.gpus[s].pack {
			if o.stand == queued && o.counts && (o.tier > v.tier || o.tier == v.tier && o.rank > v.rank) {
				return false
			}
		}
	}
	return true
}

// stay is how long a tenant that starved runs at least. A restore is too dear
// for a breath; and one that a guard kept paused gets its turn, since its pause
// has freed no memory, unless somebody outside Gimbal was to have the GPU meanwhile.
func (d *Decider) stay(v *view) time.Duration {
	if v.t.State == model.Swapped {
		return max(v.p.Limits.Breath, v.p.Share.Quantum)
	}
	if v.banned != nil && v.deserved && !d.besideUnmanaged(v) {
		return max(v.p.Limits.Breath, v.quantum)
	}
	return v.p.Limits.Breath
}

// tooLongSoon tells whether the tenant's patience may still run out.
func (d *Decider) tooLongSoon(v *view) bool {
	return v.p.Limits.Patience > 0 && !v.admitted() && v.t.State != model.New
}

// keepTurn begins a turn, or begins it again when it has ended and the tenant
// was chosen once more beside others. The turn of one that has its GPUs to itself
// is not begun again, or how long a newcomer waits would depend on when somebody
// looked last. One that was chosen although a better one waits for another of its
// GPUs only fills in.
func (d *Decider) keepTurn(v *view) {
	m, shares := v.m, d.shares(v)
	switch {
	case v.stand == queued && !v.inTurn && m.behind == nil && (shares || !m.granted):
		d.beginTurn(m, d.turnBeside(v))
		m.behind = d.fillsInFor(v)
	case !m.granted:
		d.beginTurn(m, d.now)
	}
	if shares {
		d.wake(v.turnEnd())
	}
}

// shares tells whether others compute on one of the tenant's GPUs, or wait for it.
func (d *Decider) shares(v *view) bool {
	for _, s := range v.seats {
		for _, o := range d.gpus[s].pack {
			if o != v && o.noticed() {
				return true
			}
		}
	}
	return false
}

func (d *Decider) beginTurn(m *memo, from time.Duration) {
	d.turns++
	m.granted, m.from, m.turn = true, from, d.turns
}

// turnBeside is when the turn of a tenant began that is chosen without one: with
// that of those chosen beside it, so that it ends with theirs. If each had turns
// of its own they would renew each other's for as long as one of them has one. Not
// with one of so long ago that it would have ended.
func (d *Decider) turnBeside(v *view) time.Duration {
	began := d.now
	for _, s := range v.seats {
		for _, o := range d.gpus[s].chosen {
			if at := o.turnBegan(); o != v && o.stand == queued && o.counts && o.inTurn && d.now < at+v.quantum {
				began = min(began, at)
			}
		}
	}
	return began
}

// fillsInFor is the tenant of a better place in the order, inside the tier, that was
// refused on one of these GPUs because of another of its own. One of a higher tier goes
// before any turn anyway.
func (d *Decider) fillsInFor(v *view) *memo {
	for _, s := range v.seats {
		g := &d.gpus[s]
		if r := g.refused; r != nil && r.why.gpu != g && r.stand == queued && r.tier == v.tier && d.before(r, v) < 0 {
			return r.m
		}
	}
	return nil
}
