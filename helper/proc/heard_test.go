package proc

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestHeard: what waits for a stopped process counts where it acts on it, and the kernel
// counts it with all that waits for the user's.
func TestHeard(t *testing.T) {
	tr := tracked(t, Host{}, nil)
	l := launchAs(t, `trap : USR1; echo $$; while :; do read x; done`, asUser(4712))
	watch(t, tr, l.id)
	l.run(t)
	l.pid(t)
	pause(t, tr, Target{Roots: []ID{l.id}})
	other := ID{PID: l.id.PID, Start: l.id.Start - 1}
	for _, c := range []struct {
		send unix.Signal
		want SigSet
	}{
		{unix.SIGUSR2, 0}, // it would end it
		{unix.SIGUSR1, Signals(unix.SIGUSR1)},
	} {
		before, err := tr.host.Status(l.id)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Kill(l.id.PID, c.send); err != nil {
			t.Fatal(err)
		}
		after, err := tr.host.Status(l.id)
		if err != nil || after.Queued != before.Queued+1 {
			t.Errorf("%d signals wait for the user's processes, then %d (%v)", before.Queued, after.Queued, err)
		}
		if got := tr.host.Heard(l.id, 0, true); got != c.want {
			t.Errorf("after %v: heard %v, want %v", c.send, got, c.want)
		}
	}
	if got := tr.host.Heard(l.id, 0, false) | tr.host.Heard(other, 0, true); got != 0 {
		t.Errorf("heard %v of a stop that is not ours, or of another process", got)
	}
}
