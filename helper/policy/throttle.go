package policy

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// How much a share has to move, and how long it stands at least, before another
// one is worth a line of the journal.
const (
	shareStep  = 0.05
	shareStays = time.Second
)

// throttles tells whether the policy ever throttles anybody.
func (p *Policy) throttles() bool {
	return p.Share.Throttle != nil || slices.ContainsFunc(p.Guards, func(g Guard) bool { return slices.Contains(g.Do, model.PrimThrottle) })
}

// slows finds the share of time that a tenant gets beside those that were chosen
// before it, and whether it may run with that.
func (d *Decider) slows(v *view) (verdict, bool) {
	for _, s := range v.seats {
		g := &d.gpus[s]
		for _, o := range g.chosen {
			if o.noticed() && !d.slow(v, o, g) {
				return verdict{code: noPair, gpu: g, other: o}, false
			}
		}
	}
	if v.share < 1 && !d.throttles(v) {
		return verdict{code: unslowed, gpu: v.slow.gpu, other: v.slow.other}, false
	}
	return verdict{}, true
}

// slow asks share.throttle how much of the time a tenant gets beside o, chosen
// before it, as if the two were alone, and keeps the least. It returns false where that is nothing.
func (d *Decider) slow(v, o *view, g *gpuView) bool {
	n := g.p.Share.Throttle
	if n == nil {
		return true
	}
	d.two = [2]*view{v, o}
	d.env.t, d.env.mate, d.env.with, d.env.g = v, o, d.two[:], g
	x := n.eval(&d.env)
	if x <= 0 {
		return false
	}
	v.giveShare(x, verdict{code: slowed, gpu: g, other: o})
	return true
}

// giveShare lowers the share of time of a tenant to one in whole percent; an
// unknown one lowers nothing.
func (v *view) giveShare(x float64, why verdict) {
	x = math.Round(100*max(x, model.LeastShare)) / 100
	if x < v.share {
		v.share, v.slow = x, why
	}
}

// throttles tells whether a tenant may be stopped and continued many times a
// second: one process on one GPU. What several processes do together (NCCL)
// waits for the slowest of them, on the GPU and against a clock.
func (d *Decider) throttles(v *view) bool {
	if v.t.Exempt != "" || len(v.seats) != 1 || v.t.Reg.NNodes > 1 {
		return false
	}
	if most := v.t.Terms.MaxPause; most > 0 && 2*v.p.Share.Period > most {
		return false
	}
	return d.procs(v) <= 1
}

// procs is how many processes a tenant of one GPU was seen to have there; it may
// be none yet.
func (d *Decider) procs(v *view) int { return v.t.Use[d.gpus[v.seats[0]].uuid].Procs }

// shareOf is the share of time that a tenant which runs is to have from now on.
// One that must not be stopped has all of it, and one that was not seen with its
// process on the GPU, as after a swap, until it is.
func (d *Decider) shareOf(v *view) float64 {
	if v.stand != queued || !v.counts || !v.t.OnGPU || v.t.Suspended != "" || !d.throttles(v) || d.procs(v) != 1 {
		return 1
	}
	return v.share
}

// throttle puts on a tenant that runs the share of time that was found, or takes
// it off.
func (d *Decider) throttle(v *view) {
	want, have := d.shareOf(v), 1.0
	if v.t.State == model.Throttled {
		have = v.t.Throttle.Share
	}
	switch {
	case want == have:
		return
	case want == 1:
		d.act(v, model.PrimResume)
		return
	case have < 1 && math.Abs(want-have) < shareStep:
		return
	case have < 1 && d.now < v.m.slowed+shareStays:
		d.wake(v.m.slowed + shareStays)
		return
	}
	v.m.slowed = d.now
	v.why = v.slow
	d.actions = append(d.actions, model.Action{
		Do: model.PrimThrottle, Tenant: v.t.ID, Why: d.reason(v),
		Throttle: model.Throttle{Share: want, Period: v.p.Share.Period},
	})
}

// slowWords say how much of the time a tenant gets, and for whom.
func (d *Decider) slowWords(v *view) string {
	text := fmt.Sprintf("runs %.0f %% of each %s: ", 100*v.share, short(v.p.Share.Period))
	if v.why.guard != nil {
		return text + d.guardWords(v, v.why.guard)
	}
	return text + fill(v.p.Share.ThrottleReason, "beside {mate} ("+v.p.Name+")", v, v.why)
}
