package run

import (
	"strings"
	"testing"
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
