// Package run tests gimbal run as its users meet it: real processes on a
// simulated GPU, without Slurm, by root's gimbald and by a daemon of the user's
// own, in terminals and out of them.
package run

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/wire"
	"github.com/gimbal-hpc/gimbal/tests/e2e"
	"github.com/gimbal-hpc/gimbal/tests/simgpu"
)

// The users of these tests; the system need not know them.
const (
	alice = 61001
	bob   = 61002
)

const patience = 20 * time.Second

// host is a machine with a shared GPU and without Slurm.
type host struct {
	t       *testing.T
	gpu     *simgpu.Device // nil: there is none, and nothing is ever stopped
	dir     string         // readable by all
	socket  string         // of root's gimbald, "" for daemons of the users' own
	daemon  *exec.Cmd
	config  string
	runtime map[int]string // each user's XDG_RUNTIME_DIR
}

// quick is a policy of turns that are short enough for a test.
const quick = `name = "quick"
objective = "short turns"
[share]
together = 1
quantum = "500ms"
rank = "-tenant.service"
[limits]
min_run = "0s"
`

// newHost starts a host without a GPU, with root's gimbald or without.
func newHost(t *testing.T, gimbald bool) *host {
	t.Helper()
	return startHost(t, gimbald, nil, "")
}

// newGPUHost starts a host with a simulated GPU.
func newGPUHost(t *testing.T, gimbald bool, toml string) *host {
	t.Helper()
	needRoot(t)
	return startHost(t, gimbald, simgpu.Start(t, simgpu.Options{GPUs: 1}), toml)
}

// needRoot skips without root, which is needed to be several users.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: needs root, to be several users")
	}
}

// needTime skips unless the long tests are wanted.
func needTime(t *testing.T) {
	t.Helper()
	if os.Getenv("GIMBAL_LONG") == "" {
		t.Skip("SKIPPED: takes minutes: set GIMBAL_LONG=1")
	}
}

func startHost(t *testing.T, gimbald bool, gpu *simgpu.Device, toml string) *host {
	t.Helper()
	needRoot(t)
	h := &host{t: t, gpu: gpu, runtime: map[int]string{}}
	nvml := simgpu.NVML("")
	if gpu == nil {
		nvml = "/nonexistent/libnvidia-ml.so.1"
	}
	dir, err := os.MkdirTemp("", "gimbal-run-") // t.TempDir is root's alone
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	h.dir = dir
	for _, d := range []string{dir, dir + "/run", dir + "/policies.d"} {
		_ = os.MkdirAll(d, 0o755)
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	h.config = fmt.Sprintf("[sample]\nnvml = %q\ninterval = \"100ms\"\n[policy]\ndefault = \"quick\"\ndir = %q\n", nvml, dir+"/policies.d") + toml
	h.write("policies.d/quick.toml", quick)
	if !gimbald {
		return h
	}
	h.socket = dir + "/run/gimbald.sock"
	h.config += fmt.Sprintf("[node]\nstate_dir = %q\npending_dir = %q\n[socket]\npath = %q\n[run]\nallow = \"yes\"\n",
		dir+"/state", dir+"/pending", h.socket)
	h.write("gimbald.toml", h.config)
	h.startDaemon()
	return h
}

func (h *host) gpuEnv() []string {
	if h.gpu == nil {
		return nil
	}
	return h.gpu.Env()
}

func (h *host) write(name, text string) {
	h.t.Helper()
	if err := os.WriteFile(filepath.Join(h.dir, name), []byte(text), 0o644); err != nil {
		h.t.Fatal(err)
	}
}

// startDaemon starts root's gimbald.
func (h *host) startDaemon() {
	h.t.Helper()
	log, err := os.OpenFile(h.dir+"/log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(e2e.Built("gimbald"), "--config", h.dir+"/gimbald.toml")
	cmd.Stdout, cmd.Stderr, cmd.Env = log, log, append(os.Environ(), h.gpuEnv()...)
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.daemon = cmd
	h.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if h.t.Failed() {
			h.t.Logf("gimbald:\n%s", h.log())
		}
	})
	h.await("gimbald", func() bool { return h.answers() })
}

// configure changes the configuration of root's gimbald while it runs.
func (h *host) configure(from, to string) {
	h.t.Helper()
	h.write("gimbald.toml", strings.Replace(h.config, from, to, 1))
	if err := h.daemon.Process.Signal(syscall.SIGHUP); err != nil {
		h.t.Fatal(err)
	}
}

// log is what root's gimbald has logged.
func (h *host) log() string {
	text, _ := os.ReadFile(h.dir + "/log")
	return string(text)
}

// env is a user's environment. A user without gimbald has a runtime folder and
// a configuration of his own.
func (h *host) env(uid int) []string {
	h.t.Helper()
	env := append([]string{"PATH=" + filepath.Dir(e2e.Built("gimbal")) + ":/usr/bin:/bin", "HOME=" + h.dir, "PS1=$ "}, h.gpuEnv()...)
	if h.socket != "" {
		return env
	}
	if h.runtime[uid] == "" {
		dir := filepath.Join(h.dir, strconv.Itoa(uid))
		for _, d := range []string{dir, dir + "/gimbal"} {
			if err := os.Mkdir(d, 0o700); err != nil {
				h.t.Fatal(err)
			}
			_ = os.Chown(d, uid, uid)
		}
		file := dir + "/gimbal/gimbald.toml"
		if err := os.WriteFile(file, []byte(h.config), 0o644); err != nil {
			h.t.Fatal(err)
		}
		h.runtime[uid] = dir
		h.t.Cleanup(func() { h.logOwn(dir) })
	}
	return append(env, "XDG_RUNTIME_DIR="+h.runtime[uid], "XDG_CONFIG_HOME="+h.runtime[uid])
}

func (h *host) logOwn(dir string) {
	if text, err := os.ReadFile(dir + "/gimbal/gimbald.log"); err == nil && h.t.Failed() {
		h.t.Logf("a user's own daemon:\n%s", text)
	}
}

// gimbal makes a command line of gimbal for a user; --socket is added where it is needed.
func (h *host) gimbal(uid int, command string, args ...string) *exec.Cmd {
	if h.socket != "" {
		args = append([]string{"--socket", h.socket}, args...)
	}
	cmd := exec.Command(e2e.Built("gimbal"), append([]string{command}, args...)...)
	cmd.Env, cmd.Dir = h.env(uid), "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}, Setsid: true}
	return cmd
}

// job is a gimbal run that was started.
type job struct {
	*exec.Cmd
	out  output
	done chan struct{}
}

// output is what a command has written so far, but for the warning that there is
// no GPU.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.ReplaceAll(o.text.String(), "gimbal run: warning: never stopped, since it has no GPU\n", "")
}

// start starts gimbal run for a user.
func (h *host) start(uid int, args ...string) *job {
	h.t.Helper()
	j := h.prepare(uid, args...)
	h.begin(j)
	return j
}

// prepare makes a gimbal run for a user that is yet to be begun.
func (h *host) prepare(uid int, args ...string) *job {
	h.t.Helper()
	j := &job{Cmd: h.gimbal(uid, "run", args...), done: make(chan struct{})}
	j.Stdout, j.Stderr, j.WaitDelay = &j.out, &j.out, time.Second
	return j
}

func (h *host) begin(j *job) {
	h.t.Helper()
	if err := j.Start(); err != nil {
		h.t.Fatal(err)
	}
	go func() { _ = j.Wait(); close(j.done) }()
	h.t.Cleanup(func() { _ = j.Process.Kill(); <-j.done })
}

// wait waits for the end and returns the exit code as a shell tells it.
func (h *host) wait(j *job) int {
	h.t.Helper()
	select {
	case <-j.done:
	case <-time.After(patience):
		h.t.Fatalf("%v does not end", j.Args)
	}
	ws := j.ProcessState.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}

func (h *host) await(what string, ok func() bool) {
	h.t.Helper()
	e2e.Eventually(h.t, patience, what, ok)
}

// answers tells whether root's gimbald serves.
func (h *host) answers() bool {
	c, err := wire.Dial(h.socket, time.Second)
	if err != nil {
		return false
	}
	defer func() { _ = c.Close() }()
	return c.Call(context.Background(), wire.OpPing, nil, nil) == nil
}

// state is what status says of a user's command, "" if it is not there.
func (h *host) state(uid int, name string) string {
	out, err := h.gimbal(uid, "status", "-n", "-P", "-j", name, "-o", "State").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

func (h *host) awaitState(uid int, name, want string) {
	h.t.Helper()
	last := ""
	e2e.Eventually(h.t, patience, name+" "+want, func() bool { last = h.state(uid, name); return last == want })
}

// order has a user give an order.
func (h *host) order(uid int, do, name string) (string, error) {
	out, err := h.gimbal(uid, do, name).CombinedOutput()
	return string(out), err
}

// kinds runs a test with root's gimbald and with users' own daemons.
func kinds(t *testing.T, test func(t *testing.T, gimbald bool)) {
	t.Run("gimbald", func(t *testing.T) { test(t, true) })
	t.Run("own", func(t *testing.T) { test(t, false) })
}

// onGPU runs a test with both, on a simulated GPU.
func onGPU(t *testing.T, toml string, test func(t *testing.T, h *host)) {
	kinds(t, func(t *testing.T, gimbald bool) { test(t, newGPUHost(t, gimbald, toml)) })
}

// trainer is the command line of a training job on the simulated GPU.
func trainer(label string, args ...string) []string {
	return append([]string{"--", simgpu.Binary("simgpu-trainer"), "--label", label}, args...)
}

// procState is the state letter of a process, 0 if it is gone.
func procState(pid int) byte {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	text := string(b)
	return text[strings.LastIndexByte(text, ')')+2]
}

// scratch is a path in a folder that a user may write to.
func (h *host) scratch(uid int, name string) string {
	h.t.Helper()
	dir, err := os.MkdirTemp(h.dir, "user")
	if err == nil {
		err = os.Chown(dir, uid, uid)
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return filepath.Join(dir, name)
}

// command is the pid of what a gimbal run runs.
func (h *host) command(j *job) (pid int) {
	h.t.Helper()
	h.await("the command", func() bool {
		var name string
		pid, name = h.child(j)
		return name != "gimbal"
	})
	return pid
}

// child is the process of the command of a gimbal run, and the name of the program
// that it runs.
func (h *host) child(j *job) (pid int, name string) {
	h.t.Helper()
	h.await("the command's process", func() bool {
		out, err := exec.Command("pgrep", "-P", strconv.Itoa(j.Process.Pid)).Output()
		pid, _ = strconv.Atoi(strings.TrimSpace(string(out)))
		text, err2 := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		name = strings.TrimSpace(string(text))
		return err == nil && err2 == nil
	})
	return pid, name
}
