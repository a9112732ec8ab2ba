package fieldlog

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sort"
	"syscall"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/tests/draw"
	"github.com/gimbal-hpc/gimbal/tests/e2e"
)

// TestCancelledInAnyState is DL-09: packed jobs are cancelled at random
// moments (just started, held, paused, running, pausing, resuming), some of
// which ignore SIGTERM, with the daemon well, hung and dead. Slurm must not
// see anything unusual: the jobs are cancelled, the node is not drained, no
// slurmstepd is left.
func TestCancelledInAnyState(t *testing.T) {
	o := e2e.Options{Policies: turns("300ms")}
	o.Slurm.KillWait = 5 * time.Second
	o.Slurm.Shards, o.Slurm.CPUs = 32, 64
	o.Slurm.ConfExtra = []string{"UnkillableStepTimeout=10"}
	s := start(t, o)
	rng := rand.New(rand.NewPCG(draw.Seed(t), 0))
	for _, c := range []struct {
		name   string
		jobs   int
		during func()
		after  func()
	}{
		{"daemon well", 20, func() {}, func() {}},
		{"daemon hung", 6, func() { s.Signal(syscall.SIGSTOP) }, func() { s.Signal(syscall.SIGCONT) }},
		{"daemon dead", 6, s.KillDaemon, s.StartDaemon},
	} {
		t.Run(c.name, func(t *testing.T) {
			fault := min(c.jobs/2, 5)
			var jobs []int
			for i := range c.jobs {
				if i == fault {
					c.during()
				}
				jobs = append(jobs, s.pack(t, anyScript(rng)))
			}
			e2e.Eventually(t, patience, "a slurmstepd is found while jobs run", func() bool { return len(s.stepds()) > 0 })
			s.cancelAtRandom(t, rng, jobs)
			for _, id := range jobs {
				wantState(t, s.WaitDone(t, id, 2*time.Minute), "CANCELLED")
			}
			c.after()
			s.wantClean(t)
		})
	}
}

// anyScript is a job that ends on SIGTERM, or does not, by srun or directly. A
// child of the batch script's shell is not among them: one that is forked
// between Slurm's SIGCONT and its SIGTERM is lost to proctrack/linuxproc when
// the shell dies, with or without Gimbal.
func anyScript(rng *rand.Rand) string {
	trainer := []string{"exec ", "srun "}[rng.IntN(2)] + e2e.Trainer("--memory 512MiB --seconds 300")
	return trainer + []string{"", "", " --ignore-term"}[rng.IntN(3)]
}

// cancelAtRandom cancels the jobs at moments within the next three seconds.
func (s *site) cancelAtRandom(t *testing.T, rng *rand.Rand, jobs []int) {
	t.Helper()
	when := make([]time.Duration, len(jobs))
	for i := range when {
		when[i] = time.Duration(rng.Int64N(int64(3 * time.Second)))
	}
	sort.Slice(when, func(i, j int) bool { return when[i] < when[j] })
	begin := time.Now()
	for i, k := range rng.Perm(len(jobs)) {
		time.Sleep(time.Until(begin.Add(when[i])))
		if r := s.Run("scancel", fmt.Sprint(jobs[k])); r.Exit != 0 {
			t.Errorf("scancel %d: %v", jobs[k], r)
		}
	}
}

// TestTermReachesAPausedJob is SG-01: scancel of a paused job whose program
// acts on SIGTERM, with the daemon well and with it killed just before.
func TestTermReachesAPausedJob(t *testing.T) {
	o := e2e.Options{Policies: turns("8s")}
	o.Slurm.KillWait = 15 * time.Second
	s := start(t, o)
	for _, c := range []struct {
		name   string
		before func()
		after  func()
	}{
		{"daemon well", func() {}, func() {}},
		{"daemon killed just before", s.KillDaemon, s.StartDaemon},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(s.Out, fmt.Sprintf("term-%d", time.Now().UnixNano()))
			paused, other := s.pair(t, "srun "+e2e.Trainer("--memory 512MiB --seconds 300 --on-term "+file+".$SLURM_JOB_ID"))
			c.before()
			s.cancel(t, paused)
			if r := s.Run("test", "-s", fmt.Sprintf("%s.%d", file, paused)); r.Exit != 0 {
				t.Errorf("the job's handler of SIGTERM did not run")
			}
			s.cancel(t, other)
			c.after()
			s.wantClean(t)
		})
	}
}
