package policy_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/policy"
	"github.com/gimbal-hpc/gimbal/policies"
)

// speeds of four tenants beside each other, over their speed alone: 1 and 2
// go well together, and so do 3 and 4; 1 and 3 go best, but leave 2 and 4,
// which do not go together at all.
var speeds = map[[2]int]float64{
	{1, 2}: 0.8, {2, 1}: 0.7, {3, 4}: 0.75, {4, 3}: 0.7, {1, 3}: 0.85, {3, 1}: 0.8,
	{2, 4}: 0.4, {4, 2}: 0.4, {1, 4}: 0.5, {4, 1}: 0.5, {2, 3}: 0.5, {3, 2}: 0.5,
}

func speedOf(a, b *model.Tenant) float64 {
	return speeds[[2]int{int(a.Reg.JobID), int(b.Reg.JobID)}]
}

// TestThroughputPartnersThePack: with known speeds the pack does within 3 % of
// the most that it can do when everybody gets the same time: 1 with 2, 3 with
// 4, (1.5+1.45)/2 of what one does alone.
func TestThroughputPartnersThePack(t *testing.T) {
	r := newRigWith(t, shipped(t, "throughput"), policy.Options{Speed: speedOf}, "80GiB")
	for id := 1; id <= 4; id++ {
		r.register(fmt.Sprint(id), []string{"mem=10GiB", "start=0s"})
		r.decide()
	}
	r.run(2 * time.Minute) // past the launches
	work, from, last := 0.0, r.now, r.now
	var running []*model.Tenant
	r.seen = func(r *rig, _ []model.Action) {
		work += doneBy(running) * (r.now - last).Seconds()
		last, running = r.now, running[:0]
		for _, tenant := range r.n.Tenants {
			if tenant.State == model.Running {
				running = append(running, tenant)
			}
		}
	}
	r.run(from + 20*time.Minute)
	rate, best := work/(last-from).Seconds(), (1.5+1.45)/2
	if rate < 0.97*best {
		t.Errorf("does %.3f of what one does alone, the best is %.3f", rate, best)
	}
	least, most := math.Inf(1), 0.0
	for _, tenant := range r.n.Tenants {
		least, most = min(least, tenant.Service), max(most, tenant.Service)
	}
	if most-least > 100 {
		t.Errorf("service between %.0f s and %.0f s", least, most)
	}
}

func doneBy(running []*model.Tenant) float64 {
	switch len(running) {
	case 0:
		return 0
	case 1:
		return 1
	case 2:
		return speedOf(running[0], running[1]) + speedOf(running[1], running[0])
	}
	return math.NaN()
}

// TestThroughputStopsSharingThatDoesNotPay: two that harm each other take
// turns.
func TestThroughputStopsSharingThatDoesNotPay(t *testing.T) {
	slow := func(a, b *model.Tenant) float64 { return 0.45 }
	r := newRigWith(t, shipped(t, "throughput"), policy.Options{Speed: slow}, "80GiB")
	for id := 1; id <= 2; id++ {
		r.register(fmt.Sprint(id), []string{"mem=10GiB"})
		r.decide()
	}
	r.seen = func(r *rig, _ []model.Action) {
		if doing := r.n.Tenants[0].State.Computes() && r.n.Tenants[1].State.Computes(); doing {
			t.Errorf("%v: both compute", r.now)
		}
	}
	r.run(5 * time.Minute)
	for _, tenant := range r.n.Tenants {
		if tenant.Tally.Attained < time.Minute {
			t.Errorf("%s computed for %v", tenant.ID, tenant.Tally.Attained)
		}
	}
}

// TestTurnsOfAPackEndTogether: of two pairs that take turns, one tenant came in the
// middle of its mate's turn. The pair's turn ends with that of the one that came last:
// they do not renew each other's while others wait.
func TestTurnsOfAPackEndTogether(t *testing.T) {
	pairs := func(a, b *model.Tenant) float64 {
		if (a.Reg.JobID-1)/2 == (b.Reg.JobID-1)/2 {
			return 0.8
		}
		return 0.4
	}
	for _, later := range []time.Duration{time.Second, 7 * time.Second, 15 * time.Second} {
		t.Run(later.String(), func(t *testing.T) {
			text := string(policies.Shipped()["throughput"]) + "\n[limits]\nmin_run = '0s'\n"
			r := newRigWith(t, parsed(t, text), policy.Options{Speed: pairs}, "80GiB")
			for id := 1; id <= 4; id++ {
				if id == 4 { // in the turn of its mate
					r.run(31*time.Second + later)
				}
				r.register(fmt.Sprint(id), []string{"mem=10GiB", "start=0s"})
				r.decide()
			}
			r.seen = func(r *rig, _ []model.Action) {
				for _, tenant := range r.n.Tenants {
					if tenant.State.Stopped() && r.now-tenant.Since > 33*time.Second+later {
						t.Fatalf("%v: %s is paused for %v, with turns of 30 s", r.now, tenant.ID, r.now-tenant.Since)
					}
				}
			}
			r.run(10 * time.Minute)
		})
	}
}

// TestThreeGetNoMoreThanThereIs: what a third tenant adds beside two, where any
// two go 0.9 as fast as alone and so three 1/1.22, if the GPU has as much for them.
func TestThreeGetNoMoreThanThereIs(t *testing.T) {
	unseen := math.NaN()
	for _, c := range []struct {
		name    string
		demands [3]float64 // of the third last
		want    float64
	}{
		{"all fit", [3]float64{0.3, 0.3, 0.3}, 0.655},
		{"two of three fit", [3]float64{0.5, 0.5, 0.5}, 0.2},
		{"any two get all that there is", [3]float64{0.95, 0.95, 0.95}, 0},
		{"who wants little is not cut", [3]float64{0.95, 0.95, 0.3}, 0.56},
		{"who was not seen does not count", [3]float64{unseen, unseen, unseen}, 0.655},
		{"one was seen", [3]float64{unseen, 0.95, unseen}, 0.655},
		{"none of the GPU", [3]float64{0, 0, 0}, 0.655},
	} {
		// Another GPU is empty: this one is taken only where it adds as much as is wanted.
		rank := fmt.Sprintf("\n[place]\nrank = 'abs(place.gain - %v) < 0.001 ? 1 : 0'\n", c.want)
		p, o := parsed(t, string(policies.Shipped()["together"])+rank), policy.Options{Speed: func(a, b *model.Tenant) float64 { return 0.9 }}
		o.Demand = func(t *model.Tenant) float64 { return c.demands[t.Reg.JobID-1] }
		r := newRigWith(t, p, o, "80GiB", "80GiB")
		r.register("1", []string{"mem=10GiB", "gpu=0"})
		r.register("2", []string{"mem=10GiB", "gpu=0"})
		got := r.d.Place(r.n, policy.Placing{Tenant: comer(3, model.Known(10*model.GiB)), GPUs: 1, Among: uuids(2)}, r.now)
		if got.GPU != uuid(0) {
			t.Errorf("%s: it adds something else than %v: %s", c.name, c.want, got.Why)
		}
	}
}
