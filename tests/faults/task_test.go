package faults

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/wire"
	"github.com/gimbal-hpc/gimbal/tests/simgpu"
)

// task is a job of one task: a trainer, launched and registered as Slurm and
// the plugin do it.
type task struct {
	r      *rig
	job    uint32
	cmd    *exec.Cmd
	gate   io.WriteCloser // lets it exec
	out    bytes.Buffer
	done   chan struct{}
	tenant model.TenantID // as first shown
	reg    model.Registration
}

// trainer is the usual program: a few processes, of several kinds.
const trainer = "--memory 512MiB --gpu-ms 5 --cpu-ms 5 --fork 1 --setsid-workers 1"

// launch forks a task as slurmstepd does, and registers it before it execs.
func (r *rig) launch(memory, args string) *task { return r.launchIn(nil, memory, args) }

// launchIn is launch for a task that is put somewhere first.
func (r *rig) launchIn(place func(*task), memory, args string) *task {
	r.t.Helper()
	r.last++
	k := r.fork(args)
	if place != nil {
		place(k)
	}
	k.reg = model.Registration{JobID: k.job, StepID: model.StepBatch, ArrayTask: model.NoVal, HetOffset: model.NoVal,
		Tasks: 1, NNodes: 1, Proc: identity(r.t, k.cmd.Process.Pid), GPUs: []string{"0"}, Visible: "0",
		User: "root", JobName: "train", Launched: time.Now().UnixNano(), Options: model.Options{Pack: "1", Memory: memory}}
	k.register()
	return k
}

// join launches another task into a tenant, by another step of its job.
func (r *rig) join(to *task) *task {
	r.t.Helper()
	r.last++
	k := r.fork(trainer)
	k.reg = to.reg
	k.reg.StepID, k.reg.Proc = k.job, identity(r.t, k.cmd.Process.Pid)
	k.tenant = to.tenant
	k.register()
	return k
}

// fork starts a task as slurmstepd's child that has not begun.
func (r *rig) fork(args string) *task {
	r.t.Helper()
	k := &task{r: r, job: r.last, done: make(chan struct{})}
	words := strings.Fields(fmt.Sprintf("%s --label %d --report 3600 --on-term %s --watchdog 60", args, k.job, k.file("term")))
	k.start(append([]string{simgpu.Binary("simgpu-trainer")}, words...))
	r.mu.Lock()
	r.tasks = append(r.tasks, k)
	r.mu.Unlock()
	r.write(filepath.Join("jobs", fmt.Sprint(k.job)), fmt.Sprint(k.cmd.Process.Pid))
	return k
}

// start runs the launcher, which becomes the trainer once its gate opens.
func (k *task) start(argv []string) {
	t := k.r.t
	k.cmd = exec.Command(stepd(), argv...)
	k.cmd.Env = append(append(os.Environ(), k.r.gpu.Env()...), asLauncher+"=1", "GIMBAL_PROGRESS="+k.file("progress"), "CUDA_VISIBLE_DEVICES=0")
	k.cmd.Stdout, k.cmd.Stderr = &k.out, &k.out
	gate, err := k.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	k.gate = gate
	k.cmd.WaitDelay = time.Second
	if err := k.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = k.cmd.Wait(); close(k.done) }()
	eventually(t, patience, "the launcher is there", func() bool {
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", k.cmd.Process.Pid))
		return err == nil && filepath.Base(exe) == "slurmstepd"
	})
}

// register tells the daemon of the task, or leaves word where it does not
// answer, and then lets it begin: as the plugin does.
func (k *task) register() {
	if err := k.r.call(wire.OpRegister, k.reg, nil); err != nil {
		if err := wire.WritePending(k.r.path("run/pending"), wire.OpRegister, k.reg, time.Now()); err != nil {
			k.r.t.Fatal(err)
		}
	}
	_, _ = k.gate.Write([]byte("\n"))
	_ = k.gate.Close()
}

func (k *task) file(kind string) string { return k.r.path(fmt.Sprintf("jobs/%s-%d", kind, k.job)) }

// identity is a process with its start time.
func identity(t *testing.T, pid int) model.ProcID {
	t.Helper()
	s, ok := statOf(pid)
	if !ok {
		t.Fatalf("process %d is gone", pid)
	}
	return model.ProcID{PID: pid, Start: s.start}
}

// pids are the processes of a task that live.
func (k *task) pids() []int {
	var all []int
	next := []int{k.cmd.Process.Pid}
	for len(next) > 0 {
		pid := next[0]
		next = append(next[1:], childrenOf(pid)...)
		if s, ok := statOf(pid); ok && s.state != 'Z' {
			all = append(all, pid)
		}
	}
	return all
}

// stopped lists the processes of a task that are stopped or frozen.
func (k *task) stopped() []int {
	return slices.DeleteFunc(k.pids(), func(pid int) bool {
		s, ok := statOf(pid)
		return !ok || s.state != 'T' && !frozen(pid)
	})
}

// iterations is how far the training has come.
func (k *task) iterations() int {
	text, err := os.ReadFile(k.file("progress"))
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return n
}

// said is what a task has printed, once it has ended.
func (k *task) said() string {
	if k.alive() {
		return ""
	}
	return k.out.String()
}

func (k *task) alive() bool {
	select {
	case <-k.done:
		return false
	default:
		return true
	}
}

// trains waits until the training goes on.
func (k *task) trains() {
	k.r.t.Helper()
	from := k.iterations()
	eventually(k.r.t, patience, fmt.Sprintf("job %d trains", k.job), func() bool { return k.iterations() > from+2 })
}

// finish ends a job as its owner would, and checks that it ends as it does
// without Gimbal: by its own handler.
func (k *task) finish() {
	k.r.t.Helper()
	kill(k.r.t, k.cmd.Process.Pid, unix.SIGTERM)
	k.ended()
}

// ended waits for a job's end and checks how it was.
func (k *task) ended() {
	k.r.t.Helper()
	select {
	case <-k.done:
	case <-time.After(patience):
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", k.cmd.Process.Pid))
		k.r.t.Fatalf("job %d does not end: %v are stopped; it is %+v\n%s", k.job, k.stopped(), k.r.view(k), status)
	}
	k.wantEnd()
}

// wantEnd checks how a job has ended: by its owner's signal, on which it acts
// once it has come as far as to train.
func (k *task) wantEnd() {
	k.r.t.Helper()
	status := k.cmd.ProcessState.Sys().(syscall.WaitStatus)
	_, err := os.Stat(k.file("term"))
	if acted := status.ExitStatus() == 143 && err == nil; !acted && (k.iterations() > 0 || status.Signal() != unix.SIGTERM) {
		k.r.t.Errorf("job %d ended with %v (%v), want its own handler of SIGTERM:\n%s", k.job, k.cmd.ProcessState, err, k.out.String())
	}
}

// destroy ends whatever is left.
func (k *task) destroy() {
	for _, pid := range k.pids() {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	<-k.done
}

// stat is what is asked of /proc/PID/stat.
type stat struct {
	state byte
	ppid  int
	start uint64
}

func statOf(pid int) (stat, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, false
	}
	rest := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+2:]))
	ppid, _ := strconv.Atoi(rest[1])
	start, _ := strconv.ParseUint(rest[19], 10, 64)
	return stat{state: rest[0][0], ppid: ppid, start: start}, true
}

// childrenOf lists the children of a process, of all its threads.
func childrenOf(pid int) []int {
	var all []int
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, f := range files {
		text, _ := os.ReadFile(f)
		for _, word := range strings.Fields(string(text)) {
			if n, err := strconv.Atoi(word); err == nil {
				all = append(all, n)
			}
		}
	}
	return all
}

// frozen tells whether a process is in a cgroup that is frozen, v1 or v2.
func frozen(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		if _, path, ok := strings.Cut(strings.TrimSpace(line), ":freezer:"); ok {
			state, err := os.ReadFile(filepath.Join("/sys/fs/cgroup/freezer", path, "freezer.state"))
			return err == nil && strings.TrimSpace(string(state)) != "THAWED"
		}
	}
	return false
}

// strangers are processes that are none of Gimbal's business: one beside the
// tasks, and one that somebody else has stopped.
type strangers struct {
	r                *rig
	beside, asleep   *exec.Cmd
	received, unwell string
}

func newStrangers(t *testing.T, r *rig) *strangers {
	s := &strangers{r: r, received: r.path("received"), unwell: r.path("unwell")}
	s.beside, s.asleep = s.start(s.received), s.start(s.unwell)
	kill(t, s.asleep.Process.Pid, unix.SIGSTOP)
	return s
}

func (s *strangers) start(file string) *exec.Cmd {
	t := s.r.t
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), asBystander+"="+file)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Signal(syscall.SIGKILL); _ = cmd.Wait() })
	eventually(t, patience, "the bystander is there", func() bool { _, err := os.Stat(file); return err == nil })
	return cmd
}

// wantUntouched checks that nobody signalled, stopped or continued them.
func (s *strangers) wantUntouched(t *testing.T) {
	t.Helper()
	for _, file := range []string{s.received, s.unwell} {
		if text, err := os.ReadFile(file); err != nil || len(text) > 0 {
			t.Errorf("a process that is not ours received %q (%v)", text, err)
		}
	}
	if st, ok := statOf(s.beside.Process.Pid); !ok || st.state == 'T' {
		t.Errorf("a process that is not ours is %c", st.state)
	}
	if st, ok := statOf(s.asleep.Process.Pid); !ok || st.state != 'T' {
		t.Errorf("a process that somebody else stopped is %c", st.state)
	}
}
