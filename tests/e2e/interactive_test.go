package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestInteractiveStep: of a step with a terminal that is paused its shell goes on, with
// what else runs there; what is on the GPU does not, be it the step's own program.
func TestInteractiveStep(t *testing.T) {
	if _, err := exec.LookPath("script"); err != nil {
		t.Skip("SKIPPED: script, which gives a terminal, is missing")
	}
	s := Start(t, Options{Policies: map[string]string{"timeslice": quickTurns}})
	trainer := Trainer("--memory 1GiB")
	beat := filepath.Join(s.Dir, "beat")
	t.Run("below a shell", func(t *testing.T) {
		job := s.interactive(t, fmt.Sprintf("%s & while sleep 0.05; do echo . >>%s; done", trainer, beat))
		s.wantPausedOnGPU(t, job, func() { s.wantLonger(t, beat) })
		s.scancel(t, job)
	})
	t.Run("without a shell", func(t *testing.T) {
		job := s.interactive(t, "exec "+trainer)
		s.wantPausedOnGPU(t, job, func() {})
		s.scancel(t, job)
	})
	s.wantHealthy(t)
}

// interactive runs a script in a step with a terminal and returns its job, once it is
// on the GPU.
func (s *Stack) interactive(t *testing.T, script string) (job int) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "job")
	line := fmt.Sprintf("srun %s --gimbal-pack --gimbal-memory=1GiB --pty bash -c 'echo $SLURM_JOB_ID >%s; %s'", oneShard, name, script)
	cmd := s.Command(context.Background(), "script", "-qec", line, "/dev/null")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	Eventually(t, patience, "the step begins", func() bool {
		text, _ := os.ReadFile(name)
		job, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		return job > 0
	})
	s.GPU.WaitClients(1)
	s.WaitTenant(job, patience, "RUNNING")
	return job
}

// wantPausedOnGPU pauses a job and checks that all of it stands still that is on the
// GPU, and what else is to be true meanwhile; then it lets it go on, and checks that.
func (s *Stack) wantPausedOnGPU(t *testing.T, job int, meanwhile func()) {
	t.Helper()
	clients := func() (pids []int) {
		for _, c := range s.GPU.Show().Clients {
			pids = append(pids, c.PID)
		}
		return pids
	}
	if r := s.Run(Built("gimbal"), "pause", "--socket", s.Socket(), fmt.Sprint(job)); r.Exit != 0 {
		t.Fatal(r)
	}
	s.WaitTenant(job, patience, "PAUSED")
	if stopped, running := Stopped(clients()); len(stopped) == 0 || len(running) > 0 {
		t.Errorf("on the GPU %v are stopped and %v run", stopped, running)
	}
	meanwhile()
	if r := s.Run(Built("gimbal"), "release", "--socket", s.Socket(), fmt.Sprint(job)); r.Exit != 0 {
		t.Fatal(r)
	}
	s.WaitTenant(job, patience, "RUNNING")
	Eventually(t, patience, "it computes again", func() bool { stopped, running := Stopped(clients()); return len(stopped) == 0 && len(running) > 0 })
}

// wantLonger waits until a file has grown.
func (s *Stack) wantLonger(t *testing.T, file string) {
	t.Helper()
	length := func() int64 {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	before := length()
	Eventually(t, patience, "the shell goes on", func() bool { return length() > before+5 })
}
