package policy_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/policy"
	"github.com/gimbal-hpc/gimbal/policies"
)

const whole = `
name = "mine"
objective = "o"
[share]
together = 2
quantum = "1m30s"
tier = "tenant.gpus"
rank = "-tenant.age"
admit = "gpu.memory_free >= 1.1 * tenant.memory_peak"
pair = "speed.sum > 1.05"
[limits]
max_pause = "2m"
gpu_memory = "80GiB"
max_passed = 3
[[guard]]
name = "full"
scope = "gpu"
when = "gpu.memory_used > 0.95 * gpu.memory_total"
for = "5s"
do = ["swap", "pause", "evict"]
`

func TestParseReadsEveryKey(t *testing.T) {
	p, err := policy.Parse("mine.toml", []byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	if p.Share.Together != 2 || p.Share.Quantum != 90*time.Second || p.Share.Pair.Source() != "speed.sum > 1.05" ||
		p.Share.Rank.Source() != "-tenant.age" {
		t.Errorf("share: %+v", p.Share)
	}
	if p.Limits.MaxPause != 2*time.Minute || p.Limits.GPUMemory != 80*model.GiB || p.Limits.MaxPassed != 3 ||
		p.Limits.MinRun != 30*time.Second {
		t.Errorf("limits: %+v", p.Limits)
	}
	g := p.Guards[0]
	if g.Name != "full" || g.Scope != policy.ScopeGPU || g.Who != policy.LowestRank || g.For != 5*time.Second || len(g.Do) != 3 {
		t.Errorf("guard: %+v", g)
	}
}

func TestParseTellsWhatIsWrongAndWhere(t *testing.T) {
	const head = "name = \"x\"\n[share]\n"
	for _, c := range []struct{ name, text, want string }{
		{"no TOML", "name = ", "p.toml:1:"},
		{"head that is not closed", head + "[limits\nmin_run = '1s'\n", "p.toml:3:8: expected '.' or ']' to end table name, but got the end of the line"},
		{"quotes that are not closed", head + "rank = \"1\ntier = \"1\"\n", "p.toml:3:10: strings cannot contain newlines"},
		{"time without quotes", head + "quantum = 20s\n", `p.toml:3:13: the line should end before 's'; a text or a time stands in quotes, such as "20s"`},
		{"key twice", head + "plan = true\nplan = false\n", "p.toml:4:1: Key 'share.plan' has already been defined"},
		{"key of the top in a section", head + "objective = 'x'", "p.toml:3:1: there is no key objective here; it stands at the top, before any table"},
		{"no name", "objective = 'x'", `p.toml:1:1: name is missing`},
		{"key of the top", "nane = 'x'\nname='x'", "p.toml:1:1: there is no key nane here; did you mean name?"},
		{"key of a section", head + "toegther = 1", "p.toml:3:1: there is no key toegther here; did you mean together?"},
		{"key of another section", head + "max_pause = '1s'", "there is limits.max_pause"},
		{"stand-in of another reason", head + "admit = 'false'\nadmit_reason = \"beside {mate}\"", "share.admit_reason: {mate} stands for nothing here; {tenant} and {gpu} stand for names"},
		{"stand-in of a mistake", head + "pair = 'false'\npair_reason = \"{tennant} waits\"", "share.pair_reason: {tennant} stands for nothing here; {tenant}, {mate} and {gpu} stand for names"},
		{"stand-in of a guard", head + "[[guard]]\nname = 'g'\nwhen = 'true'\nsay = \"on GPU {gpu}\"", "guard.say: {gpu} stands for nothing here; {tenant} stands for its name"},
		{"section", "name='x'\n[limit]\n", "p.toml:2:1: there is no key limit here; did you mean limits?"},
		{"time without unit", head + "quantum = 30", "p.toml:3:1: share.quantum: a text in quotes is wanted, not a whole number"},
		{"time without unit in quotes", head + "quantum = '30'", `"30" is no time: write it with its unit`},
		{"size without unit", "name='x'\n[limits]\ngpu_memory = '80'", `p.toml:3:1: limits.gpu_memory: "80" is no size`},
		{"together of 0", head + "together = 0", "a whole number of at least 1 is wanted"},
		{"variable", head + "rank = \"1 + tenant.servise\"", "p.toml:3:20: share.rank: there is no variable tenant.servise; did you mean tenant.service?"},
		{"variable of another rule", head + "rank = 'mate.age'", "mate.age is not known here; what is known in share.tier and share.rank: tenant, pack, user, now"},
		{"speed in rank", head + "rank = 'tenant.speed'", "tenant.speed is not known here"},
		{"type of the whole", head + "rank = 'tenant.age > 3'", "this gives a truth value, a number is wanted"},
		{"type of a part", head + "pair = \"mate.age > 'x'\"", "p.toml:3:20: share.pair: this is a text, a number is wanted"},
		{"value of a class", head + "pair = 'mate.class == \"guarantied\"'", `p.toml:3:23: share.pair: "guarantied" is never a value here; did you mean guaranteed?`},
		{"value of a class in a list", head + "pair = 'mate.class in [\"x\"]'", `"x" is never a value here`},
		{"second line of a text", head + "rank = \"\"\"\ntenant.age\n + foo\"\"\"", "p.toml:5:4: share.rank: there is no variable foo"},
		{"after an escape", head + "pair = \"mate.class == \\\"guaranteed\\\" and foo\"", "p.toml:3:42: share.pair: there is no variable foo"},
		{"after a fold", head + "rank = \"\"\"1 + \\\n   foo\"\"\"", "p.toml:4:4: share.rank: there is no variable foo"},
		{"loop", head + "rank = 'sum([1,2])'", "p.toml:3:9: share.rank: sum is not part of the language"},
		{"closure", head + "pair = 'all([1], # > 0)'", "all is not part of the language"},
		{"range", head + "pair = '1 in 1..3'", "after in stands a list"},
		{"range alone", head + "rank = '1..3'", "ranges are not part of the language"},
		{"clock", head + "rank = 'now()'", "there is no function now"},
		{"function", head + "rank = 'maxx(1, 2)'", "there is no function maxx; did you mean max?"},
		{"period", head + "period = '50ms'", "p.toml:3:1: share.period: 100ms to 10s"},
		{"period and max_pause", head + "throttle = '0.5'\nperiod = '2s'\n[limits]\nmax_pause = '3s'", "p.toml:4:1: share.period: 2s is more than half of limits.max_pause, 3s"},
		{"throttle without a share", "name='x'\n[[guard]]\nwhen='tenant.over > 0'\ndo=['throttle']", "p.toml:4:1: a guard that throttles needs share"},
		{"share without a throttle", "name='x'\n[[guard]]\nwhen='tenant.over > 0'\ndo=['pause']\nshare=0.5", "p.toml:5:1: share is of no use without"},
		{"share of nothing", "name='x'\n[[guard]]\nwhen='tenant.over > 0'\ndo=['throttle']\nshare=0.01", "p.toml:5:1: guard.share: a number from 0.05 to 0.99 is wanted"},
		{"arguments", head + "rank = 'abs(1, 2)'", "abs is called with 2 arguments"},
		{"let", head + "rank = 'let x = 1; x'", "let is not part of the language"},
		{"empty", head + "rank = ' '", "the expression is empty"},
		{"syntax", head + "rank = '1 +'", "share.rank: the expression ends too early"},
		{"long", head + "rank = '1" + strings.Repeat("+1", 1500) + "'", "at most 2000 are allowed"},
		{"many parts", head + "rank = '1" + strings.Repeat("+1", 300) + "'", "exceeds maximum allowed nodes"},
		{"plan by nothing", head + "plan = true", "p.toml:3:1: share.plan: what is planned by is missing"},
		{"best by nothing", head + "best = true", "p.toml:3:1: share.best: it needs share.value"},
		{"best and a plan", head + "value = '1'\nplan = true\nbest = true", "p.toml:5:1: share.best: it needs share.value to choose by, and no share.plan"},
		{"rank by the rank", head + "rank = 'tenant.behind'", "tenant.behind"},
		{"plan that is a text", head + "value = '1'\nplan = 'yes'", "p.toml:4:1: share.plan: true or false is wanted, not a text"},
		{"mate in a value", head + "value = 'mate.speed'", "mate.speed is not known here; what is known in share.value: tenant, gpu"},
		{"guard without do", "name='x'\n[[guard]]\nwhen='tenant.age > 1'", "p.toml:2:1: a guard needs do"},
		{"guard that does nothing", "name='x'\n[[guard]]\nwhen='tenant.age > 1'\ndo = []", `p.toml:4:1: guard.do: the list is empty, so nothing is ever done; to do nothing but tell of it write ["warn"]`},
		{"guard without when", "name='x'\n[[guard]]\ndo=['warn']", "p.toml:2:1: a guard needs when"},
		{"guard that is one table", "name='x'\n[guard]\ndo=['warn']", "guards are a list: write [[guard]]"},
		{"primitive", "name='x'\n[[guard]]\nwhen='tenant.age > 1'\ndo=['kill']", `p.toml:4:1: guard.do: "kill" is not allowed here`},
		{"after warn", "name='x'\n[[guard]]\nwhen='tenant.age > 1'\ndo=['warn', 'pause']", "nothing after it is ever done"},
		{"tenant in a guard of GPUs", "name='x'\n[[guard]]\nscope='gpu'\nwhen='tenant.age > 1'\ndo=['warn']", "p.toml:4:14: guard.when: tenant.age is not known here"},
		{"offender of a GPU", "name='x'\n[[guard]]\nscope='gpu'\nwho='offender'\nwhen='gpu.util > 1'\ndo=['warn']", "has no offender"},
		{"second guard", "name='x'\n[[guard]]\nwhen='tenant.age > 1'\ndo=['warn']\n[[guard]]\nwhen='tenant.agee > 1'\ndo=['warn']", "p.toml:6:14: guard.when: there is no variable tenant.agee"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := policy.Parse("p.toml", []byte(c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s\n got %v\nwant %s", c.text, err, c.want)
			}
			var one *policy.Error
			if err != nil && !errors.As(err, &one) {
				t.Errorf("%T is no policy.Error", err)
			}
		})
	}
}

func TestParseTellsAllFaultsInOrder(t *testing.T) {
	_, err := policy.Parse("p.toml", []byte("name = 'x'\n[share]\nrank = 'foo'\nquantum = 'x'\nfoo = 1\n"))
	var all policy.Errors
	if !errors.As(err, &all) || len(all) != 3 || all[0].Line != 3 || all[1].Line != 4 || all[2].Line != 5 {
		t.Errorf("got %v", err)
	}
}

func TestEveryVariableIsDocumented(t *testing.T) {
	seen := map[string]bool{}
	for _, v := range policy.Variables() {
		if seen[v.Name] || v.Meaning == "" || v.Type == "number" && v.Unit == "" || v.Type != "number" && v.Unit != "" {
			t.Errorf("%+v", v)
		}
		seen[v.Name] = true
	}
	for _, f := range policy.Functions() {
		if f.Form == "" || f.Meaning == "" {
			t.Errorf("%+v", f)
		}
	}
	for _, p := range policy.Places() {
		if p.Key == "" || len(p.Groups) == 0 {
			t.Errorf("%+v", p)
		}
	}
	for _, k := range policy.Keys() {
		if k.Path == "" || k.Type == "" || k.Meaning == "" {
			t.Errorf("%+v", k)
		}
	}
}

// TestDefaultsAreThoseThatAreDocumented writes every documented default into
// a file and expects the policy that an empty file gives.
func TestDefaultsAreThoseThatAreDocumented(t *testing.T) {
	text := "name = 'x'\n"
	section := ""
	for _, k := range policy.Keys() {
		head, tail, ok := strings.Cut(k.Path, ".")
		if !ok || k.Default == "" || head == "guard" {
			continue
		}
		if head != section {
			section = head
			text += "[" + section + "]\n"
		}
		text += tail + " = " + k.Default + "\n"
	}
	said, err := policy.Parse("said", []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	unsaid, err := policy.Parse("unsaid", []byte("name = 'x'"))
	if err != nil {
		t.Fatal(err)
	}
	if said.Limits != unsaid.Limits || said.Share.Quantum != unsaid.Share.Quantum {
		t.Errorf("said %+v\nunsaid %+v", said.Limits, unsaid.Limits)
	}
}

func TestFiftyRulesLoadQuickly(t *testing.T) {
	text := fifty()
	start := time.Now()
	if _, err := policy.Parse("fifty.toml", []byte(text)); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > time.Second {
		t.Errorf("took %v", took)
	}
}

func fifty() string {
	text := "name = 'fifty'\n[share]\nrank = '-tenant.service'\n"
	for i := range 49 {
		text += fmt.Sprintf("[[guard]]\nwhen = 'tenant.over > %d && (tenant.sm ?? 0) < 0.5 || tenant.idle > 5 * minute'\nfor = '5s'\ndo = ['pause', 'warn']\n", i)
	}
	return text
}

func BenchmarkParseFiftyRules(b *testing.B) {
	text := []byte(fifty())
	used := cpu(b)
	for b.Loop() {
		if _, err := policy.Parse("fifty.toml", text); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(cpu(b)-used)/float64(b.N), "cpu-ns/op")
}

func FuzzParse(f *testing.F) {
	f.Add(whole)
	for _, text := range policies.Shipped() {
		f.Add(string(text))
	}
	f.Add("name='x'\n[share]\nrank=\"\"\"\\\n\"\"\"")
	f.Add("name='x'\n[share]\nrank='''\n- - -1 ?? (2 ?? 1) ? 1 : 2'''\n")
	f.Add("a.\"b c\".d = [ { x = 1 }, # c\n ]\n[[guard]]\n[[guard.when]]\n")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := policy.Parse("f.toml", []byte(text))
		if (p == nil) == (err == nil) {
			t.Fatalf("policy %v, error %v", p, err)
		}
		lines := strings.Count(text, "\n") + 1
		var all policy.Errors
		if errors.As(err, &all) {
			for _, e := range all {
				if e.Line < 1 || e.Line > lines || e.Col < 1 || e.Msg == "" {
					t.Fatalf("a fault at no place: %+v", e)
				}
			}
		}
		if p != nil && (p.Share.Quantum <= 0 || p.Limits.GPUMemory < 0) {
			t.Fatalf("%+v", p)
		}
	})
}
