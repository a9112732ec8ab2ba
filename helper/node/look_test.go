package node_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/proc"
)

func TestUseIsAttributed(t *testing.T) {
	s := newStage(t)
	k := launch(t, family)
	child := k.child(t)
	k.child(t)
	id := s.register(1, k.id)
	other := launchBy(t, stepd(t), "sleep 1000 & echo $!; wait").child(t) // of a job that is not packed
	s.gpus.set(model.GPUReport{GPUs: []model.GPU{{UUID: "GPU-0", Used: model.Known(9 * model.GiB),
		Procs: model.Known([]model.GPUProc{{PID: child.PID, Memory: model.Known(6 * model.GiB)}, {PID: 1, Memory: model.Known(model.GiB)},
			{PID: other.PID, Memory: model.Known(model.GiB)}})},
		{UUID: "GPU-2"}, // whose processes cannot be listed
		{UUID: "GPU-1", Used: model.Known(2 * model.GiB), // which the tenant was not given
			Procs: model.Known([]model.GPUProc{{PID: child.PID, Memory: model.Known(2 * model.GiB)}})}}})
	eventually(t, "the tenant's use", func() bool {
		sample := s.n.Sample(0)
		for _, ts := range sample.Tenants {
			if m, _ := ts.Use["GPU-0"].Memory.Get(); ts.Tenant == id && m == 6*model.GiB {
				f, ok := sample.Foreign["GPU-0"].Get()
				if !ok || f != 3*model.GiB || !ts.Busy || ts.Procs != 4 {
					t.Fatalf("foreign %s (known %t), busy %t, %d processes", f, ok, ts.Busy, ts.Procs)
				}
				if u := sample.Unmanaged; u["GPU-0"] != model.Known(1) || u["GPU-1"] != model.Known(0) || u["GPU-2"].Known() {
					t.Fatalf("of jobs that are not packed: %v", u)
				}
				if f, ok := sample.Foreign["GPU-1"].Get(); !ok || f != 2*model.GiB {
					t.Fatalf("foreign of the other GPU: %s (known %t)", f, ok)
				}
				return true
			}
		}
		return false
	})
}

// TestTakesItsTurnsWhereItComputes is SH-05: CUDA makes of a job's number another GPU
// than Slurm meant. Once the driver shows the job on that for a while, and on none that
// it was given, it is its; one that computes on both keeps what it was given, as does
// one of which that is not known.
func TestTakesItsTurnsWhereItComputes(t *testing.T) {
	s := newStage(t)
	wrong, both := launch(t, "sleep 1000"), launch(t, "sleep 1000 & echo $!; wait")
	second := both.child(t)
	id, other := s.register(1, wrong.id), s.register(2, both.id)
	on := func(uuid string, ids ...proc.ID) model.GPU {
		var list []model.GPUProc
		for _, id := range ids {
			list = append(list, model.GPUProc{PID: id.PID, Memory: model.Known(model.GiB)})
		}
		return model.GPU{UUID: uuid, Used: model.Known(model.Bytes(len(ids)) * model.GiB), Procs: model.Known(list)}
	}
	s.gpus.set(model.GPUReport{GPUs: []model.GPU{{UUID: "GPU-0"}, on("GPU-1", wrong.id, second)}})
	s.looks(20)
	if n := count(s.events(), model.EvMoved); n != 0 {
		t.Fatalf("%d were moved although it is not known who is on their GPU", n)
	}
	s.gpus.set(model.GPUReport{GPUs: []model.GPU{on("GPU-0", both.id), on("GPU-1", wrong.id, second)}})
	ev := s.await(model.EvMoved, 0)
	if ev.Tenant != id || !slices.Equal(ev.Grant.GPUs, []string{"GPU-1"}) {
		t.Fatalf("%s was moved to %v", ev.Tenant, ev.Grant.GPUs)
	}
	s.looks(20)
	if n := count(s.events(), model.EvMoved); n != 1 {
		t.Errorf("%d were moved, %s too", n, other)
	}
	eventually(t, "what it takes there to be its own", func() bool {
		return s.n.Sample(0).Foreign["GPU-1"] == model.Known(model.GiB)
	})
}

// looks waits for so many looks at the driver.
func (s *stage) looks(n time.Duration) {
	s.t.Helper()
	enough := s.gpus.looked() + n
	eventually(s.t, "looks at the driver", func() bool { return s.gpus.looked() >= enough })
}

// TestEndsAreToldOnceAndInOrder registers tasks that end at once, many at a
// time.
func TestEndsAreToldOnceAndInOrder(t *testing.T) {
	s := newStage(t)
	const jobs, tasks = 12, 4
	var all sync.WaitGroup
	for job := range uint32(jobs) {
		for range tasks {
			k := launch(t, "read go")
			all.Go(func() {
				_ = s.n.Register(model.Registration{JobID: job + 1, Proc: model.ProcID(k.id), GPUs: []string{"GPU-0"}})
				_ = k.stdin.Close()
				s.n.StepEnd(model.StepKey{JobID: job + 1})
			})
		}
	}
	all.Wait()
	eventually(t, "all to end", func() bool {
		evs := s.events()
		open := map[model.TenantID]bool{}
		for _, ev := range evs {
			if ev.Kind == model.EvRegistered {
				open[ev.Tenant] = true
			}
		}
		return count(evs, model.EvEnded) >= len(open) && len(open) >= jobs
	})
	checkOrder(t, s.events())
	if s.n.Tracker.Stats().Roots != 0 {
		t.Errorf("%+v are watched of none", s.n.Tracker.Stats())
	}
}

func checkOrder(t *testing.T, evs []model.Event) {
	t.Helper()
	state := map[model.TenantID]string{}
	for _, ev := range evs {
		switch was := state[ev.Tenant]; {
		case was == "ended":
			t.Errorf("%s: %s after its end", ev.Tenant, ev.Kind)
		case was == "" && ev.Kind != model.EvRegistered && ev.Kind != model.EvAdopted:
			t.Errorf("%s: %s before its registration", ev.Tenant, ev.Kind)
		}
		state[ev.Tenant] = "there"
		if ev.Kind == model.EvEnded {
			state[ev.Tenant] = "ended"
		}
	}
}
