// Package simgpu runs the simulated GPUs of this folder for tests: real
// processes that share modelled devices in real time, seen through libraries
// with the binary interface of NVML and CUDA.
package simgpu

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Options describes the device to start. A zero field takes the device's own
// default (simgpu-device --help).
type Options struct {
	GPUs     int
	Memory   string // of each GPU, such as "16GiB"
	Reserved string // of it, for the driver
	Minors   string // in NVML's order, such as "6,4,0,2"
	MIG      int    // instances on each GPU
	Seed     string // from which the UUIDs are made
	Args     []string
}

// Device is a running device process. All its files lie in Dir.
type Device struct {
	Dir   string
	t     testing.TB
	cmd   *exec.Cmd
	stdin io.Closer
}

// State is what the device says of itself, as `simgpu-device ctl show` prints.
type State struct {
	Inits     int
	Shutdowns int
	Calls     int64
	Looks     int64 // calls that asked how many GPUs there are, with which a reader begins
	GPUs      []GPU
	Clients   []Client
}

// GPU is a GPU or a MIG instance; sizes are in bytes.
type GPU struct {
	Index, Minor, Parent  int
	UUID                  string
	Present               bool
	Total, Reserved, Used uint64
	Processes             []Process
}

// Process is one entry of a GPU's list of processes.
type Process struct {
	PID    int
	Memory uint64
	Ghost  bool
}

// Client is a process that has a context on a GPU.
type Client struct {
	PID   int
	Label string
	MPS   bool
	State string
}

// Root returns the top folder of the repository.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}

// Binary returns the path of a built file, such as "simgpu-trainer".
func Binary(name string) string {
	return filepath.Join(Root(), "build", "simgpu", name)
}

// Build brings build/simgpu up to date: once in a process, and one process at
// a time.
func Build() error { return build() }

var build = sync.OnceValue(makeAll)

func makeAll() error {
	out := filepath.Join(Root(), "build", "simgpu")
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("make the folder of the simulated GPU: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(out, ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return fmt.Errorf("lock the folder of the simulated GPU: %w", err)
	}
	defer func() { _ = lock.Close() }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	cmd := exec.Command("make", "-s", "-f", "tests/simgpu/simgpu.mk", "simgpu")
	cmd.Dir = Root()
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the simulated GPU: %w\n%s", err, text)
	}
	return nil
}

// Start runs a device until the test ends. It fails the test if it cannot.
func Start(t testing.TB, o Options) *Device {
	t.Helper()
	if err := Build(); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "simgpu")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	d := &Device{Dir: dir, t: t}
	d.run(o)
	t.Cleanup(d.Stop)
	return d
}

// Restart runs a stopped device again in the same folder.
func (d *Device) Restart(o Options) {
	d.t.Helper()
	d.run(o)
}

func (o Options) args(dir string) []string {
	args := []string{"--until-eof", "--dir", dir}
	add := func(name, value string) {
		if value != "" && value != "0" {
			args = append(args, "--"+name, value)
		}
	}
	add("gpus", strconv.Itoa(o.GPUs))
	add("mig", strconv.Itoa(o.MIG))
	add("memory", o.Memory)
	add("reserved", o.Reserved)
	add("minors", o.Minors)
	add("seed", o.Seed)
	return append(args, o.Args...)
}

// run starts the process; it ends by itself when this one does, because its
// standard input ends then.
func (d *Device) run(o Options) {
	d.t.Helper()
	d.cmd = exec.Command(Binary("simgpu-device"), o.args(d.Dir)...)
	d.cmd.Stderr = os.Stderr
	stdin, err := d.cmd.StdinPipe()
	if err != nil {
		d.t.Fatal(err)
	}
	d.stdin = stdin
	if err := d.cmd.Start(); err != nil {
		d.t.Fatalf("start the simulated GPU: %v", err)
	}
	pid := strconv.Itoa(d.cmd.Process.Pid)
	d.await("the simulated GPU to be ready", func() bool {
		text, err := os.ReadFile(filepath.Join(d.Dir, "pid"))
		return err == nil && strings.TrimSpace(string(text)) == pid
	})
}

// await polls until ok says so; it fails the test after a minute.
func (d *Device) await(what string, ok func() bool) {
	d.t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			d.t.Fatalf("waited too long for %s", what)
		}
	}
}

// PID returns the pid of the device process.
func (d *Device) PID() int { return d.cmd.Process.Pid }

// Stop ends the device and waits for it. Its files stay until the test ends.
func (d *Device) Stop() {
	if d.cmd == nil {
		return
	}
	if err := errors.Join(d.stdin.Close(), d.cmd.Wait()); err != nil {
		d.t.Errorf("the simulated GPU: %v", err)
	}
	d.cmd = nil
}

// Env returns the environment variables that show this device to a process:
// SIMGPU_DIR for the libraries and the trainer, LD_LIBRARY_PATH to find them.
func (d *Device) Env() []string {
	path := filepath.Join(Root(), "build", "simgpu")
	if old := os.Getenv("LD_LIBRARY_PATH"); old != "" {
		path += ":" + old
	}
	return []string{"SIMGPU_DIR=" + d.Dir, "LD_LIBRARY_PATH=" + path}
}

// NVML returns the path of the NVML library; a variant is "" for a driver of
// today, "v1", "v2", "v3-32" or "none" for one whose list of processes differs.
func NVML(variant string) string {
	if variant == "" {
		return Binary("libnvidia-ml.so.1")
	}
	return Binary(filepath.Join("nvml-"+variant, "libnvidia-ml.so.1"))
}

// CUDA returns the path of the library with CUDA's checkpoint calls.
func CUDA() string { return Binary("libcuda.so.1") }

// Trainer returns a command that trains on this device under a label. The
// caller starts it; it is killed when the test ends.
func (d *Device) Trainer(label string, args ...string) *exec.Cmd {
	d.t.Helper()
	cmd := exec.Command(Binary("simgpu-trainer"), append([]string{"--label", label}, args...)...)
	cmd.Env = append(os.Environ(), d.Env()...)
	d.t.Cleanup(func() {
		if cmd.Process != nil && cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	return cmd
}

// TryCtl sends a control command, such as "set", "process-util=not-found".
func (d *Device) TryCtl(args ...string) (string, error) {
	cmd := exec.Command(Binary("simgpu-device"), append([]string{"ctl", "--dir", d.Dir}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("simgpu-device ctl %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// Ctl is TryCtl for a command that must succeed.
func (d *Device) Ctl(args ...string) string {
	d.t.Helper()
	out, err := d.TryCtl(args...)
	if err != nil {
		d.t.Fatal(err)
	}
	return out
}

// Show returns the device's present state.
func (d *Device) Show() State {
	d.t.Helper()
	var s State
	if err := json.Unmarshal([]byte(d.Ctl("show")), &s); err != nil {
		d.t.Fatalf("the simulated GPU's state: %v", err)
	}
	return s
}

// WaitClients waits until n processes have contexts on the device.
func (d *Device) WaitClients(n int) State {
	d.t.Helper()
	var s State
	d.await(fmt.Sprintf("%d clients", n), func() bool {
		s = d.Show()
		return len(s.Clients) == n
	})
	return s
}

// Record returns what the device has recorded so far, up to about 100 ms ago.
func (d *Device) Record() Record {
	d.t.Helper()
	r, err := ReadRecord(filepath.Join(d.Dir, "record"))
	if err != nil {
		d.t.Fatal(err)
	}
	return r
}

// Event is a line of the device's event file: attach, alloc, free,
// out-of-memory, exit, cuda.
type Event struct {
	Time  time.Duration // CLOCK_MONOTONIC
	PID   int
	Label string
	Name  string
	Args  []string
}

// Events returns the device's events so far.
func (d *Device) Events() []Event {
	d.t.Helper()
	text, err := os.ReadFile(filepath.Join(d.Dir, "events"))
	if err != nil {
		d.t.Fatal(err)
	}
	var events []Event
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		w := strings.Fields(lines.Text())
		if len(w) < 4 || w[0] == "#" {
			continue
		}
		at, _ := strconv.ParseInt(w[0], 10, 64)
		pid, _ := strconv.Atoi(w[1])
		events = append(events, Event{time.Duration(at), pid, w[2], w[3], w[4:]})
	}
	return events
}
