package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const capped = `
name = "capped"
objective = "limits that are told before the start"
[cap]
mps     = true
sm      = "0.4"
memory  = "tenant.memory_claim"
growth  = true
pytorch = "expandable_segments:True"
`

// TestCaps: the limits of a policy's [cap] reach the tasks, never over what the
// user set, never without the option; and while the control daemon of MPS does not
// answer none of MPS, within the time that a launch may take.
func TestCaps(t *testing.T) {
	hang, hung := filepath.Join(t.TempDir(), "hang"), filepath.Join(t.TempDir(), "hung")
	control := filepath.Join(t.TempDir(), "control")
	script := fmt.Sprintf("#!/bin/sh\nif [ -e %s ]; then echo >>%s; exec sleep 60; fi\nread -r q\nexit 0\n", hang, hung)
	if err := os.WriteFile(control, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	s := Start(t, Options{Policy: "capped", Policies: map[string]string{"capped": capped},
		Config: fmt.Sprintf("[mps]\npipe_directory = \"/run/mps-of-the-test\"\ncontrol = %q\ncheck = \"100ms\"\n", control)})
	goFirst(t, s.DaemonPID()) // it has half a second of a launch
	env := func(set string, options ...string) map[string]string {
		t.Helper()
		args := append([]string{"/usr/bin/env", set, "srun", oneShard}, append(options, "/usr/bin/env")...)
		r := s.Run(args[0], args[1:]...)
		if r.Exit != 0 {
			t.Fatalf("%s", r)
		}
		out := map[string]string{}
		for line := range strings.Lines(r.Stdout) {
			name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
			out[name] = value
		}
		return out
	}
	want := func(when string, got map[string]string, want map[string]string) {
		t.Helper()
		for name, value := range want {
			if got[name] != value {
				t.Errorf("%s: %s=%q, want %q", when, name, got[name], value)
			}
		}
	}
	frameworks := map[string]string{"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.250", "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
		"TF_FORCE_GPU_ALLOW_GROWTH": "true", "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
	noMPS := map[string]string{"CUDA_MPS_PIPE_DIRECTORY": "", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": ""}
	pack := []string{"--gimbal-pack", "--gimbal-memory=4GiB"}

	got := env("A=1", pack...)
	want("packed", got, frameworks)
	want("packed", got, map[string]string{"CUDA_MPS_PIPE_DIRECTORY": "/run/mps-of-the-test",
		"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "40", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=4096M"})
	want("what the user set", env("PYTORCH_CUDA_ALLOC_CONF=backend:native", pack...), map[string]string{"PYTORCH_CUDA_ALLOC_CONF": "backend:native"})
	got = env("A=1")
	want("not packed", got, noMPS)
	want("not packed", got, map[string]string{"TF_FORCE_GPU_ALLOW_GROWTH": "", "PYTORCH_CUDA_ALLOC_CONF": ""})

	givenUp := func() int { return strings.Count(s.Log(), "launched without MPS until it answers") }
	before := givenUp()
	if err := os.WriteFile(hang, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	Eventually(t, patience, "MPS is given up", func() bool { return givenUp() > before })
	got = env("A=1", pack...)
	want("MPS hangs", got, noMPS)
	want("MPS hangs", got, frameworks)
	Eventually(t, patience, "another question hung", func() bool { return strings.Count(readFile(hung), "\n") >= 3 })
	if n := givenUp(); n != before+1 {
		t.Errorf("the log has %d lines of it, %d of them from before", n, before)
	}
	s.wantHealthy(t)
}
