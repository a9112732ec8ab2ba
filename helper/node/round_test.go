package node

import (
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/proc"
)

// watcher is a node that only looks at what is stopped, an hour after it began.
func watcher() *Node {
	return &Node{Parts: Parts{Every: time.Second, Clock: func() time.Duration { return time.Hour }}}
}

// TestWhatIsSeenLateIsChargedWhole: who continues one of very many processes is charged
// for as long as it may have run unseen.
func TestWhatIsSeenLateIsChargedWhole(t *testing.T) {
	for _, c := range []struct {
		procs, looks int
		stilled      time.Duration
		want         time.Duration
	}{
		{1, 8, 0, 8 * watchEvery},
		{8 * maxLooks, 8, 0, 8 * watchEvery},
		{5000, 20, 0, 20 * watchEvery},
		{5000, 20, time.Hour - time.Second, time.Second},
	} {
		e := &entry{stilled: c.stilled, eyes: &vigil{grip: grip{procs: make([]proc.ID, c.procs)}}}
		if got := e.eyes.round(); got != c.looks {
			t.Errorf("%d processes: a round of %d looks, want %d", c.procs, got, c.looks)
		}
		watcher().charge(e)
		if got := time.Duration(e.astray.Load()); got != c.want {
			t.Errorf("%d processes, seen %v ago: charged %v, want %v", c.procs, time.Hour-c.stilled, got, c.want)
		}
	}
}

// TestWhoComputesIsLookedAtInEachCycle: however many others there are.
func TestWhoComputesIsLookedAtInEachCycle(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	id, err := proc.Host{}.Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	n, e := watcher(), &entry{}
	v := &vigil{grip: grip{procs: append(make([]proc.ID, 5000), id)}}
	seen := func() (times int) {
		for range 3 * cycle {
			if v.looks++; v.computes(n, e) {
				times++
			}
		}
		return times
	}
	if got := seen(); got != 0 {
		t.Errorf("seen %d times, though it is on no GPU", got)
	}
	e.onGPU = map[proc.ID]bool{id: true}
	if got := seen(); got != 3 {
		t.Errorf("seen %d times in three cycles", got)
	}
	if err := unix.Kill(id.PID, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); n.Host.Look(id) != proc.ConditionStopped; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not stop")
		}
	}
	if got := seen(); got != 0 {
		t.Errorf("seen %d times, though it is stopped", got)
	}
}
