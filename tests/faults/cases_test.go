package faults

import (
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/tests/simgpu"
)

// TestMemoryOfNobody is ME-05: memory that is held by a process of no job, and by
// a pid that is no process any more, is shown as what it is and leaves less room;
// nobody is ended for it.
func TestMemoryOfNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t, setting{})
	const ghost = 4194303 // above any pid_max
	r.gpu.Ctl("ghost", "pid=4194303", "memory=5GiB")
	orphan := r.gpu.Trainer("orphan", "--memory", "6GiB")
	if err := orphan.Start(); err != nil {
		t.Fatal(err)
	}
	r.gpu.WaitClients(1)
	r.start()
	kinds := map[int]string{}
	eventually(t, patience, "both are shown", func() bool {
		for _, s := range r.answer().Strays {
			kinds[s.PID] = s.Kind
		}
		return len(kinds) == 2
	})
	if kinds[ghost] != "ghost" || kinds[orphan.Process.Pid] != "foreign" {
		t.Errorf("shown as %v", kinds)
	}
	k := r.launch(big, trainer)
	r.await(k, model.Held)
	if s, ok := statOf(orphan.Process.Pid); !ok || s.state == 'Z' || s.state == 'T' {
		t.Errorf("the process of no job is %c", s.state)
	}
	kill(t, orphan.Process.Pid, unix.SIGKILL)
	_ = orphan.Wait()
	r.await(k, model.Running)
	k.trains()
	r.finishAll()
}

// TestTasksStopTogether is MN-05: the tasks of a tenant on two GPUs are stopped within
// a moment of each other, and continued so. What an operation takes in all is no less.
func TestTasksStopTogether(t *testing.T) {
	r := newRig(t, setting{gpu: simgpu.Options{GPUs: 2}})
	r.start()
	k := r.living(nil)
	for range 7 {
		r.join(k).trains()
	}
	times := long(50, 5)
	for range times {
		r.order(k, model.PrimPause)
		r.await(k, model.Paused)
		r.order(k, "release")
		r.await(k, model.Running)
	}
	for _, do := range []model.Primitive{model.PrimPause, model.PrimResume} {
		took := r.took(k, do)
		if len(took) != times || took[times/2] > 200*time.Millisecond {
			t.Fatalf("%s took, in order: %v", do, took)
		}
		t.Logf("%s of %d tasks on two GPUs, %d times: median %s, at most %s", do, 8, times, took[times/2], took[times-1])
	}
	r.finishAll()
}

// took is how long each action of a kind on a task's tenant took, in order.
func (r *rig) took(k *task, do model.Primitive) (took []time.Duration) {
	r.t.Helper()
	job := model.JobRef{Job: k.job, Task: model.NoVal, Offset: model.NoVal, Step: model.NoVal}
	var reply model.RecordsReply
	if err := r.call(model.OpRecords, model.RecordsQuery{StatusQuery: model.StatusQuery{Jobs: []model.JobRef{job}}}, &reply); err != nil {
		r.t.Fatal(err)
	}
	chosen := map[uint64]bool{}
	for _, e := range reply.Entries {
		if e.Event == "" && e.Do == do {
			chosen[e.Action] = true
		} else if e.Event == model.EvDone && chosen[e.Action] {
			took = append(took, e.Took)
		}
	}
	slices.Sort(took)
	return took
}

// TestWhoseConnectionIsGone is SE-06: nobody who launched the tasks is there any
// more, a leader has ended while its workers live, one process is stopped by
// somebody else: the daemon, old or new, ends none of them.
func TestWhoseConnectionIsGone(t *testing.T) {
	t.Parallel()
	r := newRig(t, setting{})
	r.start()
	k, stopped := r.living(nil), r.living(nil)
	workers := childrenOf(k.root())
	for _, pid := range workers {
		halt(t, pid) // they would end with their trainer
	}
	kill(t, k.root(), unix.SIGKILL)
	<-k.done
	halt(t, stopped.root())
	for range 2 {
		time.Sleep(500 * time.Millisecond)
		for _, pid := range append(workers, stopped.root()) {
			if s, ok := statOf(pid); !ok || s.state != 'T' {
				t.Errorf("process %d is there: %t, %c", pid, ok, s.state)
			}
		}
		r.killed()
		r.start()
	}
	kill(t, stopped.root(), unix.SIGCONT)
	stopped.trains()
	stopped.finish()
	for _, pid := range workers {
		kill(t, pid, unix.SIGKILL)
	}
	eventually(t, patience, "nobody is left", r.empty)
}
