package fieldlog

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/tests/e2e"
	"github.com/gimbal-hpc/gimbal/tests/simgpu"
	"github.com/gimbal-hpc/gimbal/tests/slurmtest"
)

// TestWhoeverTakesMoreIsActedUpon is ME-01: a job takes more GPU memory than
// it declared. After the grace of the policy's guard it is told by its own
// signal and paused; its neighbour, which keeps to what it declared, is never
// stopped.
func TestWhoeverTakesMoreIsActedUpon(t *testing.T) {
	s := start(t, e2e.Options{Policy: "strict", Policies: map[string]string{"strict": `
name = "strict"
objective = "all at once; whoever takes more than it declared is paused"
[limits]
min_run = "0s"
[[guard]]
name = "uses more memory than it declared"
when = "tenant.over > 0"
for = "2s"
do = ["pause"]
say = "{tenant} uses more GPU memory than it declared"
`}})
	modest := s.pack(t, "exec "+e2e.Trainer("--memory 900MiB --seconds 300"))
	greedy := s.pack(t, "exec "+e2e.Trainer("--memory 512MiB --grow 512MiB --grow-every 2 --grow-max 3GiB --seconds 300"))
	s.WaitTenant(modest, patience, "RUNNING")
	s.WaitTenant(greedy, 2*patience, "PAUSED")
	if why := s.tenant(t, greedy).Reason.Text; !strings.Contains(why, "more GPU memory than it declared") {
		t.Errorf("the reason is %q", why)
	}
	v := s.tenant(t, modest)
	if v.Word() != "RUNNING" || v.Tally.Pauses != 0 {
		t.Errorf("the modest job is %s after %d pauses", v.Word(), v.Tally.Pauses)
	}
	if stopped, _ := e2e.Stopped(s.Pids(modest)); len(stopped) > 0 {
		t.Errorf("processes %v of the modest job are stopped", stopped)
	}
	s.cancel(t, greedy, modest)
	s.wantClean(t)
}

// TestYieldsToAJobThatIsNotPacked is SH-01: Slurm puts a job that is not packed on a
// GPU with a packed one, which by a guard of the policy's yields as long as the other is
// there: paused for max_pause, with a breath in between. To a step that its own job
// keeps out it does not. The other job is shown, and left alone.
func TestYieldsToAJobThatIsNotPacked(t *testing.T) {
	s := start(t, e2e.Options{Policy: "yields", Policies: map[string]string{"yields": `
name = "yields"
objective = "in turn; the GPU is left to jobs that are not packed"
[limits]
min_run = "0s"
max_pause = "2s"
[[guard]]
name = "a job that is not packed has the GPU"
when = "gpu.unmanaged > 0"
do = ["pause"]
say = "{tenant} leaves the GPU to a job that is not packed"
`}})
	trainer := e2e.Trainer("--memory 512MiB --seconds 300")
	packed := s.pack(t, "srun -n1 --overlap --gimbal-pack=off "+trainer+" & exec "+trainer, "-n", "2")
	s.WaitTenant(packed, patience, "RUNNING")
	s.shows(t, packed, 1)
	time.Sleep(time.Second) // ten looks
	if n := s.tenant(t, packed).Tally.Pauses; n != 0 {
		t.Errorf("it was paused %d times for a step of its own job", n)
	}
	whole := s.Sbatch(t, "exec "+trainer, "--gres=shard:1")
	s.WaitTenant(packed, patience, "PAUSED")
	if why := s.tenant(t, packed).Reason.Text; !strings.Contains(why, "leaves the GPU to a job that is not packed") {
		t.Errorf("the reason is %q", why)
	}
	s.shows(t, packed, 2)
	e2e.Eventually(t, patience, "it has had a breath and is paused again", func() bool { return s.tenant(t, packed).Tally.Pauses > 1 })
	if r := s.Gimbal("explain", fmt.Sprint(packed)); !strings.Contains(r.Stdout, "runs at least 500ms") && !strings.Contains(r.Stdout, "there is room") {
		t.Errorf("explain does not tell of a breath: %v", r)
	}
	if stopped, _ := e2e.Stopped(s.Pids(whole)); len(stopped) > 0 || len(s.Pids(whole)) == 0 {
		t.Errorf("of the job that is not packed %v are stopped", stopped)
	}
	s.cancel(t, whole)
	s.WaitTenant(packed, patience, "RUNNING")
	s.shows(t, packed, 1)
	s.cancel(t, packed)
	s.wantClean(t)
}

// shows waits until so many processes are shown as those of jobs that are not packed,
// of the job's own steps among them.
func (s *site) shows(t *testing.T, job, processes int) {
	t.Helper()
	e2e.Eventually(t, patience, fmt.Sprintf("beside job %d %d processes are shown", job, processes), func() bool {
		n := 0
		if reply := s.Status(model.StatusQuery{}); reply != nil {
			for _, stray := range reply.Strays {
				if stray.Kind == model.StrayUnmanaged {
					n++
				}
			}
		}
		return n == processes
	})
}

// TestComputesOnAnotherGPU is SH-05: a job computes on another GPU than Slurm gave it,
// and takes turns with the job of that one, not with that of its own.
func TestComputesOnAnotherGPU(t *testing.T) {
	s := start(t, e2e.Options{Policies: turns("1s"), GPU: simgpu.Options{GPUs: 2}})
	trainer := e2e.Trainer("--memory 512MiB --seconds 300")
	mine := s.pack(t, "exec "+trainer)
	gpu := s.gpus(t, mine, "")
	other := map[string]string{"0": "1", "1": "0"}[gpu]
	wrong := s.pack(t, "exec env CUDA_VISIBLE_DEVICES="+other+" "+trainer)
	s.gpus(t, wrong, other)
	e2e.Eventually(t, patience, "the one that is alone now is paused no more", func() bool {
		n := s.tenant(t, mine).Tally.Pauses
		time.Sleep(3 * time.Second) // three turns
		return s.tenant(t, mine).Tally.Pauses == n
	})
	mate := s.Sbatch(t, "exec env CUDA_VISIBLE_DEVICES="+other+" "+trainer, "--gres=shard:1", "--gimbal-pack", "--gimbal-memory=1GiB")
	s.gpus(t, mate, other)
	for _, job := range []int{wrong, mate} {
		s.WaitTenant(job, patience, "PAUSED")
		s.WaitTenant(job, patience, "RUNNING")
	}
	if r := s.Gimbal("explain", fmt.Sprint(wrong)); !strings.Contains(r.Stdout, "takes its turns there") {
		t.Errorf("explain does not tell of it: %v", r)
	}
	s.cancel(t, mine, wrong, mate)
	s.wantClean(t)
}

// gpus waits until status shows a job on a GPU, or on any, and returns which.
func (s *site) gpus(t *testing.T, job int, want string) (at string) {
	t.Helper()
	e2e.Eventually(t, patience, fmt.Sprintf("job %d is shown on GPU %q", job, want), func() bool {
		at = strings.TrimSpace(s.Gimbal("status", "-n", "-P", "-X", "-j", fmt.Sprint(job), "-o", "GPUs").Stdout)
		return at != "" && (want == "" || at == want)
	})
	return at
}

// TestNoPauseDuringLaunch is SG-08: while the last task of a step is younger
// than min_run, and while tasks start, none of them is stopped, though it is
// the neighbour's turn and a person orders a pause.
func TestNoPauseDuringLaunch(t *testing.T) {
	policy := strings.Replace(turns("300ms")["timeslice"], `min_run = "0s"`, `min_run = "15s"`, 1)
	s := start(t, e2e.Options{Policies: map[string]string{"timeslice": policy}})
	other := s.pack(t, "exec "+e2e.Trainer("--memory 512MiB --seconds 3000"))
	s.WaitTenant(other, patience, "RUNNING")
	for i := range slurmtest.Long(20, 2) {
		file := filepath.Join(s.Out, fmt.Sprintf("ended-%d", i))
		job := s.pack(t, "srun -n 8 bash -c 'sleep 2; echo >>"+file+"'", "-n", "8", "--overcommit")
		s.WaitTenant(job, patience, "RUNNING")
		if r := s.Run(e2e.Built("gimbal"), "pause", "--socket", s.Socket(), fmt.Sprint(job)); r.Exit != 0 || !strings.Contains(r.Stdout, "goes on for now: not stopped in the first 15s after a launch, for ") {
			t.Errorf("a pause in a launch: %v", r)
		}
		wantState(t, s.WaitDone(t, job, 3*patience), "COMPLETED")
		if r := s.Run("wc", "-l", file); !strings.HasPrefix(strings.TrimSpace(r.Stdout), "8 ") {
			t.Errorf("%s of 8 tasks ended", r.Stdout)
		}
		s.wantNeverPausedYoung(t, job)
	}
	s.cancel(t, other)
	s.wantClean(t)
}

// wantNeverPausedYoung checks an ended job that lived for less than min_run
// after its last task: it may have been held before it began, not paused.
func (s *site) wantNeverPausedYoung(t *testing.T, job int) {
	t.Helper()
	r := s.Gimbal("explain", fmt.Sprint(job))
	if r.Exit != 0 || !strings.Contains(r.Stdout, "(0 pauses)") {
		t.Errorf("job %d was paused while it was launched: %v", job, r)
	}
}

// TestDriverMismatchWhileJobsRun is NV-07: the driver's library is replaced
// under a running daemon. It lives on, degraded; what is paused runs again and
// nothing more is stopped; each change is logged once; and once the driver is
// well, packing goes on without a restart.
func TestDriverMismatchWhileJobsRun(t *testing.T) {
	s := start(t, e2e.Options{Policies: turns("2s")})
	paused, other := s.pair(t, "exec "+e2e.Trainer("--memory 512MiB --seconds 300"))
	s.GPU.Ctl("set", "driver=mismatch")
	s.logged(t, "degraded, no job is stopped: ")
	for _, id := range []int{paused, other} {
		s.wantRunning(t, id, patience)
	}
	reply := s.Status(model.StatusQuery{})
	if reply == nil || !strings.Contains(reply.Degraded, "mismatch") {
		t.Errorf("status does not say that the driver is broken: %+v", reply)
	}
	third := s.pack(t, "exec "+e2e.Trainer("--memory 512MiB --seconds 300"))
	s.WaitTenant(third, patience, "RUNNING")
	if n := strings.Count(s.Log(), "degraded, no job is stopped"); n != 1 {
		t.Errorf("logged %d times", n)
	}
	s.GPU.Ctl("set", "driver=ok")
	s.logged(t, "the driver can be read again")
	s.WaitTenant(paused, patience, "PAUSED")
	s.WaitTenant(other, patience, "PAUSED")
	s.cancel(t, paused, other, third)
	s.wantClean(t)
}
