package policy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/policy"
	"github.com/gimbal-hpc/gimbal/tests/draw"
)

// TestNobodyWaitsForEver holds, for tenants that never idle and of which some go before
// others, that whoever has room is not held for longer than max_hold, and nobody swapped
// for longer than max_swap, but for the time that others take whose wait is over too;
// and that everybody computes before the last of the others has ended.
func TestNobodyWaitsForEver(t *testing.T) {
	draw.Check(t, func(rt *rapid.T) {
		quantum := rapid.IntRange(1, 10).Draw(rt, "quantum")
		hold := rapid.IntRange(1, 30).Draw(rt, "max_hold")
		swapped := rapid.IntRange(5, 30).Draw(rt, "max_swap")
		swaps := rapid.Bool().Draw(rt, "swap")
		text := fmt.Sprintf(`name = 'waits'
[share]
together = 1
quantum = '%ds'
tier = 'tenant.class == "guaranteed" ? 1 : 0'
swap = %t
[limits]
min_run = '0s'
max_pause = '20s'
max_hold = '%ds'
max_swap = '%ds'
patience = '20s'
max_passed = 3
launch_grace = '1s'
`, quantum, swaps, hold, swapped)
		r := newRigWith(t, parsed(t, text), policy.Options{Swap: swaps}, "80GiB", "80GiB")
		r.swap, r.tick = 2*time.Second, 100*time.Millisecond
		tenants := rapid.IntRange(2, 5).Draw(rt, "tenants")
		// Each of the others may have its stay first, and its memory moved out and in.
		slack := time.Duration(tenants)*(time.Duration(quantum)*time.Second+4*r.swap+2*time.Second) + 5*time.Second
		limits := map[model.State]time.Duration{
			model.Held:    time.Duration(hold)*time.Second + slack,
			model.Swapped: time.Duration(swapped)*time.Second + slack,
		}
		w := waits{rt: rt, limits: limits, room: map[model.TenantID]time.Duration{}}
		r.seen = func(r *rig, _ []model.Action) { w.check(r) }
		for i := range tenants {
			gpus := [][]int{{0}, {0}, {1}, {0, 1}}[rapid.IntRange(0, 3).Draw(rt, "gpus")]
			m := model.Bytes(rapid.IntRange(5, 60).Draw(rt, "memory")) * model.GiB
			class := rapid.SampledFrom([]model.Class{model.Guaranteed, model.Opportunistic}).Draw(rt, "class")
			r.add(fmt.Sprint(i+1), model.Terms{Weight: 1, Class: class, Memory: model.Known(m)}, gpus, "", "", actor{memory: m})
			r.decide()
			r.run(r.now + time.Duration(rapid.IntRange(0, 5).Draw(rt, "pause"))*time.Second)
		}
		r.run(r.now + limits[model.Held] + limits[model.Swapped])
		for len(r.n.Tenants) > 0 {
			w.endOne(r)
		}
	})
}

// waits knows since when each tenant that waits has had room.
type waits struct {
	rt     *rapid.T
	limits map[model.State]time.Duration
	room   map[model.TenantID]time.Duration
}

// endOne ends a tenant that has computed; of those that are there one has.
func (w *waits) endOne(r *rig) {
	r.run(r.now + time.Minute)
	for _, tenant := range r.n.Tenants {
		if tenant.Tally.Attained > 0 {
			r.event("end", []string{string(tenant.ID)})
			r.decide()
			return
		}
	}
	w.rt.Fatalf("nobody has run:\n%s", strings.Join(r.log, "\n"))
}

func (w *waits) check(r *rig) {
	for _, tenant := range r.n.Tenants {
		if why, _ := r.d.Why(tenant.ID); tenant.Tally.Pauses == 0 && strings.Contains(why.Text, "was paused for") {
			w.rt.Fatalf("%v: %s was never paused, and its reason is %q", r.now, tenant.ID, why.Text)
		}
		limit, ok := w.limits[tenant.State]
		why, _ := r.d.Why(tenant.ID)
		queues := why.Code == "queue" // behind one who has waited for room beyond his patience
		if !ok || tenant.State == model.Held && (queues || !fits(r.n, tenant)) {
			w.room[tenant.ID] = r.now
			continue
		}
		if since := max(tenant.Since, w.room[tenant.ID]); r.now-since > limit {
			w.rt.Fatalf("%v: %s is %s since %v, and could run since %v\n%s", r.now, tenant.ID, tenant.State, tenant.Since, since, strings.Join(r.log, "\n"))
		}
	}
}

// fits tells whether there is room for a tenant beside all that others may count on.
func fits(n *model.Node, t *model.Tenant) bool {
	for _, uuid := range t.GPUs {
		free, ok := n.Free(uuid).Get()
		if claim, known := t.Claim(*n.GPU(uuid)).Get(); !ok || !known || claim > free {
			return false
		}
	}
	return true
}
