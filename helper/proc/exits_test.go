package proc

import (
	"os/exec"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// sleeping starts a process that ends when the test ends it.
func sleeping(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	return cmd
}

// Each end is told once, of a process that is not waited for by its parent too,
// and while somebody waits or before.
func TestExitsTellOfEachEndOnce(t *testing.T) {
	x, err := newExits()
	if err != nil {
		t.Fatal(err)
	}
	var cmds []*exec.Cmd
	var want []int
	for range 2*maxRung + 1 {
		cmd := sleeping(t)
		pidfd, err := x.add(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		defer closeFile(&pidfd)
		cmds, want = append(cmds, cmd), append(want, pidfd)
	}
	told := make(chan int)
	done := make(chan struct{})
	go func() {
		var room []int
		for {
			ended, err := x.wait(room[:0])
			if err != nil {
				close(done)
				return
			}
			for _, pidfd := range ended {
				told <- pidfd
			}
			room = ended
		}
	}()
	var got []int
	hear := func() {
		t.Helper()
		select {
		case pidfd := <-told:
			got = append(got, pidfd)
		case <-time.After(patience):
			t.Fatalf("%d of %d ends were told", len(got), len(want))
		}
	}
	_ = cmds[0].Process.Kill()
	hear()
	for _, cmd := range cmds[1:] {
		_ = cmd.Process.Kill()
	}
	for range cmds[1:] {
		hear()
	}
	x.close()
	select {
	case <-done:
	case pidfd := <-told:
		t.Errorf("the end behind %d was told again", pidfd)
	}
	slices.Sort(got)
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("the ends of %v were told, not of %v", got, want)
	}
}

func TestExitsOfAProcessThatIsGone(t *testing.T) {
	x, err := newExits()
	if err != nil {
		t.Fatal(err)
	}
	defer x.close()
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if fd, err := x.add(cmd.Process.Pid); err == nil {
		t.Errorf("descriptor %d", fd)
	}
}

// A tracker gives the pidfds back, of roots that it forgets and at its end.
func TestTrackerClosesPidfds(t *testing.T) {
	tr := tracked(t, Host{}, nil)
	tr.noConnector = errSilent
	a, b := launch(t, `sleep 1000`), launch(t, `sleep 1000`)
	watch(t, tr, a.id)
	watch(t, tr, b.id)
	fds := []int{tr.trees[a.id].pidfd, tr.trees[b.id].pidfd}
	open := func(fd int) bool { return unix.PidfdSendSignal(fd, 0, nil, 0) == nil }
	if !open(fds[0]) || !open(fds[1]) {
		t.Fatalf("descriptors %v", fds)
	}
	if tr.Unwatch(a.id); open(fds[0]) {
		t.Error("the pidfd of a forgotten root is open")
	}
	if tr.Close(); open(fds[1]) {
		t.Error("a pidfd is open after the end")
	}
}
