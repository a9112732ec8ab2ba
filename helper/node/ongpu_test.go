package node_test

import (
	"testing"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/proc"
)

// onGPU has the driver show these processes on the first GPU, and waits until that has
// been looked at.
func (s *stage) onGPU(ids ...proc.ID) {
	s.t.Helper()
	var list []model.GPUProc
	for _, id := range ids {
		list = append(list, model.GPUProc{PID: id.PID, Memory: model.Known(model.GiB)})
	}
	s.gpus.set(model.GPUReport{GPUs: []model.GPU{{UUID: "GPU-0", Procs: model.Known(list)}}})
	s.looks(2)
}

// TestTheShellOfAnInteractiveStepIsSpared: of an interactive step only what is on the
// GPU is stopped; and what reaches it while the step is stopped, or held, is stopped
// then.
func TestTheShellOfAnInteractiveStepIsSpared(t *testing.T) {
	for _, how := range []model.Primitive{model.PrimPause, model.PrimHold} {
		t.Run(string(how), func(t *testing.T) {
			s := newStage(t)
			k := launch(t, "for i in 1 2 3; do sleep 1000 & echo $!; done; wait")
			editor, first, second := k.child(t), k.child(t), k.child(t)
			id := s.registerAs(model.Registration{JobID: 1, Proc: model.ProcID(k.id), PTY: true})
			s.onGPU(first)
			s.mustDo(how, id)
			wantAll(t, proc.ConditionStopped, first)
			wantAll(t, proc.ConditionRunning, k.id, editor, second)
			s.onGPU(first, second)
			wantAll(t, proc.ConditionStopped, first, second)
			wantAll(t, proc.ConditionRunning, k.id, editor)
			if written := s.stops.of(id); !written[model.ProcID(first)] || !written[model.ProcID(second)] || len(s.stops.early) > 0 {
				t.Errorf("written down is %v, too late %v", written, s.stops.early)
			}
			s.mustDo(model.PrimResume, id)
			wantAll(t, proc.ConditionRunning, k.id, editor, first, second)
			s.looks(5)
			wantAll(t, proc.ConditionRunning, first, second)
		})
	}
}

// TestWhatReachesTheGPULateAndCannotBeStopped: then the whole tenant runs, and that is
// told.
func TestWhatReachesTheGPULateAndCannotBeStopped(t *testing.T) {
	s := newStage(t)
	k := launch(t, "for i in 1 2; do sleep 1000 & echo $!; done; wait")
	first, second := k.child(t), k.child(t)
	id := s.registerAs(model.Registration{JobID: 1, Proc: model.ProcID(k.id), PTY: true})
	s.onGPU(first)
	s.mustDo(model.PrimPause, id)
	s.stops.fail(errFull, nil)
	s.onGPU(first, second)
	if ev := s.await(model.EvContinued, 0); ev.Tenant != id {
		t.Errorf("%+v", ev)
	}
	wantAll(t, proc.ConditionRunning, k.id, first, second)
}

// TestUnreadProcessesAreStillOnTheGPU: where the driver does not list a GPU's processes
// those count as being on it that were there.
func TestUnreadProcessesAreStillOnTheGPU(t *testing.T) {
	s := newStage(t)
	k := launch(t, "sleep 1000 & echo $!; wait")
	trainer := k.child(t)
	id := s.registerAs(model.Registration{JobID: 1, Proc: model.ProcID(k.id), PTY: true})
	s.onGPU(trainer)
	s.gpus.set(model.GPUReport{GPUs: []model.GPU{{UUID: "GPU-0"}}})
	s.looks(2)
	s.mustDo(model.PrimPause, id)
	wantAll(t, proc.ConditionStopped, trainer)
	wantAll(t, proc.ConditionRunning, k.id)
}

// TestASiblingOfATask: what is on the GPU and slurmstepd's own child belongs to the
// tenant of the step, with what it starts; unless it runs as somebody else, or its
// slurmstepd is none of the tenant's.
func TestASiblingOfATask(t *testing.T) {
	s := newStage(t)
	const script = "for i in 1 2; do sh -c 'echo $$; sleep 1000 & echo $!; wait'& sleep 0.2; done; sleep 1000 & echo $!; wait"
	daemon, other := launchBy(t, stepd(t), script), launchBy(t, stepd(t), script)
	task, below, sibling, worker := daemon.child(t), daemon.child(t), daemon.child(t), daemon.child(t)
	stranger := other.child(t)
	id := s.registerAs(model.Registration{JobID: 1, Proc: model.ProcID(task), Stepd: model.ProcID(daemon.id)})
	theirs := s.registerAs(model.Registration{JobID: 2, UID: 4711, Proc: model.ProcID(other.child(t)), Stepd: model.ProcID(other.id)})
	s.onGPU(task, worker, stranger)
	s.mustDo(model.PrimPause, id)
	wantAll(t, proc.ConditionStopped, task, below, sibling, worker)
	s.mustDo(model.PrimPause, theirs)
	wantAll(t, proc.ConditionRunning, daemon.id, stranger)
	s.mustDo(model.PrimResume, id)
	wantAll(t, proc.ConditionRunning, task, below, sibling, worker)
}
