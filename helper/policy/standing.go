package policy

import (
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// standing says where a tenant stands before the walk, by what it is and not
// by whom it would run beside.
func (d *Decider) standing(v *view) {
	d.track(v)
	t := v.t
	switch {
	case t.State == model.Gone || t.State == model.Evicting:
		v.stand = aside
	case t.State == model.Pausing || t.State == model.Swapping:
		v.stand, v.counts, v.leaving = aside, true, t.State == model.Swapping
		d.slowToStop(v)
	case t.State == model.Resuming || t.State == model.Restoring:
		v.stand, v.counts, v.why = fixed, true, verdict{code: inFlight}
	case len(v.seats) == 0:
		v.stand, v.why = fixed, verdict{code: noGPU}
	case d.faulted(v) != nil:
		d.standFaulted(v)
	case t.State.Runs():
		d.standRunning(v)
	default:
		d.standWaiting(v)
	}
}

// slowStop is for how long others wait for a tenant that is being paused. Whoever
// takes longer, as one that is continued all the time, is let compute beside them
// until it has stopped.
const slowStop = time.Second

func (d *Decider) slowToStop(v *view) {
	if v.t.State != model.Pausing {
		return
	}
	d.wake(v.t.Since + slowStop)
	v.computes = v.computes && d.now < v.t.Since+slowStop
}

// faulted is the first of the tenant's GPUs that cannot be managed: it is lost, or
// gone, or the driver does not answer for it. nil: none.
func (d *Decider) faulted(v *view) *gpuView {
	for _, s := range v.seats {
		if g := &d.gpus[s]; g.fault(d.n) != "" {
			return g
		}
	}
	return nil
}

// fault is why the GPU cannot be managed, "" if it can.
func (g *gpuView) fault(n *model.Node) string {
	switch {
	case g.gpu != nil:
		return g.gpu.Fault
	case len(n.GPUs) > 0:
		return "device gone"
	}
	return "" // the driver has not been read yet
}

// standFaulted places a tenant on a GPU that cannot be managed: it runs, as all do
// where the driver cannot be read.
func (d *Decider) standFaulted(v *view) {
	t := v.t
	v.stand, v.why = fixed, verdict{code: faulty, gpu: d.faulted(v)}
	switch {
	case t.Suspended != "" && t.State != model.New:
		v.stand, v.why = aside, verdict{code: suspended}
	case t.State.Stopped() && t.Retry > d.now:
		d.wake(t.Retry)
		v.stand, v.why = aside, verdict{code: failed}
	}
}

// standRunning places a tenant that runs.
func (d *Decider) standRunning(v *view) {
	t := v.t
	order := d.orderOf(t)
	switch {
	case t.Suspended != "":
		v.stand = aside
	case !t.OnGPU && !d.launching(v):
		v.stand, v.why = aside, verdict{code: offGPU}
		v.computes = false
	case t.Exempt != "":
		v.stand, v.why = fixed, verdict{code: exempt}
	case t.Retry > d.now:
		d.wake(t.Retry)
		v.stand, v.why = fixed, verdict{code: failed}
	case order == model.PrimResume:
		v.stand, v.why = fixed, verdict{code: ordered}
	case t.Settle > d.now: // nobody makes way for whom somebody else continued
		d.wake(t.Settle)
		v.stand, v.why = aside, verdict{code: settling}
	case d.young(v):
		v.stand, v.counts, v.why = fixed, true, verdict{code: young}
	default:
		v.stand, v.counts = queued, true
		d.breathing(v)
	}
	if order == model.PrimPause {
		d.standOrdered(v)
	}
}

// standOrdered places a running tenant that a person wants paused: whether it is
// on a GPU or not, but not in its launch, and not over what else it is left alone
// for.
func (d *Decider) standOrdered(v *view) {
	off := v.why.code == offGPU && v.t.Exempt == "" && v.t.Retry <= d.now && v.t.Settle <= d.now
	switch {
	case v.stand == fixed || !off && !v.counts:
	case off && d.young(v):
		v.why = verdict{code: young}
	default:
		v.stand, v.why = aside, verdict{code: ordered}
	}
}

// standWaiting places a tenant that is new, held, paused or swapped.
func (d *Decider) standWaiting(v *view) {
	t := v.t
	order := d.orderOf(t)
	switch {
	case t.Suspended != "" && t.State != model.New:
		v.stand, v.why = aside, verdict{code: suspended}
	case t.Retry > d.now && t.State != model.New:
		d.wake(t.Retry)
		v.stand, v.why = aside, verdict{code: failed}
	case t.Exempt != "":
		v.stand, v.why = fixed, verdict{code: exempt}
	case t.Signalled != "" && t.State == model.Swapped: // it goes first, but needs room
		v.stand, v.counts, v.why = starved, true, verdict{code: signalled}
	case t.Signalled != "":
		v.stand, v.why = fixed, verdict{code: signalled}
	case order == model.PrimPause:
		v.stand, v.why = aside, verdict{code: ordered}
	case order == model.PrimResume:
		v.stand, v.why = starved, verdict{code: ordered}
	default:
		v.stand, v.counts = queued, true
		d.starving(v)
	}
}

// track brings what is remembered of the tenant's run up to date.
func (d *Decider) track(v *view) {
	m, t := v.m, v.t
	if !t.State.Computes() {
		m.stretch, m.off = d.now, d.now
		return
	}
	if t.OnGPU {
		m.off = d.now
	} else if d.now-m.off > v.p.Limits.MinRun {
		m.stretch = d.now
	}
}

// orderOf is what a person ordered for the tenant and has not lapsed.
func (d *Decider) orderOf(t *model.Tenant) model.Primitive {
	o, ok := d.n.Orders[t.ID]
	if !ok || o.Until != 0 && o.Until <= d.now {
		return ""
	}
	d.wake(o.Until)
	return o.Do
}

// launching tells whether the tenant was let go a short while ago and has
// never been seen on a GPU: it is given time to get there. A job that launched
// a step of its own has done what it was let go for.
func (d *Decider) launching(v *view) bool {
	t := v.t
	if v.child || t.Tally.Attained > 0 {
		return false
	}
	end := t.Since + v.p.Limits.LaunchGrace
	d.wake(end)
	return d.now < end
}

// young tells whether the tenant is not to be stopped yet: a stop while its
// tasks find each other may hang it for good. A job that launches step after
// step is not spared for ever: only up to twice min_run without a stop.
func (d *Decider) young(v *view) bool {
	end := d.youngUntil(v)
	d.wake(end)
	return d.now < end
}

func (d *Decider) youngUntil(v *view) time.Duration {
	spared := v.p.Limits.MinRun
	return min(max(v.t.LastTask, v.t.FirstRan)+spared, v.m.stretch+2*spared)
}

// breathing keeps a tenant that starved running for a breath.
func (d *Decider) breathing(v *view) {
	if !v.m.breath {
		return
	}
	end := v.t.Since + v.m.stay
	d.wake(end)
	if d.now < end {
		v.stand, v.why = starved, verdict{code: breath}
		return
	}
	v.m.breath = false
}

// starving tells whether the tenant has waited longer than its limits allow.
func (d *Decider) starving(v *view) {
	limit := time.Duration(0)
	switch v.t.State {
	case model.Paused:
		limit = v.maxPause()
	case model.Held:
		limit = v.p.Limits.MaxHold
	case model.Swapped:
		limit = v.p.Limits.MaxSwap
	}
	if limit == 0 {
		return
	}
	end := v.t.Since + limit
	d.wake(end)
	if d.now >= end {
		v.stand, v.why = starved, verdict{code: starving}
	}
}

// contenders counts who shares the time of each GPU, and from that how long a
// turn may last.
func (d *Decider) contenders() {
	for i := range d.views {
		v := &d.views[i]
		if v.counts {
			for _, s := range v.seats {
				if g := &d.gpus[s]; v.admitted() || !g.p.Share.Swap {
					g.takers++
					g.bears = shorter(g.bears, v.maxPause())
				}
			}
		}
		d.level(v)
	}
	for i := range d.views {
		v := &d.views[i]
		v.quantum = d.quantum(v)
	}
}

// quantum is the policy's, shortened so that a full turn of the pack keeps the
// max_pause of each in it. That binds those alone who keep their memory while they wait.
func (d *Decider) quantum(v *view) time.Duration {
	q := v.p.Share.Quantum
	for _, s := range v.seats {
		g := &d.gpus[s]
		if k := g.p.Share.Together; k > 0 && g.takers > k {
			turns := (g.takers+k-1)/k - 1
			q = shorter(q, g.bears/time.Duration(turns))
		}
	}
	return q
}

// level lifts the service of a tenant that begins, or begins again, to share
// the time to the least of its mates': nobody is owed time from when it did
// not compete for it (start-time fair queueing).
func (d *Decider) level(v *view) {
	contend := v.counts && (v.admitted() || v.m.fits)
	if contend && !v.m.contend {
		least, found := 0.0, false
		for _, s := range v.seats {
			for _, o := range d.gpus[s].pack {
				if o != v && o.m.contend && o.counts && (!found || o.service() < least) {
					least, found = o.service(), true
				}
			}
		}
		if found && least > v.service() {
			v.m.lift += least - v.service()
		}
	}
	v.m.contend = contend
}
