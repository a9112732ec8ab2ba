package node_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/proc"
)

// command registers a process as one that gimbal run started.
func (s *stage) command(n uint32, id proc.ID) model.TenantID {
	s.t.Helper()
	return s.registerAs(model.Registration{JobID: model.RunJob(n), Proc: model.ProcID(id), UID: uint32(os.Getuid())})
}

// count counts what has been written down.
func (b *stopBook) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.puts
}

func send(t *testing.T, id proc.ID, sig unix.Signal) {
	t.Helper()
	if err := unix.Kill(id.PID, sig); err != nil {
		t.Fatal(err)
	}
}

// TestFgDoesNotLetACommandRunOutOfTurn: a command that its shell continued is
// stopped again, however it was found out, and nobody is told that it runs.
func TestFgDoesNotLetACommandRunOutOfTurn(t *testing.T) {
	for name, told := range map[string]bool{"told": true, "found": false} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			k := launch(t, family)
			all := []proc.ID{k.id, k.child(t), k.child(t)}
			id := s.command(1, k.id)
			s.mustDo(model.PrimPause, id)
			for range 3 {
				before := s.stops.count()
				send(t, all[1], unix.SIGCONT)
				eventually(t, "another stop", func() bool {
					if told {
						s.n.RunSeen(model.RunJob(1))
					}
					return s.stops.count() > before
				})
				s.n.RunSeen(model.RunJob(1)) // returns when it is stopped
				for _, one := range all {
					if c := look(one); c != proc.ConditionStopped && !inVfork(one) {
						t.Fatalf("process %s is %s", one, c)
					}
				}
			}
			if n := count(s.events(), model.EvContinued); n > 0 {
				t.Errorf("said %d times that it runs", n)
			}
			s.mustDo(model.PrimResume, id)
			wantAll(t, proc.ConditionRunning, all...)
		})
	}
}

// TestACommandIsNotFoughtOverForEver: who continues it again and again has it
// run.
func TestACommandIsNotFoughtOverForEver(t *testing.T) {
	s := newStage(t)
	k := launch(t, "sleep 1000; true")
	id := s.command(1, k.id)
	s.mustDo(model.PrimPause, id)
	eventually(t, "it to be let go", func() bool {
		_ = unix.Kill(k.id.PID, unix.SIGCONT)
		time.Sleep(time.Millisecond)
		s.n.RunSeen(model.RunJob(1)) // returns when it is stopped
		return count(s.events(), model.EvContinued) == 1
	})
	wantAll(t, proc.ConditionRunning, k.id)
}

// TestAGuardsContinueStands: what a guard continued is not stopped again.
func TestAGuardsContinueStands(t *testing.T) {
	s := newStage(t)
	k := launch(t, "sleep 1000; true")
	id := s.command(1, k.id)
	s.mustDo(model.PrimPause, id)
	s.stops.fail(nil, unix.EPERM) // the stop set is a guard's
	send(t, k.id, unix.SIGCONT)
	s.await(model.EvContinued, 0)
	wantAll(t, proc.ConditionRunning, k.id)
	s.stops.fail(nil, nil)
}

// TestCtrlZStands: what was stopped from a terminal while it was paused stays so
// when its turn comes. Continued by its shell, it waits for its turn anew.
func TestCtrlZStands(t *testing.T) {
	s := newStage(t)
	k := launch(t, "sleep 1000 & echo $!; wait")
	child := k.child(t)
	eventually(t, "its program", func() bool { // while it forks, signals are blocked
		comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", child.PID))
		return string(comm) == "sleep\n"
	})
	id := s.command(1, child)
	s.mustDo(model.PrimPause, id)
	send(t, child, unix.SIGTSTP)
	if ev := s.do(model.PrimResume, id); ev.Kind != model.EvFailed {
		t.Fatalf("its turn undid ^Z: %+v", ev)
	}
	if ev := s.await(model.EvSuspended, 0); ev.Text != "external" {
		t.Errorf("said %q", ev.Text)
	}
	send(t, child, unix.SIGCONT)
	s.n.RunSeen(model.RunJob(1))
	s.await(model.EvUnstopped, 0)
	wantAll(t, proc.ConditionStopped, child)
	s.mustDo(model.PrimResume, id)
	wantAll(t, proc.ConditionRunning, child)
	if n := count(s.events(), model.EvContinued); n > 0 {
		t.Errorf("said %d times that somebody let it run", n)
	}
}

// TestACommandIsEvictedByItself: there is no Slurm to hand it to.
func TestACommandIsEvictedByItself(t *testing.T) {
	s := newStage(t)
	k := launch(t, family)
	for range 2 {
		k.child(t)
	}
	id := s.command(1, k.id)
	s.mustDo(model.PrimPause, id)
	s.start(model.PrimEvict, id)
	s.await(model.EvEnded, 0)
	s.slurm.mu.Lock()
	defer s.slurm.mu.Unlock()
	if len(s.slurm.evicted) > 0 {
		t.Error("Slurm was asked")
	}
}

// TestWhoseCommandsThereAre: they are counted by user, and found by number.
func TestWhoseCommandsThereAre(t *testing.T) {
	s := newStage(t)
	k := launch(t, "sleep 1000; true")
	s.command(7, k.id)
	uid := uint32(os.Getuid())
	if n, taken := s.n.Runs(uid, model.RunJob(7)); n != 1 || !taken {
		t.Errorf("%d, %t", n, taken)
	}
	if n, taken := s.n.Runs(uid+1, model.RunJob(8)); n != 0 || taken {
		t.Errorf("another's: %d, %t", n, taken)
	}
	if _, ok := s.n.RunOf(model.RunJob(8)); ok {
		t.Error("there is no r8")
	}
	if name := s.n.Holder(k.id.PID); name != "r7" {
		t.Errorf("it is part of %q", name)
	}
	if name := s.n.Holder(os.Getpid()); name != "" {
		t.Errorf("the test is part of %q", name)
	}
}
