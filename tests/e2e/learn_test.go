package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/learn"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/report"
	"github.com/gimbal-hpc/gimbal/tests/simgpu"
)

// TestLearnsSpeeds: two trainers, each alone for a while and then beside each
// other. What gimbald has learnt of them, by the counters that they write and
// without, is within 5 % of what the device recorded. The long form takes two
// minutes, with the windows that gimbald has by default.
func TestLearnsSpeeds(t *testing.T) {
	window, each := "500ms", 5*time.Second
	if os.Getenv("GIMBAL_LONG") != "" {
		window, each = "5s", 40*time.Second
	}
	for _, c := range []struct{ name, unset string }{{"counters", ""}, {"SM time", "GIMBAL_PROGRESS"}} {
		t.Run(c.name, func(t *testing.T) {
			s := Start(t, Options{NoSlurm: true, Policy: "together",
				Config: fmt.Sprintf("[run]\nallow = \"yes\"\n[learn]\nwindow = %q\n", window)})
			goFirst(t, s.DaemonPID())
			a, endA := s.command(t, c.unset, "a", "--gpu-ms", "20", "--cpu-ms", "5")
			s.lasts(t, "a", each)
			b, endB := s.command(t, c.unset, "b", "--gpu-ms", "10", "--cpu-ms", "15")
			s.lasts(t, "b", each)
			endA()
			if err := a.Wait(); err != nil {
				t.Fatal(err)
			}
			s.lasts(t, "b", 2*each)
			endB()
			if err := b.Wait(); err != nil {
				t.Fatal(err)
			}
			told := s.speeds(t)
			s.StopDaemon()
			learnt := s.learnt(t)
			for label, want := range livedSpeeds(t, s.GPU.Record()) {
				t.Logf("%s was %.3f as fast as alone, status says %v", label, want, told[label])
				if got := told[label]; got == nil || math.Abs(got.Mean-want) > 0.08 || got.Error > learn.MaxError {
					t.Errorf("%s was %.3f as fast as alone, status says %v", label, want, got)
				}
			}
			for label, want := range trueSpeeds(t, s.GPU.Record()) {
				mate := map[string]string{"a": "b", "b": "a"}[label]
				got, ok := learnt[[2]string{label, mate}]
				t.Logf("%s beside %s: %.4f, learnt %.4f ± %.4f", label, mate, want, got.Speed, got.Error)
				if !ok || math.Abs(got.Speed-want) > 0.05*want {
					t.Errorf("%s beside %s is %.3f, and %.3f was learnt (%t)", label, mate, want, got.Speed, ok)
				}
			}
		})
	}
}

// command starts a trainer with gimbal run, without one variable of what it sets. It
// runs until end is called.
func (s *Stack) command(t *testing.T, unset, name string, args ...string) (cmd *exec.Cmd, end func()) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "end-"+name)
	cmd = s.runs(unset, name, append(args, "--until", file)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, func() { t.Helper(); s.write(file, "") }
}

// lasts waits until a trainer has been on the GPU for so long.
func (s *Stack) lasts(t *testing.T, label string, long time.Duration) {
	t.Helper()
	Eventually(t, long+patience, fmt.Sprintf("%s has been there for %s", label, long), func() bool {
		from, to := s.GPU.Record().Of(label).Span()
		return to-from >= long
	})
}

func (s *Stack) runs(unset, name string, args ...string) *exec.Cmd {
	run := []string{"run", "--socket", s.Socket(), "--name", name, "--memory", "2GiB", "--", "/usr/bin/env"}
	if unset != "" {
		run = append(run, "--unset="+unset)
	}
	run = append(run, simgpu.Binary("simgpu-trainer"), "--label", name)
	cmd := exec.Command(Built("gimbal"), append(run, args...)...)
	cmd.Env = append(os.Environ(), s.GPU.Env()...)
	cmd.Stderr = os.Stderr
	return cmd
}

// TestLearningCosts: two trainers beside each other that write counters, under a
// gimbald that learns from them, make 98 % at least of the iterations that they make
// without any Gimbal. Both are played in turn, and the best of each counts, since
// whatever else the machine does only slows them down.
func TestLearningCosts(t *testing.T) {
	if os.Getenv("GIMBAL_LONG") == "" {
		t.Skip("SKIPPED: takes a minute and a half on a machine that does nothing else, or with nice -n -19: set GIMBAL_LONG=1")
	}
	s := Start(t, Options{NoSlurm: true, Policy: "together", Config: "[run]\nallow = \"yes\"\n"})
	kinds := []kind{{"a", 20, 5, 2}, {"b", 10, 15, 2}}
	best := map[bool][]float64{false: {0, 0}, true: {0, 0}}
	for range 4 {
		for _, packed := range []bool{false, true} {
			for i, rate := range s.together(t, packed, kinds) {
				best[packed][i] = max(best[packed][i], rate)
			}
		}
	}
	costs := 0.0
	for i := range kinds {
		costs += (1 - best[true][i]/best[false][i]) / float64(len(kinds))
	}
	t.Logf("iterations a second without Gimbal %.2f, while it learns %.2f: %.2f %% less", best[false], best[true], 100*costs)
	if costs > 0.02 {
		t.Errorf("learning costs %.1f %% of the throughput", 100*costs)
	}
}

// together is the iterations a second of trainers that run at once.
func (s *Stack) together(t *testing.T, packed bool, of []kind) (out []float64) {
	t.Helper()
	var cmds []*exec.Cmd
	texts := make([]strings.Builder, len(of))
	for i, k := range of {
		args := append(strings.Fields(k.args()), "--seconds", "10")
		cmd := s.GPU.Trainer(k.name, args...)
		if packed {
			cmd = s.runs("", k.name, args...)
		}
		cmd.Stdout = &texts[i]
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		cmds = append(cmds, cmd)
	}
	for i, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%s: %v", of[i].name, err)
		}
		out = append(out, speed(t, texts[i].String()))
	}
	return out
}

// learnt is what gimbald has kept, by the names of a job and its mate.
func (s *Stack) learnt(t *testing.T) map[[2]string]learn.Speed {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.state(), "learnt"))
	if err != nil {
		t.Fatal(err)
	}
	kept, err := learn.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	out := map[[2]string]learn.Speed{}
	for _, k := range kept {
		for _, p := range k.Pairs {
			out[[2]string{k.Name, p.Mate.Name}] = p.Speed
		}
	}
	return out
}

// speeds is how fast each command was as status tells it, by its name.
func (s *Stack) speeds(t *testing.T) map[string]*report.SpeedDocument {
	t.Helper()
	r := s.Gimbal("status", "--json", "-S", "now-1hours")
	var d report.Document
	if err := json.Unmarshal([]byte(r.Stdout), &d); err != nil {
		t.Fatalf("%v: %s", err, r)
	}
	out := map[string]*report.SpeedDocument{}
	for _, tenant := range d.Tenants {
		out[tenant.Name] = tenant.Speed
	}
	return out
}

// livedSpeeds is by the device's own record how fast a and b were from their first
// iteration to their last, over how fast each was alone.
func livedSpeeds(t *testing.T, r simgpu.Record) map[string]float64 {
	t.Helper()
	aFrom, aTo := r.Of("a").Span()
	bFrom, bTo := r.Of("b").Span()
	rate := func(label string, from, to time.Duration) float64 {
		return float64(r.Between(from, to).Busy(label)) / float64(to-from)
	}
	return map[string]float64{
		"a": rate("a", aFrom, aTo) / rate("a", aFrom+edge, bFrom-edge),
		"b": rate("b", bFrom, bTo) / rate("b", aTo+edge, bTo-edge),
	}
}

// edge is cut from a stretch of the record at both ends.
const edge = 300 * time.Millisecond

// trueSpeeds is by the device's own record how fast a and b were beside each
// other, over how fast each was alone: a comes first and ends first. Each trainer's
// iterations take the same time of the GPU.
func trueSpeeds(t *testing.T, r simgpu.Record) map[string]float64 {
	t.Helper()
	aFrom, aTo := r.Of("a").Span()
	bFrom, bTo := r.Of("b").Span()
	if bFrom <= aFrom || aTo <= bFrom || bTo <= aTo {
		t.Fatalf("a from %s to %s, b from %s to %s", aFrom, aTo, bFrom, bTo)
	}
	rate := func(label string, from, to time.Duration) float64 {
		from, to = from+edge, to-edge
		return float64(r.Between(from, to).Busy(label)) / float64(to-from)
	}
	return map[string]float64{
		"a": rate("a", bFrom, aTo) / rate("a", aFrom, bFrom),
		"b": rate("b", bFrom, aTo) / rate("b", aTo, bTo),
	}
}

// TestProgressOfAJob: a batch script and its step each have a file of their own,
// and what is written there last is known of the job.
func TestProgressOfAJob(t *testing.T) {
	s := Start(t, Options{Policy: "together"})
	script := `echo 3 90 >$GIMBAL_PROGRESS; echo batch $GIMBAL_PROGRESS
srun sh -c 'echo 4 90 >$GIMBAL_PROGRESS; echo step $GIMBAL_PROGRESS; while [ ! -e end ]; do sleep 0.1; done'`
	job := s.Sbatch(t, script, oneShard, "--gimbal-pack", "--gimbal-memory=2GiB")
	Eventually(t, patience, "the step's progress is known", func() bool {
		v := s.Tenant(fmt.Sprint(job))
		if v == nil {
			return false
		}
		p, _ := v.Progress.Get()
		return p.Count == 4 && p.Total == 90
	})
	s.write(filepath.Join(s.Out, "end"), "")
	wantState(t, s.WaitDone(t, job, patience), "COMPLETED")
	for _, want := range []string{fmt.Sprintf("batch %s", s.run(fmt.Sprintf("progress/%d.%d\n", job, model.StepBatch))),
		fmt.Sprintf("step %s", s.run(fmt.Sprintf("progress/%d.0\n", job)))} {
		if out := s.JobOutput(t, job); !strings.Contains(out, want) {
			t.Errorf("%q is not in %q", want, out)
		}
	}
	Eventually(t, patience, "no file is left", func() bool {
		left, err := os.ReadDir(s.run("progress"))
		return err == nil && len(left) == 0
	})
}
