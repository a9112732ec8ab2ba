package policy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/policy"
)

func TestWhyTellsOfEveryTenant(t *testing.T) {
	r := newRig(t, shipped(t, "timeslice"), "80GiB")
	for _, id := range []string{"1", "2"} {
		r.register(id, []string{"mem=10GiB"})
		r.decide()
	}
	r.register("3", []string{"mem=75GiB"})
	r.decide()
	r.run(20 * time.Second)
	for id, want := range map[model.TenantID]string{
		"1": "not stopped in the first 30s after a launch", "2": "turn of 1", "3": "needs 75GiB on GPU 0",
	} {
		if why, ok := r.d.Why(id); !ok || !strings.Contains(why.Text, want) || why.Code == "" {
			t.Errorf("%s: %+v, want %q", id, why, want)
		}
	}
	if why, ok := r.d.Why("4"); ok {
		t.Errorf("of a tenant that is not there: %+v", why)
	}
	r.event("end", []string{"1"})
	r.decide()
	if why, ok := r.d.Why("1"); ok {
		t.Errorf("of a tenant that has ended: %+v", why)
	}
}

// TestSparesTellsOfLaunches: whether a tenant is on its GPU or not.
func TestSparesTellsOfLaunches(t *testing.T) {
	r := newRig(t, shipped(t, "timeslice"), "80GiB")
	r.register("1", []string{"mem=10GiB", "start=500s"})
	r.register("2", []string{"mem=10GiB", "exempt=reasons"})
	r.register("3", []string{"mem=75GiB"})
	r.decide()
	r.run(20 * time.Second)
	for id, want := range map[model.TenantID]string{"1": "after a launch, for 1", "2": "reasons", "3": "", "4": ""} {
		why, until, ok := r.d.Spares(id)
		if ok != (want != "") || !strings.Contains(why.Text, want) || (until > r.now) != (id == "1") {
			t.Errorf("%s: until %s: %+v, want %q", id, until, why, want)
		}
	}
	r.run(40 * time.Second)
	if why, _, ok := r.d.Spares("1"); ok {
		t.Errorf("after its launch: %+v", why)
	}
}

// TestPoliciesChangeWhileTenantsRun: from the next decision on the new ones
// rule, and a guard's episodes begin anew.
func TestPoliciesChangeWhileTenantsRun(t *testing.T) {
	r := newRig(t, shipped(t, "timeslice"), "80GiB")
	for _, id := range []string{"1", "2"} {
		r.register(id, []string{"mem=10GiB"})
		r.decide()
	}
	r.run(10 * time.Second)
	if s := r.n.Tenant("2").State; s != model.Held {
		t.Fatalf("2 is %s before", s)
	}
	r.d.SetPolicies(&policy.Set{Default: shipped(t, "timeslice"), ByGPU: map[string]*policy.Policy{uuid(0): shipped(t, "together")}})
	r.run(12 * time.Second)
	if s := r.n.Tenant("2").State; s != model.Running {
		t.Errorf("2 is %s after", s)
	}
}

// TestDeadlinesNeedTheWallClock: they are unknown to rules until it is told.
func TestDeadlinesNeedTheWallClock(t *testing.T) {
	p := parsed(t, "name='x'\n[share]\nadmit='tenant.deadline_in < 1 * hour && tenant.limit_in > 1 * minute'\n")
	r := newRig(t, p, "80GiB")
	epoch := time.Unix(1_700_000_000, 0)
	r.add("1", model.Terms{Weight: 1, Memory: model.Known(model.GiB), Deadline: epoch.Add(30 * time.Minute)}, []int{0}, "", "", actor{})
	r.n.Tenant("1").Reg.EndTime = epoch.Add(10 * time.Minute).Unix()
	r.decide()
	r.run(time.Second)
	if s := r.n.Tenant("1").State; s != model.Held {
		t.Errorf("%s without a wall clock", s)
	}
	r.d.SetEpoch(epoch)
	r.run(3 * time.Second)
	if s := r.n.Tenant("1").State; s != model.Running {
		t.Errorf("%s with a wall clock", s)
	}
}

// TestTenantsGoneAreForgotten lets many tenants pass through: what is kept of
// them does not grow.
func TestTenantsGoneAreForgotten(t *testing.T) {
	r := newRig(t, shipped(t, "together"), "80GiB")
	next := func(i int) {
		id := string(rune('a'+i%26)) + time.Duration(i).String()
		r.add(id, model.Terms{Weight: 1, Memory: model.Known(model.GiB)}, []int{0}, "", "", actor{})
		r.decide()
		r.apply(model.Event{Kind: model.EvEnded, Tenant: model.TenantID(id)})
		r.decide()
		if _, ok := r.d.Why(model.TenantID(id)); ok {
			t.Fatalf("%s is remembered", id)
		}
	}
	for i := range 100 {
		next(i)
	}
}
