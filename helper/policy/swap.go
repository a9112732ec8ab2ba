package policy

import (
	"fmt"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// movable tells whether a tenant's memory can be moved to host RAM, as far as is
// known: one process on the GPU, no step apart, no partitioned GPU.
func (d *Decider) movable(v *view) bool {
	return v.t.OnGPU && d.mayEverMove(v)
}

// movableSoon tells the same of one that was just let go and is not on its GPU
// yet.
func (d *Decider) movableSoon(v *view) bool {
	return !v.t.OnGPU && v.t.State == model.Running && d.launching(v) && d.mayEverMove(v)
}

func (d *Decider) mayEverMove(v *view) bool {
	if v.t.Exempt != "" || v.t.NoSwap != "" || v.parent != nil || v.child {
		return false
	}
	for _, s := range v.seats {
		g := &d.gpus[s]
		if g.gpu == nil || g.gpu.MIG || v.t.Use[g.uuid].Procs > 1 {
			return false
		}
	}
	return true
}

// mayLeave tells whether a tenant may be swapped out now.
func (d *Decider) mayLeave(v *view) bool {
	s := v.t.State
	return v.stand == queued && (s.Runs() || s == model.Paused) && !v.taken && d.movable(v)
}

// makeRoom marks those that are to be swapped out so that a tenant fits on a
// GPU: of those that come after it in the order, the last first, since they
// have longest to wait anyway. Where only those stand in the way that have the
// turn now, it waits for its turn.
func (d *Decider) makeRoom(v *view, g *gpuView, why verdict) (verdict, bool) {
	if !g.p.Share.Swap || !d.opts.Swap || why.code != noRoom {
		return why, false
	}
	for i := len(d.order) - 1; i > v.nth; i-- {
		o := d.order[i]
		if !o.sits(g) || !o.holds() || !d.mayLeave(o) {
			continue
		}
		d.leave(o, v)
		if ok, _ := d.fits(v, g); ok {
			return verdict{}, true
		}
	}
	if d.fitsLater(v, g) {
		return verdict{code: othersTurn, gpu: g, other: g.holder()}, false
	}
	return why, false
}

// spare takes the mark from those that need not be swapped out after all.
func (d *Decider) spare(v *view) {
	for i := len(d.order) - 1; i > v.nth; i-- {
		o := d.order[i]
		if o.leaveFor != v {
			continue
		}
		o.leaving, o.leaveFor = false, nil
		d.recount(o)
		for _, s := range v.seats {
			if ok, _ := d.fits(v, &d.gpus[s]); !ok {
				d.leave(o, v)
				break
			}
		}
	}
}

// fitsLater tells whether a tenant would fit if all were swapped out that can
// be, those included that have the turn.
func (d *Decider) fitsLater(v *view, g *gpuView) bool {
	for _, o := range g.pack {
		if o != v && o.holds() && d.movable(o) {
			d.leave(o, v)
		}
	}
	ok, _ := d.fits(v, g)
	d.keepRoom(v)
	return ok
}

// leave marks a tenant to be swapped out for another.
func (d *Decider) leave(o, v *view) {
	o.leaving, o.leaveFor = true, v
	d.recount(o)
}

// keepRoom undoes the marks that were made for a tenant.
func (d *Decider) keepRoom(v *view) {
	for _, s := range v.seats {
		for _, o := range d.gpus[s].pack {
			if o.leaveFor == v {
				o.leaving, o.leaveFor = false, nil
				d.recount(o)
			}
		}
	}
}

// recount lets the ledgers of a tenant's GPUs be made anew.
func (d *Decider) recount(v *view) {
	for _, s := range v.seats {
		d.gpus[s].counted = false
	}
}

// sits tells whether the tenant was given the GPU.
func (v *view) sits(g *gpuView) bool { return v.t.Uses(g.uuid) }

// holder is whose turn keeps memory on the GPU: the first of the chosen that
// takes a turn, else the first that holds memory.
func (g *gpuView) holder() *view {
	if v := g.turnTaker(); v != nil {
		return v
	}
	for _, v := range g.pack {
		if v.holds() {
			return v
		}
	}
	return nil
}

// waitsForRoom tells whether a tenant that is being admitted has to wait for
// others to be swapped out, and notes for whom.
func (d *Decider) waitsForRoom(v *view) bool {
	for _, s := range v.seats {
		g := &d.gpus[s]
		for _, o := range g.pack {
			if o != v && o.leaving && o.admitted() {
				v.why = verdict{code: swapOut, gpu: g, other: o}
				return true
			}
		}
	}
	return false
}

// swapWords say for whom a tenant is swapped out, or who is for it.
func (d *Decider) swapWords(v *view) string {
	if v.leaving {
		return fmt.Sprintf("swapped out for the turn of %s", v.leaveFor.name())
	}
	return fmt.Sprintf("waits until %s has been swapped out", v.why.other.name())
}

// unmovable says why one that holds memory here is not swapped out for a
// tenant, in a policy that swaps.
func (d *Decider) unmovable(v *view, g *gpuView) string {
	if !g.p.Share.Swap {
		return ""
	}
	if !d.opts.Swap {
		return "; nothing can be swapped on this node"
	}
	for _, o := range g.pack {
		if o != v && o.holds() && o.t.NoSwap != "" {
			return fmt.Sprintf("; %s cannot be swapped out: %s", o.name(), o.t.NoSwap)
		}
	}
	return ""
}
