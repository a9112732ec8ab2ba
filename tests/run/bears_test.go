package run

import (
	"os"
	"strings"
	"testing"
)

// TestBearsLess: a command asks for shorter pauses by its option or its variable, and
// is told what it did not get.
func TestBearsLess(t *testing.T) {
	onGPU(t, "", func(t *testing.T, h *host) {
		for _, c := range []struct{ option, variable, column, said string }{
			{"--max-pause=20s", "", "00:00:20", ""},
			{"", "15s", "00:00:15", ""},
			{"--max-pause=3s", "15s", "00:00:10", "longest pause raised from 3s to 10s"},
			{"--max-pause=1h", "", "", "longest pause stays 1m: 1h would be more"},
			{"", "20", "", "GIMBAL_MAX_PAUSE is ignored"},
		} {
			args := append(strings.Fields(c.option), trainer("one")...)
			j := h.prepare(alice, args...)
			j.Env = append(j.Env, "GIMBAL_MAX_PAUSE="+c.variable)
			h.begin(j)
			name := ""
			h.await("it runs", func() bool {
				out, err := h.gimbal(alice, "status", "-X", "-n", "-P", "-s", "RUNNING", "-o", "JobID").Output()
				name = strings.TrimSpace(string(out))
				return err == nil && name != "" && !strings.Contains(name, "\n")
			})
			out, err := h.gimbal(alice, "status", "-X", "-n", "-P", "-j", name, "-o", "MaxPause").CombinedOutput()
			if err != nil || string(out) != c.column+"\n" {
				t.Errorf("%q, %q: %v, %s", c.option, c.variable, err, out)
			}
			if said := j.out.String(); !strings.Contains(said, c.said) || c.said == "" && strings.Contains(said, "warning") {
				t.Errorf("%q, %q: it says %q", c.option, c.variable, said)
			}
			_ = j.Process.Signal(os.Interrupt)
			h.wait(j)
			h.await("it is gone", func() bool { return h.state(alice, name) != "RUNNING" })
		}
		j := h.start(alice, "--max-pause=20", "true")
		if code := h.wait(j); code != 2 || !strings.Contains(j.out.String(), "--max-pause") {
			t.Errorf("exit code %d: %s", code, j.out.String())
		}
	})
}
