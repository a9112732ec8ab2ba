package cuda

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// tree writes files under a new folder.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const (
	meminfo = "MemTotal:       65536 kB\nMemFree: 1024 kB\nMemAvailable:    32768 kB\n" // 32 MiB
	v2      = "0::/slurm/job_1/step_0\n"
	v1      = "9:cpuset:/slurm\n4:memory:/slurm/uid_0/job_1\n1:name=systemd:/x\n0::/system.slice/slurmd.service\n"
)

func TestHeadroom(t *testing.T) {
	const none = -1
	for name, c := range map[string]struct {
		cgroup string
		files  map[string]string
		want   model.Bytes // none: an error
		where  string
	}{
		"v2, no limit": {v2, map[string]string{"slurm/job_1/step_0/memory.max": "max\n"}, 32 * model.MiB, "the host"},
		"v2, controller off in the leaf": {v2, map[string]string{"slurm/job_1/step_0/x": "",
			"slurm/job_1/memory.max": "10485760", "slurm/job_1/memory.current": "4194304"}, 6 * model.MiB, "cgroup /slurm/job_1"},
		"v2, the tightest level counts": {v2, map[string]string{
			"slurm/job_1/step_0/memory.max": "10485760", "slurm/job_1/step_0/memory.current": "1048576",
			"slurm/memory.max": "10485760", "slurm/memory.current": "8388608"}, 2 * model.MiB, "cgroup /slurm"},
		"v2, memory.high": {v2, map[string]string{"slurm/job_1/step_0/memory.max": "max", "slurm/job_1/step_0/memory.high": "3145728",
			"slurm/job_1/step_0/memory.current": "1048576"}, 2 * model.MiB, "cgroup /slurm/job_1/step_0"},
		"v2, cache is free": {v2, map[string]string{"slurm/job_1/step_0/memory.max": "3145728", "slurm/job_1/step_0/memory.current": "3145728",
			"slurm/job_1/step_0/memory.stat": "anon 5\ninactive_file 2097152\n"}, 2 * model.MiB, "cgroup /slurm/job_1/step_0"},
		"v2, over its limit": {v2, map[string]string{"slurm/job_1/step_0/memory.max": "1048576", "slurm/job_1/step_0/memory.current": "3145728"}, 0, "cgroup /slurm/job_1/step_0"},
		"v2, no such folder": {v2, map[string]string{"x": ""}, none, ""},
		"v2, no usage":       {v2, map[string]string{"slurm/job_1/step_0/memory.max": "1048576"}, none, ""},
		"v2, malformed":      {v2, map[string]string{"slurm/job_1/step_0/memory.max": "-3"}, none, ""},
		"v1": {v1, map[string]string{
			"memory/slurm/uid_0/job_1/memory.limit_in_bytes": "10485760", "memory/slurm/uid_0/job_1/memory.usage_in_bytes": "10485760",
			"memory/slurm/uid_0/job_1/memory.stat":     "inactive_file 1\ntotal_inactive_file 1048576\n",
			"memory/slurm/uid_0/memory.limit_in_bytes": "9223372036854771712", "memory/slurm/memory.limit_in_bytes": "9223372036854710272",
			"memory/memory.limit_in_bytes": "9223372036854771712"}, model.MiB, "cgroup /slurm/uid_0/job_1"},
		"v1, files missing": {v1, map[string]string{"memory/slurm/uid_0/job_1/x": ""}, none, ""},
		"hybrid, memory in v2": {v2, map[string]string{"unified/slurm/job_1/step_0/memory.max": "1048576",
			"unified/slurm/job_1/step_0/memory.current": "0"}, model.MiB, "cgroup /slurm/job_1/step_0"},
		"outside of the namespace": {"0::/../job_1\n", map[string]string{"memory.max": "max"}, none, ""},
		"no cgroup":                {"", map[string]string{"memory.max": "max"}, none, ""},
	} {
		h := Host{Proc: tree(t, map[string]string{"meminfo": meminfo, "7/cgroup": c.cgroup}), Cgroup: tree(t, c.files)}
		free, where, err := h.Headroom(7)
		if c.want == none {
			if err == nil {
				t.Errorf("%s: %v in %s", name, free, where)
			}
			continue
		}
		if err != nil || free != c.want || where != c.where {
			t.Errorf("%s: %v in %s, %v; expected %v in %s", name, free, where, err, c.want, c.where)
		}
	}
}

func TestRoom(t *testing.T) {
	files := tree(t, map[string]string{"x": ""})
	h := Host{Proc: tree(t, map[string]string{"meminfo": meminfo, "7/cgroup": "0::/\n"}), Cgroup: files, Margin: 2 * model.MiB}
	if err := h.Room(7, 30*model.MiB); err != nil {
		t.Errorf("what fits exactly: %v", err)
	}
	for _, need := range []model.Bytes{30*model.MiB + 1, 1<<63 - 1, -1} {
		if err := h.Room(7, need); !errors.Is(err, ErrNoRoom) {
			t.Errorf("%d bytes: %v", need, err)
		}
	}
	if err := h.Room(8, 1); err == nil || errors.Is(err, ErrNoRoom) {
		t.Errorf("a process that is not there: %v", err)
	}
	h.Proc = tree(t, map[string]string{"7/cgroup": "0::/\n", "meminfo": "MemFree: 9999999 kB\n"})
	if err := h.Room(7, 1); err == nil || errors.Is(err, ErrNoRoom) {
		t.Errorf("unknown counted as room: %v", err)
	}
	h = Host{Proc: tree(t, map[string]string{"meminfo": meminfo, "7/cgroup": "0::/\n"}), Cgroup: files}
	if err := h.Room(7, 1); !errors.Is(err, ErrNoRoom) {
		t.Errorf("the default margin: %v", err)
	}
}

func FuzzHeadroomFiles(f *testing.F) {
	for _, s := range []string{v1, v2, meminfo, "max\n", "0::/..", "0::", ":memory:/a", "9223372036854775807", "-1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if path, _, err := parseCgroup(text); err == nil && (!strings.HasPrefix(path, "/") || strings.Contains(path+"/", "/../")) {
			t.Errorf("%q leads to %q", text, path)
		}
		if v, ok := parseLimit(text); ok && v < 0 {
			t.Errorf("%q: a limit of %d", text, v)
		}
		field([]byte(text), "MemAvailable:")
	})
}
