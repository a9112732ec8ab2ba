package proc

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func lookout(t *testing.T, id ID) *Lookout {
	l := Host{}.NewLookout(id)
	t.Cleanup(l.Close)
	return l
}

// within asserts that a lookout says so in so many looks.
func within(t *testing.T, l *Lookout, looks int, quiet bool, what string) {
	t.Helper()
	for range looks {
		if l.Quiet() == quiet {
			return
		}
	}
	t.Errorf("%s: quiet is %t after %d looks", what, !quiet, looks)
}

func TestLookoutSeesAStopAndAnEnd(t *testing.T) {
	l := launch(t, "exec sleep 1000")
	out := lookout(t, l.id)
	within(t, out, 1, true, "asleep")
	_ = unix.Kill(l.id.PID, unix.SIGSTOP)
	eventually(t, "the stop", func() bool { return state(t, l.id) == 'T' })
	within(t, out, 1, false, "stopped")
	_ = unix.Kill(l.id.PID, unix.SIGCONT)
	eventually(t, "it to go on", func() bool { return state(t, l.id) != 'T' })
	within(t, out, 1, true, "continued")
	_ = unix.Kill(l.id.PID, unix.SIGKILL)
	eventually(t, "the end", func() bool { return !Host{}.Alive(l.id) })
	within(t, out, 1, false, "killed")
	within(t, lookout(t, ID{PID: os.Getpid(), Start: 1}), 1, false, "another process")
}

// TestLookoutSeesAFreeze: of the directory itself and of one above, and of
// one that the process was moved to, however it was moved.
func TestLookoutSeesAFreeze(t *testing.T) {
	versions(t, func(t *testing.T, version int) {
		l := launch(t, "exec sleep 1000")
		l.run(t)
		dir := step(t, version, l.id)
		out := lookout(t, l.id)
		within(t, out, 1, true, "running")
		freeze := func(where string, frozen bool) {
			t.Helper()
			f := Freezer{Dir: where, Version: version}
			if err := os.WriteFile(filepath.Join(where, f.file()), []byte(f.value(frozen)), 0); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the kernel to say so", func() bool {
				f, err := Host{}.FreezerOf(l.id)
				s, err2 := Host{}.FreezerState(f)
				return err == nil && err2 == nil && s.Frozen == frozen
			})
		}
		for _, where := range []string{dir.Dir, filepath.Dir(dir.Dir)} {
			freeze(where, true)
			within(t, out, 1, false, "frozen at "+where)
			freeze(where, false)
			within(t, out, 1, true, "thawed at "+where)
		}
		next := filepath.Join(filepath.Dir(dir.Dir), "step_1")
		if version == 2 {
			next = filepath.Join(filepath.Dir(dir.Dir), "task_1")
		}
		if err := os.Mkdir(next, 0o755); err != nil {
			t.Fatal(err)
		}
		move(t, l.id, next)
		freeze(next, true)
		within(t, out, placeEvery, false, "moved, and frozen there")
		freeze(next, false)
		within(t, out, 1, true, "thawed there")
		move(t, l.id, dir.Dir)
		if err := unix.Rmdir(next); err != nil {
			t.Fatal(err)
		}
		freeze(dir.Dir, true)
		within(t, out, 2, false, "moved back, and the other place gone")
		freeze(dir.Dir, false)
	})
}

func TestLookoutGivesItsFilesBack(t *testing.T) {
	l := launch(t, "exec sleep 1000")
	before := openFiles(t)
	out := Host{}.NewLookout(l.id)
	within(t, out, 1, true, "asleep")
	if n := openFiles(t); n <= before {
		t.Errorf("%d files open, %d before: it keeps none open", n, before)
	}
	out.Close()
	if n := openFiles(t); n != before {
		t.Errorf("%d files open, %d before", n, before)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
