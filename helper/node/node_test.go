package node_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/node"
	"github.com/gimbal-hpc/gimbal/helper/proc"
)

// family is a shell with a child and a grandchild, all asleep.
const family = `sleep 1000 & echo $!; sh -c 'sleep 1000 & echo $!; wait' & wait`

func TestPauseAndResumeATree(t *testing.T) {
	s := newStage(t)
	k := launch(t, family)
	all := []proc.ID{k.id, k.child(t), k.child(t)}
	id := s.register(1, k.id)
	s.mustDo(model.PrimPause, id)
	wantAll(t, proc.ConditionStopped, all...)
	written := s.stops.of(id)
	for _, p := range all {
		if !written[model.ProcID(p)] {
			t.Errorf("process %s is stopped and not written down", p)
		}
	}
	if len(s.stops.early) > 0 {
		t.Errorf("stopped before they were written down: %v", s.stops.early)
	}
	s.mustDo(model.PrimResume, id)
	wantAll(t, proc.ConditionRunning, all...)
	if left := s.stops.of(id); len(left) > 0 {
		t.Errorf("still written down: %v", left)
	}
}

func TestHoldWaitsForTheExec(t *testing.T) {
	s := newStage(t)
	k := launchBy(t, stepd(t), "read go; exec sleep 1000")
	id := s.register(1, k.id)
	if ev := s.await(model.EvRegistered, 0); ev.Grant.Late {
		t.Fatal("it counts as started although it is slurmstepd's")
	}
	hold := s.start(model.PrimHold, id)
	for range 20 { // ten looks around: time enough for a hold that does not wait
		if c := look(k.id); c != proc.ConditionRunning {
			t.Fatalf("before its exec it is %s", c)
		}
		time.Sleep(10 * time.Millisecond)
	}
	k.goOn(t)
	if ev := s.await(model.EvDone, 0); ev.Action != hold {
		t.Fatalf("%+v", ev)
	}
	wantAll(t, proc.ConditionStopped, k.id)
	s.mustDo(model.PrimResume, id)
	wantAll(t, proc.ConditionRunning, k.id)
}

func TestALateTaskIsSaid(t *testing.T) {
	s := newStage(t)
	s.register(1, launch(t, "sleep 1000").id)
	if ev := s.await(model.EvRegistered, 0); !ev.Grant.Late {
		t.Error("it runs its program and does not count as late")
	}
}

func TestANewTaskJoinsAStop(t *testing.T) {
	s := newStage(t)
	a := launch(t, "sleep 1000; true")
	id := s.register(1, a.id)
	s.mustDo(model.PrimPause, id)
	b := launchBy(t, stepd(t), "read go; exec sleep 1000")
	if joined := s.register(1, b.id); joined != id {
		t.Fatalf("it joined %s", joined)
	}
	if c := look(b.id); c != proc.ConditionRunning {
		t.Fatalf("before its exec the new task is %s", c)
	}
	b.goOn(t)
	wantAll(t, proc.ConditionStopped, a.id, b.id)
	eventually(t, "it to be written down", func() bool { return s.stops.of(id)[model.ProcID(b.id)] })
	s.mustDo(model.PrimResume, id)
	wantAll(t, proc.ConditionRunning, a.id, b.id)
}

// TestTasksThatComeTogetherJoinAStop: the first that has begun is not stopped before
// the others have, and no stop is given up for them.
func TestTasksThatComeTogetherJoinAStop(t *testing.T) {
	s := newStage(t)
	a := launch(t, "sleep 1000; true")
	id := s.register(1, a.id)
	s.mustDo(model.PrimPause, id)
	b, c := launchBy(t, stepd(t), "read go; exec sleep 1000"), launchBy(t, stepd(t), "read go; exec sleep 1000")
	s.register(1, b.id)
	s.register(1, c.id)
	b.goOn(t)
	time.Sleep(100 * time.Millisecond) // in which the first would be stopped
	wantAll(t, proc.ConditionStopped, a.id)
	c.goOn(t)
	wantAll(t, proc.ConditionStopped, a.id, b.id, c.id)
	for _, ev := range s.events() {
		if ev.Kind == model.EvContinued {
			t.Errorf("given up: %s", ev.Text)
		}
	}
	s.mustDo(model.PrimResume, id)
	wantAll(t, proc.ConditionRunning, a.id, b.id, c.id)
}

// TestANewTaskThatCannotBeStopped: all of a tenant is stopped, or none.
func TestANewTaskThatCannotBeStopped(t *testing.T) {
	s := newStage(t)
	a := launch(t, "sleep 1000; true")
	id := s.register(1, a.id)
	s.mustDo(model.PrimPause, id)
	s.stops.fail(errFull, nil)
	b := launch(t, "sleep 1000; true")
	s.register(1, b.id)
	if ev := s.await(model.EvContinued, 0); !strings.Contains(ev.Text, errFull.Error()) {
		t.Errorf("said %q", ev.Text)
	}
	wantAll(t, proc.ConditionRunning, a.id, b.id)
}

// TestAnothersContinueIsSeen: of whichever process of the tree.
func TestAnothersContinueIsSeen(t *testing.T) {
	for i := range 3 {
		s := newStage(t)
		k := launch(t, family)
		all := []proc.ID{k.id, k.child(t), k.child(t)}
		id := s.register(1, k.id)
		s.mustDo(model.PrimPause, id)
		if err := unix.Kill(all[i].PID, unix.SIGCONT); err != nil {
			t.Fatal(err)
		}
		if ev := s.await(model.EvContinued, 0); ev.Tenant != id {
			t.Errorf("%+v", ev)
		}
		wantAll(t, proc.ConditionRunning, all...)
		if left := s.stops.of(id); len(left) > 0 {
			t.Errorf("still written down: %v", left)
		}
	}
}

func TestAWaitingSignalIsSeenOnce(t *testing.T) {
	s := newStage(t)
	k := launch(t, "trap 'exit 0' TERM; echo $$; read go")
	k.child(t)
	id := s.register(1, k.id)
	s.mustDo(model.PrimPause, id)
	if err := unix.Kill(k.id.PID, unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.await(model.EvSignalled, 0)
	s.mustDo(model.PrimResume, id)
	s.await(model.EvEnded, 0)
	if n := count(s.events(), model.EvSignalled); n != 1 {
		t.Errorf("said %d times", n)
	}
}

func count(evs []model.Event, kind model.EventKind) int {
	n := 0
	for _, ev := range evs {
		if ev.Kind == kind {
			n++
		}
	}
	return n
}

func TestAnothersStopIsSeen(t *testing.T) {
	s := newStage(t)
	k := launch(t, "sleep 1000; true")
	s.register(1, k.id)
	if err := unix.Kill(k.id.PID, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if ev := s.await(model.EvSuspended, 0); ev.Text != "external" {
		t.Errorf("said %q", ev.Text)
	}
	if err := unix.Kill(k.id.PID, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	s.await(model.EvUnstopped, 0)
	if n := count(s.events(), model.EvSuspended); n != 1 {
		t.Errorf("said %d times", n)
	}
}

// TestResumeIsNotOverAnothersStop: what Slurm suspends while it is paused
// stays stopped until Slurm resumes it.
func TestResumeIsNotOverAnothersStop(t *testing.T) {
	s := newStage(t)
	k := launch(t, "sh -c 'sleep 1000; true' & echo $!; wait")
	child := k.child(t)
	waitForChild(t, child, "sleep")
	id := s.register(1, child)
	s.mustDo(model.PrimPause, id)
	if err := unix.Kill(child.PID, unix.SIGTSTP); err != nil {
		t.Fatal(err)
	}
	if ev := s.do(model.PrimResume, id); ev.Kind != model.EvFailed {
		t.Fatalf("resumed over another's stop: %+v", ev)
	}
	s.await(model.EvSuspended, 0)
	if c := look(child); c == proc.ConditionRunning {
		t.Error("it runs")
	}
	if err := unix.Kill(child.PID, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	s.await(model.EvContinued, 0)
	wantAll(t, proc.ConditionRunning, child)
}

// waitForChild waits until a shell has started a program, and is out of the fork
// in which it sleeps without being stopped.
func waitForChild(t *testing.T, of proc.ID, name string) {
	t.Helper()
	eventually(t, name+" is there", func() bool {
		pids, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", of.PID, of.PID))
		if err != nil {
			t.Fatal(err)
		}
		comm, _ := os.ReadFile("/proc/" + strings.TrimSpace(string(pids)) + "/comm")
		return strings.TrimSpace(string(comm)) == name
	})
}

func TestNothingIsStoppedThatCannotBeWrittenDown(t *testing.T) {
	s := newStage(t)
	k := launch(t, "sleep 1000; true")
	id := s.register(1, k.id)
	s.stops.fail(errFull, nil)
	if ev := s.do(model.PrimPause, id); ev.Kind != model.EvFailed {
		t.Fatalf("%+v", ev)
	}
	if c := look(k.id); c != proc.ConditionRunning {
		t.Errorf("it is %s", c)
	}
}

// TestAGuardThatWasFasterUndoesAStop: a guard that took the stop set over
// while the stop was under way has continued what was written down by then.
func TestAGuardThatWasFasterUndoesAStop(t *testing.T) {
	s := newStage(t)
	k := launch(t, family)
	all := []proc.ID{k.id, k.child(t), k.child(t)}
	id := s.register(1, k.id)
	s.stops.fail(nil, errors.New("taken over"))
	if ev := s.do(model.PrimPause, id); ev.Kind != model.EvFailed || !strings.Contains(ev.Text, "undone") {
		t.Fatalf("%+v", ev)
	}
	wantAll(t, proc.ConditionRunning, all...)
	s.stops.fail(nil, nil)
	s.mustDo(model.PrimPause, id)
	wantAll(t, proc.ConditionStopped, all...)
}

// TestAResumeThatFailsForgetsNobody: what could not be continued is tried
// again by the next resume.
func TestAResumeThatFailsForgetsNobody(t *testing.T) {
	kernel := &signaller{}
	s := newStage(t, func(p *node.Parts) { p.Host.Signals = kernel })
	k := launch(t, family)
	all := []proc.ID{k.id, k.child(t), k.child(t)}
	id := s.register(1, k.id)
	s.mustDo(model.PrimPause, id)
	kernel.set(unix.EMFILE)
	if ev := s.do(model.PrimResume, id); ev.Kind != model.EvFailed {
		t.Fatalf("%+v", ev)
	}
	wantAll(t, proc.ConditionStopped, all...)
	if len(s.stops.of(id)) == 0 {
		t.Error("what is stopped is not written down any more")
	}
	kernel.set(nil)
	s.mustDo(model.PrimResume, id)
	wantAll(t, proc.ConditionRunning, all...)
}

func TestReleaseAll(t *testing.T) {
	s := newStage(t)
	var all []proc.ID
	for job := range uint32(3) {
		k := launch(t, "sleep 1000; true")
		all = append(all, k.id)
		id := s.register(job+1, k.id)
		if job < 2 {
			s.mustDo(model.PrimPause, id)
		}
	}
	n, err := s.n.ReleaseAll(func(model.TenantID) bool { return false })
	if n != 2 || err != nil {
		t.Errorf("%d tenants, %v", n, err)
	}
	wantAll(t, proc.ConditionRunning, all...)
}

func TestLeavingDoesNotWaitForAGrace(t *testing.T) {
	s := newStage(t, func(p *node.Parts) { p.EvictGrace = 5 * time.Minute })
	k := launch(t, "trap '' USR1; sleep 1000; true")
	id := s.register(1, k.id)
	s.n.Do(model.Action{ID: 7, Do: model.PrimEvict, Tenant: id}, &model.Tenant{ID: id, Terms: model.Terms{Signal: int(unix.SIGUSR1)}})
	left := make(chan struct{})
	go func() { s.leave(); close(left) }()
	select {
	case <-left:
	case <-time.After(patience):
		t.Error("it waits for the grace of an eviction")
	}
	if len(s.slurm.evicted) > 0 {
		t.Error("the job was handed to Slurm before its grace")
	}
}

func TestEvictHandsTheJobToSlurm(t *testing.T) {
	s := newStage(t)
	k := launch(t, "sleep 1000; true")
	id := s.register(7, k.id)
	s.mustDo(model.PrimPause, id)
	s.start(model.PrimEvict, id)
	eventually(t, "the eviction", func() bool {
		s.slurm.mu.Lock()
		defer s.slurm.mu.Unlock()
		return slices.Equal(s.slurm.evicted, []uint32{7})
	})
	wantAll(t, proc.ConditionRunning, k.id)
}

func TestDegradedIsSaidOnce(t *testing.T) {
	s := newStage(t)
	s.gpus.set(model.GPUReport{Fault: "driver gone"})
	if ev := s.await(model.EvDegraded, 0); ev.Text != "driver gone" {
		t.Errorf("said %q", ev.Text)
	}
	s.gpus.set(model.GPUReport{})
	s.await(model.EvRecovered, 0)
	s.gpus.set(model.GPUReport{Fault: "driver gone"})
	s.await(model.EvDegraded, len(s.events()))
	if n := count(s.events(), model.EvDegraded); n != 2 {
		t.Errorf("said %d times", n)
	}
}

// TestAnOrderOnItsWay: until the engine has taken an order in, it is known to be
// on its way.
func TestAnOrderOnItsWay(t *testing.T) {
	s := newStage(t)
	s.n.Order("1@1", &model.Order{Do: model.PrimPause})
	if !s.n.Ordered("1@1") || s.n.Ordered("2@1") {
		t.Errorf("on their way: %v, %v; want that of the first alone", s.n.Ordered("1@1"), s.n.Ordered("2@1"))
	}
	s.n.Sample(0)
	if s.n.Ordered("1@1") {
		t.Error("the engine took it in, and it is on its way")
	}
}

// TestRegisterNamesTheStep: who reads the log knows steps by their names.
func TestRegisterNamesTheStep(t *testing.T) {
	s := newStage(t)
	for _, c := range []struct {
		proc model.ProcID
		want string
	}{
		{model.ProcID{PID: 1, Start: 5}, "register 7.batch: 1@5 names no process"},
		{model.ProcID{PID: 1 << 22, Start: 5}, "register 7.batch, task 2: watch process 4194304@5: process is gone"},
	} {
		err := s.n.Register(model.Registration{JobID: 7, StepID: model.StepBatch, ArrayTask: model.NoVal, HetOffset: model.NoVal, TaskID: 2, Proc: c.proc})
		if err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}
