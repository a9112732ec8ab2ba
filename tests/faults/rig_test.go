package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/wire"
	"github.com/gimbal-hpc/gimbal/tests/simgpu"
	"github.com/gimbal-hpc/gimbal/tests/slurmtest"
)

// patience bounds waits for what takes a moment on an idle machine.
const patience = 40 * time.Second

// rig is a node, with a real Slurm or none: a simulated GPU, gimbald, tasks, and
// processes that are none of its business.
type rig struct {
	launcher launcher
	t        *testing.T
	gpu      *simgpu.Device
	dir      string
	program  string
	before   []string // a command that runs the program
	cmd      *exec.Cmd
	done     chan struct{}
	strange  *strangers

	mu    sync.Mutex
	tasks []*task
	last  int // task
}

// setting is what of a rig differs between tests.
type setting struct {
	policy  string // the text of the default policy
	config  string // more of gimbald.toml
	gpu     simgpu.Options
	slurm   bool   // a real Slurm launches the tasks
	freezer bool   // each job has a freezer of cgroup v1
	state   string // state folder; "": one in the rig's own
	run     string // folder of the socket and what is stopped; "": one in the rig's own
}

// turnless is a policy by which nothing happens that is not ordered.
const turnless = `
name = "test"
objective = "all at once while they fit, and what is ordered"
[limits]
min_run = "0s"
launch_grace = "2s"
`

// newRig brings up everything but the daemon.
func newRig(t *testing.T, s setting) *rig {
	t.Helper()
	need(t)
	dir, err := os.MkdirTemp("", "rig")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	r := &rig{t: t, dir: dir, program: gimbald(), gpu: simgpu.Start(t, s.gpu), last: 100}
	for _, d := range []string{"run", "policies.d", "points", "slurm", "jobs"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if s.slurm {
		r.launcher = newBatch(r, s)
	} else {
		r.launcher = newAlone(r, s)
	}
	r.writeConfig(s)
	r.strange = newStrangers(t, r)
	t.Cleanup(r.end)
	return r
}

func (r *rig) write(name, text string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o755); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) writeConfig(s setting) {
	if s.policy == "" {
		s.policy = turnless
	}
	if s.state == "" {
		s.state = r.path("state")
	}
	if s.run == "" {
		s.run = r.path("run")
	}
	node, slurm := r.launcher.settings()
	r.write("policies.d/test.toml", s.policy)
	r.write("gimbald.toml", fmt.Sprintf(`schema = 1
[node]
name = %q
state_dir = %q
pending_dir = %q
[socket]
path = %q
[sample]
nvml = %q
interval = "50ms"
[policy]
default = "test"
dir = %q
[slurm]
%s
[access]
private = false
`, node, s.state, r.path("run/pending"), filepath.Join(s.run, "gimbald.sock"), simgpu.NVML(""), r.path("policies.d"), slurm)+s.config)
}

func (r *rig) path(name string) string { return filepath.Join(r.dir, name) }

// start starts a daemon and waits until it answers.
func (r *rig) start() {
	r.t.Helper()
	r.begin()
	r.answer()
}

// begin starts a daemon.
func (r *rig) begin() {
	r.t.Helper()
	log, err := os.OpenFile(r.path("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	argv := append(slices.Clone(r.before), r.program, "--config", r.path("gimbald.toml"))
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(append(os.Environ(), r.gpu.Env()...), "GIMBAL_FAILPOINTS="+r.path("points"))
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	r.cmd, r.done = cmd, done
}

// killed ends the daemon by SIGKILL and waits until it is gone.
func (r *rig) killed() {
	kill(r.t, r.cmd.Process.Pid, unix.SIGKILL)
	<-r.done
}

// killedBoth ends the daemon and its guard so that neither can do anything
// about the other's end.
func (r *rig) killedBoth() {
	r.t.Helper()
	guard := r.guard()
	halt(r.t, r.cmd.Process.Pid)
	kill(r.t, guard, unix.SIGKILL)
	r.killed()
}

// end takes everything down.
func (r *rig) end() {
	if r.t.Failed() {
		r.t.Logf("gimbald:\n%s", tail(r.log(), 60))
		for _, k := range r.tasks {
			r.t.Logf("job %d, after %d iterations, of %v:\n%s", k.job, k.iterations(), k.pids(), tail(k.said(), 10))
		}
	}
	if r.cmd != nil {
		_ = r.cmd.Process.Signal(unix.SIGCONT)
		_ = r.cmd.Process.Signal(unix.SIGTERM)
		select {
		case <-r.done:
		case <-time.After(10 * time.Second):
			_ = r.cmd.Process.Kill()
			<-r.done
		}
	}
	for _, k := range r.tasks {
		k.destroy()
	}
}

func (r *rig) log() string {
	text, err := os.ReadFile(r.path("log"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func tail(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// socket is where the daemon listens, by its configuration.
func (r *rig) socket() string {
	text, err := os.ReadFile(r.path("gimbald.toml"))
	if err != nil {
		r.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "[socket]\npath = ")
	line, _, _ := strings.Cut(rest, "\n")
	path, err := strconv.Unquote(line)
	if err != nil {
		r.t.Fatal(err)
	}
	return path
}

// call asks the daemon, as root.
func (r *rig) call(op wire.Op, params, result any) error {
	return r.callWithin(patience, op, params, result)
}

func (r *rig) callWithin(limit time.Duration, op wire.Op, params, result any) error {
	c, err := wire.Dial(r.socket(), limit)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	return c.Call(context.Background(), op, params, result)
}

// status is what the daemon knows, nil if it does not answer within a second.
func (r *rig) status() *model.StatusReply {
	var reply model.StatusReply
	if r.callWithin(time.Second, wire.OpStatus, model.StatusQuery{Start: time.Now()}, &reply) != nil {
		return nil
	}
	return &reply
}

// answer is what the daemon knows, once it answers.
func (r *rig) answer() (reply *model.StatusReply) {
	r.t.Helper()
	eventually(r.t, patience, "gimbald answers", func() bool { reply = r.status(); return reply != nil })
	return reply
}

// order gives a person's order for a job; the daemon may die of it.
func (r *rig) order(k *task, do model.Primitive) {
	r.t.Helper()
	r.orderFor(k, do, 0)
}

// orderFor gives an order that lapses after a while, 0 never.
func (r *rig) orderFor(k *task, do model.Primitive, d time.Duration) {
	r.t.Helper()
	q := model.ControlQuery{Job: model.JobRef{Job: k.job, Task: model.NoVal, Offset: model.NoVal, Step: model.NoVal},
		Do: do, Why: "a test", For: d, Signal: int(unix.SIGUSR1)}
	if err := r.call(model.OpControl, q, nil); err != nil && !errors.Is(err, wire.ErrUnreachable) {
		r.t.Fatalf("%s of job %d: %v", do, k.job, err)
	}
}

// view is a live tenant, nil if there is none.
func (r *rig) view(k *task) *model.View { return k.in(r.answer()) }

// in is a task's tenant in an answer, nil if there is none.
func (k *task) in(reply *model.StatusReply) *model.View {
	for i := range reply.Tenants {
		if reply.Tenants[i].Reg.JobID == k.job {
			return &reply.Tenants[i]
		}
	}
	return nil
}

// is tells whether the daemon answers that a task's tenant is in a state.
func (r *rig) is(k *task, s model.State) bool {
	reply := r.status()
	if reply == nil {
		return false
	}
	v := k.in(reply)
	return v != nil && v.State == s
}

// left tells whether the daemon answers that a task has no tenant any more.
func (r *rig) left(k *task) bool {
	reply := r.status()
	return reply != nil && k.in(reply) == nil
}

// empty tells whether the daemon answers that there are no tenants.
func (r *rig) empty() bool {
	reply := r.status()
	return reply != nil && len(reply.Tenants) == 0
}

// await waits until status shows a task's tenant in a state.
func (r *rig) await(k *task, s model.State) {
	r.t.Helper()
	eventually(r.t, patience, fmt.Sprintf("job %d is %s", k.job, s), func() bool { return r.is(k, s) })
}

// underBoth plays a test with tasks that the test launches and, in a long run,
// with a real Slurm's.
func underBoth(t *testing.T, test func(t *testing.T, slurm bool)) {
	t.Run("alone", func(t *testing.T) { t.Parallel(); test(t, false) })
	if os.Getenv("GIMBAL_LONG") != "" {
		t.Run("Slurm", func(t *testing.T) { t.Parallel(); slurmtest.Need(t); test(t, true) })
	}
}

// injects has the test say at its end how many faults it injected, and how many held.
func injects(t *testing.T, n int) {
	t.Cleanup(func() {
		held := n
		if t.Failed() {
			held = 0
		}
		if !t.Skipped() {
			t.Logf("%s: %d faults injected, %d held", t.Name(), n, held)
		}
	})
}

// eventually waits until the condition holds.
func eventually(t *testing.T, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", limit, what)
		}
	}
}

// guard is the pid of the daemon's guard, 0 if it has none.
func (r *rig) guard() int {
	for _, pid := range childrenOf(r.cmd.Process.Pid) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && strings.Contains(string(text), "--guard\x00") {
			return pid
		}
	}
	return 0
}
