package faults

import (
	"bytes"
	"fmt"
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
)

// task is a job of one task: a trainer, launched as Slurm launches one, or by it.
type task struct {
	handle
	r       *rig
	serial  int    // of the rig's tasks
	job     uint32 // by which status and orders know it
	of      uint32 // the job whose tenant it belongs to; its own but for one that joined
	done    chan struct{}
	tenant  model.TenantID // as first shown
	evicted bool           // it may have been requeued
}

// handle is a task in the hands of who launched it.
type handle interface {
	root() int      // its pid, 0 while there is none
	terminate()     // sends it SIGTERM, as its owner would
	ending() ending // how it ended, once it has
	said() string   // what it printed, once it has ended
	destroy()       // ends it whatever its state
}

// ending is how a task ended.
type ending struct {
	code     int
	signal   unix.Signal
	requeued bool
}

// launcher launches tasks, as slurmstepd does.
type launcher interface {
	// launch begins a job's first task and has it registered; args are the trainer's.
	launch(k *task, memory, args string)
	// join begins another task of the tenant that a task belongs to.
	join(k, to *task, args string)
	// settings are the node's name and the lines of gimbald.toml on Slurm.
	settings() (node, slurm string)
	// wantWell checks that nothing is wrong with who launches.
	wantWell()
}

// trainer is the usual program: a few processes, of several kinds.
const trainer = "--memory 512MiB --gpu-ms 5 --cpu-ms 5 --fork 1 --setsid-workers 1"

// slow is that program of a job that is to be held: as a framework's import does, its
// start outlasts the moment between exec and hold.
const slow = trainer + " --startup 0.5"

// launch begins a job.
func (r *rig) launch(memory, args string) *task {
	r.t.Helper()
	k := r.newTask()
	r.launcher.launch(k, memory, k.args(args))
	r.add(k)
	return k
}

// join launches another task into a tenant, by another step of its job.
func (r *rig) join(to *task) *task {
	r.t.Helper()
	k := r.newTask()
	k.tenant = to.tenant
	r.launcher.join(k, to, k.args(trainer))
	r.add(k)
	return k
}

func (r *rig) newTask() *task {
	r.last++
	return &task{r: r, serial: r.last, done: make(chan struct{})}
}

func (r *rig) add(k *task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tasks = append(r.tasks, k)
}

// args are a trainer's, with what every one has.
func (k *task) args(more string) string {
	return fmt.Sprintf("%s --report 3600 --on-term %s --watchdog 60", more, k.file("term"))
}

func (k *task) file(kind string) string { return k.r.path(fmt.Sprintf("jobs/%s-%d", kind, k.serial)) }

// pids are the processes of a task that live.
func (k *task) pids() []int {
	var all []int
	var next []int
	if pid := k.root(); pid != 0 {
		next = append(next, pid)
	}
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
	k.terminate()
	k.ended()
}

// ended waits for a job's end and checks how it was.
func (k *task) ended() {
	k.r.t.Helper()
	select {
	case <-k.done:
	case <-time.After(patience):
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", k.root()))
		k.r.t.Fatalf("job %d does not end: %v are stopped; the daemon says %+v\n%s", k.job, k.stopped(), k.r.status(), status)
	}
	k.wantEnd()
}

// wantEnd checks how a job has ended: by its owner's signal, or by Slurm's when
// it was evicted, on which it acts once it has come as far as to train.
func (k *task) wantEnd() {
	k.r.t.Helper()
	end := k.ending()
	_, err := os.Stat(k.file("term"))
	acted := (end.code == 143 || end.requeued && k.evicted) && err == nil
	if !acted && (k.iterations() > 0 || end.signal != unix.SIGTERM) {
		k.r.t.Errorf("job %d ended with %+v (%v), want its own handler of SIGTERM:\n%s", k.job, end, err, k.said())
	}
}

// stat is what is asked of /proc/PID/stat.
type stat struct {
	state byte
	ppid  int
	start uint64
}

func statOf(pid int) (stat, bool) { return statIn(fmt.Sprintf("/proc/%d/stat", pid)) }

// statIn reads that of a process or of one of its threads.
func statIn(file string) (stat, bool) {
	text, err := os.ReadFile(file)
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
	halt(t, s.asleep.Process.Pid)
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
