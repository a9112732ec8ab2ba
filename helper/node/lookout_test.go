package node_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/node"
	"github.com/gimbal-hpc/gimbal/helper/proc"
)

// freezable moves a process into a v1 freezer directory as Slurm makes them for
// a step. It skips where this host has none.
func freezable(t *testing.T, id proc.ID) (dir string) {
	t.Helper()
	top := fmt.Sprintf("/sys/fs/cgroup/freezer/slurm_gimbal_node_%d", os.Getpid())
	dir = filepath.Join(top, "uid_0/job_1/step_0")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Skip("SKIPPED: no writable cgroup v1 freezer:", err)
	}
	put(t, filepath.Join(dir, "cgroup.procs"), fmt.Sprint(id.PID))
	t.Cleanup(func() {
		put(t, filepath.Join(dir, "freezer.state"), "THAWED")
		eventually(t, "the cgroups to be removed", func() bool {
			inside, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
			for _, word := range strings.Fields(string(inside)) { // its children too
				if pid, err := strconv.Atoi(word); err == nil {
					_ = unix.Kill(pid, unix.SIGKILL)
				}
			}
			for _, below := range []string{"uid_0/job_1/step_0", "uid_0/job_1", "uid_0", ""} {
				_ = unix.Rmdir(filepath.Join(top, below))
			}
			_, err := os.Stat(top)
			return os.IsNotExist(err)
		})
	})
	return dir
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0); err != nil {
		t.Fatal(err)
	}
}

func TestAnothersFreezeIsSeenOnce(t *testing.T) {
	s := newStage(t)
	k := launch(t, "sleep 1000; true")
	dir := freezable(t, k.id)
	s.register(1, k.id)
	for round := 1; round <= 2; round++ {
		put(t, filepath.Join(dir, "freezer.state"), "FROZEN")
		eventually(t, "the freeze to be said", func() bool { return count(s.events(), model.EvSuspended) == round })
		put(t, filepath.Join(dir, "freezer.state"), "THAWED")
		eventually(t, "the thaw to be said", func() bool { return count(s.events(), model.EvUnstopped) == round })
	}
	if ev := s.await(model.EvSuspended, 0); ev.Text != "frozen" {
		t.Errorf("said %q", ev.Text)
	}
	if n := count(s.events(), model.EvSuspended); n != 2 {
		t.Errorf("two freezes were said %d times", n)
	}
}

// TestAFreezeInsideEndsWithTheJob: a cgroup inside a task's that somebody else froze
// is said, and is left so by a pause and a resume; but what is killed in it does not
// wait for him, whether the task itself has ended or not.
func TestAFreezeInsideEndsWithTheJob(t *testing.T) {
	for _, first := range []string{"inside", "task"} {
		t.Run(first, func(t *testing.T) {
			s := newStage(t)
			k := launch(t, "sleep 1000 & echo $!; wait")
			child := k.child(t)
			dir := freezable(t, k.id)
			id := s.register(1, k.id)
			box := filepath.Join(dir, "box")
			if err := os.Mkdir(box, 0o755); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				put(t, filepath.Join(box, "freezer.state"), "THAWED")
				_ = unix.Kill(child.PID, unix.SIGKILL)
				eventually(t, "the box to be removed", func() bool { return unix.Rmdir(box) == nil })
			})
			put(t, filepath.Join(box, "cgroup.procs"), fmt.Sprint(child.PID))
			put(t, filepath.Join(box, "freezer.state"), "FROZEN")
			if ev := s.await(model.EvSuspended, 0); ev.Text != "frozen" {
				t.Errorf("said %q", ev.Text)
			}
			s.do(model.PrimPause, id)
			s.do(model.PrimResume, id)
			if text, err := os.ReadFile(filepath.Join(box, "freezer.state")); err != nil || string(text) == "THAWED\n" {
				t.Errorf("the box is %s (%v)", text, err)
			}
			kills := []int{child.PID, k.id.PID}
			if first == "task" {
				kills = []int{k.id.PID, child.PID}
			}
			for _, pid := range kills {
				if err := unix.Kill(pid, unix.SIGKILL); err != nil && err != unix.ESRCH {
					t.Fatal(err)
				}
				eventually(t, "the kill", func() bool { return s.n.Host.Look(proc.ID{PID: pid, Start: startOf(pid)}) == proc.ConditionGone })
			}
		})
	}
}

// startOf is the start time of whoever has this pid, 1 if nobody.
func startOf(pid int) uint64 {
	id, err := proc.Host{}.Identify(pid)
	if err != nil {
		return 1
	}
	return id.Start
}

// TestFilesOfATenantAreClosed: what is kept open of a process is not kept open
// when its tenant is gone.
func TestFilesOfATenantAreClosed(t *testing.T) {
	s := newStage(t, func(p *node.Parts) { p.Every = time.Second }) // no look sees the end
	k := launch(t, "sleep 1000; true")
	s.register(1, k.id)
	stat := fmt.Sprintf("/proc/%d/", k.id.PID)
	eventually(t, "a file of the process to be open", func() bool { return opened(t, stat) > 0 })
	_ = unix.Kill(-k.id.PID, unix.SIGKILL)
	s.await(model.EvEnded, 0)
	eventually(t, "its files to be closed", func() bool { return opened(t, stat) == 0 })
}

// opened counts the files of this process below a path.
func opened(t *testing.T, below string) (n int) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasPrefix(to, below) {
			n++
		}
	}
	return n
}
