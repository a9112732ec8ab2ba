package node_test

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/node"
	"github.com/gimbal-hpc/gimbal/helper/proc"
)

// asks lists what Slurm was asked and said of continued tenants.
func (s *stage) asks() (said []string) {
	for _, ev := range s.events() {
		if ev.Kind == model.EvAsked {
			said = append(said, ev.Text)
		}
	}
	return said
}

// stoppedAgain continues a process until that has it stopped again: a SIGCONT that
// comes while it is being stopped is part of that.
func (s *stage) stoppedAgain(id proc.ID) {
	s.t.Helper()
	before := s.stops.count()
	eventually(s.t, "another stop", func() bool {
		send(s.t, id, unix.SIGCONT)
		return s.stops.count() > before
	})
}

// TestSlurmIsAskedAboutAContinuedTenant: it is left alone while Slurm ends it or
// does not say. Once Slurm has said that it does not end it, a user who continues
// it again has it stopped again at once, and Slurm asked at a low rate; until
// Slurm says that it ends it.
func TestSlurmIsAskedAboutAContinuedTenant(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(p *node.Parts) { p.Every = 20 * time.Millisecond })
	s.slurm.answers = []string{"yes", "silence", "no", "no", "yes"}
	k := launch(t, family)
	all := []proc.ID{k.id, k.child(t), k.child(t)}
	id := s.register(1, k.id)
	s.mustDo(model.PrimPause, id)
	send(t, k.id, unix.SIGCONT)
	eventually(t, "three answers", func() bool { return len(s.asks()) == 3 })
	if said := s.asks(); said[0] == "" || said[1] == "" || said[2] != "" {
		t.Errorf("said %q", said)
	}
	wantAll(t, proc.ConditionRunning, all...)

	s.mustDo(model.PrimPause, id)
	for range 3 {
		s.stoppedAgain(k.id)
	}
	eventually(t, "a fourth answer", func() bool { return len(s.asks()) == 4 })
	if n := count(s.events(), model.EvContinued); n != 1 {
		t.Errorf("said %d times that it runs", n)
	}
	send(t, k.id, unix.SIGCONT) // by Slurm, which ends it now
	eventually(t, "a fifth answer", func() bool { return len(s.asks()) >= 5 })
	eventually(t, "it to be let go", func() bool { return count(s.events(), model.EvContinued) == 2 })
	wantAll(t, proc.ConditionRunning, all...)

	s.slurm.mu.Lock()
	defer s.slurm.mu.Unlock()
	for i := 1; i < len(s.slurm.asked); i++ {
		if gap := s.slurm.asked[i].Sub(s.slurm.asked[i-1]); gap < 4900*time.Millisecond {
			t.Errorf("asked after %s again", gap)
		}
	}
}

// TestAHeldTenantIsKeptHeld: it has nothing to lose when somebody continues it,
// and is stopped again as often as that is done; but not once Slurm ends its job.
func TestAHeldTenantIsKeptHeld(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(p *node.Parts) { p.Every = 20 * time.Millisecond })
	k := launch(t, "exec sleep 1000")
	id := s.register(1, k.id)
	s.mustDo(model.PrimHold, id)
	for range 25 { // more often than a command is
		s.stoppedAgain(k.id)
	}
	if n := count(s.events(), model.EvContinued); n != 0 {
		t.Errorf("said %d times that it runs", n)
	}
	s.slurm.say("yes")
	send(t, k.id, unix.SIGCONT)
	s.await(model.EvContinued, 0)
	wantAll(t, proc.ConditionRunning, k.id)
}
