package policy

import (
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// emit compares what was chosen with what runs, and says the difference.
// Whoever is to start waits until those that make way for it are seen to have
// stopped: the engine asks again on each outcome.
func (d *Decider) emit() {
	d.occupied()
	for _, v := range d.order {
		if v.taken {
			continue
		}
		if v.stand == aside && v.t.State != model.New {
			d.setAside(v)
			continue
		}
		switch {
		case v.t.State.Runs():
			switch {
			case v.leaving:
				d.act(v, model.PrimSwap)
			case !v.chosen:
				d.act(v, model.PrimPause)
			default:
				d.throttle(v)
			}
		case v.leaving:
			d.act(v, model.PrimSwap)
		case v.chosen && d.mayGo(v):
			d.letGo(v)
		case v.t.State == model.New:
			d.act(v, model.PrimHold)
		}
	}
}

// setAside pauses what a person wants paused, and ends the throttle of one that
// has left its GPU, or acts on a signal.
func (d *Decider) setAside(v *view) {
	switch {
	case v.why.code == ordered && v.t.State.Runs():
		d.act(v, model.PrimPause)
	case (v.why.code == offGPU || v.why.code == settling) && v.t.State == model.Throttled:
		d.act(v, model.PrimResume)
	}
}

// occupied counts on each GPU who computes now.
func (d *Decider) occupied() {
	for i := range d.gpus {
		g := &d.gpus[i]
		for _, v := range g.pack {
			if v.counts && v.computes {
				g.busy++
			}
		}
	}
}

// mayGo tells whether those that are not to compute beside the tenant have
// stopped. What must go on at once does not wait.
func (d *Decider) mayGo(v *view) bool {
	if v.stand == fixed {
		return true
	}
	if v.admitting && d.waitsForRoom(v) {
		return false
	}
	for _, s := range v.seats {
		g := &d.gpus[s]
		if v.counts && g.p.Share.Together > 0 && g.busy >= g.p.Share.Together {
			return d.waits(v, g)
		}
		if !d.mayOverlap(v, g) {
			return d.waits(v, g)
		}
	}
	return true
}

// mayOverlap tells whether the tenant may compute beside all that compute now
// and those that are to, on a GPU.
func (d *Decider) mayOverlap(v *view, g *gpuView) bool {
	d.with = d.with[:0]
	stopping := false
	for _, o := range g.pack {
		if o == v || !o.counts || !o.computes && !o.chosen {
			continue
		}
		stopping = stopping || !o.chosen
		d.with = append(d.with, o)
	}
	if !stopping {
		return true
	}
	with := d.with
	if _, ok := d.allowed(v, with, g); !ok {
		return false
	}
	return g.p.Share.Value == nil || planned(v, with) || d.gain(v, with, g) > 0
}

// waits notes whom the tenant waits for.
func (d *Decider) waits(v *view, g *gpuView) bool {
	for _, o := range g.pack {
		if o != v && o.computes && o.counts && !o.chosen {
			v.why = verdict{code: handOver, gpu: g, other: o}
			break
		}
	}
	return false
}

// letGo lets a tenant go on that is new or stopped.
func (d *Decider) letGo(v *view) {
	do := model.PrimResume
	switch v.t.State {
	case model.New:
		do = model.PrimRun
		d.wake(d.now + time.Millisecond) // it runs at once: no outcome will ask again
	case model.Swapped:
		do = model.PrimRestore
	case model.Held, model.Paused, model.Throttled:
	default:
		return
	}
	if v.counts {
		for _, s := range v.seats {
			d.gpus[s].busy++
		}
	}
	d.act(v, do)
}

func (d *Decider) act(v *view, do model.Primitive) {
	d.actions = append(d.actions, model.Action{Do: do, Tenant: v.t.ID, Why: d.reason(v)})
}
