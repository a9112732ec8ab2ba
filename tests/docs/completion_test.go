package docs

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// complete lets bash complete a command line at its end, as readline would
// break it into words.
func complete(t *testing.T, words ...string) []string {
	t.Helper()
	const script = `
source contrib/completion/gimbal.bash || exit 1
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_gimbal "$1"
((${#COMPREPLY[@]} == 0)) || printf '%s\n' "${COMPREPLY[@]}"`
	words[0] = bin + "/" + words[0]
	bash := exec.Command("bash", append([]string{"--norc", "-uc", script, "bash"}, words...)...)
	bash.Dir = top
	bash.Env = append(bash.Environ(), "LC_ALL=C")
	var stderr strings.Builder
	bash.Stderr = &stderr
	out, err := bash.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("complete %q: %v\n%s", words, err, stderr.String())
	}
	all := strings.Fields(string(out))
	slices.Sort(all)
	return all
}

func TestCompletesCommands(t *testing.T) {
	got := complete(t, "gimbal", "")
	want := append(commands(t, help(t, "gimbal")), "--help", "--version")
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := complete(t, "gimbal", "polic"); !slices.Equal(got, []string{"policies"}) {
		t.Errorf("polic: got %v", got)
	}
	if got, want := complete(t, "gimbal", "policies", ""), commands(t, help(t, "gimbal", "policies")); !slices.Equal(got, want) {
		t.Errorf("policies: got %v, want %v", got, want)
	}
}

func TestCompletesEveryOption(t *testing.T) {
	long := func(told []string) []string {
		var all []string
		for _, o := range told {
			_, name, _ := strings.Cut(o, "--")
			all = append(all, "--"+strings.TrimSuffix(name, "="))
		}
		slices.Sort(all)
		return all
	}
	for _, name := range append(commands(t, help(t, "gimbal")), "policies try") {
		words := strings.Fields(name)
		got, want := complete(t, append(append([]string{"gimbal"}, words...), "--")...), long(options(help(t, "gimbal", words...)))
		if !slices.Equal(got, want) {
			t.Errorf("gimbal %s: got %v, want %v", name, got, want)
		}
	}
	if got, want := complete(t, "gimbald", "--"), long(options(help(t, "gimbald"))); !slices.Equal(got, want) {
		t.Errorf("gimbald: got %v, want %v", got, want)
	}
}

func TestCompletesValues(t *testing.T) {
	for _, c := range []struct {
		line []string
		want string
	}{
		{[]string{"gimbal", "status", "-s", "RUN"}, "RUNNING"},
		{[]string{"gimbal", "status", "--state", "=", "RUN"}, "RUNNING"},
		{[]string{"gimbal", "status", "--state", "THR"}, "THROTTLED"},
		{[]string{"gimbal", "status", "--state", "="}, "HELD"},
		{[]string{"gimbal", "status", "-s", "RUNNING,HE"}, "RUNNING,HELD"},
		{[]string{"gimbal", "status", "-X", "-o", "JobID,MaxGPU"}, "JobID,MaxGPUMem"},
		{[]string{"gimbal", "policies", "show", "times"}, "timeslice"},
		{[]string{"gimbal", "policies", "-P", "explain", "thr"}, "throughput"},
		{[]string{"gimbal", "policies", "try", "--against", "thr"}, "throughput"},
		{[]string{"gimbal", "policies", "try", "policies/timesl"}, "policies/timeslice.toml"},
		{[]string{"gimbal", "simulate", "--policy", "timeslice,exc"}, "timeslice,exclusive"},
		{[]string{"gimbal", "timeline", "--color", "ne"}, "never"},
		{[]string{"gimbal", "notify", "--signal", "USR1"}, "USR1"},
		{[]string{"gimbal", "policies", "check", "policies/timesl"}, "policies/timeslice.toml"},
		{[]string{"gimbal", "doctor", "--config", "etc/gimbald.t"}, "etc/gimbald.toml"},
		{[]string{"gimbald", "-c", "etc/gimbald.t"}, "etc/gimbald.toml"},
	} {
		if got := complete(t, slices.Clone(c.line)...); !slices.Contains(got, c.want) {
			t.Errorf("%q: got %v, want %s", c.line, got, c.want)
		}
	}
}

// TestCompletesNothingWrong: without gimbal there is nothing, and no noise.
func TestCompletesNothingWrong(t *testing.T) {
	if got := complete(t, "none", "status", "--"); len(got) > 0 {
		t.Errorf("got %v of a program that is not there", got)
	}
}
