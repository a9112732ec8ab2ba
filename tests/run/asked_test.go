package run

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/gimbal-hpc/gimbal/tests/e2e"
)

// TestAskedForInVain: what a GPU's user asks for and cannot have is said to be
// that, and by its right reason.
func TestAskedForInVain(t *testing.T) {
	h := newGPUHost(t, true, "")
	for _, c := range []struct {
		args []string
		code int
		said string
	}{
		{[]string{"--gpus=9", "echo", "ran"}, 2, `--gpus: no GPU is called "9"; this host has 0 (GPU-`},
		{[]string{"--gpus=0", "echo", "ran"}, 0, "ran\n"},
		{[]string{"--pack=quik", "echo", "ran"}, 0, `there is no policy "quik" (did you mean "quick"?)`},
		{[]string{"--memory=2000GiB", "echo", "ran"}, 0, "can never fit: GPU 0 has"},
	} {
		j := h.start(alice, c.args...)
		code := h.wait(j)
		out := j.out.String()
		if code != c.code || !strings.Contains(out, c.said) || strings.Contains(out, "ran\n") != (code == 0) {
			t.Errorf("%q: exit %d: %s", c.args, code, out)
		}
	}
}

// TestOrderIsTold: a person's order is shown with who gave it, why and until when;
// where it cannot be carried out yet that is said, and a signal for what has not
// started is refused.
func TestOrderIsTold(t *testing.T) {
	h := newGPUHost(t, true, "")
	h.write("policies.d/quick.toml", strings.Replace(quick, `min_run = "0s"`, `min_run = "1h"`, 1))
	h.configure(`interval = "100ms"`, `interval = "90ms"`)
	h.start(alice, trainer("one")...)
	h.awaitState(alice, "r1", "RUNNING")
	h.gpu.WaitClients(1)
	h.start(alice, trainer("two")...)
	h.awaitState(alice, "r2", "HELD")
	if out, err := h.gimbal(alice, "pause", "--for", "10m", "--why", "a demo", "r1").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	by := "user " + strconv.Itoa(alice)
	row := regexp.MustCompile(`^RUNNING\|not stopped in the first 1h after a launch, for 59m\w* more\|pause by ` + by + ` until 20`)
	e2e.Eventually(t, patience, "the reason", func() bool {
		out, err := h.gimbal(alice, "status", "-n", "-P", "-j", "r1", "-o", "State,Reason,Order").Output()
		return err == nil && row.Match(out)
	})
	out, err := h.gimbal(alice, "explain", "r1").CombinedOutput()
	for _, want := range []string{by + " ordered: pause for 10m: a demo", by + " ordered: pause, until ", " or 'gimbal release r1': a demo", "not paused yet, for the reason above"} {
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%v: %q is not in\n%s", err, want, out)
		}
	}
	if out, err := h.order(alice, "notify", "r2"); err == nil || !strings.Contains(out, "r2 has not started yet") {
		t.Errorf("notify of what is held: %v: %s", err, out)
	}
	if out, err := h.order(alice, "release", "r1"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	e2e.Eventually(t, patience, "the order's end", func() bool {
		out, err := h.gimbal(alice, "status", "-n", "-P", "-j", "r1", "-o", "Order").Output()
		return err == nil && strings.TrimSpace(string(out)) == ""
	})
}
