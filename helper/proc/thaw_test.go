package proc

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// On v1 Slurm's suspend freezes the same directory, after SIGTSTP.
func TestThawLeavesWhatSlurmSuspends(t *testing.T) {
	tr, l, dir := counter(t, 1)
	f, err := tr.Freeze(context.Background(), Target{Roots: []ID{l.id}}, []Freezer{dir}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(l.id.PID, unix.SIGTSTP); err != nil {
		t.Fatal(err)
	}
	r, err := tr.host.Thaw(f.Dirs)
	if err != nil || len(r.Foreign) != 1 || !strings.Contains(r.Foreign[0].Reason, "SIGTSTP") {
		t.Errorf("thawed %+v, %v", r, err)
	}
	if s, err := tr.host.FreezerState(dir); err != nil || !s.Frozen {
		t.Errorf("state %+v, %v", s, err)
	}
}

func TestThawOfADirectoryThatWasMadeAgain(t *testing.T) {
	f := newFake(t)
	dir := f.dirV2("", "system.slice/slurmstepd.scope/job_5/step_0/user/task_0")
	f.file(filepath.Join(dir, "cgroup.freeze"), "1\n")
	for _, old := range []Freezer{{Dir: dir, Version: 2, Inode: 1}, {Dir: dir + "x", Version: 2, Inode: 1}} {
		r, err := f.Thaw([]Freezer{old})
		if err != nil || !slices.Equal(r.Gone, []Freezer{old}) || f.text(dir, "cgroup.freeze") != "1" {
			t.Errorf("thawed %+v, %v", r, err)
		}
		if _, err := f.FreezerState(old); !errors.Is(err, ErrGone) {
			t.Errorf("state: %v", err)
		}
	}
}
