package faults

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/wire"
	"github.com/gimbal-hpc/gimbal/tests/simgpu"
)

// alone is a launcher without a Slurm: the test plays slurmstepd, plugin and
// Slurm's commands.
type alone struct {
	r       *rig
	freezer bool // each job gets a cgroup of its own, as under proctrack/cgroup
	gpus    []string
}

// child is a task that the test launched.
type child struct {
	k    *task
	cmd  *exec.Cmd
	gpu  string         // on which it computes
	gate io.WriteCloser // lets it exec
	out  bytes.Buffer
	reg  model.Registration
}

func newAlone(r *rig, s setting) *alone {
	a := &alone{r: r, freezer: s.freezer}
	for i := range max(s.gpu.GPUs, 1) {
		a.gpus = append(a.gpus, fmt.Sprint(i))
	}
	a.writeCommands()
	return a
}

// writeCommands makes commands that end a job as Slurm does: they have the pids
// of its tasks from the test.
func (a *alone) writeCommands() {
	script := fmt.Sprintf(`#!/bin/sh
echo "$0 $*" >>%[1]s/called
case "$*" in
"requeue "*|[0-9]*) for p in $(cat %[1]s/jobs/${2:-$1}); do kill -CONT $p; kill -TERM $p; done ;;
*--jobs=*) echo "$*" | sed 's/.*--jobs=\([0-9]*\).*/\1|RUNNING|N\/A|UNLIMITED|n0|None/' ;;
esac
`, a.r.dir)
	for _, name := range []string{"scontrol", "scancel", "squeue"} {
		a.r.write(filepath.Join("slurm", name), script)
	}
}

func (a *alone) settings() (node, slurm string) {
	return "n0", fmt.Sprintf("bin = %q", a.r.path("slurm"))
}

func (a *alone) wantWell() {}

func (a *alone) launch(k *task, memory, args string) {
	c := a.fork(k, args)
	k.of = k.job
	if a.freezer {
		inFreezer(k)
	}
	c.reg = model.Registration{JobID: k.job, StepID: model.StepBatch, ArrayTask: model.NoVal, HetOffset: model.NoVal,
		Tasks: 1, NNodes: 1, Proc: identity(a.r.t, k.root()), GPUs: a.gpus, Visible: strings.Join(a.gpus, ","),
		User: "root", JobName: "train", Launched: time.Now().UnixNano(), Options: model.Options{Pack: "1", Memory: memory}}
	c.register()
}

func (a *alone) join(k, to *task, args string) {
	c := a.fork(k, args)
	k.of = to.job
	c.reg = to.handle.(*child).reg
	c.reg.StepID, c.reg.Proc = k.job, identity(a.r.t, k.root())
	c.register()
}

// fork starts a task as slurmstepd's child that has not begun.
func (a *alone) fork(k *task, args string) *child {
	c := &child{k: k}
	k.handle, k.job = c, uint32(k.serial)
	c.gpu = a.gpus[k.serial%len(a.gpus)]
	c.start(append([]string{simgpu.Binary("simgpu-trainer"), "--label", fmt.Sprint(k.job)}, strings.Fields(args)...))
	a.r.write(filepath.Join("jobs", fmt.Sprint(k.job)), fmt.Sprint(k.root()))
	return c
}

// start runs the launcher, which becomes the trainer once its gate opens.
func (c *child) start(argv []string) {
	k, t := c.k, c.k.r.t
	c.cmd = exec.Command(stepd(), argv...)
	c.cmd.Env = append(append(os.Environ(), k.r.gpu.Env()...), asLauncher+"=1", "GIMBAL_PROGRESS="+k.file("progress"), "CUDA_VISIBLE_DEVICES="+c.gpu)
	c.cmd.Stdout, c.cmd.Stderr = &c.out, &c.out
	gate, err := c.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.gate = gate
	c.cmd.WaitDelay = time.Second
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = c.cmd.Wait(); close(k.done) }()
	eventually(t, patience, "the launcher is there", func() bool {
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", c.root()))
		return err == nil && filepath.Base(exe) == "slurmstepd"
	})
}

// register tells the daemon of the task, or leaves word where it does not
// answer, and then lets it begin: as the plugin does.
func (c *child) register() {
	r := c.k.r
	if err := r.call(wire.OpRegister, c.reg, nil); err != nil {
		if err := wire.WritePending(r.path("run/pending"), wire.OpRegister, c.reg, time.Now()); err != nil {
			r.t.Fatal(err)
		}
	}
	_, _ = c.gate.Write([]byte("\n"))
	_ = c.gate.Close()
}

func (c *child) root() int    { return c.cmd.Process.Pid }
func (c *child) terminate()   { kill(c.k.r.t, c.root(), unix.SIGTERM) }
func (c *child) said() string { return c.out.String() }

func (c *child) ending() ending {
	status := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ending{code: status.ExitStatus(), signal: status.Signal()}
}

// destroy ends whatever is left.
func (c *child) destroy() {
	for _, pid := range c.k.pids() {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	<-c.k.done
}

// identity is a process with its start time.
func identity(t *testing.T, pid int) model.ProcID {
	t.Helper()
	s, ok := statOf(pid)
	if !ok {
		t.Fatalf("process %d is gone", pid)
	}
	return model.ProcID{PID: pid, Start: s.start}
}

// freezerRoot is the folder of a rig's cgroups.
func freezerRoot(r *rig) string {
	return fmt.Sprintf("/sys/fs/cgroup/freezer/slurm_faults_%d_%s", os.Getpid(), filepath.Base(r.dir))
}

// inFreezer puts a task into a cgroup of its own, as proctrack/cgroup does on v1.
func inFreezer(k *task) {
	root := freezerRoot(k.r)
	dir := filepath.Join(root, "uid_0", fmt.Sprintf("job_%d", k.job), "step_0")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		k.r.t.Skipf("SKIPPED: no freezer of cgroup v1: %v", err)
	}
	k.r.t.Cleanup(func() {
		k.destroy()
		for d := dir; len(d) >= len(root); d = filepath.Dir(d) {
			_ = os.Remove(d)
		}
	})
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), fmt.Append(nil, k.root()), 0o644); err != nil {
		k.r.t.Fatal(err)
	}
}
