package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// checkStop holds what must be true whenever something is stopped.
func (l *life) checkStop(a model.Action, t *model.Tenant) {
	if a.Beat && t.State == model.Throttled { // the throttle was written down
		l.checkThrottled(a, t)
		return
	}
	last := model.Record{}
	if len(l.records) > 0 {
		last = l.records[len(l.records)-1]
	}
	if last.Action == nil || last.Action.ID != a.ID || last.Action.Do != a.Do || last.Action.Tenant != a.Tenant {
		l.fail("%s of %s without a record of the intent", a.Do, a.Tenant)
	}
	if t.Exempt != "" {
		l.fail("%s of %s, which is exempt: %s", a.Do, a.Tenant, t.Exempt)
	}
	if l.engine.Node.Degraded != "" {
		l.fail("%s of %s while degraded", a.Do, a.Tenant)
	}
}

// checkThrottled holds what must be true of a stop within a throttle's period:
// nobody who computes with several processes or GPUs has one.
func (l *life) checkThrottled(a model.Action, t *model.Tenant) {
	if t.Exempt != "" || l.engine.Node.Degraded != "" || t.Suspended != "" || len(t.GPUs) > 1 || !t.Throttle.Valid() {
		l.fail("%s within a period of %s: %+v", a.Do, a.Tenant, t)
	}
	for i := len(l.records) - 1; i >= 0; i-- {
		if r := l.records[i]; r.Tenant != nil && r.Tenant.ID == t.ID {
			if r.Tenant.State != model.Throttled || r.Tenant.Throttle != t.Throttle {
				l.fail("%s is stopped for a throttle of %v, and the journal says %s %v", t.ID, t.Throttle, r.Tenant.State, r.Tenant.Throttle)
			}
			return
		}
	}
	l.fail("%s is stopped for a throttle that nobody wrote down", t.ID)
}

// checkAdmissions holds that memory is not promised twice: where a claim is
// let stand because there is room, all claims on the GPU fit into it.
func (l *life) checkAdmissions(n *model.Node, actions []model.Action) {
	fresh, forced := map[model.TenantID]bool{}, map[model.TenantID]bool{}
	for _, a := range actions {
		t := n.Tenant(a.Tenant)
		switch a.Do {
		case model.PrimRun, model.PrimResume, model.PrimRestore:
			if holdsClaim(t) {
				continue
			}
			fresh[t.ID] = true
			forced[t.ID] = t.Exempt != "" || t.Signalled != "" || n.Degraded != "" || len(t.GPUs) == 0
		}
	}
	for i := range n.GPUs {
		l.checkGPU(n, n.GPUs[i], fresh, forced)
	}
}

func holdsClaim(t *model.Tenant) bool {
	return (t.Admitted || t.HasRun) && t.State != model.Swapped
}

func (l *life) checkGPU(n *model.Node, g model.GPU, fresh, forced map[model.TenantID]bool) {
	var holders []*model.Tenant
	var newcomer *model.Tenant
	for _, t := range n.Tenants {
		if !t.Uses(g.UUID) || !holdsClaim(t) && !fresh[t.ID] {
			continue
		}
		holders = append(holders, t)
		if forced[t.ID] {
			return
		}
		if fresh[t.ID] {
			newcomer = t
		}
	}
	if newcomer == nil || len(holders) == 1 || len(holders) == 2 && (holders[0].Parent == holders[1].ID || holders[1].Parent == holders[0].ID) {
		return
	}
	before := promised(g, slices.DeleteFunc(slices.Clone(holders), func(t *model.Tenant) bool { return fresh[t.ID] }))
	sum := promised(g, holders)
	if sum > total && sum > before { // a step may take what its job's claim holds
		names := []string{}
		for _, t := range holders {
			names = append(names, fmt.Sprintf("%s (%s, %s, parent %q)", t.ID, t.State, t.Claim(g).Or(total), t.Parent))
		}
		l.fail("%s is admitted to %s where %s are promised: %s", newcomer.ID, g.UUID, sum, strings.Join(names, ", "))
	}
}

// promised adds up the claims of tenants on a GPU; a job's covers those of its
// steps.
func promised(g model.GPU, holders []*model.Tenant) (sum model.Bytes) {
	for _, t := range holders {
		rest := t.Claim(g).Or(total)
		for _, c := range holders {
			if c.Parent == t.ID {
				rest -= c.Claim(g).Or(total)
			}
		}
		sum += max(rest, t.Use[g.UUID].Memory.Or(0), 0)
	}
	return sum
}

// undoWithin is when an undoing that failed, or had no outcome, has to have
// been tried again, since it was last begun; a resume too. One that took longer
// than that until it was told to have failed is tried again within undoAgain.
const (
	undoWithin = 65 * time.Second
	undoAgain  = 2 * time.Second
)

// checkTruth compares what the engine believes with the truth, for tenants of
// which nothing is under way.
func (l *life) checkTruth() {
	for _, j := range l.jobs {
		t := l.engine.Node.Tenant(j.id)
		if t == nil || !j.alive || len(j.ops) > 0 || len(l.events) > 0 || t.State.Transient() {
			continue
		}
		asked := j.asked
		if t.State == model.Throttled { // stopped for the rest of a period, unless that is long over
			asked = max(asked, j.beat)
		}
		if j.stopped && !t.State.Stopped() && l.now-asked > undoWithin && l.now-j.told > undoAgain {
			l.fail("%s is stopped, but counts as %s", j.id, t.State)
		}
		lost := j.lost && t.State == model.Swapped // nobody asks again until there is room
		if l.calm && !lost && !j.stopped && t.State.Stopped() && l.now-max(j.asked, l.calmed) > undoWithin {
			l.fail("%s runs, but counts as %s", j.id, t.State)
		}
	}
}

// checkPauses holds that nobody is paused for longer than max_pause and the
// breaths of the others, unless a mate could not be paused in that time.
func (l *life) checkPauses() {
	n := l.engine.Node
	limit := l.p.Limits.MaxPause
	if limit == 0 {
		return
	}
	slack := time.Duration(len(n.Tenants))*(l.p.Limits.Breath+3*time.Second) + 5*time.Second
	if l.swap {
		slack += time.Duration(len(n.Tenants)) * l.p.Share.Quantum
	}
	for _, t := range n.Tenants {
		if t.State != model.Paused {
			continue
		}
		if l.excuse(n, t) {
			l.excused[t.ID] = n.Now()
		}
		if since := max(t.Since+limit, l.excused[t.ID]); n.Now()-since > slack {
			l.fail("%s is paused since %v: %s", t.ID, t.Since, t.Reason.Text)
		}
	}
}

func (l *life) excuse(n *model.Node, t *model.Tenant) bool {
	now := n.Now()
	if t.Suspended != "" || t.Retry > now || n.Read+2*time.Second < now {
		return true
	}
	if _, ordered := n.Orders[t.ID]; ordered {
		return true
	}
	for _, o := range n.Tenants {
		if o == t || !shares(o, t) || !o.State.Computes() {
			continue
		}
		young := now < max(o.LastTask, o.FirstRan)+l.p.Limits.MinRun
		stuck := o.State.Transient() && (o.State != model.Pausing || now-o.Since > 3*time.Second)
		if o.Exempt != "" || o.Settle > now || o.Retry > now || stuck || young {
			return true
		}
		if ord, ok := n.Orders[o.ID]; ok && ord.Do == model.PrimResume {
			return true
		}
	}
	return false
}

func shares(a, b *model.Tenant) bool {
	for _, g := range a.GPUs {
		if b.Uses(g) {
			return true
		}
	}
	return false
}
