package docs

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/tests/slurmtest"
)

// demo runs scripts/demo with jobs of a few seconds, and returns what it printed.
func demo(t *testing.T, seconds string, args ...string) string {
	t.Helper()
	return demoTyped(t, "", seconds, args...)
}

// demoTyped is demo with what is typed into it.
func demoTyped(t *testing.T, typed, seconds string, args ...string) string {
	t.Helper()
	slurmtest.Need(t)
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "scripts/demo", args...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = top, append(os.Environ(), "DEMO_BUILT=1", "DEMO_SECONDS="+seconds), time.Minute
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it cleans up
	cmd.Stdin = strings.NewReader(typed)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("scripts/demo %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// TestDemo: without Gimbal one of the two jobs dies, with it both complete
// the same work, however long one was held.
func TestDemo(t *testing.T) {
	out := demo(t, "6")
	without, with, ok := strings.Cut(out, "2. The same two")
	if !ok || strings.Count(without, "COMPLETED") != 1 || !strings.Contains(without, "FAILED     CUDA error: out of memory") {
		t.Errorf("without Gimbal:\n%s", without)
	}
	for _, want := range []string{"needs 9.6GiB on GPU 0", "resnet     job 3    COMPLETED", "bert       job 4    COMPLETED", "gimbal timeline", "░"} {
		if !strings.Contains(with, want) {
			t.Errorf("%q is not in\n%s", want, with)
		}
	}
	if n := strings.Count(with, "JobName      State    Elapsed"); n < 2 || n > 8 { // each second would be a dozen
		t.Errorf("the jobs are shown %d times, and not where something changed:\n%s", n, with)
	}
	if strings.Count(with, "done iterations=300 ") != 2 {
		t.Errorf("the two do not do the same work:\n%s", with)
	}
}

// TestDemoShell: what the shell of the demo offers can be typed, and all that it says
// of itself is so.
func TestDemoShell(t *testing.T) {
	out := demoTyped(t, `
sbatch -W -J tried --gres=shard:1 --gimbal-pack --gimbal-memory=1GiB --wrap 'simgpu-trainer --memory 1GiB --gpu-ms 2 --cpu-ms 1 --iterations 20'
gimbal status -X -n -P -o JobName,State,Policy,ExitCode
gimbal explain tried
gimbal policies show fair | head -n 1
gimbal status --daemon | grep '^node:'
`, "4", "--shell")
	for _, want := range []string{"Submitted batch job 1\n", "tried|COMPLETED|timeslice|0:0\n", "Ended after ", "name      = \"fair\"\n", "node:           p"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}

// TestDemoPicture draws a run, and looks at the picture that the README has.
func TestDemoPicture(t *testing.T) {
	fresh := filepath.Join(t.TempDir(), "fresh.svg")
	demo(t, "4", "--picture", fresh)
	for _, path := range []string{fresh, filepath.Join(top, "contrib", "report.svg")} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := wellFormed(string(text)); err != nil || len(text) > 100_000 {
			t.Errorf("%s: %d bytes, %v", path, len(text), err)
		}
		for _, want := range []string{"What the GPUs of node node1 did", "GPU 0", "GPU 1", "GPU memory", "Utilisation", "paused", "1 resnet", "2 bert", "3 unet", "4 dlrm", "5 gpt2", "6 vit", "7 t5"} {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s: %q is not in the picture", path, want)
			}
		}
		if n := strings.Count(string(text), `class="thin`); n < 5 { // two of them explain the signs
			t.Errorf("%s: only %d jobs that were paused", path, n-2)
		}
	}
}

func wellFormed(text string) error {
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}
