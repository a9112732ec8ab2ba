package policy_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/policy"
)

// TestBestComputes: those compute that are worth most together, wherever they
// stand in the order; with one that comes first and others that join it would be
// 4 and 3.
func TestBestComputes(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "1,3",
		"pair = 'speed.sum < 1.6'":          "3,4", // 1 and 2 do more, but to them no single change leads
		"together = 1":                      "4",
		"tier = 'tenant.weight == 2 ? 1:0'": "1,2,3", // the only one of its tier, and who adds to it
	} {
		p := parsed(t, "name = 'x'\n[share]\nbest = true\nquantum = '30s'\nrank = 'tenant.weight'\nvalue = 'tenant.speed * (1 + tenant.weight / 1000)'\n"+text+"\n[limits]\nmax_pause = '1h'")
		r := newRigWith(t, p, policy.Options{Speed: speedOf}, "80GiB")
		for id := 1; id <= 4; id++ {
			r.register(fmt.Sprint(id), []string{"mem=10GiB", "start=0s", fmt.Sprintf("weight=%d", id)})
			r.decide()
		}
		r.run(3 * time.Minute) // past the launches and the turns that they began
		if got := runningOf(r.n); got != want {
			t.Errorf("%s: %s compute, want %s", text, got, want)
		}
	}
}

// TestBestOverAllGPUs: one on two GPUs computes where it is worth more than those
// that it keeps from each, and they do where they are worth more.
func TestBestOverAllGPUs(t *testing.T) {
	apart := policy.Options{Speed: func(_, _ *model.Tenant) float64 { return 0 }}
	for weight, want := range map[int]string{5: "2,3", 3: "1"} {
		p := parsed(t, "name = 'x'\n[share]\nbest = true\nquantum = '30s'\nvalue = 'tenant.speed * tenant.weight'\n[limits]\nmax_pause = '1h'")
		r := newRigWith(t, p, apart, "80GiB", "80GiB")
		r.register("1", []string{"mem=10GiB", "start=0s", "gpu=0,1", "weight=2"})
		r.register("2", []string{"mem=10GiB", "start=0s", "gpu=0", fmt.Sprintf("weight=%d", weight)})
		r.register("3", []string{"mem=10GiB", "start=0s", "gpu=1", "weight=1"})
		r.decide()
		r.run(3 * time.Minute)
		if got := runningOf(r.n); got != want {
			t.Errorf("weight %d: %s compute, want %s", weight, got, want)
		}
	}
}

func runningOf(n *model.Node) string {
	names := ""
	for _, t := range n.Tenants {
		if t.State == model.Running {
			if names != "" {
				names += ","
			}
			names += string(t.ID)
		}
	}
	return names
}
