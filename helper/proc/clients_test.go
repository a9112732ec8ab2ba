package proc

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// program copies sleep under a name of one's own, as if a package had installed
// it, or a user.
func program(t *testing.T, name string, uid int) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: needs root")
	}
	from, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, data, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(file, uid, uid); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestSlurmsProgramsAreNeverStopped(t *testing.T) {
	for _, c := range []struct {
		name  string
		uid   int
		spare bool
	}{
		{"srun", 0, true},
		{"slurmstepd", 0, true},
		{"squeue", 64, true},   // of the account slurm
		{"srun", 4711, false},  // a user's own program of that name
		{"srunner", 0, false},  // another name
		{"python3", 0, false},  // another name
		{"sattach", 999, true}, // the last of the system's accounts
	} {
		t.Run(c.name, func(t *testing.T) {
			file := program(t, c.name, c.uid)
			for _, tr := range []*Tracker{tracked(t, Host{}, nil), scanning(t)} {
				l := launch(t, file+` 1000 & echo $!; wait`)
				watch(t, tr, l.id)
				l.run(t)
				child := l.pid(t)
				eventually(t, "the exec", func() bool {
					target, _ := os.Readlink(Host{}.path(child.PID, "exe"))
					return target == file
				})
				p := pause(t, tr, Target{Roots: []ID{l.id}})
				if slices.Contains(p.Spared, child) != c.spare || (state(t, child) == 'T') == c.spare {
					t.Errorf("process is %c, paused %+v", state(t, child), p)
				}
				n, err := tr.host.Terminate([]ID{child})
				if err != nil || slices.Contains(n.Deaf, child) != c.spare {
					t.Errorf("terminate: %+v, %v", n, err)
				}
			}
		})
	}
}

// The children of an srun are stopped, though it is not.
func TestChildrenOfASlurmClientAreStopped(t *testing.T) {
	srun := shellAs(t, "srun")
	for _, tr := range []*Tracker{tracked(t, Host{}, nil), scanning(t)} {
		l := launch(t, srun+` -c 'echo $$; sleep 1000 & echo $!; wait'; wait`)
		watch(t, tr, l.id)
		l.run(t)
		client, child := l.pid(t), l.pid(t)
		eventually(t, "the exec", func() bool {
			comm, _ := Host{}.readAll(child.PID, "comm")
			return string(comm) == "sleep\n"
		})
		p := pause(t, tr, Target{Roots: []ID{l.id}})
		if state(t, client) == 'T' || state(t, child) != 'T' || state(t, l.id) != 'T' {
			t.Errorf("client %c, its child %c, root %c: %+v", state(t, client), state(t, child), state(t, l.id), p)
		}
		if _, err := tr.host.Resume(p.Stopped); err != nil {
			t.Fatal(err)
		}
	}
}
