package policy

import (
	"math"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// total is the GPU's memory: the driver's word, else the policy's.
func (g *gpuView) total() model.Reading[model.Bytes] {
	if g.gpu != nil && g.gpu.Total.Known() {
		return g.gpu.Total
	}
	if g.p.Limits.GPUMemory > 0 {
		return model.Known(g.p.Limits.GPUMemory)
	}
	return model.Unknown[model.Bytes]()
}

func (g *gpuView) reserved() model.Bytes {
	if g.gpu == nil {
		return 0
	}
	return g.gpu.Reserved.Or(0)
}

// claim is what a tenant may count on here, as model.Tenant.Claim has it.
func (g *gpuView) claim(t *model.Tenant) model.Reading[model.Bytes] {
	claim, ok := t.Terms.Memory.Get()
	if !ok {
		total, known := g.total().Get()
		if !known {
			return model.Unknown[model.Bytes]()
		}
		claim = total - g.reserved()
	}
	return model.Known(max(claim, t.Use[g.uuid].Memory.Or(0)))
}

// foreign is the memory that no tenant holds, unknown where a part of it is.
func (d *Decider) foreign(uuid string) model.Reading[model.Bytes] {
	if r, ok := d.n.Foreign[uuid]; ok {
		return r
	}
	return model.Known(model.Bytes(0))
}

// unmanaged is how many processes of jobs that are not packed are on the GPU, NaN
// where that is not known.
func (d *Decider) unmanaged(uuid string) float64 {
	r, ok := d.n.Unmanaged[uuid]
	if !ok {
		return 0
	}
	n, ok := r.Get()
	if !ok {
		return math.NaN()
	}
	return float64(n)
}

// holds tells whether the tenant's claim stands, or is admitted right now, and
// its memory is not to go to host RAM.
func (v *view) holds() bool { return (v.admitted() || v.admitting) && !v.leaving }

// free is the memory of the GPU that no tenant may count on.
func (d *Decider) free(g *gpuView) model.Reading[model.Bytes] {
	if !g.counted {
		g.counted = true
		d.ledger(g)
	}
	return g.free
}

// ledger adds up a GPU's claims, and what is used without one. A job's claim
// covers those of its steps that are tenants of their own: together they count
// as the larger of the two.
func (d *Decider) ledger(g *gpuView) {
	g.free, g.holders = model.Unknown[model.Bytes](), 0
	total, known := g.total().Get()
	foreign, ok := d.foreign(g.uuid).Get()
	known = known && ok
	for _, v := range g.pack {
		if !v.holds() {
			continue
		}
		if v.parent == nil || !v.parent.holds() {
			g.holders++
		}
		claim, ok := g.claim(v.t).Get()
		known = known && ok
		v.claim, v.rest = claim, claim
	}
	d.cover(g)
	left := total - g.reserved() - foreign
	for _, v := range g.pack {
		used := v.t.Use[g.uuid].Memory.Or(0)
		switch {
		case v.holds():
			v.rest = max(v.rest, used, 0)
			left -= v.rest
		case !v.leaving:
			left -= used
		}
	}
	if known {
		g.free = model.Known(left)
	}
}

// cover takes the claims of a job's own steps off the job's.
func (d *Decider) cover(g *gpuView) {
	for _, v := range g.pack {
		if p := v.parent; v.holds() && p != nil && p.holds() && p.t.Uses(g.uuid) {
			p.rest -= v.claim
		}
	}
}

// room is the memory that a tenant could claim if it were admitted now: what
// is free, and for a step of an admitted job what the job's claim holds beyond
// what the job uses itself.
func (d *Decider) room(v *view, g *gpuView) (room model.Bytes, known bool) {
	p := v.parent
	inside := p != nil && p.holds() && p.t.Uses(g.uuid)
	if inside {
		g.counted = false // what is left of the job's claim is that of the last ledger
	}
	free, known := d.free(g).Get()
	if !known {
		return 0, false
	}
	if !v.holds() {
		free += v.t.Use[g.uuid].Memory.Or(0)
	}
	if inside {
		free += max(p.rest-p.t.Use[g.uuid].Memory.Or(0), 0)
	}
	return free, true
}

// alone tells whether no other claim stands on the GPU but that of the job that
// the tenant is a step of.
func (d *Decider) alone(v *view, g *gpuView) bool {
	d.free(g)
	for _, o := range g.pack {
		if o != v && v.parent != nil && o.parent == v.parent && o.holds() {
			return false
		}
	}
	return g.holders == 0 || g.holders == 1 && v.parent != nil && v.parent.holds()
}

// fits tells whether the tenant's claim can be admitted on the GPU. Memory is
// never the reason to keep out a tenant that would be alone and that asks for
// no certain size, or for more than there is: it runs as it would without
// Gimbal. Where memory is unknown it is admitted only when alone.
func (d *Decider) fits(v *view, g *gpuView) (bool, verdict) {
	room, known := d.room(v, g)
	if !known {
		return d.alone(v, g), verdict{code: memoryUnknown, gpu: g}
	}
	claim, _ := g.claim(v.t).Get()
	if claim <= room {
		return true, verdict{}
	}
	total, _ := g.total().Get()
	if d.alone(v, g) && (!v.t.Terms.Memory.Known() || claim > total-g.reserved()) {
		return true, verdict{}
	}
	return false, verdict{code: noRoom, gpu: g, claim: claim, room: room}
}
