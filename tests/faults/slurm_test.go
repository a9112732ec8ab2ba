package faults

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/tests/simgpu"
	"github.com/gimbal-hpc/gimbal/tests/slurmtest"
)

// batch is a launcher that is a real Slurm of one node, with the plugin.
type batch struct {
	*slurmtest.Cluster
	r *rig
}

// job is a task that Slurm launched: a batch script, or a step of a job.
type job struct {
	k       *task
	c       *slurmtest.Cluster
	srun    *exec.Cmd // that launched the step, nil for a batch script
	printed bytes.Buffer

	mu    sync.Mutex
	pid   int // 0 until it was seen
	start uint64
	left  ending
}

// taskVar names a task in its environment.
const taskVar = "FAULTS_TASK"

func newBatch(r *rig, s setting) *batch {
	r.t.Helper()
	built := func(name string) string { return filepath.Join(simgpu.Root(), "build", name) }
	run := s.run
	if run == "" {
		run = r.path("run")
	}
	o := slurmtest.Options{GPUs: 1, Shards: 32, Env: r.gpu.Env(), KillWait: 10 * time.Second,
		Plugstack: fmt.Sprintf("optional %s socket=%s core=%s pending=%s", built("gimbal.so"),
			filepath.Join(run, "gimbald.sock"), built("gimbal_core.so"), r.path("run/pending"))}
	if s.freezer {
		o.Proctrack = "cgroup"
	}
	return &batch{Cluster: slurmtest.Start(r.t, o), r: r}
}

func (b *batch) settings() (node, slurm string) {
	return b.Nodes[0], fmt.Sprintf("conf = %q", filepath.Join(b.Dir, "slurm.conf"))
}

// wantWell checks that the node takes jobs and that nothing of the old ones is
// left on it.
func (b *batch) wantWell() {
	b.r.t.Helper()
	eventually(b.r.t, patience, "the node is idle", func() bool { return b.NodeState(b.r.t) == "idle" })
	if why := b.DrainReason(b.r.t); why != "" {
		b.r.t.Errorf("the node was drained: %s", why)
	}
}

// mark tells a task from every other, in its environment.
func (k *task) mark() string { return taskVar + "=" + k.file("task") }

// command is the trainer's, with a counter of iterations where the test reads it:
// the plugin has it elsewhere.
func (k *task) command(args string) string {
	return fmt.Sprintf("env GIMBAL_PROGRESS=%s %s %s", k.file("progress"), simgpu.Binary("simgpu-trainer"), args)
}

func (b *batch) launch(k *task, memory, args string) {
	j := &job{k: k, c: b.Cluster}
	k.job = uint32(b.Sbatch(b.r.t, "exec "+k.command(args), "--gres=shard:1", "--requeue", "--export=ALL,"+k.mark(),
		"--gimbal-pack", "--gimbal-memory="+memory))
	k.handle, k.of = j, k.job
	go j.watch()
}

func (b *batch) join(k, to *task, args string) {
	j := &job{k: k, c: b.Cluster}
	k.handle, k.job, k.of = j, to.job, to.job
	words := append([]string{fmt.Sprintf("--jobid=%d", to.job), "--overlap", "-n1", "--quiet"}, strings.Fields(k.command(args))...)
	j.srun = b.Command(context.Background(), "srun", words...)
	j.srun.Env = append(j.srun.Env, k.mark(), "GIMBAL_PACK=1") // as inside the job
	j.srun.Stdout, j.srun.Stderr = &j.printed, &j.printed
	if err := j.srun.Start(); err != nil {
		b.r.t.Fatal(err)
	}
	go func() {
		defer close(k.done)
		_ = j.srun.Wait()
		j.left = ending{code: j.srun.ProcessState.ExitCode()}
		if j.left.code == 128+int(unix.SIGTERM) {
			j.left.signal = unix.SIGTERM
		}
	}()
}

// root is the process that slurmstepd started for the task, 0 while it is not
// there or no more.
func (j *job) root() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.pid == 0 {
		j.pid, j.start = j.find()
	}
	if s, ok := statOf(j.pid); !ok || s.start != j.start || s.state == 'Z' {
		return 0
	}
	return j.pid
}

func (j *job) find() (pid int, start uint64) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	mine := append([]byte(j.k.mark()), 0)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(text, mine) {
			continue
		}
		if _, err := fmt.Sscanf(file, "/proc/%d/", &pid); err != nil {
			continue
		}
		st, ok := statOf(pid)
		comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", st.ppid))
		if ok && err == nil && strings.HasPrefix(string(comm), "slurmstepd") {
			return pid, st.start
		}
	}
	return 0, 0
}

// watch waits until Slurm says how a job has ended. One that was requeued is
// cancelled before it begins again.
func (j *job) watch() {
	defer close(j.k.done)
	for {
		time.Sleep(100 * time.Millisecond)
		if j.root() != 0 {
			continue
		}
		switch is, err := j.c.Job(int(j.k.job)); {
		case err != nil && !slurmUp(j.c):
			return
		case err != nil:
		case is.Restarts > 0:
			j.c.Run("scancel", fmt.Sprint(j.k.job))
			j.left = ending{requeued: true}
			return
		case is.Ended():
			j.left = ending{code: is.ExitCode, signal: unix.Signal(is.Signal)}
			return
		}
	}
}

// slurmUp tells whether a cluster has not been taken down.
func slurmUp(c *slurmtest.Cluster) bool {
	_, err := os.Stat(filepath.Join(c.Dir, "slurm.conf"))
	return err == nil
}

// terminate has Slurm send SIGTERM, to the script or to the step.
func (j *job) terminate() {
	t := j.k.r.t
	eventually(t, patience, fmt.Sprintf("job %d has begun", j.k.job), func() bool { return j.root() != 0 })
	args := []string{"-s", "TERM", "--batch", fmt.Sprint(j.k.job)}
	if j.srun != nil {
		args = []string{"-s", "TERM", fmt.Sprintf("%d.%s", j.k.job, j.step())}
	}
	if r := j.c.Run("scancel", args...); r.Exit != 0 {
		t.Errorf("scancel %q: %s", args, r)
	}
}

// step is the number of the step that the task is.
func (j *job) step() string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", j.root()))
	if err != nil {
		j.k.r.t.Errorf("step of job %d: %v", j.k.job, err)
	}
	_, rest, _ := strings.Cut(string(text), "SLURM_STEP_ID=")
	id, _, _ := strings.Cut(rest, "\x00")
	return id
}

func (j *job) ending() ending { return j.left }

func (j *job) said() string {
	if j.srun != nil {
		return j.printed.String()
	}
	return j.c.JobOutput(j.k.r.t, int(j.k.job))
}

func (j *job) destroy() {
	if !j.k.alive() {
		return
	}
	j.c.Run("scancel", fmt.Sprint(j.k.job))
	select {
	case <-j.k.done:
	case <-time.After(patience):
		j.k.r.t.Errorf("job %d does not end", j.k.job)
	}
}
