package run

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gimbal-hpc/gimbal/tests/simgpu"
)

func gpuCheck(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("SKIPPED: python3 is not installed")
	}
	cmd := exec.Command(python, append([]string{filepath.Join(simgpu.Root(), "scripts/gpu-check")}, args...)...)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	return cmd
}

// TestGPUCheckWithoutGPU: it says so, and exits with 77.
func TestGPUCheckWithoutGPU(t *testing.T) {
	out, err := gpuCheck(t, "--nvml", "/nonexistent/libnvidia-ml.so.1").CombinedOutput()
	if code := exitCode(err); code != 77 || !strings.HasPrefix(string(out), "SKIPPED: no GPU") {
		t.Errorf("exit code %d: %s", code, out)
	}
}

func exitCode(err error) int {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	if err != nil {
		return -1
	}
	return 0
}

// TestGPUCheck runs its steps on the simulated GPU. What it finds there must be
// so: who has no room is held, turns do not lie over each other, pauses are
// short, memory comes back from host RAM.
func TestGPUCheck(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: needs root, as the simulated driver's clients do")
	}
	needTime(t)
	gpu := simgpu.Start(t, simgpu.Options{GPUs: 1})
	report := filepath.Join(t.TempDir(), "report.json")
	cmd := gpuCheck(t, "--json", report, "--seconds", "3", "--nvml", simgpu.NVML(""), "--cuda", simgpu.CUDA(),
		"--trainer", filepath.Join(simgpu.Root(), "tests/run/testdata/trainer.py"))
	cmd.Env = append(append(cmd.Env, gpu.Env()...), "SIMGPU_TRAINER="+simgpu.Binary("simgpu-trainer"))
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		GPU   string
		Steps []struct {
			Name, Result, Note string
			Values             map[string]any
		}
	}
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"alone": "ok", "turns": "ok", "pause": "ok", "drain": "impossible", "room": "ok", "swap": "ok"}
	for _, s := range r.Steps {
		if s.Result != want[s.Name] {
			t.Errorf("%s: %s, want %s: %s", s.Name, s.Result, want[s.Name], s.Note)
		}
		delete(want, s.Name)
		for _, key := range map[string][]string{"room": {"out_of_memory_without", "held_s"}, "swap": {"swaps"}}[s.Name] {
			if v, _ := s.Values[key].(float64); v <= 0 {
				t.Errorf("%s: %s is %v", s.Name, key, s.Values[key])
			}
		}
	}
	if len(want) > 0 || !strings.Contains(string(out), r.GPU) {
		t.Errorf("not in the report: %v; of %s", want, r.GPU)
	}
}
