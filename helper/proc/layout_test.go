package proc

import (
	"errors"
	"path/filepath"
	"testing"
)

// The layouts of Slurm's versions, build options and kernel modes.
func TestFreezerOf(t *testing.T) {
	const v1, v2, hybrid = "freezer", "", "unified"
	for _, c := range []struct {
		name   string
		cgroup string // of the task
		mount  string
		want   string // below the mount point; "" for signals
	}{
		{"v1", "6:freezer:/slurm/uid_0/job_5/step_0\n", v1, "slurm/uid_0/job_5/step_0"},
		{"v1, several slurmd", "6:freezer:/slurm_n0/uid_0/job_5/step_batch\n", v1, "slurm_n0/uid_0/job_5/step_batch"},
		{"v1 with a level for tasks", "6:freezer:/slurm/uid_0/job_5/step_0/task_3\n", v1, "slurm/uid_0/job_5/step_0/task_3"},
		{"v1, a container below", "6:freezer:/slurm/uid_0/job_5/step_0/box\n", v1, "slurm/uid_0/job_5/step_0"},
		{"v2", "0::/system.slice/slurmstepd.scope/job_5/step_0/user/task_0\n", v2,
			"system.slice/slurmstepd.scope/job_5/step_0/user/task_0"},
		{"v2, several slurmd", "0::/system.slice/n0_slurmstepd.scope/job_5/step_0/user/task_0\n", v2,
			"system.slice/n0_slurmstepd.scope/job_5/step_0/user/task_0"},
		{"v2, a job of another name", "0::/system.slice/slurmstepd.scope/s0KZ4T5VQ0C00/step_0/user/task_0\n", v2,
			"system.slice/slurmstepd.scope/s0KZ4T5VQ0C00/step_0/user/task_0"},
		{"v2, a cgroup of the job's own below", "0::/system.slice/slurmstepd.scope/job_5/step_0/user/task_0/x/y\n", v2,
			"system.slice/slurmstepd.scope/job_5/step_0/user/task_0"},
		{"hybrid, v1 governs", "6:freezer:/slurm/uid_0/job_5/step_0\n0::/\n", v1, "slurm/uid_0/job_5/step_0"},
		{"hybrid, v2 governs", "6:freezer:/\n0::/system.slice/slurmstepd.scope/job_5/step_0/user/task_0\n", hybrid,
			"system.slice/slurmstepd.scope/job_5/step_0/user/task_0"},
		{"no cgroup of Slurm's", "6:freezer:/\n0::/user.slice/user-0.slice/session-1.scope\n", hybrid, ""},
		{"no cgroup at all", "", v2, ""},
		{"job level, v1", "6:freezer:/slurm/uid_0/job_5\n", v1, ""},
		{"user level, v1", "6:freezer:/slurm/uid_0\n", v1, ""},
		{"root of all jobs, v1", "6:freezer:/slurm\n", v1, ""},
		{"scope of all jobs, v2", "0::/system.slice/slurmstepd.scope\n", v2, ""},
		{"job level, v2", "0::/system.slice/slurmstepd.scope/job_5\n", v2, ""},
		{"step level, v2", "0::/system.slice/slurmstepd.scope/job_5/step_0\n", v2, ""},
		{"slurmstepd's own, v2", "0::/system.slice/slurmstepd.scope/job_5/step_0/slurm\n", v2, ""},
		{"no level for tasks, v2", "0::/system.slice/slurmstepd.scope/job_5/step_0/user\n", v2, ""},
		{"adopted shells, v1", "6:freezer:/slurm/uid_0/job_5/step_extern\n", v1, ""},
		{"adopted shells, v2", "0::/system.slice/slurmstepd.scope/job_5/step_extern/user/task_special\n", v2, ""},
		{"interactive shell", "0::/system.slice/slurmstepd.scope/job_5/step_interactive/user/task_0\n", v2, ""},
		{"another system's steps", "6:freezer:/pbs/job_5/step_0\n", v1, ""},
		{"Slurm's name only at the job", "6:freezer:/x/slurm_5/step_0\n", v1, ""},
		{"a step without a job", "6:freezer:/slurm/step_0\n", v1, ""},
		{"out of the tree", "6:freezer:/slurm/uid_0/job_5/step_0/../../../..\n", v1, ""},
		{"above the tree", "6:freezer:/../slurm/uid_0/job_5/step_0\n", v1, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake(t)
			task := f.process(7, 1001, "train", c.cgroup)
			version := 2
			if c.mount == v1 {
				version = 1
				f.dirV1("slurm")
			} else {
				f.dirV2(c.mount, "system.slice")
			}
			if c.mount == hybrid {
				f.dirV1("slurm")
			}
			if c.want != "" && version == 1 {
				f.dirV1(c.want, 7)
			} else if c.want != "" {
				f.dirV2(c.mount, c.want, 7)
			}
			got, err := f.FreezerOf(task)
			if c.want == "" {
				if !errors.Is(err, ErrNoFreezer) {
					t.Errorf("got %+v, %v", got, err)
				}
				return
			}
			want := filepath.Join(f.CgroupRoot, c.mount, c.want)
			if err != nil || got.Dir != want || got.Version != version || got.Inode == 0 {
				t.Errorf("got %+v, %v, want %s", got, err, want)
			}
		})
	}
}

func TestFreezerOfATaskThatIsGone(t *testing.T) {
	f := newFake(t)
	task := f.process(7, 1001, "train", "6:freezer:/slurm/uid_0/job_5/step_0\n")
	f.dirV1("slurm/uid_0/job_5/step_0", 7)
	for _, id := range []ID{{PID: 8, Start: 1}, {PID: 7, Start: task.Start + 1}} {
		if got, err := f.FreezerOf(id); !errors.Is(err, ErrGone) {
			t.Errorf("process %s: %+v, %v", id, got, err)
		}
	}
}

// A directory in /proc that the cgroup tree has not: another namespace, or a
// step that ended meanwhile.
func TestFreezerOfADirectoryThatIsNotThere(t *testing.T) {
	f := newFake(t)
	task := f.process(7, 1001, "train", "6:freezer:/slurm/uid_0/job_5/step_0\n")
	f.dirV1("slurm")
	if got, err := f.FreezerOf(task); !errors.Is(err, ErrNoFreezer) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestFreezersOf(t *testing.T) {
	f := newFake(t)
	dir := f.dirV1("slurm/uid_0/job_5/step_0", 7, 8)
	other := f.dirV1("slurm/uid_0/job_5/step_1", 9)
	in := func(pid int, where string) ID { return f.process(pid, 1001, "train", "6:freezer:"+where+"\n") }
	a, b := in(7, "/slurm/uid_0/job_5/step_0"), in(8, "/slurm/uid_0/job_5/step_0")
	c, out := in(9, "/slurm/uid_0/job_5/step_1"), in(10, "/")
	gone := ID{PID: 11, Start: 1}
	got, err := f.FreezersOf([]ID{a, gone, b, c})
	if err != nil || len(got) != 2 || got[0].Dir != dir || got[1].Dir != other {
		t.Errorf("%+v, %v", got, err)
	}
	for _, tasks := range [][]ID{{a, out}, {gone}, nil} {
		if got, err := f.FreezersOf(tasks); !errors.Is(err, ErrNoFreezer) {
			t.Errorf("%v: %+v, %v", tasks, got, err)
		}
	}
}
