package node_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/node"
	"github.com/gimbal-hpc/gimbal/helper/proc"
)

// byFreezer is a stage whose tenants are paused by the freezer, with one in it that
// catches SIGTERM.
func byFreezer(t *testing.T) (s *stage, k *task, dir string, id model.TenantID) {
	s = newStage(t, func(p *node.Parts) { p.Freezer = true })
	k = launch(t, "trap 'exit 0' TERM; echo $$; read go")
	k.child(t)
	dir = freezable(t, k.id)
	id = s.register(1, k.id)
	s.mustDo(model.PrimPause, id)
	return s, k, dir, id
}

func TestAnothersThawIsSeen(t *testing.T) {
	s, k, dir, id := byFreezer(t)
	put(t, filepath.Join(dir, "freezer.state"), "THAWED")
	if ev := s.await(model.EvContinued, 0); ev.Tenant != id {
		t.Errorf("%+v", ev)
	}
	wantAll(t, proc.ConditionRunning, k.id)
}

// TestASignalForAFrozenTenantIsSeen: and the files that were kept open to see it are
// closed when nothing is stopped any more.
func TestASignalForAFrozenTenantIsSeen(t *testing.T) {
	s, k, dir, id := byFreezer(t)
	files := func() int {
		return opened(t, filepath.Join(dir, "freezer.self_freezing")) + opened(t, fmt.Sprintf("/proc/%d/status", k.id.PID))
	}
	eventually(t, "the files to be open", func() bool { return files() == 2 })
	if err := unix.Kill(k.id.PID, unix.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if ev := s.await(model.EvSignalled, 0); ev.Tenant != id || ev.Text != "SIGUSR1" {
		t.Errorf("%+v", ev)
	}
	s.mustDo(model.PrimResume, id)
	eventually(t, "the files to be closed", func() bool { return files() == 0 })
}

// TestASignalForOneOfManyIsSeen: whichever of a tenant's processes catches it, by pause
// of either kind.
func TestASignalForOneOfManyIsSeen(t *testing.T) {
	const many = 60
	for _, freezer := range []bool{false, true} {
		t.Run(fmt.Sprintf("freezer %t", freezer), func(t *testing.T) {
			s := newStage(t, func(p *node.Parts) { p.Freezer, p.StopTimeout = freezer, patience })
			fifo := filepath.Join(t.TempDir(), "fifo")
			if err := unix.Mkfifo(fifo, 0o600); err != nil {
				t.Fatal(err)
			}
			k := launch(t, fmt.Sprintf(`i=0; while [ $i -lt %d ]; do sh -c 'trap : USR1; echo $$; while :; do read x <>%s; done' & i=$((i+1)); done; wait`, many, fifo))
			var all []proc.ID
			for range many {
				all = append(all, k.child(t))
			}
			if freezer {
				dir := freezable(t, k.id)
				for _, id := range all {
					put(t, filepath.Join(dir, "cgroup.procs"), fmt.Sprint(id.PID))
				}
			}
			id := s.register(1, k.id)
			for i := 0; i < many; i += many / 6 {
				s.mustDo(model.PrimPause, id)
				before := len(s.events())
				if err := unix.Kill(all[i].PID, unix.SIGUSR1); err != nil {
					t.Fatal(err)
				}
				if ev := s.await(model.EvSignalled, before); ev.Tenant != id || ev.Text != "SIGUSR1" {
					t.Errorf("%+v", ev)
				}
				s.mustDo(model.PrimResume, id)
			}
		})
	}
}

// TestOneOfVeryManyContinuedIsSeen: whoever it is, its turn to be looked at comes.
func TestOneOfVeryManyContinuedIsSeen(t *testing.T) {
	s := newStage(t, func(p *node.Parts) { p.StopTimeout = patience })
	k := launch(t, "i=0; while [ $i -lt 520 ]; do sleep 1000 & i=$((i+1)); done; sleep 1000 & echo $!; wait")
	last := k.child(t)
	id := s.register(1, k.id)
	s.mustDo(model.PrimPause, id)
	if err := unix.Kill(last.PID, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if ev := s.await(model.EvContinued, 0); ev.Tenant != id {
		t.Errorf("%+v", ev)
	}
	wantAll(t, proc.ConditionRunning, k.id, last)
}

// TestTheEndOfAPausedTenantClosesItsFiles: nobody continues it first.
func TestTheEndOfAPausedTenantClosesItsFiles(t *testing.T) {
	s := newStage(t)
	k := launch(t, "sleep 1000; true")
	id := s.register(1, k.id)
	s.mustDo(model.PrimPause, id)
	stat := fmt.Sprintf("/proc/%d/status", k.id.PID)
	eventually(t, "its status to be open", func() bool { return opened(t, stat) > 0 })
	_ = unix.Kill(-k.id.PID, unix.SIGKILL)
	s.await(model.EvEnded, 0)
	eventually(t, "it to be closed", func() bool { return opened(t, stat) == 0 })
}

// TestASignalIsSeenInTime: by pause of either kind a signal is seen within 200 ms, also
// by a tenant that comes to it at the worst of moments: nothing was stopped before, so
// that the first look is a whole time after its stop.
func TestASignalIsSeenInTime(t *testing.T) {
	for _, freezer := range []bool{false, true} {
		t.Run(map[bool]string{false: "signals", true: "freezer"}[freezer], func(t *testing.T) {
			const looks, limit, unwatched = 8, 200 * time.Millisecond, 500 * time.Millisecond
			s := newStage(t, func(p *node.Parts) { p.Every, p.Freezer = time.Second, freezer })
			k := launch(t, "trap : USR1; echo $$; while :; do sleep 0.01; done")
			k.child(t)
			if freezer {
				freezable(t, k.id)
			}
			id := s.register(1, k.id)
			best := time.Hour
			for range looks {
				time.Sleep(unwatched)
				s.mustDo(model.PrimPause, id)
				before, begin := len(s.events()), time.Now()
				if err := unix.Kill(k.id.PID, unix.SIGUSR1); err != nil {
					t.Fatal(err)
				}
				s.await(model.EvSignalled, before)
				best = min(best, time.Since(begin))
				s.mustDo(model.PrimResume, id)
			}
			if t.Logf("seen after %v at best", best); best > limit {
				t.Errorf("the signal was seen after %v at best", best)
			}
		})
	}
}
