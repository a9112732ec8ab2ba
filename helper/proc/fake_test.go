package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fake is a host made of files.
type fake struct {
	t *testing.T
	Host
}

func newFake(t *testing.T) *fake {
	dir := t.TempDir()
	f := &fake{t: t, Host: Host{
		ProcRoot: filepath.Join(dir, "proc"), CgroupRoot: filepath.Join(dir, "cgroup"), Signals: &recorder{},
	}}
	f.file(filepath.Join(f.CgroupRoot, "x"), "")
	f.file(filepath.Join(f.ProcRoot, "x"), "")
	return f
}

func (f *fake) file(path, text string) {
	f.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

// process adds a process of a user in some cgroups.
func (f *fake) process(pid, uid int, comm, cgroup string) ID {
	f.t.Helper()
	dir := filepath.Join(f.ProcRoot, fmt.Sprint(pid))
	stat := strings.Replace(statTail, " 3 0 69413 ", " 1 0 69413 ", 1)
	f.file(filepath.Join(dir, "stat"), fmt.Sprintf("%d (%s) S%s0\n", pid, comm, stat))
	f.file(filepath.Join(dir, "status"), strings.Replace(statusText, "1001", fmt.Sprint(uid), 1))
	f.file(filepath.Join(dir, "cgroup"), cgroup)
	f.file(filepath.Join(dir, "task", fmt.Sprint(pid), "children"), "")
	return ID{PID: pid, Start: 69413}
}

// dirV1 adds a directory of the v1 freezer with these processes.
func (f *fake) dirV1(path string, pids ...int) string {
	f.t.Helper()
	f.file(filepath.Join(f.CgroupRoot, "freezer", "cgroup.procs"), "")
	dir := filepath.Join(f.CgroupRoot, "freezer", path)
	f.file(filepath.Join(dir, "cgroup.procs"), lines(pids))
	f.file(filepath.Join(dir, "freezer.state"), "THAWED\n")
	f.file(filepath.Join(dir, "freezer.self_freezing"), "0\n")
	f.file(filepath.Join(dir, "freezer.parent_freezing"), "0\n")
	return dir
}

// dirV2 adds a directory below the v2 mount point with these processes.
func (f *fake) dirV2(mount, path string, pids ...int) string {
	f.t.Helper()
	f.file(filepath.Join(f.CgroupRoot, mount, "cgroup.controllers"), "")
	dir := filepath.Join(f.CgroupRoot, mount, path)
	f.file(filepath.Join(dir, "cgroup.procs"), lines(pids))
	f.file(filepath.Join(dir, "cgroup.freeze"), "0\n")
	f.file(filepath.Join(dir, "cgroup.events"), "populated 1\nfrozen 0\n")
	return dir
}

func lines(pids []int) string {
	var b strings.Builder
	for _, pid := range pids {
		fmt.Fprintln(&b, pid)
	}
	return b.String()
}

func (f *fake) text(dir, name string) string {
	f.t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		f.t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}
