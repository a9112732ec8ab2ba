package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/wire"
)

// host is a tree in place of /, and answers in place of Slurm's commands.
type host struct {
	t       *testing.T
	dir     string
	answers map[string]string // by command line
	doc     doctor
	out     bytes.Buffer
}

// smiLine is how nvidia-smi is asked.
const smiLine = "nvidia-smi --query-gpu=driver_version,persistence_mode --format=csv,noheader"

// healthyHost is a node with two GPUs on which nothing is wrong, but for a
// gimbald that does not run.
func healthyHost(t *testing.T) *host {
	t.Helper()
	h := &host{t: t, dir: t.TempDir(), answers: map[string]string{
		"slurmd -V": "slurm-wlm 22.05.2\n",
		smiLine:     "575.51.03, Enabled\n575.51.03, Enabled\n",
	}}
	for path, text := range map[string]string{
		"etc/slurm/slurm.conf": "GresTypes=gpu,shard # both\nProctrackType=proctrack/cgroup\nTaskPlugin=task/affinity,task/cgroup\n" +
			"PluginDir=/opt/slurm\nNodeName=DEFAULT Gres=gpu:2,shard:8\nNodeName=m[0-3] CPUs=4 \\\n  RealMemory=100\nNodeName=n[0-3] CPUs=4 NodeHostname=h[0-3]\n",
		"etc/slurm/gres.conf":                    "AutoDetect=off\nNodeName=n[0-1] Name=gpu File=/dev/nvidia[0-1]\nNodeName=x Name=gpu File=/dev/nvidia9\nName=shard Count=8\n",
		"etc/slurm/cgroup.conf":                  "ConstrainDevices=yes\n",
		"etc/slurm/plugstack.conf":               "# nothing\ninclude plugstack.conf.d/*.conf\n",
		"etc/slurm/plugstack.conf.d/gimbal.conf": "optional gimbal.so\n",
		"opt/slurm/gimbal_core.so":               "",
		"etc/gimbal/gimbald.toml":                "[limits]\nmax_pause = \"60s\"\n[policy]\ndir = \"/etc/gimbal/policies.d\"\n",
		"etc/gimbal/policies.d/mine.toml":        "name = \"mine\"\n[limits]\nmax_pause = \"30s\"\n",
		"proc/stat":                              fmt.Sprintf("cpu 1 2\nbtime %d\n", noon.Add(-48*time.Hour).Unix()),
		"proc/77/comm":                           "slurmd\n",
		"proc/77/stat":                           "77 (slu) rmd) S 1 77 77 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 360000 0\n",
		"proc/77/cmdline":                        "/usr/sbin/slurmd\x00-D\x00",
		"proc/self/mountinfo":                    "30 22 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
		"proc/driver/nvidia/version":             "NVRM version: NVIDIA UNIX x86_64 Kernel Module  575.51.03  Tue\n",
	} {
		h.write(path, text)
	}
	h.plugin("opt/slurm/gimbal.so", 22, 5)
	h.doc = doctor{root: h.dir, node: "n1", file: filepath.Join(h.dir, "etc/gimbal/gimbald.toml"),
		gpus: gpuReport(0, 1), synced: func() (bool, error) { return true, nil }, ask: h.answer}
	h.doc.w = world{stdout: &h.out, stderr: &h.out, env: func(string) string { return "" }, now: func() time.Time { return noon }}
	return h
}

func gpuReport(minors ...int) *model.GPUReport {
	r := &model.GPUReport{}
	for i, m := range minors {
		r.GPUs = append(r.GPUs, model.GPU{UUID: fmt.Sprintf("GPU-%d", i), Index: i, Minor: m})
	}
	return r
}

// write makes a file that is three days old.
func (h *host) write(path, text string) {
	h.t.Helper()
	path = filepath.Join(h.dir, path)
	old := noon.Add(-72 * time.Hour)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		h.t.Fatal(err)
	}
	if err := os.Chtimes(path, old, old); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) remove(path string) {
	h.t.Helper()
	if err := os.RemoveAll(filepath.Join(h.dir, path)); err != nil {
		h.t.Fatal(err)
	}
}

// choose has gimbald choose the GPUs of jobs.
func (h *host) choose() {
	h.write("etc/gimbal/gimbald.toml", "[node]\nplace = \"gimbal\"\n[policy]\ndir = \"/etc/gimbal/policies.d\"\n")
}

func (h *host) touch(path string, at time.Time) {
	h.t.Helper()
	if err := os.Chtimes(filepath.Join(h.dir, path), at, at); err != nil {
		h.t.Fatal(err)
	}
}

// answer is what a command says; others are not there.
func (h *host) answer(name string, args ...string) (string, error) {
	if out, ok := h.answers[strings.Join(append([]string{name}, args...), " ")]; ok {
		return out, nil
	}
	return "", fmt.Errorf("%s: not found", name)
}

// plugin puts a library there that says for which Slurm it is.
func (h *host) plugin(path string, major, minor int) {
	h.t.Helper()
	lib, err := pluginFor(major<<16 | minor<<8 | 8)
	if err != nil {
		h.t.Fatalf("build a plugin: %v", err)
	}
	h.write(path, string(lib))
}

var (
	builtMu sync.Mutex
	built   = map[int][]byte{}
)

// pluginFor builds each library once.
func pluginFor(version int) ([]byte, error) {
	builtMu.Lock()
	defer builtMu.Unlock()
	if lib := built[version]; lib != nil {
		return lib, nil
	}
	dir, err := os.MkdirTemp("", "plugin")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	cc := exec.Command("/usr/bin/cc", "-shared", "-nostdlib", "-x", "c", "-o", filepath.Join(dir, "p.so"), "-")
	cc.Env = []string{"PATH=/usr/bin:/bin"}
	cc.Stdin = strings.NewReader(fmt.Sprintf("const unsigned int before = 1, plugin_version = %d;\n", version))
	if out, err := cc.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	built[version], err = os.ReadFile(filepath.Join(dir, "p.so"))
	return built[version], err
}

// daemon serves what gimbald says of itself.
func (h *host) daemon(r model.DaemonReply) {
	h.t.Helper()
	h.doc.socket = listen(h.t, func(_ context.Context, _ wire.Peer, req wire.Request) (any, error) {
		if req.Op == wire.OpDaemon {
			return r, nil
		}
		return wire.Pong{}, nil
	})
}

// odd runs the checks and lists what is neither ok nor unknown.
func (h *host) odd() []string {
	h.doc.look()
	var out []string
	for _, f := range h.doc.findings {
		if f.Level == levelProblem || f.Level == levelWarning {
			out = append(out, strings.ReplaceAll(f.Level+" "+f.Check+": "+f.Text+". "+f.Mend, h.dir, ""))
		}
	}
	return out
}

func (h *host) expect(want ...string) {
	h.t.Helper()
	got := h.odd()
	ok := len(got) == len(want)
	for i := 0; ok && i < len(want); i++ {
		ok = regexp.MustCompile(want[i]).MatchString(got[i])
	}
	if !ok {
		h.t.Errorf("found\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func good() model.DaemonReply {
	return model.DaemonReply{Version: version, Started: noon.Add(-time.Hour)}
}
