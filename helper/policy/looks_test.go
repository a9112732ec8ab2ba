package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gimbal-hpc/gimbal/helper/policy"
	"github.com/gimbal-hpc/gimbal/tests/draw"
)

// TestLooksChangeNothing lets random tenants come and go under random policies whose
// rules say the same while time passes: looked at only when something happens or the
// decider wants to be asked, and looked at in between too. The same is done at the same
// times, so that a node, which looks every second, and the simulator, which does not,
// agree. All times are binary fractions of a second, or service would be rounded
// differently.
func TestLooksChangeNothing(t *testing.T) {
	draw.Check(t, func(rt *rapid.T) {
		text, script := steadyPolicy(rt), comingsAndGoings(rt)
		looked := withLooks(rt, script)
		rt.Logf("%s\n%s", text, strings.Join(script, "\n"))
		swap := policy.Options{Swap: rapid.Bool().Draw(rt, "swap")}
		play := func(script []string) []string {
			r := newRigWith(t, parsed(t, text), swap, "80GiB", "80GiB")
			r.tick, r.latency, r.eager = 1000*time.Hour, time.Second/64, true
			r.live(script)
			return r.log
		}
		if d := cmp.Diff(play(script), play(looked)); d != "" {
			rt.Fatalf("(-without looks +with them)\n%s", d)
		}
	})
}

// steadyPolicy draws a policy whose rules say the same of a tenant, but for what it
// was served, as long as nothing happens.
func steadyPolicy(t *rapid.T) string {
	var b strings.Builder
	one := func(format string, of ...any) {
		fmt.Fprintf(&b, format+"\n", rapid.SampledFrom(of).Draw(t, format))
	}
	one("name = 'steady'\n[share]\nswap = %v", true, false)
	one("together = %d", 1, 2, 3)
	one("quantum = '%dms'", 1000, 3000, 30000)
	one("rank = '%s'", "-tenant.service", "-tenant.attained", "tenant.age", "tenant.weight", "1")
	one("tier = '%s'", "0", `tenant.class == "guaranteed" ? 1 : 0`)
	one("pair = '%s'", "true", "tenant.weight != mate.weight")
	one("%s", "", "value = 'tenant.weight'", "value = 'tenant.speed_guess * tenant.weight'")
	one("[limits]\nlaunch_grace = '1h'\nmin_run = '%ds'", 0, 5)
	one("max_pause = '%ds'", 0, 60)
	one("max_hold = '%ds'", 0, 20)
	return b.String()
}

// mostSteady is how many tenants may take turns while a quantum that is a part of a
// minute's max_pause is whole seconds.
const mostSteady = 7

// comingsAndGoings draws what happens to a node, in whole quarters of a second.
func comingsAndGoings(t *rapid.T) (script []string) {
	id, ms := 0, 0
	for range rapid.IntRange(2, 12).Draw(t, "events") {
		ms += 250 * rapid.SampledFrom([]int{0, 1, 5, 21, 50}).Draw(t, "quarters")
		if id == 0 || id < mostSteady && rapid.IntRange(0, 3).Draw(t, "new") > 0 {
			id++
			script = append(script, fmt.Sprintf("%dms new %d gpu=%s mem=%dGiB class=%s weight=%d start=0s", ms, id,
				rapid.SampledFrom([]string{"0", "1", "0,1"}).Draw(t, "gpu"), rapid.SampledFrom([]int{10, 50}).Draw(t, "mem"),
				rapid.SampledFrom([]string{"guaranteed", "opportunistic"}).Draw(t, "class"), rapid.SampledFrom([]int{1, 2}).Draw(t, "weight")))
			continue
		}
		script = append(script, fmt.Sprintf("%dms end %d", ms, rapid.IntRange(1, id).Draw(t, "who")))
	}
	return append(script, fmt.Sprintf("%dms stop", ms+60000))
}

// withLooks adds looks at which nothing happens, none at a time at which something does:
// at equal times apart, a second at most.
func withLooks(t *rapid.T, script []string) []string {
	out, end := slices.Clone(script), timeOf(script[len(script)-1])
	apart := time.Duration(rapid.SampledFrom([]int{1, 7, 40, 64}).Draw(t, "apart")) * time.Second / 64
	for at := time.Second / 128; at < end; at += apart {
		out = append(out, fmt.Sprintf("%v stop", at))
	}
	slices.SortStableFunc(out, func(a, b string) int { return int(timeOf(a) - timeOf(b)) })
	return out
}

func timeOf(line string) time.Duration {
	text, _, _ := strings.Cut(line, " ")
	at, _ := time.ParseDuration(text)
	return at
}

// TestNewcomer: one that comes to a tenant that is alone waits for the end of its turn,
// or of what it is spared for, and not at all where both are over; whatever is seen
// while it is being held.
func TestNewcomer(t *testing.T) {
	const s = time.Second
	for _, c := range []struct{ comes, minRun, runs time.Duration }{
		{4 * s, 0, 10 * s},
		{10 * s, 0, 10 * s},
		{25 * s, 0, 25 * s},
		{12 * s, 15 * s, 15 * s},
	} {
		r := newRig(t, parsed(t, fmt.Sprintf("name = 'turns'\n[share]\ntogether = 1\nquantum = '10s'\n[limits]\nmin_run = '%v'\n", c.minRun)), "80GiB")
		r.eager = true
		r.live([]string{
			"0s new 1 mem=10GiB start=0s",
			fmt.Sprintf("%v new 2 mem=10GiB start=0s", c.comes),
			fmt.Sprintf("%v stop", c.runs+4*r.latency),
		})
		if two := r.n.Tenant("2"); !two.HasRun || two.FirstRan < c.runs {
			t.Errorf("one that comes after %v has run: %v, at %v, want %v\n%s", c.comes, two.HasRun, two.FirstRan, c.runs, strings.Join(r.log, "\n"))
		}
	}
}
