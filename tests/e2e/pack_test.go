package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/tests/simgpu"
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

	t.Run("without", func(t *testing.T) {
		option, end := s.until(t, "without")
		first := s.Sbatch(t, Trainer("--memory 9.6GiB"+option), oneShard)
		s.waitComputes(t, first)
		second := s.Sbatch(t, Trainer("--memory 9.6GiB --iterations 100"), oneShard)
		if j := s.WaitDone(t, second, patience); j.State != "FAILED" || !strings.Contains(s.JobOutput(t, second), "out of memory") {
			t.Errorf("the second job is %s: %s", j.State, s.JobOutput(t, second))
		}
		end()
		wantState(t, s.WaitDone(t, first, patience), "COMPLETED")
	})
	t.Run("with", func(t *testing.T) {
		option, end := s.until(t, "with")
		first := s.Sbatch(t, Trainer("--memory 9.6GiB"+option), oneShard, "--gimbal-pack", "--gimbal-memory=9.6GiB")
		s.WaitTenant(first, patience, "RUNNING")
		second := s.Sbatch(t, slowly("--memory 9.6GiB --iterations 100"), oneShard, "--gimbal-pack", "--gimbal-memory=9.6GiB")
		s.WaitTenant(second, patience, "HELD")
		if why := s.tenant(t, fmt.Sprint(second)).Reason.Text; !strings.Contains(why, "needs 9.6GiB") {
			t.Errorf("the reason does not say what it waits for: %q", why)
		}
		end()
		wantState(t, s.WaitDone(t, first, patience), "COMPLETED")
		wantState(t, s.WaitDone(t, second, patience), "COMPLETED")
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
	Eventually(t, patience, fmt.Sprintf("%d processes on the GPU", n), func() bool { return len(s.GPU.Show().Clients) == n })
}

// wantHealthy checks what must hold after every test: the node is not
// drained, and nothing of any job is left.
func (s *Stack) wantHealthy(t *testing.T) {
	t.Helper()
	Eventually(t, patience, "the node is idle, or drained", func() bool {
		return s.DrainReason(t) != "" || s.NodeState(t) == "idle"
	})
	if why := s.DrainReason(t); why != "" {
		t.Errorf("the node is drained: %s", why)
	}
	Eventually(t, patience, "no process is left on the GPU", func() bool { return len(s.GPU.Show().Clients) == 0 })
	left := "no answer of the daemon"
	eventuallyShown(t, "no tenant is left", &left, func() bool {
		reply := s.Status(model.StatusQuery{Start: time.Now()})
		if reply == nil {
			return false
		}
		left = ""
		for i := range reply.Tenants {
			v := &reply.Tenants[i]
			left += fmt.Sprintf("%s %s, %d processes, root %s, slurmstepd %s\n", v.Name(), v.Word(), v.Procs, procStat(v.Reg.Proc), procStat(v.Reg.Stepd))
		}
		return left == ""
	})
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
	option, end := s.until(t, "end")
	trainer := slowly("--memory 2GiB --gpu-ms 20 --cpu-ms 5 --queue 1" + option)
	var jobs []int
	for range 2 {
		jobs = append(jobs, s.Sbatch(t, trainer, oneShard, "--gimbal-pack", "--gimbal-memory=2GiB"))
	}
	Eventually(t, patience, "both were there for two dozen turns", func() bool {
		from, to := bothThere(s.GPU.Record(), jobs)
		return to-from > 24*time.Second
	})
	end()
	for _, j := range jobs {
		wantState(t, s.WaitDone(t, j, patience), "COMPLETED")
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
	from, to := bothThere(rec, jobs)
	both := rec.Between(from, to)
	a, b := both.Busy(label(jobs[0])), both.Busy(label(jobs[1]))
	share := a.Seconds() / (a + b).Seconds()
	t.Logf("both were there for %s; the first computed for %s, the second for %s", to-from, a, b)
	if share < 0.4 || share > 0.6 {
		t.Errorf("the first got %.0f %% of the time that both got, want half within 10 points", 100*share)
	}
}

// bothThere is from when until when two jobs were on the GPU, zeros before the second
// has come.
func bothThere(rec simgpu.Record, jobs []int) (from, to time.Duration) {
	a, b := rec.Of(label(jobs[0])), rec.Of(label(jobs[1]))
	if len(a) == 0 || len(b) == 0 {
		return 0, 0
	}
	aFrom, aTo := a.Span()
	bFrom, bTo := b.Span()
	return max(aFrom, bFrom), min(aTo, bTo)
}

// TestScriptsOfEveryShape: a script that runs its trainer by srun, one that
// runs it directly, and one whose sruns each carry the option and are packed
// against each other inside one allocation. None waits for itself.
func TestScriptsOfEveryShape(t *testing.T) {
	s := Start(t, Options{Policies: map[string]string{"timeslice": quickTurns}})
	trainer := slowly("--memory 2GiB --queue 1 --iterations 60")
	scripts := map[string]string{
		"direct":  trainer,
		"by srun": "srun " + trainer,
		"packed steps": fmt.Sprintf("srun -n1 --overlap --gimbal-pack --gimbal-memory=2GiB %[1]s &\n"+
			"srun -n1 --overlap --gimbal-pack --gimbal-memory=2GiB %[1]s &\nwait -n && wait", trainer),
	}
	jobs := map[string]int{}
	for name, script := range scripts {
		jobs[name] = s.Sbatch(t, script, oneShard, "--gimbal-pack", "--gimbal-memory=4GiB", "-n2")
	}
	for name, id := range jobs {
		j := s.WaitDone(t, id, patience)
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
