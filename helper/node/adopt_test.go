package node_test

import (
	"fmt"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/node"
	"github.com/gimbal-hpc/gimbal/helper/proc"
)

func adoptable(id proc.ID, job uint32) *model.Tenant {
	return &model.Tenant{ID: model.TenantID(fmt.Sprintf("%d@1", job)), State: model.Paused, GPUs: []string{"GPU-0"},
		Reg: model.Registration{JobID: job, Proc: model.ProcID(id)}, Workers: []model.Worker{{Proc: model.ProcID(id)}}}
}

func TestAdopt(t *testing.T) {
	s := newStage(t)
	runs, gone := launch(t, "sleep 1000; true"), launch(t, "true")
	eventually(t, "it to end", func() bool { return look(gone.id) == proc.ConditionGone })
	s.n.Adopt(adoptable(runs.id, 1), nil, nil)
	s.n.Adopt(adoptable(gone.id, 2), nil, nil)
	s.await(model.EvEnded, 0)
	evs := s.events()
	checkOrder(t, evs)
	for _, ev := range evs {
		if ev.Kind == model.EvAdopted && ev.Adopt.State != model.Running {
			t.Errorf("%s was adopted as %s", ev.Tenant, ev.Adopt.State)
		}
	}
	s.mustDo(model.PrimPause, "1@1")
	wantAll(t, proc.ConditionStopped, runs.id)
}

// TestAdoptKnowsShells: which of the steps is interactive outlives the daemon,
// wherever it stands among the steps.
func TestAdoptKnowsShells(t *testing.T) {
	for name, first := range map[string]bool{"first": true, "later": false} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			shell, batch := launch(t, "sleep 1000 & echo $!; wait"), launch(t, "sleep 1000; true")
			child := shell.child(t)
			workers := []model.Worker{{Proc: model.ProcID(shell.id), PTY: true}, {Proc: model.ProcID(batch.id), Step: 1}}
			if !first {
				slices.Reverse(workers)
			}
			tenant := adoptable(proc.ID(workers[0].Proc), 1)
			tenant.Workers = workers
			s.n.Adopt(tenant, nil, nil)
			s.onGPU(child)
			s.mustDo(model.PrimPause, "1@1")
			wantAll(t, proc.ConditionStopped, child, batch.id)
			if c := look(shell.id); c != proc.ConditionRunning {
				t.Errorf("the shell is %s", c)
			}
			s.mustDo(model.PrimResume, "1@1")
		})
	}
}

// TestAdoptKnowsSlurmstepds: a later step that is yet to fork, or is between
// its tasks' ends and its own, keeps the tenant alive.
func TestAdoptKnowsSlurmstepds(t *testing.T) {
	s := newStage(t)
	gone, stepd := launch(t, "true"), launch(t, "sleep 1000; true")
	eventually(t, "it to end", func() bool { return look(gone.id) == proc.ConditionGone })
	tenant := adoptable(gone.id, 1)
	tenant.Workers = append(tenant.Workers, model.Worker{Proc: model.ProcID(gone.id), Step: 1, Stepd: model.ProcID(stepd.id)})
	ended := adoptable(gone.id, 2)
	ended.Workers = []model.Worker{{Proc: model.ProcID(gone.id), Step: 1, Stepd: model.ProcID(stepd.id)}}
	ended.Reg.Proc = model.ProcID{}
	ended.Steps = []model.Step{{ID: 1, Ended: true}}
	s.n.Adopt(tenant, nil, nil)
	s.n.Adopt(ended, nil, nil)
	if ev := s.await(model.EvEnded, 0); ev.Tenant != "2@1" {
		t.Fatalf("%s ended", ev.Tenant)
	}
	before := len(s.events())
	s.n.StepEnd(model.StepKey{JobID: 1, StepID: 1})
	if ev := s.await(model.EvEnded, before); ev.Tenant != "1@1" {
		t.Fatalf("%s ended", ev.Tenant)
	}
}

// TestAdoptHeld: what is held goes on being held, and hears a signal that
// came while there was no daemon.
func TestAdoptHeld(t *testing.T) {
	s := newStage(t)
	k := launch(t, "trap 'exit 0' TERM; echo $$; read go")
	k.child(t)
	for _, sig := range []unix.Signal{unix.SIGSTOP, unix.SIGTERM} {
		if err := unix.Kill(k.id.PID, sig); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it to be stopped", func() bool { return look(k.id) == proc.ConditionStopped })
	}
	was := adoptable(k.id, 1)
	was.Suspended, was.Signalled = "external", "USR1" // as the last daemon saw it
	s.n.Adopt(was, &node.Stop{Tenant: "1@1", Held: true, IDs: []model.ProcID{model.ProcID(k.id)}}, nil)
	if a := s.await(model.EvAdopted, 0).Adopt; a.State != model.Held || a.Suspended != "" || a.Signalled != "" {
		t.Fatalf("adopted as %s, stopped by %q, with %q", a.State, a.Suspended, a.Signalled)
	}
	s.await(model.EvSignalled, 0)
	if c := look(k.id); c != proc.ConditionStopped {
		t.Errorf("it is %s", c)
	}
	s.mustDo(model.PrimResume, "1@1")
	s.await(model.EvEnded, 0)
}
