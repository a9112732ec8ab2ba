package faults

import (
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// TestClockJumps: the wall clock is set forth and back by a second to an hour, under a
// daemon that keeps one tenant paused and another held, and before the next daemon
// comes. Nobody's turn, order or state changes by it, and history has each job once.
func TestClockJumps(t *testing.T) { underBoth(t, testClockJumps) }

func testClockJumps(t *testing.T, slurm bool) {
	r := newRig(t, setting{slurm: slurm})
	r.start()
	var k, first, held *task
	jumps := []time.Duration{time.Second, -time.Second, time.Minute, -time.Minute, time.Hour, -time.Hour}
	injects(t, 3*len(jumps))
	for _, by := range jumps {
		k, first, held = r.atRest(k, first, held)
		r.setClock(by)
		r.wantAtRest(k, first, held)
		r.order(k, "release")
		k.trains()
		r.orderFor(k, model.PrimPause, 3*time.Second)
		r.await(k, model.Paused)
		r.setClock(-by)
		r.await(k, model.Running) // the order lapses in its time
		k.trains()
		k, first, held = r.atRest(k, first, held)
		r.killed()
		r.wantRunning()
		r.setClock(by / 2)
		r.start()
		r.await(k, model.Paused) // the order stands
		r.wantAtRest(k, first, held)
		first.finish()
		held.trains()
		held.finish()
	}
	r.order(k, "release")
	r.await(k, model.Running)
	r.finishAll()
}

// setClock sets the daemon's wall clock forth or back from the machine's.
func (r *rig) setClock(by time.Duration) { r.write("points/clock", by.String()) }

// wantAtRest checks that one tenant is paused, one runs and one is held, and that all
// that is known of them is right.
func (r *rig) wantAtRest(paused, runs, held *task) {
	r.t.Helper()
	r.wantWhole()
	now := r.answer()
	for k, want := range map[*task]model.State{paused: model.Paused, runs: model.Running, held: model.Held} {
		if v := k.in(now); v == nil || v.State != want {
			r.t.Errorf("job %d is not %s: %+v", k.job, want, v)
		}
	}
	runs.trains()
}
