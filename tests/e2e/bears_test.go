package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestJobBearsLess: the turns of all are shortened for a job that asks for shorter
// pauses, as far as it may ask, whatever of its environment reaches its node; status
// and explain say so, and the next daemon knows of it.
func TestJobBearsLess(t *testing.T) {
	s := Start(t, Options{Policy: "timeslice"})
	first := s.Sbatch(t, Trainer("--memory 2GiB"), oneShard, "--gimbal-pack", "--gimbal-memory=2GiB")
	s.WaitTenant(first, 20*time.Second, "RUNNING")
	for _, c := range []struct {
		asks    string
		more    []string
		column  string
		quantum string
		said    string
	}{
		{"20s", nil, "00:00:20", "20s", "A pause of it lasts 20s at most, as it asked for."},
		{"25s", []string{"--export=NONE"}, "00:00:25", "25s", "A pause of it lasts 25s at most, as it asked for."},
		{"15s", []string{"--export=NIL"}, "00:00:15", "15s", "A pause of it lasts 15s at most, as it asked for."},
		{"3s", nil, "00:00:10", "10s", "longest pause raised from 3s to 10s"},
		{"10m", nil, "", "30s", "longest pause stays 1m: 10m would be more"},
	} {
		job := s.submitWith(t, "GIMBAL_MAX_PAUSE="+c.asks, c.more...)
		s.WaitTenant(job, 20*time.Second, "HELD", "PAUSED")
		if got := s.Tenant(fmt.Sprint(job)).Reason.Text; !strings.HasSuffix(got, fmt.Sprintf("quantum %s)", c.quantum)) {
			t.Errorf("%s: waits for the %q, want a quantum of %s", c.asks, got, c.quantum)
		}
		s.KillDaemon()
		s.StartDaemon()
		s.WaitTenant(job, 20*time.Second, "HELD", "PAUSED", "RUNNING")
		if got := s.Gimbal("status", "-X", "-n", "-P", "-j", fmt.Sprint(job), "-o", "MaxPause"); got.Stdout != c.column+"\n" {
			t.Errorf("%s: status says %v", c.asks, got)
		}
		if got := s.Gimbal("explain", fmt.Sprint(job)); !strings.Contains(got.Stdout, c.said) {
			t.Errorf("%s: explain says\n%s", c.asks, got)
		}
		s.scancel(t, job)
		Eventually(t, 20*time.Second, "the job is gone", func() bool { return s.Tenant(fmt.Sprint(job)) == nil })
	}
	s.scancel(t, first)
	s.wantHealthy(t)
}

// submitWith submits a packed trainer with one more variable in the environment.
func (s *Stack) submitWith(t *testing.T, variable string, more ...string) (job int) {
	t.Helper()
	args := append([]string{variable, "sbatch", "--parsable", "-o", "/dev/null", oneShard, "--gimbal-pack", "--gimbal-memory=2GiB"}, more...)
	r := s.Run("env", append(args, "--wrap", "exec "+s.gpuTrainer())...)
	if _, err := fmt.Sscan(r.Stdout, &job); err != nil || r.Exit != 0 {
		t.Fatalf("sbatch: %v", r)
	}
	return job
}

// gpuTrainer is a trainer that finds its GPU without the job's environment.
func (s *Stack) gpuTrainer() string {
	return "env " + strings.Join(s.GPU.Env(), " ") + " " + Trainer("--memory 2GiB")
}
