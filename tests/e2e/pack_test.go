package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/tests/slurmtest"
)

// Policies of the tests: the shipped ones with short times.
const (
	quickTurns = `
name = "timeslice"
objective = "turns of a second, for tests"
[share]
together = 1
quantum = "1s"
[limits]
min_run = "500ms"
launch_grace = "3s"
`
	quickTogether = `
name = "together"
objective = "all at once while memory fits, for tests"
[limits]
min_run = "500ms"
`
)

// queuedWork is how long a kernel of 20 ms that was queued when its process
// was stopped may go on beside the next tenant: twice its time, since the
// device slices between the two, and what its record rounds.
const queuedWork = 60 * time.Millisecond

const oneShard = "--gres=shard:1"

// TestOutOfMemoryIsAvoided: two trainers that need 60 % of a GPU each. Without
// the option the second dies of out-of-memory; with it, it is held until the
// first has ended, and both finish.
func TestOutOfMemoryIsAvoided(t *testing.T) {
	s := Start(t, Options{Policy: "together", Policies: map[string]string{"together": quickTogether}})
	trainer := Trainer("--startup 0.3 --memory 9.6GiB --seconds 4")

	t.Run("without", func(t *testing.T) {
		first := s.Sbatch(t, trainer, oneShard)
		s.WaitClients(t, 1)
		second := s.Sbatch(t, trainer, oneShard)
		if j := s.WaitDone(t, second, 30*time.Second); j.State != "FAILED" || !strings.Contains(s.JobOutput(t, second), "out of memory") {
			t.Errorf("the second job is %s: %s", j.State, s.JobOutput(t, second))
		}
		wantState(t, s.WaitDone(t, first, 30*time.Second), "COMPLETED")
	})
	t.Run("with", func(t *testing.T) {
		first := s.Sbatch(t, trainer, oneShard, "--gimbal-pack", "--gimbal-memory=9.6GiB")
		s.WaitTenant(first, 10*time.Second, "RUNNING")
		second := s.Sbatch(t, trainer, oneShard, "--gimbal-pack", "--gimbal-memory=9.6GiB")
		s.WaitTenant(second, 10*time.Second, "HELD")
		if why := s.Tenant(fmt.Sprint(second)).Reason.Text; !strings.Contains(why, "needs 9.6GiB") {
			t.Errorf("the reason does not say what it waits for: %q", why)
		}
		wantState(t, s.WaitDone(t, first, 30*time.Second), "COMPLETED")
		wantState(t, s.WaitDone(t, second, 30*time.Second), "COMPLETED")
		if ovl, _ := s.GPU.Record().Overlap(label(first), label(second)); ovl > 0 {
			t.Errorf("they computed together for %s", ovl)
		}
	})
	s.wantHealthy(t)
}

// label is what the trainer of a job's batch step is called in the record.
func label(job int) string { return fmt.Sprintf("%d.batch", job) }

func wantState(t *testing.T, j slurmtest.Job, state string) {
	t.Helper()
	if j.State != state {
		t.Errorf("job %d is %s (exit %d, signal %d), want %s", j.ID, j.State, j.ExitCode, j.Signal, state)
	}
}

// WaitClients waits until so many processes have a context on the GPU.
func (s *Stack) WaitClients(t *testing.T, n int) {
	t.Helper()
	Eventually(t, 15*time.Second, fmt.Sprintf("%d processes on the GPU", n), func() bool { return len(s.GPU.Show().Clients) == n })
}

// wantHealthy checks what must hold after every test: the node is not
// drained, and nothing of any job is left.
func (s *Stack) wantHealthy(t *testing.T) {
	t.Helper()
	if why := s.DrainReason(t); why != "" {
		t.Errorf("the node is drained: %s", why)
	}
	Eventually(t, 15*time.Second, "the node is idle", func() bool { return s.NodeState(t) == "idle" })
	Eventually(t, 10*time.Second, "no process is left on the GPU", func() bool { return len(s.GPU.Show().Clients) == 0 })
	var left []string
	deadline := time.Now().Add(10 * time.Second)
	for {
		reply := s.Status(model.StatusQuery{Start: time.Now()})
		if reply == nil {
			t.Fatal("the daemon does not answer")
		}
		left = nil
		for i := range reply.Tenants {
			v := &reply.Tenants[i]
			left = append(left, fmt.Sprintf("%s %s, %d processes, root %s, slurmstepd %s", v.Name(), v.Word(), v.Procs, procStat(v.Reg.Proc), procStat(v.Reg.Stepd)))
		}
		if len(left) == 0 || time.Now().After(deadline) {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if len(left) > 0 {
		t.Errorf("tenants are left: %v", left)
	}
}

// procStat is what the kernel says of a process.
func procStat(id model.ProcID) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id.PID))
	if err != nil {
		return fmt.Sprintf("%d (gone)", id.PID)
	}
	return fmt.Sprintf("%d@%d: %s", id.PID, id.Start, b)
}

// TestTurns: in the device's own record no two tenants compute at once, beyond
// the work that was queued at the moment of a pause, and each gets half.
func TestTurns(t *testing.T) {
	s := Start(t, Options{Policies: map[string]string{"timeslice": quickTurns}})
	trainer := Trainer("--memory 2GiB --gpu-ms 20 --cpu-ms 5 --queue 1 --iterations 400")
	var jobs []int
	for range 2 {
		jobs = append(jobs, s.Sbatch(t, trainer, oneShard, "--gimbal-pack", "--gimbal-memory=2GiB"))
	}
	s.WaitTenant(jobs[1], 20*time.Second, "RUNNING")
	for _, j := range jobs {
		wantState(t, s.WaitDone(t, j, 90*time.Second), "COMPLETED")
	}
	rec := s.GPU.Record()
	total, longest := rec.Overlap(label(jobs[0]), label(jobs[1]))
	if longest > queuedWork {
		t.Errorf("they computed together for %s at a stretch (%s in all), more than queued work explains", longest, total)
	}
	checkHalves(t, s, jobs)
	s.wantHealthy(t)
}

// checkHalves compares what each got while both were there.
func checkHalves(t *testing.T, s *Stack, jobs []int) {
	t.Helper()
	rec := s.GPU.Record()
	aFrom, aTo := rec.Of(label(jobs[0])).Span()
	bFrom, bTo := rec.Of(label(jobs[1])).Span()
	both := rec.Between(max(aFrom, bFrom), min(aTo, bTo))
	a, b := both.Busy(label(jobs[0])), both.Busy(label(jobs[1]))
	share := a.Seconds() / (a + b).Seconds()
	t.Logf("both were there for %s; the first computed for %s, the second for %s", min(aTo, bTo)-max(aFrom, bFrom), a, b)
	if share < 0.4 || share > 0.6 {
		t.Errorf("the first got %.0f %% of the time that both got, want half within 10 points", 100*share)
	}
}

// TestScriptsOfEveryShape: a script that runs its trainer by srun, one that
// runs it directly, and one whose sruns each carry the option and are packed
// against each other inside one allocation. None waits for itself.
func TestScriptsOfEveryShape(t *testing.T) {
	s := Start(t, Options{Policies: map[string]string{"timeslice": quickTurns}})
	trainer := Trainer("--memory 2GiB --queue 1 --iterations 60")
	scripts := map[string]string{
		"direct":  trainer,
		"by srun": "srun " + trainer,
		"packed steps": fmt.Sprintf("srun --overlap --gimbal-pack --gimbal-memory=2GiB %[1]s &\n"+
			"srun --overlap --gimbal-pack --gimbal-memory=2GiB %[1]s &\nwait -n && wait", trainer),
	}
	jobs := map[string]int{}
	for name, script := range scripts {
		jobs[name] = s.Sbatch(t, script, oneShard, "--gimbal-pack", "--gimbal-memory=4GiB", "-n2")
	}
	for name, id := range jobs {
		j := s.WaitDone(t, id, 90*time.Second)
		if j.State != "COMPLETED" {
			t.Errorf("%s: job %d is %s: %s", name, id, j.State, s.JobOutput(t, id))
		}
	}
	id := jobs["packed steps"]
	a, b := fmt.Sprintf("%d.0", id), fmt.Sprintf("%d.1", id)
	if _, longest := s.GPU.Record().Overlap(a, b); longest > queuedWork {
		t.Errorf("two packed steps of one job computed together for %s", longest)
	}
	s.wantHealthy(t)
}
