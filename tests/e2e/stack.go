// Package e2e runs packed jobs through everything: a real Slurm, the plugin,
// gimbald, real processes and signals, and a simulated GPU whose own record
// says who computed when.
package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/wire"
	"github.com/gimbal-hpc/gimbal/tests/simgpu"
	"github.com/gimbal-hpc/gimbal/tests/slurmtest"
)

// Options describe a stack; the zero value is one node with one GPU of 16 GiB
// under the timeslice policy, looked at every 100 ms.
type Options struct {
	Slurm    slurmtest.Options
	GPU      simgpu.Options
	Interval time.Duration     // between two samples; 0: 100 ms
	Policy   string            // name of the default policy; "": timeslice
	Policies map[string]string // site policies by name
	Config   string            // more TOML for gimbald.toml
	Plugin   string            // more arguments of the plugstack line
	NoPlugin bool
	NoDaemon bool
	NoSlurm  bool // the daemon alone: Cluster is nil
	EachNode bool // a gimbald for each node
}

// Stack is a node that shares a GPU.
type Stack struct {
	*slurmtest.Cluster
	GPU     *simgpu.Device
	Dir     string // of gimbald: configuration, socket, state, log
	t       testing.TB
	cmd     *exec.Cmd
	done    chan struct{}
	node    string // whose gimbald it is, "" where there is one for all
	daemons map[string]*Stack
}

// patience bounds a wait whose length is not what a test is about: a slow machine
// takes its time.
const patience = 2 * time.Minute

// Start brings a stack up and takes it down at the end of the test. It skips
// where there is no Slurm or no root.
func Start(t *testing.T, o Options) *Stack {
	t.Helper()
	return start(t, o)
}

// StartB is Start for a benchmark.
func StartB(b *testing.B, o Options) *Stack {
	b.Helper()
	return start(b, o)
}

func start(t testing.TB, o Options) *Stack {
	t.Helper()
	needs(t, o)
	for _, f := range []string{"gimbald", "gimbal", "gimbal.so", "gimbal_core.so"} {
		if _, err := os.Stat(Built(f)); err != nil {
			t.Fatalf("build/%s is missing: run make", f)
		}
	}
	if o.GPU.GPUs == 0 {
		o.GPU.GPUs = 1
	}
	if o.Slurm.GPUs == 0 {
		o.Slurm.GPUs = o.GPU.GPUs
	}
	s := &Stack{GPU: simgpu.Start(t, o.GPU), Dir: daemonDir(t), t: t}
	if o.EachNode {
		s.node = everyNode
	}
	s.writeConfig(o)
	o.Slurm.Env = append(o.Slurm.Env, s.GPU.Env()...)
	if !o.NoPlugin {
		o.Slurm.Plugstack = fmt.Sprintf("optional %s socket=%s core=%s pending=%s %s", Built("gimbal.so"),
			s.Socket(), Built("gimbal_core.so"), s.run("pending"), o.Plugin)
	}
	if !o.NoDaemon && !o.EachNode {
		s.StartDaemon()
	}
	if !o.NoSlurm {
		s.Cluster = slurmtest.Start(t, o.Slurm)
	}
	if o.EachNode {
		s.startDaemons()
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("gimbald:\n%s\nits journal:\n%s", tail(s.Log(), 80), s.journal())
		}
	})
	return s
}

// needs skips the test where what the stack is made of is missing.
func needs(t testing.TB, o Options) {
	t.Helper()
	switch {
	case !o.NoSlurm:
		slurmtest.Need(t)
	case os.Geteuid() != 0:
		t.Skip("SKIPPED: gimbald needs root")
	}
}

// Built is the path of a file that make builds.
func Built(name string) string { return filepath.Join(simgpu.Root(), "build", name) }

// daemonDir makes a folder that gimbald accepts: root's own, and no socket
// path that is too long.
func daemonDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "gimbald")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for _, d := range []string{dir, filepath.Join(dir, "run"), filepath.Join(dir, "policies.d")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Socket is the path of gimbald's socket.
func (s *Stack) Socket() string { return s.run("gimbald.sock") }

// run is a file of what gimbald keeps while it runs, state its folder for the rest.
func (s *Stack) run(name string) string { return filepath.Join(s.Dir, "run", s.node, name) }
func (s *Stack) state() string          { return filepath.Join(s.Dir, "state", s.node) }

// ConfigPath is the path of gimbald.toml.
func (s *Stack) ConfigPath() string { return filepath.Join(s.Dir, "gimbald.toml") }

func (s *Stack) policyPath(name string) string {
	return filepath.Join(s.Dir, "policies.d", name+".toml")
}

func (s *Stack) writeConfig(o Options) {
	s.t.Helper()
	if o.Policy == "" {
		o.Policy = "timeslice"
	}
	if o.Interval == 0 {
		o.Interval = 100 * time.Millisecond
	}
	text := fmt.Sprintf(`schema = 1
[node]
state_dir = %q
pending_dir = %q
[socket]
path = %q
[sample]
nvml = %q
interval = %q
[policy]
default = %q
dir = %q
[access]
private = false
`, s.state(), s.run("pending"), s.Socket(), simgpu.NVML(""),
		o.Interval.String(), o.Policy, filepath.Join(s.Dir, "policies.d"))
	if !strings.Contains(o.Config, "[metrics]") {
		text += "[metrics]\ntextfile = \"\"\n" // the machine's own folder is not ours
	}
	s.write(s.ConfigPath(), text+o.Config)
	for name, body := range o.Policies {
		s.write(s.policyPath(name), body)
	}
}

func (s *Stack) write(path, text string) {
	s.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// StartDaemon starts gimbald and waits until it answers.
func (s *Stack) StartDaemon() {
	s.t.Helper()
	log, err := os.OpenFile(filepath.Join(s.Dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(Built("gimbald"), "--config", s.ConfigPath(), "--node", s.node)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), s.GPU.Env()...)
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	s.cmd, s.done = cmd, done
	s.t.Cleanup(func() { stop(cmd, done) })
	Eventually(s.t, patience, "gimbald answers", func() bool { return s.Status(model.StatusQuery{Start: time.Now()}) != nil })
}

// stop ends a daemon kindly, then unkindly.
func stop(cmd *exec.Cmd, done <-chan struct{}) {
	_ = cmd.Process.Signal(syscall.SIGCONT)
	_ = cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		_ = cmd.Process.Kill()
		<-done
	}
}

// DaemonPID is the pid of the running gimbald.
func (s *Stack) DaemonPID() int { return s.cmd.Process.Pid }

// Signal sends a signal to gimbald.
func (s *Stack) Signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// StopDaemon ends gimbald with SIGTERM and waits for it.
func (s *Stack) StopDaemon() { stop(s.cmd, s.done) }

// KillDaemon ends gimbald with SIGKILL.
func (s *Stack) KillDaemon() {
	s.t.Helper()
	s.Signal(syscall.SIGKILL)
	<-s.done
}

// Log is what gimbald has logged.
func (s *Stack) Log() string {
	b, err := os.ReadFile(filepath.Join(s.Dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// Gimbal runs a subcommand of gimbal against this node's daemon.
func (s *Stack) Gimbal(args ...string) slurmtest.Result {
	args = append([]string{args[0], "--socket", s.Socket(), "--state-dir", s.state()}, args[1:]...)
	cmd := exec.Command(Built("gimbal"), args...)
	begin := time.Now()
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	r := slurmtest.Result{Stdout: out.String(), Stderr: errs.String(), Exit: cmd.ProcessState.ExitCode(), Took: time.Since(begin)}
	if cmd.ProcessState == nil {
		r.Exit, r.Stderr = -1, err.Error()
	}
	return r
}

// Status asks the daemon for what it knows; nil if there is none, or it hangs.
func (s *Stack) Status(q model.StatusQuery) *model.StatusReply {
	c, err := wire.Dial(s.Socket(), 30*time.Second)
	if err != nil {
		return nil
	}
	defer c.Close()
	var reply model.StatusReply
	if err := c.Call(context.Background(), wire.OpStatus, q, &reply); err != nil {
		return nil
	}
	return &reply
}

// Tenant is a live tenant by its name as status shows it, nil if there is none.
func (s *Stack) Tenant(name string) *model.View {
	reply := s.Status(model.StatusQuery{Start: time.Now()})
	if reply == nil {
		return nil
	}
	for i := range reply.Tenants {
		if reply.Tenants[i].Name() == name {
			return &reply.Tenants[i]
		}
	}
	return nil
}

// Tenants counts the live tenants, 0 if the daemon does not answer.
func (s *Stack) Tenants() int {
	reply := s.Status(model.StatusQuery{Start: time.Now()})
	if reply == nil {
		return 0
	}
	return len(reply.Tenants)
}

// State is what status calls the state of a live job's own tenant, "" if there
// is none.
func (s *Stack) State(job int) string {
	if v := s.Tenant(fmt.Sprint(job)); v != nil {
		return v.Word()
	}
	return ""
}

// WaitTenant waits until status shows the job in one of the states.
func (s *Stack) WaitTenant(job int, limit time.Duration, states ...string) {
	s.t.Helper()
	var last string
	what := fmt.Sprintf("job %d is %s", job, strings.Join(states, " or "))
	Eventually(s.t, limit, what, func() bool {
		last = s.State(job)
		for _, want := range states {
			if last == want {
				return true
			}
		}
		return false
	})
}

// Eventually waits until the condition holds.
func Eventually(t testing.TB, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", limit, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Trainer is the command line of a trainer, to be put into a batch script.
func Trainer(args string) string { return simgpu.Binary("simgpu-trainer") + " " + args }

// journal is what the daemon wrote down, in short.
func (s *Stack) journal() string {
	files, err := filepath.Glob(filepath.Join(s.state(), "journal-*.jsonl"))
	if err != nil || len(files) == 0 {
		return "none"
	}
	b, err := os.ReadFile(files[len(files)-1])
	if err != nil {
		return err.Error()
	}
	var out strings.Builder
	for line := range strings.Lines(tail(string(b), 60)) {
		var r model.Record
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.Seq == 0 {
			continue
		}
		e := r.Entry()
		state := "-"
		if r.Tenant != nil {
			state = fmt.Sprintf("%s on_gpu=%t procs=%d", r.Tenant.State, r.Tenant.OnGPU, r.Tenant.Procs)
		}
		fmt.Fprintf(&out, "%s %s %s%s: %s %s %s\n", r.Wall.Format("15:04:05.000"), e.Tenant, e.Event, e.Do, state, e.Why.Text, e.Text)
	}
	return out.String()
}

func tail(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
