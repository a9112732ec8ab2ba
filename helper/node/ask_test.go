package node_test

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/node"
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

// TestSlurmIsAskedAboutAContinuedTenant: it is left alone while Slurm ends it or
// does not say; and a user who continues the own job again and again has Slurm
// asked at a low rate, and the job stopped again after each answer.
func TestSlurmIsAskedAboutAContinuedTenant(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(p *node.Parts) { p.Every = 20 * time.Millisecond })
	s.slurm.answers = []string{"yes", "silence"}
	k := launch(t, family)
	k.child(t)
	k.child(t)
	id := s.register(1, k.id)
	s.mustDo(model.PrimPause, id)
	if err := unix.Kill(k.id.PID, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	eventually(t, "three answers", func() bool { return len(s.asks()) == 3 })
	if said := s.asks(); said[0] == "" || said[1] == "" || said[2] != "" {
		t.Errorf("said %q", said)
	}
	for n := 4; n <= 5; n++ {
		s.mustDo(model.PrimPause, id)
		seen := len(s.events())
		if err := unix.Kill(k.id.PID, unix.SIGCONT); err != nil {
			t.Fatal(err)
		}
		s.await(model.EvContinued, seen)
		eventually(t, "another answer", func() bool { return len(s.asks()) == n })
	}
	s.slurm.mu.Lock()
	defer s.slurm.mu.Unlock()
	for i := 1; i < len(s.slurm.asked); i++ {
		if gap := s.slurm.asked[i].Sub(s.slurm.asked[i-1]); gap < 4900*time.Millisecond {
			t.Errorf("asked after %s again", gap)
		}
	}
}
