package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/journal"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/tests/simgpu"
	"github.com/gimbal-hpc/gimbal/tests/slurmtest"
)

// TestSlurmRestarts: Slurm's daemons are restarted while a tenant is paused and
// another held, gimbald being there or dead. The tenants stay what they were, or
// run, and are known; each job ends as its owner has it, and others come after.
func TestSlurmRestarts(t *testing.T) {
	slurmtest.Need(t)
	t.Parallel()
	t.Run("linuxproc", func(t *testing.T) { t.Parallel(); testSlurmRestarts(t, setting{slurm: true}) })
	t.Run("cgroup", func(t *testing.T) {
		t.Parallel()
		testSlurmRestarts(t, setting{slurm: true, freezer: true})
	})
}

func testSlurmRestarts(t *testing.T, s setting) {
	injects(t, 5)
	r := newRig(t, s)
	r.start()
	var k, first, held *task
	for _, daemon := range []string{"slurmd", "slurmctld"} {
		for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGKILL} {
			k, first, held = r.atRest(k, first, held)
			r.restartBeside(daemon, sig, k, first, held)
			r.order(k, "release")
			k.trains()
			first.finish()
			held.trains()
			first, held = held, nil
		}
	}
	k, _, _ = r.atRest(k, first, held)
	r.killedBoth()
	r.slurm().Restart(t, "slurmd", unix.SIGKILL)
	r.start()
	r.wantWhole()
	r.order(k, "release")
	k.trains()
	r.finishAll()
}

// restartBeside restarts a daemon of Slurm's and checks that nothing changes for a
// tenant that is paused, one that runs and one that is held.
func (r *rig) restartBeside(daemon string, sig unix.Signal, paused, runs, held *task) {
	r.t.Helper()
	r.saveSlurm(held)
	pids := slices.Concat(paused.pids(), runs.pids(), held.pids())
	r.slurm().Restart(r.t, daemon, sig)
	r.wantWhole()
	now := r.answer()
	for k, want := range map[*task]model.State{paused: model.Paused, held: model.Held, runs: model.Running} {
		if v := k.in(now); v == nil || v.State != want {
			r.t.Errorf("after %s got %s job %d is not %s: %+v", daemon, unix.SignalName(sig), k.job, want, now.Tenants)
		}
	}
	if now := slices.Concat(paused.pids(), runs.pids(), held.pids()); !slices.Equal(now, pids) {
		r.t.Errorf("the processes were %v and are %v", pids, now)
	}
}

// saveSlurm has slurmctld write down what it knows of its jobs: one that is killed
// loses, and ends, those that it has started since it did so last.
func (r *rig) saveSlurm(k *task) {
	r.t.Helper()
	begin := time.Now()
	r.slurm().Run("scontrol", "update", fmt.Sprintf("jobid=%d", k.job), "comment=saved")
	eventually(r.t, patience, "slurmctld has saved its state", func() bool {
		info, err := os.Stat(filepath.Join(r.slurm().Dir, "state", "job_state"))
		return err == nil && info.ModTime().After(begin)
	})
}

// slurm is the Slurm that launches the tasks.
func (r *rig) slurm() *slurmtest.Cluster { return r.launcher.(*batch).Cluster }

// TestNodeReboots: the node's processes are gone, its files are there, and the boot
// is another. What of its jobs becomes is what becomes of jobs that did not ask for
// Gimbal; those that Slurm starts again are tenants again.
func TestNodeReboots(t *testing.T) {
	injects(t, 1)
	slurmtest.Need(t)
	t.Parallel()
	r := newRig(t, setting{slurm: true})
	r.start()
	paused, first := r.submit("2GiB", "--requeue"), r.submit(big, "--no-requeue")
	plain, last := r.submit("", "--requeue"), r.submit("", "--no-requeue")
	r.await(paused, model.Running)
	r.await(first, model.Running)
	r.gpu.WaitClients(4)
	r.order(paused, model.PrimPause)
	r.await(paused, model.Paused)
	held := r.submit(big, "--requeue")
	r.await(held, model.Held)

	r.killedBoth()
	r.slurm().Reboot(t)
	r.otherBoot()
	r.start()
	for _, pair := range [][2]*task{{paused, plain}, {held, plain}, {first, last}} {
		if got, want := r.outcome(pair[0]), r.outcome(pair[1]); got != want {
			t.Errorf("job %d is %s, and one without Gimbal %s", pair[0].job, got, want)
		}
	}
	r.wantLost(3)
	r.again(paused)
	r.await(paused, model.Running)
	for _, k := range []*task{paused, held, plain} {
		r.slurm().Run("scancel", fmt.Sprint(k.job))
	}
	eventually(t, patience, "nobody is left", r.empty)
	r.strange.wantUntouched(t)
	r.launcher.wantWell()
}

// submit submits a job that asks for so much memory, or not for Gimbal, and is not
// looked after.
func (r *rig) submit(memory, requeue string) *task {
	r.t.Helper()
	options := []string{"--gres=shard:1", requeue}
	if memory != "" {
		options = append(options, "--gimbal-pack", "--gimbal-memory="+memory)
	}
	k := r.newTask()
	script := "exec " + simgpu.Binary("simgpu-trainer") + " --startup 0.5 --memory 512MiB"
	k.job = uint32(r.slurm().Sbatch(r.t, script, options...))
	return k
}

// wantLost checks that nobody is known, and that so many have ended by another boot.
func (r *rig) wantLost(n int) {
	r.t.Helper()
	if reply := r.answer(); len(reply.Tenants) != 0 {
		r.t.Errorf("tenants of before are there: %+v", reply.Tenants)
	}
	ended, err := journal.Ended(r.path("state"), model.StatusQuery{})
	if err != nil || len(ended) != n {
		r.t.Errorf("%d tenants have ended, want %d (%v)", len(ended), n, err)
	}
	for i := range ended {
		if ended[i].Reason.Code != model.CodeLost {
			r.t.Errorf("job %d ended: %+v", ended[i].Reg.JobID, ended[i].Reason)
		}
	}
}

// outcome is what Slurm makes of a job whose node was rebooted. It misses a job that
// began half a minute ago or more, each time that slurmd makes itself known.
func (r *rig) outcome(k *task) (what string) {
	r.t.Helper()
	eventually(r.t, 2*patience, "Slurm has noticed", func() bool {
		j, err := r.slurm().Job(int(k.job))
		what = fmt.Sprintf("%s after %d restarts", j.State, j.Restarts)
		if err != nil || j.State == "COMPLETING" {
			return false
		}
		if j.State == "RUNNING" {
			r.slurm().Restart(r.t, "slurmd", unix.SIGTERM)
		}
		return j.State != "RUNNING"
	})
	return what
}

// again has Slurm start a job that was requeued within seconds: not at once, since
// Slurm refuses a credential of the second of the requeue.
func (r *rig) again(k *task) {
	r.t.Helper()
	eventually(r.t, patience, "the job may start again", func() bool {
		return r.slurm().Run("scontrol", "update", fmt.Sprintf("jobid=%d", k.job), "starttime=now+4").Exit == 0
	})
	r.slurm().WaitState(r.t, int(k.job), 2*time.Minute, "RUNNING")
}
