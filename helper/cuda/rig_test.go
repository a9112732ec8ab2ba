package cuda

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/tests/simgpu"
)

// helperVar makes the test binary a helper process; it names the library.
const helperVar = "GIMBAL_TEST_CHECKPOINT_HELPER"

func TestMain(m *testing.M) {
	if lib := os.Getenv(helperVar); lib != "" {
		if err := Serve(os.Stdin, os.Stdout, lib, 0); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if err := simgpu.Build(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// await polls until ok says so, for ten seconds.
func await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited too long for %s", what)
		}
	}
}

// helpers starts helper processes on a device and remembers them.
type helpers struct {
	mu     sync.Mutex
	cmds   []*exec.Cmd
	deaths []error
}

func (h *helpers) command(d *simgpu.Device, lib string) func() *exec.Cmd {
	return func() *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(append(os.Environ(), d.Env()...), helperVar+"="+lib)
		cmd.Stderr = os.Stderr
		h.mu.Lock()
		defer h.mu.Unlock()
		h.cmds = append(h.cmds, cmd)
		return cmd
	}
}

func (h *helpers) died(_ int, why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.deaths = append(h.deaths, why)
}

// rig is a device, a client and its helpers.
type rig struct {
	*helpers
	t testing.TB
	d *simgpu.Device
	c *Client
}

// newest returns the pid of the newest helper, and how many there have been. A
// helper is started under the client's lock.
func (r *rig) newest() (pid, n int) {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if n = len(r.cmds); n > 0 {
		pid = r.cmds[n-1].Process.Pid
	}
	return pid, n
}

// deathCount is how many helpers died that were not ended on purpose.
func (r *rig) deathCount() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.deaths)
}

const quickPatience = 200 * time.Millisecond

func newRig(t testing.TB, args ...string) *rig {
	t.Helper()
	r := &rig{t: t, helpers: &helpers{}, d: simgpu.Start(t, simgpu.Options{Args: args})}
	r.c = startClient(t, r.command(r.d, simgpu.CUDA()), r.died)
	return r
}

func startClient(t testing.TB, cmd func() *exec.Cmd, died func(int, error)) *Client {
	c := Start(cmd, Options{Patience: quickPatience, OnDeath: died})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return c
}

// within returns a context for calls that should not take long.
func (r *rig) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	r.t.Cleanup(cancel)
	return ctx
}

// trainer is a process that trains on a rig's device; it is a Stopper.
type trainer struct {
	r     *rig
	label string
	cmd   *exec.Cmd
	id    model.ProcID
	size  model.Bytes
}

// train starts a trainer and waits until it has computed.
func (r *rig) train(label string, size model.Bytes, args ...string) *trainer {
	r.t.Helper()
	args = append([]string{"--memory", fmt.Sprintf("%dMiB", size/model.MiB)}, args...)
	t := &trainer{r: r, label: label, size: size, cmd: r.d.Trainer(label, args...)}
	if err := t.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	t.id = identify(r.t, t.cmd.Process.Pid)
	await(r.t, label+" to compute", func() bool { return r.d.Record().Busy(label) > 0 })
	await(r.t, label+" to listen to the driver", t.listens)
	return t
}

// listens tells whether the process has its thread for checkpoints.
func (t *trainer) listens() bool {
	out, err := NewCommand(simgpu.Binary("cuda-checkpoint"), t.r.d.Env()).on(t.r.within(5*time.Second), t.id, "--get-restore-tid")
	return err == nil && out != "0"
}

// identify returns the identity of a process that lives.
func identify(t testing.TB, pid int) model.ProcID {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, start := parseStat(text)
	return model.ProcID{PID: pid, Start: start}
}

func (t *trainer) letter() byte {
	letter, err := look(t.id)
	if err != nil {
		return 0
	}
	return letter
}

func (t *trainer) signal(s syscall.Signal) {
	t.r.t.Helper()
	if err := syscall.Kill(t.id.PID, s); err != nil {
		t.r.t.Fatalf("%v to %s: %v", s, t.label, err)
	}
}

// freeze stops the process behind everybody's back.
func (t *trainer) freeze() {
	t.r.t.Helper()
	if err := t.Stop(t.r.within(10 * time.Second)); err != nil {
		t.r.t.Fatal(err)
	}
}

// Stop stops the process and waits until all its threads are stopped.
func (t *trainer) Stop(ctx context.Context) error { return t.send(ctx, syscall.SIGSTOP, true) }

// Continue continues it.
func (t *trainer) Continue(ctx context.Context) error { return t.send(ctx, syscall.SIGCONT, false) }

func (t *trainer) send(ctx context.Context, s syscall.Signal, stopped bool) error {
	if err := syscall.Kill(t.id.PID, s); err != nil {
		return err
	}
	for !t.all(stopped) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		time.Sleep(200 * time.Microsecond)
	}
	return nil
}

// all tells whether every thread is stopped, or none.
func (t *trainer) all(stopped bool) bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", t.id.PID))
	if err != nil || len(threads) == 0 {
		return false
	}
	for _, name := range threads {
		text, err := os.ReadFile(name)
		if letter, _ := parseStat(text); err == nil && (letter == 'T') != stopped {
			return false
		}
	}
	return true
}

func (t *trainer) tenant() Tenant {
	p := Proc{ID: t.id, Memory: model.Known(t.size)}
	return Tenant{Procs: []Proc{p}, Stopped: t.letter() == 'T', Stopper: t}
}

func (t *trainer) expect(want State) {
	t.r.t.Helper()
	if got, err := t.r.c.State(t.r.within(5*time.Second), t.id); err != nil || got != want {
		t.r.t.Errorf("%s: the driver says %v, %v; expected %v", t.label, got, err, want)
	}
}

// expectProgress waits until the trainer has computed something new.
func (t *trainer) expectProgress() {
	t.r.t.Helper()
	before := t.r.d.Record().Busy(t.label)
	await(t.r.t, t.label+" to go on", func() bool { return t.r.d.Record().Busy(t.label) > before })
}

// used is what is allocated on the GPU.
func (r *rig) used() model.Bytes { return model.Bytes(r.d.Show().GPUs[0].Used) }

// mover has limits that end in a test's time.
func (r *rig) mover() *Mover {
	return &Mover{Driver: r.c, Room: plenty, Limits: Limits{Lock: 2 * time.Second, Copy: 5 * time.Second, Back: 5 * time.Second}}
}

// setenv sets a variable, given as NAME=VALUE, for the test's time.
func setenv(t testing.TB, kv string) {
	name, value, _ := strings.Cut(kv, "=")
	t.Setenv(name, value)
}
