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
	for _, freezer := range []bool{false, true} {
		t.Run(map[bool]string{false: "linuxproc", true: "cgroup"}[freezer], func(t *testing.T) {
			t.Parallel()
			r := newRig(t, setting{config: impatient, slurm: true, freezer: freezer})
			r.start()
			var k, first, held *task
			for _, daemon := range []string{"slurmd", "slurmctld"} {
				for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGKILL} {
					k, first, held = r.atRest(k, first, held)
					r.saveSlurm(held)
					pids := slices.Concat(k.pids(), first.pids(), held.pids())
					r.slurm().Restart(t, daemon, sig)
					r.wantWhole()
					if !r.is(k, model.Paused) || !r.is(held, model.Held) || !r.is(first, model.Running) {
						t.Errorf("after %s got %s: %+v", daemon, unix.SignalName(sig), r.status().Tenants)
					}
					if now := slices.Concat(k.pids(), first.pids(), held.pids()); !slices.Equal(now, pids) {
						t.Errorf("the processes were %v and are %v", pids, now)
					}
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
		})
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
	slurmtest.Need(t)
	t.Parallel()
	r := newRig(t, setting{config: impatient, slurm: true})
	r.start()
	submit := func(options ...string) *task {
		k := r.newTask()
		script := "exec " + simgpu.Binary("simgpu-trainer") + " --startup 0.5 --memory 512MiB"
		k.job = uint32(r.slurm().Sbatch(t, script, append(options, "--gres=shard:1")...))
		return k
	}
	packed := func(memory, requeue string) *task {
		return submit("--gimbal-pack", "--gimbal-memory="+memory, requeue)
	}
	paused, first := packed("2GiB", "--requeue"), packed(big, "--no-requeue")
	plain, last := submit("--requeue"), submit("--no-requeue")
	r.await(paused, model.Running)
	r.await(first, model.Running)
	r.gpu.WaitClients(4)
	r.order(paused, model.PrimPause)
	r.await(paused, model.Paused)
	held := packed(big, "--requeue")
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
	if reply := r.status(); len(reply.Tenants) != 0 {
		t.Errorf("tenants of before are there: %+v", reply.Tenants)
	}
	ended, err := journal.Ended(r.path("state"), model.StatusQuery{})
	if err != nil || len(ended) != 3 {
		t.Errorf("%d tenants have ended, want 3 (%v)", len(ended), err)
	}
	r.again(paused)
	r.await(paused, model.Running)
	for _, k := range []*task{paused, held, plain} {
		r.slurm().Run("scancel", fmt.Sprint(k.job))
	}
	eventually(t, patience, "nobody is left", func() bool { return len(r.status().Tenants) == 0 })
	r.strange.wantUntouched(t)
	r.launcher.wantWell()
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
