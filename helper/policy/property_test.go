package policy_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/policy"
	"github.com/gimbal-hpc/gimbal/tests/draw"
)

// parsed is a policy from its text.
func parsed(t testing.TB, text string) *policy.Policy {
	t.Helper()
	p, err := policy.Parse("random.toml", []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return p
}

// randomPolicy draws a policy from the grammar of the language.
func randomPolicy(t *rapid.T) string {
	var b strings.Builder
	fmt.Fprintf(&b, "name = 'random'\n[share]\n")
	if rapid.Bool().Draw(t, "share.swap") {
		b.WriteString("swap = true\n")
	}
	if k := rapid.IntRange(0, 3).Draw(t, "together"); k > 0 {
		fmt.Fprintf(&b, "together = %d\n", k)
	}
	fmt.Fprintf(&b, "quantum = '%dms'\n", rapid.IntRange(50, 40000).Draw(t, "quantum"))
	maybe := func(key string, choices ...string) {
		if i := rapid.IntRange(-1, len(choices)-1).Draw(t, key); i >= 0 {
			fmt.Fprintf(&b, "%s = '%s'\n", key, choices[i])
		}
	}
	maybe("rank", "-tenant.age", "tenant.memory_used", "-tenant.waited", "tenant.idle / 0", "-user.attained + pack.tenants", "tenant.sm ?? 1")
	maybe("tier", `tenant.class == "guaranteed" ? 1 : 0`, "tenant.gpus", "-tenant.pauses")
	maybe("pair", "tenant.sm + mate.sm < 1", `mate.class != "guaranteed" || mate.idle > 1`, "speed.sum > 1", "false", "tenant.weight != mate.weight")
	maybe("value", "tenant.speed ?? tenant.weight", "tenant.speed_guess / tenant.memory_used", "1.5", "-1.0", "tenant.speed_guess * tenant.gpus")
	if strings.Contains(b.String(), "value") && rapid.Bool().Draw(t, "plan") {
		b.WriteString(rapid.SampledFrom([]string{"plan = true\n", "best = true\n"}).Draw(t, "by value"))
	}
	maybe("admit", "pack.chosen < 2", "gpu.memory_free > 20 * GiB", "user.computing < 3")
	maybe("throttle", "0.5", `mate.class == "guaranteed" ? 0.1 : 1`, "tenant.sm / mate.sm", "tenant.weight - 1", "mate.idle / 10")
	fmt.Fprintf(&b, "[limits]\nmin_run = '%ds'\nmax_pause = '%ds'\nmax_hold = '%ds'\nlaunch_grace = '%ds'\npatience = '%ds'\nmax_passed = %d\n",
		rapid.IntRange(0, 30).Draw(t, "min_run"), rapid.IntRange(1, 60).Draw(t, "max_pause"), rapid.IntRange(0, 60).Draw(t, "max_hold"),
		rapid.IntRange(0, 10).Draw(t, "grace"), rapid.IntRange(0, 60).Draw(t, "patience"), rapid.IntRange(0, 3).Draw(t, "passed"))
	if rapid.Bool().Draw(t, "guards") {
		b.WriteString("[[guard]]\nwhen = 'tenant.over > 0'\nfor = '3s'\ndo = ['swap', 'pause', 'warn']\n")
		b.WriteString("[[guard]]\nwhen = 'tenant.idle > 2'\ndo = ['throttle', 'warn']\nshare = 0.25\n")
		b.WriteString("[[guard]]\nscope = 'gpu'\nwhen = 'pack.tenants > 4'\nfor = '2s'\ndo = ['evict']\n")
	}
	return b.String()
}

// randomLife lets a node live through random news. It returns a script that
// does the same again, for the tests that compare.
func randomLife(t *rapid.T) []string {
	var script []string
	id, ms := 0, 0
	for range rapid.IntRange(1, 40).Draw(t, "events") {
		ms += rapid.SampledFrom([]int{0, 5, 200, 1000, 15000, 61000}).Draw(t, "ms")
		do := rapid.SampledFrom([]string{"new", "new", "end", "on", "off", "idle", "busy", "task", "cont", "susp", "unsusp",
			"sig", "order", "stubborn", "mem", "degraded", "recovered", "foreign", "stop"}).Draw(t, "do")
		who := rapid.IntRange(1, max(id, 1)).Draw(t, "who")
		switch do {
		case "new":
			id++
			do = fmt.Sprintf("new %d gpu=%s mem=%dGiB class=%s weight=%d start=%ds", id,
				rapid.SampledFrom([]string{"0", "1", "0,1", "2"}).Draw(t, "gpu"), rapid.IntRange(1, 90).Draw(t, "mem"),
				rapid.SampledFrom([]string{"guaranteed", "opportunistic"}).Draw(t, "class"),
				rapid.IntRange(1, 4).Draw(t, "weight"), rapid.IntRange(0, 15).Draw(t, "start"))
			if rapid.IntRange(0, 9).Draw(t, "exempt") == 0 {
				do += " exempt=interactive"
			}
			if id > 1 && rapid.IntRange(0, 4).Draw(t, "child") == 0 {
				do += fmt.Sprintf(" parent=%d", rapid.IntRange(1, id-1).Draw(t, "parent"))
			}
		case "sig":
			do = fmt.Sprintf("sig %d TERM", who)
		case "mem":
			do = fmt.Sprintf("mem %d %dGiB", who, rapid.IntRange(1, 90).Draw(t, "used"))
		case "order":
			do = fmt.Sprintf("order %d %s %dms", who, rapid.SampledFrom([]string{"pause", "resume", "release"}).Draw(t, "order"), ms+rapid.IntRange(1, 90000).Draw(t, "until"))
		case "degraded", "recovered", "stop":
			do += " driver"
		case "foreign":
			do = fmt.Sprintf("foreign %d %s", rapid.IntRange(0, 1).Draw(t, "gpu"), rapid.SampledFrom([]string{"unknown", "0GiB", "30GiB"}).Draw(t, "size"))
		default:
			do = fmt.Sprintf("%s %d", do, who)
		}
		script = append(script, fmt.Sprintf("%dms %s", ms, do))
	}
	return append(script, fmt.Sprintf("%dms stop", ms+90000))
}

// live plays a script; news of tenants that are not there is left out.
func (r *rig) live(script []string) {
	for _, line := range script {
		f := strings.Fields(line)
		at, _ := time.ParseDuration(f[0])
		if at > r.now {
			r.run(at)
		}
		switch f[1] {
		case "new", "degraded", "recovered", "foreign", "stop":
			r.event(f[1], f[2:])
		default:
			if r.n.Tenant(model.TenantID(f[2])) != nil {
				r.event(f[1], f[2:])
			}
		}
		r.decide() // it may have wanted to be asked now
	}
}

// TestRandomLives lets random policies decide on random lives. The rig itself
// fails on an action that the lifecycle does not allow and on a decider that
// does not let time pass.
func TestRandomLives(t *testing.T) {
	draw.Check(t, func(rt *rapid.T) {
		text := randomPolicy(rt)
		script := randomLife(rt)
		rt.Logf("%s\n%s", text, strings.Join(script, "\n"))
		swap := policy.Options{Swap: rapid.Bool().Draw(rt, "swap")}
		r := newRigWith(t, parsed(t, text), swap, "80GiB", "80GiB", "unknown")
		r.seen = func(r *rig, as []model.Action) { checkDecision(rt, r, as) }
		r.live(script)

		again := newRigWith(t, parsed(t, text), swap, "80GiB", "80GiB", "unknown")
		again.live(script)
		if !slices.Equal(r.log, again.log) {
			rt.Fatalf("two runs differ:\n%s\n\n%s", strings.Join(r.log, "\n"), strings.Join(again.log, "\n"))
		}
	})
}

// checkDecision holds what is true of every decision.
func checkDecision(t *rapid.T, r *rig, as []model.Action) {
	moved := map[model.TenantID]bool{}
	for _, a := range as {
		tenant := r.n.Tenant(a.Tenant)
		if tenant == nil || a.Why.Code == "" || a.Why.Text == "" {
			t.Fatalf("%v: %+v", r.now, a)
		}
		trigger, moves := a.Do.Trigger()
		if !moves {
			continue
		}
		if moved[a.Tenant] {
			t.Fatalf("%v: two actions on %s: %+v", r.now, a.Tenant, as)
		}
		moved[a.Tenant] = true
		if _, ok := model.Next(tenant.State, trigger); !ok {
			t.Fatalf("%v: %s while %s", r.now, a.Do, tenant.State)
		}
		checkStop(t, r, a, tenant)
	}
	for _, tenant := range r.n.Tenants {
		if tenant.State == model.New && !moved[tenant.ID] {
			t.Fatalf("%v: nothing was said of the new %s", r.now, tenant.ID)
		}
		if r.n.Degraded != "" && tenant.State.Stopped() && tenant.Suspended == "" && !moved[tenant.ID] && (tenant.State != model.Swapped || tenant.Retry <= r.now) {
			t.Fatalf("%v: %s stays stopped while degraded", r.now, tenant.ID)
		}
	}
}

// checkStop holds what must never be stopped, nor let go.
func checkStop(t *rapid.T, r *rig, a model.Action, tenant *model.Tenant) {
	stops := a.Do == model.PrimThrottle || a.Do == model.PrimPause || a.Do == model.PrimHold || a.Do == model.PrimSwap || a.Do == model.PrimEvict
	switch {
	case stops && (tenant.Exempt != "" || r.n.Degraded != ""):
		t.Fatalf("%v: %s of %s, exempt %q, degraded %q", r.now, a.Do, a.Tenant, tenant.Exempt, r.n.Degraded)
	case a.Do == model.PrimThrottle && (len(tenant.GPUs) != 1 || tenant.Use[tenant.GPUs[0]].Procs != 1 || !a.Throttle.Valid()):
		t.Fatalf("%v: throttle %+v of %+v", r.now, a, tenant)
	case (a.Do == model.PrimPause || a.Do == model.PrimThrottle) && (tenant.Settle > r.now || tenant.Retry > r.now || tenant.Suspended != ""):
		t.Fatalf("%v: pause of %+v", r.now, tenant)
	case a.Do == model.PrimResume && tenant.Suspended != "":
		t.Fatalf("%v: resume over another's stop", r.now)
	}
}

func TestDecideDoesNotChangeTheNode(t *testing.T) {
	draw.Check(t, func(rt *rapid.T) {
		r := newRig(t, parsed(t, randomPolicy(rt)), "80GiB", "80GiB", "unknown")
		r.live(randomLife(rt))
		before := dump(t, r.n)
		as, next := r.d.Decide(r.n, r.now)
		first := fmt.Sprint(as, next)
		if after := dump(t, r.n); after != before {
			rt.Fatalf("before %s\nafter %s", before, after)
		}
		as, next = r.d.Decide(r.n, r.now)
		if second := fmt.Sprint(as, next); len(as) == 0 && first != second {
			rt.Fatalf("asked twice: %s, then %s", first, second)
		}
	})
}

func dump(t *testing.T, n *model.Node) string {
	t.Helper()
	b, err := json.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestTurns holds, for tenants that are always on their GPUs and can be
// paused: no two compute at once on a GPU; nobody is paused for longer than
// max_pause and the breaths of the others; every one that fits gets its share;
// memory is never given out twice.
func TestTurns(t *testing.T) {
	draw.Check(t, func(rt *rapid.T) {
		quantum := rapid.IntRange(100, 30000).Draw(rt, "quantum")
		pause := rapid.IntRange(2, 60).Draw(rt, "max_pause")
		p := parsed(t, fmt.Sprintf("name='turns'\n[share]\ntogether=1\nquantum='%dms'\n[limits]\nmin_run='0s'\nmax_pause='%ds'\nbreath='200ms'\nlaunch_grace='1s'\n", quantum, pause))
		r := newRig(t, p, "80GiB", "80GiB")
		r.tick = 100 * time.Millisecond
		tenants := rapid.IntRange(1, 8).Draw(rt, "tenants")
		slack := time.Duration(2*tenants)*(200+50)*time.Millisecond + time.Second
		limit := time.Duration(pause)*time.Second + slack
		r.seen = func(r *rig, _ []model.Action) { checkTurns(rt, r, limit) }
		for i := range tenants {
			gpus := [][]int{{0}, {1}, {0, 1}}[rapid.IntRange(0, 2).Draw(rt, "gpus")]
			m := model.Bytes(rapid.IntRange(1, 10).Draw(rt, "mem")) * model.GiB
			weight := float64(rapid.IntRange(1, 4).Draw(rt, "weight"))
			r.add(fmt.Sprint(i+1), model.Terms{Weight: weight, Class: model.Opportunistic, Memory: model.Known(m)}, gpus, "", "", actor{memory: m})
			r.decide()
		}
		r.run(4 * limit)
		for _, tenant := range r.n.Tenants {
			if tenant.Tally.Attained == 0 {
				rt.Fatalf("%s never ran:\n%s", tenant.ID, strings.Join(r.log, "\n"))
			}
		}
	})
}

func checkTurns(t *rapid.T, r *rig, limit time.Duration) {
	for i := range r.n.GPUs {
		computing, claims := 0, model.Bytes(0)
		for _, tenant := range r.n.Tenants {
			if !tenant.Uses(uuid(i)) {
				continue
			}
			// A paused tenant that is swapped is continued only behind the driver's lock.
			if tenant.State.Computes() && tenant.State != model.Swapping {
				computing++
			}
			if tenant.Admitted {
				claims += tenant.Terms.Memory.Or(0)
			}
		}
		if computing > 1 || claims > 80*model.GiB {
			t.Fatalf("%v: GPU %d: %d compute, claims %v\n%s", r.now, i, computing, claims, strings.Join(r.log, "\n"))
		}
	}
	for _, tenant := range r.n.Tenants {
		if tenant.State == model.Paused && r.now-tenant.Since > limit {
			t.Fatalf("%v: %s is paused since %v\n%s", r.now, tenant.ID, tenant.Since, strings.Join(r.log, "\n"))
		}
	}
}

// TestMemoryIsGivenOutOnce lets random tenants come and go: the claims of the
// admitted ones never exceed the GPU, unless one is alone on it.
func TestMemoryIsGivenOutOnce(t *testing.T) {
	draw.Check(t, func(rt *rapid.T) {
		name := rapid.SampledFrom([]string{"timeslice", "together", "priority", "swap", "reclaim"}).Draw(rt, "policy")
		r := newRigWith(t, shipped(t, name), policy.Options{Swap: true}, "80GiB", "80GiB")
		r.swap = 3 * time.Second
		r.seen = func(r *rig, as []model.Action) { checkMemory(rt, r, as) }
		for id := range rapid.IntRange(1, 12).Draw(rt, "tenants") {
			r.run(r.now + time.Duration(rapid.IntRange(1, 20).Draw(rt, "s"))*time.Second)
			if id > 0 && rapid.IntRange(0, 2).Draw(rt, "end") == 0 {
				if old := model.TenantID(fmt.Sprint(rapid.IntRange(1, id).Draw(rt, "which"))); r.n.Tenant(old) != nil {
					r.event("end", []string{string(old)})
					r.decide()
				}
			}
			r.event("new", []string{fmt.Sprint(id + 1), fmt.Sprintf("gpu=%s", rapid.SampledFrom([]string{"0", "1", "0,1"}).Draw(rt, "gpu")),
				fmt.Sprintf("mem=%dGiB", rapid.IntRange(1, 90).Draw(rt, "mem"))})
			r.decide()
		}
		r.run(r.now + time.Minute)
	})
}

func checkMemory(t *rapid.T, r *rig, as []model.Action) {
	for i := range r.n.GPUs {
		claims, holders := model.Bytes(0), 0
		for _, tenant := range r.n.Tenants {
			lets := slices.ContainsFunc(as, func(a model.Action) bool {
				return a.Tenant == tenant.ID && (a.Do == model.PrimRun || a.Do == model.PrimResume || a.Do == model.PrimRestore)
			})
			if tenant.Uses(uuid(i)) && (tenant.Admitted || lets) {
				claims += tenant.Terms.Memory.Or(0)
				holders++
			}
		}
		if holders > 1 && claims > 80*model.GiB {
			t.Fatalf("%v: GPU %d: %v given out\n%s", r.now, i, claims, strings.Join(r.log, "\n"))
		}
	}
}
