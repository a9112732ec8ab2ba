package policy_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/policy"
)

// TestCap: what a policy's [cap] says of a tenant that is about to be launched;
// what is unknown, or no limit, says nothing.
func TestCap(t *testing.T) {
	const head = "name = 'x'\n[cap]\n"
	terms := model.Terms{Class: model.Opportunistic, Weight: 2, Memory: model.Known(10 * model.GiB)}
	for _, c := range []struct {
		name, text string
		want       policy.Capped
	}{
		{"nothing", "name = 'x'", policy.Capped{}},
		{"all of it", head + "mps = true\nsm = '0.4'\npriority = 'tenant.class == \"opportunistic\" ? 1 : 0'\nmemory = 'tenant.memory_claim'\ngrowth = true\npytorch = 'a:b'",
			policy.Capped{MPS: true, SM: model.Known(0.4), Priority: model.Known(1), Memory: model.Known(10 * model.GiB), Growth: true, PyTorch: "a:b"}},
		{"by its mates", head + "sm = '1 / pack.tenants'", policy.Capped{SM: model.Known(0.5)}},
		{"the whole GPU", head + "sm = '1'\nmemory = '0'", policy.Capped{}},
		{"unknown", head + "sm = 'tenant.demand'\nmemory = 'tenant.memory_peak'\npriority = 'tenant.deadline_in'", policy.Capped{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, parsed(t, c.text), "80GiB")
			r.add("1", terms, []int{0}, "", "", actor{})
			c.want.Policy = "x"
			next := &model.Tenant{ID: "2", Terms: terms, GPUs: []string{uuid(0)}, Use: map[string]model.Usage{}}
			got := r.d.Cap(r.n, next, 0)
			if d := cmp.Diff(c.want, got, cmp.Comparer(func(a, b model.Reading[float64]) bool { return a == b }),
				cmp.Comparer(func(a, b model.Reading[int]) bool { return a == b }),
				cmp.Comparer(func(a, b model.Reading[model.Bytes]) bool { return a == b })); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
			next.GPUs = []string{"GPU-of-which-nothing-is-known"}
			_ = r.d.Cap(r.n, next, 0)
		})
	}
}
