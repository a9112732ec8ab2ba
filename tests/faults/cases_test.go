package faults

import (
	"regexp"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/model"
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

// TestTasksStopTogether is MN-05: the tasks of a tenant are stopped within a
// moment of each other, and continued so.
func TestTasksStopTogether(t *testing.T) {
	r := newRig(t, setting{})
	r.start()
	k := r.living(nil)
	for range 7 {
		r.join(k).trains()
	}
	for range 5 {
		r.order(k, model.PrimPause)
		r.await(k, model.Paused)
		r.order(k, "release")
		r.await(k, model.Running)
	}
	var took []time.Duration
	for _, m := range regexp.MustCompile(`processes stopped in (\S+) `).FindAllStringSubmatch(r.log(), -1) {
		d, err := time.ParseDuration(m[1])
		if err != nil {
			t.Fatal(err)
		}
		took = append(took, d)
	}
	slices.Sort(took)
	if len(took) != 5 || took[2] > 200*time.Millisecond {
		t.Errorf("from the first stop to the last, in order: %v", took)
	}
	r.finishAll()
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
