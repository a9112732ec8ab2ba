package proc

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// TestChildOf: only a child of that very process, of that very user, is one.
func TestChildOf(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	h, uid := Host{}, uint32(os.Getuid())
	self, err := h.Identify(os.Getpid())
	child, err2 := h.Identify(cmd.Process.Pid)
	if errors.Join(err, err2) != nil {
		t.Fatal(err, err2)
	}
	if err := h.ChildOf(child, self, uid); err != nil {
		t.Error(err)
	}
	other := ID{PID: child.PID, Start: child.Start + 1}
	for name, err := range map[string]error{
		"itself":             h.ChildOf(self, self, uid),
		"its own parent":     h.ChildOf(self, child, uid),
		"of another user":    h.ChildOf(child, self, uid+1),
		"with another start": h.ChildOf(other, self, uid),
	} {
		if err == nil {
			t.Errorf("a process is taken for a child: %s", name)
		}
	}
	if !h.OwnedBy(child, uid) || h.OwnedBy(child, uid+1) || h.OwnedBy(other, uid) {
		t.Error("whose it is")
	}
}

// TestPass: a signal reaches exactly the process that is meant.
func TestPass(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h := Host{}
	id, err := h.Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Pass(ID{PID: id.PID, Start: id.Start + 1}, unix.SIGTERM); !errors.Is(err, ErrGone) {
		t.Errorf("to another start time: %v", err)
	}
	if err := h.Pass(id, unix.SIGTERM); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait()
	if ws := cmd.ProcessState.Sys().(interface{ Signal() unix.Signal }); ws.Signal() != unix.SIGTERM {
		t.Errorf("it ended as %v", cmd.ProcessState)
	}
}
