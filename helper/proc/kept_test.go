package proc

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/tests/race"
)

func TestStatusFileFollowsItsProcess(t *testing.T) {
	l := launch(t, `trap : USR1; echo $$; while :; do sleep 0.01; done`)
	l.run(t)
	l.pid(t)
	f, err := Host{}.OpenStatus(l.id)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if st, err := f.Read(); err != nil || st.Still() || !st.Caught.Has(unix.SIGUSR1) {
		t.Errorf("running: %+v, %v", st, err)
	}
	_ = unix.Kill(l.id.PID, unix.SIGSTOP)
	eventually(t, "the stop", func() bool { return state(t, l.id) == 'T' })
	_ = unix.Kill(l.id.PID, unix.SIGUSR1)
	if st, err := f.Read(); err != nil || !st.Still() || !st.AllPending().Has(unix.SIGUSR1) {
		t.Errorf("stopped: %+v, %v", st, err)
	}
	_ = unix.Kill(l.id.PID, unix.SIGKILL)
	eventually(t, "the end to be read", func() bool {
		st, err := f.Read()
		return errors.Is(err, ErrGone) || st.Still()
	})
	if _, err := (Host{}).OpenStatus(ID{PID: os.Getpid(), Start: 1}); !errors.Is(err, ErrGone) {
		t.Errorf("another process: %v", err)
	}
}

func TestFreezerFileFollowsItsDirectory(t *testing.T) {
	versions(t, func(t *testing.T, version int) {
		l := launch(t, "exec sleep 1000")
		l.run(t)
		step(t, version, l.id)
		dir, err := Host{}.FreezerOf(l.id)
		if err != nil {
			t.Fatal(err)
		}
		f, err := dir.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for _, want := range []bool{false, true, false} {
			if err := os.WriteFile(filepath.Join(dir.Dir, dir.file()), []byte(dir.value(want)), 0); err != nil {
				t.Fatal(err)
			}
			if got, err := f.Asked(); err != nil || got != want {
				t.Errorf("asked to freeze is %t, %v: want %t", got, err, want)
			}
		}
		other := dir
		other.Inode++
		if _, err := other.Open(); !errors.Is(err, ErrGone) {
			t.Errorf("another directory: %v", err)
		}
	})
}

// What is done for each process again and again leaves nothing for the garbage
// collector: its buffers stay on the stack.
func TestLooksAllocateNothing(t *testing.T) {
	if race.Enabled {
		t.Skip("SKIPPED: under the race detector what is read escapes to the heap")
	}
	l := launch(t, "exec sleep 1000")
	l.run(t)
	h := Host{}
	f, err := h.OpenStatus(l.id)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := lookout(t, l.id)
	out.Quiet() // opens its files
	for name, look := range map[string]func(){
		"a lookout":     func() { out.thawed(); out.runs(); out.looks = 0 },
		"a status file": func() { _, _ = f.Read() },
	} {
		if n := testing.AllocsPerRun(100, look); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	const path = 3 // for the name of the file to open
	for name, look := range map[string]func(){
		"a look":   func() { h.Look(l.id) },
		"a status": func() { _, _ = h.status(l.id.PID) },
	} {
		if n := testing.AllocsPerRun(100, look); n > path {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
