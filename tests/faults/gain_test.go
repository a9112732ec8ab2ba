package faults

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// quickTurns lets one tenant compute at a time.
const quickTurns = `
name = "test"
objective = "one at a time, in turn"
[share]
together = 1
quantum = "1s"
[limits]
min_run = "0s"
launch_grace = "2s"
`

// TestContinuingGainsNothing: whoever continues the own job again and again, while
// it is paused for its mate, does not get further than that by it.
func TestContinuingGainsNothing(t *testing.T) {
	r := newRig(t, setting{policy: quickTurns})
	r.start()
	honest := r.launch("2GiB", trainer)
	cheat := r.launch("2GiB", trainer)
	for _, k := range []*task{honest, cheat} {
		k.trains()
	}
	pids := cheat.pids()
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
			for _, pid := range pids {
				_ = unix.Kill(pid, unix.SIGCONT)
			}
		}
	}()
	getsOn := func(far int) {
		from := honest.iterations()
		eventually(t, 3*patience, "the honest one gets on", func() bool { return honest.iterations() > from+far })
	}
	getsOn(400) // until then it is given the benefit of the doubt, and its first turns
	a, b := honest.iterations(), cheat.iterations()
	getsOn(1000)
	close(stop)
	<-done
	a, b = honest.iterations()-a, cheat.iterations()-b
	t.Logf("the honest job did %d iterations, the other %d", a, b)
	if b > 2*a {
		t.Errorf("the honest job did %d iterations, the one that continues itself %d", a, b)
	}
	r.await(cheat, model.Paused)
	r.finishAll()
}
