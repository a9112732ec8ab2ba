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

// TestSwapTurns holds, for tenants of any size under a policy that swaps: no
// two compute at once on a GPU, memory is never given out twice, and each gets
// its share, although they do not fit together. (One that shares with a gang
// may have to make up for time that it had before: it only has to run.)
func TestSwapTurns(t *testing.T) {
	draw.Check(t, func(rt *rapid.T) {
		quantum := time.Duration(rapid.IntRange(5, 60).Draw(rt, "quantum")) * time.Second
		p := parsed(t, fmt.Sprintf("name='turns'\n[share]\ntogether=1\nswap=true\nquantum='%ds'\n[limits]\nmin_run='0s'\nlaunch_grace='3s'\n", quantum/time.Second))
		r := newRigWith(t, p, policy.Options{Swap: true}, "80GiB", "80GiB")
		r.swap = time.Duration(rapid.IntRange(10, 4000).Draw(rt, "swap")) * time.Millisecond
		r.seen = func(r *rig, as []model.Action) {
			checkMemory(rt, r, as)
			checkTurns(rt, r, 3*time.Minute)
		}
		tenants, gangs := rapid.IntRange(2, 6).Draw(rt, "tenants"), rapid.Bool().Draw(rt, "gangs")
		for i := range tenants {
			gpus := [][]int{{0}, {1}, {0, 1}}[rapid.IntRange(0, 2).Draw(rt, "gpus")]
			if !gangs {
				gpus = gpus[:1]
			}
			m := model.Bytes(rapid.IntRange(1, 80).Draw(rt, "mem")) * model.GiB
			r.add(fmt.Sprint(i+1), model.Terms{Weight: 1, Class: model.Opportunistic, Memory: model.Known(m)}, gpus, "", "",
				actor{memory: m, start: time.Duration(rapid.IntRange(0, 2).Draw(rt, "start")) * time.Second})
			r.decide()
			r.run(r.now + time.Duration(rapid.IntRange(0, 90).Draw(rt, "apart"))*time.Second)
		}
		from := map[model.TenantID]time.Duration{}
		for _, tenant := range r.n.Tenants {
			from[tenant.ID] = tenant.Tally.Attained
		}
		rounds := 6 * time.Duration(tenants) * (quantum + 2*r.swap)
		r.run(r.now + rounds)
		for _, tenant := range r.n.Tenants {
			got, least := tenant.Tally.Attained-from[tenant.ID], rounds/time.Duration(4*tenants)
			if gangs {
				got, least = tenant.Tally.Attained, 1
			}
			if got < least {
				rt.Fatalf("%s computed for %s of %s, %d tenants:\n%s", tenant.ID, got, rounds, tenants, strings.Join(r.log, "\n"))
			}
		}
	})
}
