package proc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// parent changes the parent of a process of a fake tree.
func (f *fake) parent(id ID, ppid int) {
	f.t.Helper()
	path := filepath.Join(f.ProcRoot, fmt.Sprint(id.PID), "stat")
	text, err := os.ReadFile(path)
	if err != nil {
		f.t.Fatal(err)
	}
	head, tail, _ := strings.Cut(string(text), ") S ")
	_, rest, _ := strings.Cut(tail, " ")
	f.file(path, fmt.Sprintf("%s) S %d %s", head, ppid, rest))
}

func TestOrigin(t *testing.T) {
	const none = "0::/user.slice\n"
	f := newFake(t)
	f.process(90, 0, "slurmstepd", "0::/system.slice/slurmd.service\n")
	f.file(filepath.Join(f.ProcRoot, "90", "cmdline"), "slurmstepd: [7.batch]\x00\x00")
	f.process(92, 0, "slurmstepd", "0::/system.slice/slurmd.service\n")
	f.process(93, 1000, "slurmstepd", none) // that a user runs
	f.file(filepath.Join(f.ProcRoot, "93", "cmdline"), "slurmstepd: [8.batch]\x00\x00")
	f.process(91, 1000, "bash", none)
	for i, c := range []struct {
		name   string
		uid    int
		parent int
		cgroup string
		want   Origin
		job    uint32
	}{
		{"login", 1000, 91, none, OriginOther, 0},
		{"service", 0, 1, "0::/system.slice/x.service\n", OriginOther, 0},
		{"orphan", 1000, 1, none, OriginOrphan, 0},
		{"orphan in a job", 1000, 1, "0::/system.slice/slurmstepd.scope/job_5/step_0/user/task_0\n", OriginJob, 5},
		{"a job called otherwise", 1000, 1, "0::/system.slice/slurmstepd.scope/sQk3/step_0/user/task_0\n", OriginJob, 0},
		{"extern step", 1000, 91, "0::/system.slice/slurmstepd.scope/job_5/step_extern/user/task_special\n", OriginJob, 5},
		{"v1", 1000, 91, "4:freezer:/slurm_n0/uid_1000/job_5/step_0\n", OriginJob, 5},
		{"below slurmstepd", 1000, 90, none, OriginJob, 7},
		{"below one that does not say whose", 1000, 92, none, OriginJob, 0},
		{"below a user's own", 1000, 93, none, OriginOther, 0},
		{"parent that has ended", 1000, 4000, none, OriginOther, 0},
	} {
		id := f.process(100+i, c.uid, "python", c.cgroup)
		f.parent(id, c.parent)
		if got, job, err := f.Origin(id); err != nil || got != c.want || job != c.job {
			t.Errorf("%s: %d of job %d, %v, want %d of %d", c.name, got, job, err, c.want, c.job)
		}
	}
	if _, _, err := f.Origin(ID{PID: 100, Start: 1}); !errors.Is(err, ErrGone) {
		t.Errorf("of another process of that pid: %v", err)
	}
}
