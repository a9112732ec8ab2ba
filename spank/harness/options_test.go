package harness

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// carrier is the variable in which an option travels.
func carrier(option string) string {
	return "SLURM_SPANK__SLURM_SPANK_OPTION_gimbal_" + strings.ReplaceAll(option, "-", "_")
}

// control is its name in the job control environment.
func control(option string) string { return strings.TrimPrefix(carrier(option), "SLURM_SPANK_") }

// at is the moment that the deadlines are seen from: a Sunday.
var at = time.Date(2026, 11, 29, 15, 8, 29, 0, berlin())

func berlin() *time.Location {
	loc, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		panic(err)
	}
	return loc
}

func uts(year, month, day, hour, minute, second int) string {
	return fmt.Sprintf("uts%d", time.Date(year, time.Month(month), day, hour, minute, second, 0, berlin()).Unix())
}

// anew for each, and hands on what was printed for it.
func each(t *testing.T, context int, commands func(s *script, i int), check func(t *testing.T, i int, out []string)) {
	t.Helper()
	s := plain.script(context).do("now %d", at.Unix())
	for i := range values {
		s.do("echo == %d", i)
		commands(s, i)
		s.again()
	}
	blocks := strings.Split(strings.Join(s.run(t), "\n"), "== ")[1:]
	if len(blocks) != len(values) {
		t.Fatalf("%d blocks for %d values", len(blocks), len(values))
	}
	for i, block := range blocks {
		t.Run(values[i].option+"="+values[i].value, func(t *testing.T) { check(t, i, strings.Split(block, "\n")) })
	}
}

func TestValuesOnTheCommandLine(t *testing.T) {
	commands := func(s *script, i int) {
		v := values[i]
		s.do("unenv %s", carrier(v.option)).do("hook init").do("opt gimbal-pack").do("opt %s %s", v.option, v.value)
		s.do("hook init_post_opt").do("get %s", carrier(v.option)).do("getcontrol %s", control(v.option))
	}
	each(t, allocator, commands, func(t *testing.T, i int, out []string) {
		v := values[i]
		rc := fmt.Sprintf("%s rc %d", v.option, map[bool]int{true: -1}[v.want == ""])
		errors := grep(out, "error: ")
		if grep(out, rc) == nil {
			t.Errorf("want %s, got %q", rc, out)
		}
		if v.want == "" {
			if len(errors) != 1 || !strings.Contains(errors[0], "--"+v.option+"="+v.value[:min(60, len(v.value))]) || !strings.Contains(errors[0], "allowed is") {
				t.Errorf("error lines %q", errors)
			}
			return
		}
		if got, _ := value(out, carrier(v.option)); got != v.want || errors != nil {
			t.Errorf("got %q, want %q; errors %q", got, v.want, errors)
		}
		if got, _ := value(out, control(v.option)); got != v.want {
			t.Errorf("job control environment: %q", got)
		}
	})
}

// TestValuesInTheEnvironment: the same values as GIMBAL_*.
func TestValuesInTheEnvironment(t *testing.T) {
	variable := func(i int) string { return strings.ToUpper(strings.ReplaceAll(values[i].option, "-", "_")) }
	commands := func(s *script, i int) {
		v := values[i]
		s.do("unenv %s", carrier(v.option)).do("env %s=%s", variable(i), v.value)
		s.do("hook init").do("get %s", carrier(v.option)).do("get %s", variable(i)).do("unenv %s", variable(i))
	}
	each(t, local, commands, func(t *testing.T, i int, out []string) {
		v := values[i]
		bad := v.want == "" && v.value != ""
		warnings := grep(out, "error: gimbal: ignoring "+variable(i))
		got, set := value(out, carrier(v.option))
		want := strings.TrimSuffix(v.want, "off") // off is as good as nothing
		if v.value == "" {
			want = "" // and so is an empty variable
		}
		if got != want || set != (want != "") {
			t.Errorf("carried %q, want %q", got, want)
		}
		if len(warnings) != map[bool]int{true: 1}[bad] {
			t.Errorf("warnings %q", warnings)
		}
		if _, left := value(out, variable(i)); left == bad {
			t.Errorf("%s is still there: %v", variable(i), left)
		}
	})
}

// TestValuesAtTheNode: nothing there is an error.
func TestValuesAtTheNode(t *testing.T) {
	commands := func(s *script, i int) {
		v := values[i]
		s.items().do("args core=/nowhere").do("hook init").do("ropt gimbal-pack alpha").do("ropt %s %s", v.option, v.value).do("hook init_post_opt")
	}
	each(t, remote, commands, func(t *testing.T, i int, out []string) {
		if grep(out, values[i].option+" rc 0") == nil || grep(out, "error: ") != nil {
			t.Errorf("%q", out)
		}
	})
}

// grep returns the lines with this beginning.
func grep(lines []string, prefix string) (found []string) {
	for _, line := range lines {
		if strings.HasPrefix(line, prefix) {
			found = append(found, line)
		}
	}
	return found
}

// TestMaxPause: what has no option of its own is asked for by its variable, which
// wins over that of the job around it, and reaches the daemon in whole seconds.
func TestMaxPause(t *testing.T) {
	const inherited = "SLURM_SPANK_GIMBAL_MAX_PAUSE"
	for value, want := range map[string]string{
		"30s": "30s", "1m30s": "90s", "2m": "120s", "24h": "86400s", "007s": "7s",
		"0s": "", "30": "", "24h1s": "", "30S": "", "s": "", "-5s": "", "1.5s": "", "99999999999999999999s": "", "30s ": "", "500ms": "",
	} {
		s := sanitized.script(local).do("env %s=45s", inherited).do("env GIMBAL_MAX_PAUSE=%s", value)
		out := s.do("hook init").do("opt gimbal-pack").do("hook init_post_opt").do("get %s", inherited).run(t)
		if got := carried(out, inherited); want != "" && got != want || want == "" && got != "45s" {
			t.Errorf("%q: carried %q, want %q", value, got, want)
		}
		if bad := grep(out, "error: gimbal: ignoring GIMBAL_MAX_PAUSE"); (len(bad) == 1) != (want == "") {
			t.Errorf("%q: %q", value, bad)
		}
	}
	d := startDaemon(t)
	s := sanitized.script(remote, append(d.args(), "core=/nowhere")...).items().do("jobenv %s=90s", inherited).do("hook init")
	s.do("ropt gimbal-pack alpha").do("hook init_post_opt").do("tasks 1").run(t)
	if got := d.last.Options.MaxPause; got != "90s" {
		t.Errorf("registered with %q", got)
	}
}

// carried is the value of a variable, "" if it is not set.
func carried(out []string, name string) string { v, _ := value(out, name); return v }

// TestInheritedAndOwn: which calls of Slurm count as the step's own.
func TestInheritedAndOwn(t *testing.T) {
	pack := carrier("gimbal-pack")
	for name, tc := range map[string]struct {
		env  []string
		opts []string
		pack string
		own  bool
	}{
		"nothing":                    {nil, nil, "", false},
		"outside a job":              {nil, []string{"alpha"}, "alpha", false},
		"in a job":                   {[]string{"SLURM_JOB_ID=1"}, []string{"alpha"}, "alpha", true},
		"inherited":                  {[]string{"SLURM_JOB_ID=1", pack + "=beta"}, []string{"beta"}, "beta", false},
		"inherited and own":          {[]string{"SLURM_JOB_ID=1", pack + "=beta"}, []string{"beta", "alpha"}, "alpha", true},
		"the same again":             {[]string{"SLURM_JOB_ID=1", pack + "=1"}, []string{"1", ""}, "1", true},
		"off":                        {[]string{"SLURM_JOB_ID=1", pack + "=1"}, []string{"1", "off"}, "off", true},
		"environment in a job":       {[]string{"SLURM_JOB_ID=1", "GIMBAL_PACK=beta"}, []string{"beta"}, "beta", false},
		"environment and inherited":  {[]string{"SLURM_JOB_ID=1", "GIMBAL_PACK=off", pack + "=beta"}, []string{"beta"}, "beta", false},
		"het, twice inherited":       {[]string{"SLURM_HET_SIZE=2", pack + "=beta"}, []string{"beta", "beta"}, "beta", false},
		"het, own":                   {[]string{"SLURM_HET_SIZE=2", pack + "=beta"}, []string{"beta", "alpha", "beta", "alpha"}, "alpha", true},
		"het, own on the first only": {[]string{"SLURM_HET_SIZE=2", pack + "=beta"}, []string{"beta", "alpha", "beta"}, "alpha", true},
		"malformed, inherited":       {[]string{"SLURM_JOB_ID=1", pack + "=B B"}, []string{"B B"}, "B B", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := plain.script(local)
			for _, e := range tc.env {
				s.do("env %s", e)
			}
			s.do("hook init")
			for _, o := range tc.opts {
				if o == "" {
					s.do("opt gimbal-pack")
				} else {
					s.do("opt gimbal-pack %s", o)
				}
			}
			out := s.do("hook init_post_opt").do("show env").run(t)
			got, _ := value(out, pack)
			own, _ := value(out, "SLURM_SPANK_GIMBAL_OWN")
			if got != tc.pack || (own == "1") != tc.own {
				t.Errorf("pack %q own %q: %q", got, own, out)
			}
			if bad := grep(out, "gimbal-pack rc -1"); bad != nil {
				t.Errorf("%q", bad)
			}
		})
	}
}

// TestJobInsideAJob: what a job submits from inside has none of its options, but for
// those of variables, is told nothing of it, and has nothing that it was given, but what
// its user has set anew.
func TestJobInsideAJob(t *testing.T) {
	pack, memory := carrier("gimbal-pack"), carrier("gimbal-memory")
	for name, tc := range map[string]struct {
		env          []string
		opts         []string
		pack, memory string
	}{
		"nothing asked":    {nil, nil, "", ""},
		"its own":          {nil, []string{"beta"}, "beta", ""},
		"variables":        {[]string{"GIMBAL_PACK=beta", "GIMBAL_MEMORY=2G"}, []string{"beta"}, "beta", "2048MiB"}, // Slurm tells of what is carried
		"variable and own": {[]string{"GIMBAL_PACK=beta"}, []string{"beta", "gamma"}, "gamma", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := plain.script(allocator)
			enclosing := []string{"SLURM_JOB_ID=1", pack + "=alpha", memory + "=1024MiB", "SLURM_SPANK_GIMBAL_MAX_PAUSE=20s",
				"GIMBAL_ACTIVE=1", "GIMBAL_REQUESTED=alpha", "GIMBAL_PROGRESS=/run/gimbal/progress/1.4294967291",
				"GIMBAL_GIVEN=CUDA_DEVICE_ORDER=PCI_BUS_ID;XLA_TEST=a=b c;TF_TEST=1;GONE=1;odd", "CUDA_DEVICE_ORDER=PCI_BUS_ID",
				"XLA_TEST=a=b c", "TF_TEST=2", "MINE=1"}
			for _, e := range append(enclosing, tc.env...) {
				s.do("env %s", e)
			}
			s.do("hook init")
			for _, o := range tc.opts {
				s.do("opt gimbal-pack %s", o)
			}
			out := s.do("hook init_post_opt").do("show env").run(t)
			want := map[string]string{pack: tc.pack, memory: tc.memory, "SLURM_SPANK_GIMBAL_MAX_PAUSE": "",
				"GIMBAL_ACTIVE": "", "GIMBAL_REQUESTED": tc.pack, "GIMBAL_PROGRESS": "",
				"GIMBAL_GIVEN": "", "CUDA_DEVICE_ORDER": "", "XLA_TEST": "", "TF_TEST": "2", "MINE": "1"}
			for name, value := range want {
				if got := carried(out, name); got != value {
					t.Errorf("%s=%q, want %q", name, got, value)
				}
			}
		})
	}
}

// TestRandomValues: whatever is accepted has a canonical form, which is
// accepted again and stays what it is. Runs under the sanitizers.
func TestRandomValues(t *testing.T) {
	words := []string{"now", "+", "-", ":", "/", ".", "T", " ", "@", "1", "2", "12", "30", "2027", "0", "99", "am", "pm", "noon", "today",
		"tomorrow", "hour", "minutes", "week", "s", "G", "MiB", "K", "t", "USR1", "SIG", "TERM", "uts", "a", "_", "off", "ä", "\x01"}
	var tries []struct{ option, value string }
	random := rand.New(rand.NewPCG(1, 2))
	for _, option := range []string{"pack", "memory", "class", "weight", "deadline", "signal"} {
		for range 2000 {
			var value strings.Builder
			for range 1 + random.IntN(6) {
				value.WriteString(words[random.IntN(len(words))])
			}
			tries = append(tries, struct{ option, value string }{option, value.String()})
		}
	}
	canonical := func(values func(i int) string) []string {
		s := sanitized.script(local).do("now %d", at.Unix()).do("hook init")
		for i, try := range tries {
			s.do("unenv %s", carrier("gimbal-"+try.option)).do("echo == %d", i).do("opt gimbal-%s %s", try.option, values(i))
			s.do("hook init_post_opt").do("get %s", carrier("gimbal-"+try.option))
		}
		blocks := strings.Split(strings.Join(s.run(t), "\n"), "== ")[1:]
		forms := make([]string, len(tries))
		for i, block := range blocks {
			lines := strings.Split(block, "\n")
			if grep(lines, "gimbal-"+tries[i].option+" rc 0") != nil {
				forms[i], _ = value(lines, carrier("gimbal-"+tries[i].option))
			}
		}
		return forms
	}
	first := canonical(func(i int) string { return tries[i].value })
	again := canonical(func(i int) string { return first[i] })
	accepted := map[string]int{}
	for i, try := range tries {
		if first[i] == "" {
			continue
		}
		accepted[try.option]++
		if again[i] != first[i] {
			t.Errorf("%s=%q becomes %q, and that %q", try.option, try.value, first[i], again[i])
		}
	}
	for _, option := range []string{"pack", "memory", "weight", "deadline", "signal"} {
		if accepted[option] == 0 {
			t.Errorf("no value of %s was accepted: the test tells nothing", option)
		}
	}
}
