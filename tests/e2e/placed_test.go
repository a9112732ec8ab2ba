package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/wire"
	"github.com/gimbal-hpc/gimbal/tests/simgpu"
)

// standIn is gimbald on a node with two GPUs that chooses the GPUs of jobs, with a
// scontrol that says of the node what the test wants.
func standIn(t *testing.T, place string) *Stack {
	t.Helper()
	bin := t.TempDir()
	for file, text := range map[string]string{
		"scontrol": "#!/bin/sh\ncd " + bin + "\ncase \"$*\" in *config*) exec cat config ;; *aliases*) echo n0 ;; *) exec cat node ;; esac\n",
		"config":   "TaskPlugin = task/none\n", "node": "NodeName=n0 Gres=gpu:2,shard:8 GresUsed=gpu:0,shard:0 \n",
	} {
		if err := os.WriteFile(filepath.Join(bin, file), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := Start(t, Options{NoSlurm: true, NoDaemon: true, GPU: simgpu.Options{GPUs: 2}, Policy: "together",
		Config: fmt.Sprintf("[slurm]\nbin = %q\n", bin)})
	if s.choose(t, place); place == "gimbal" {
		s.startChoosing(t)
		return s
	}
	s.StartDaemon()
	return s
}

// step is a step of a packed job to which Slurm gave GPU 0, with some shards of it.
func step(job, id, shards uint32, memory string) model.Registration {
	return model.Registration{JobID: job, StepID: id, ArrayTask: model.NoVal, HetOffset: model.NoVal, Tasks: 1, NNodes: 1, Shards: shards,
		GPUs: []string{"0"}, GPUsFrom: "SLURM_STEP_GPUS", Visible: "0", JobName: fmt.Sprint("job", job), Options: model.Options{Pack: "1", Memory: memory}}
}

// prepare returns what gimbald wants a step to see, "" where Slurm's choice stays.
func (s *Stack) prepare(r model.Registration) (visible string, err error) {
	c, err := wire.Dial(s.Socket(), 10*time.Second)
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	var p wire.Prepared
	err = c.Call(context.Background(), wire.OpPrepare, wire.PrepareRequest{Step: r}, &p)
	return p.Env["CUDA_VISIBLE_DEVICES"], err
}

func (s *Stack) visible(t *testing.T, r model.Registration) string {
	t.Helper()
	visible, err := s.prepare(r)
	if err != nil {
		t.Fatal(err)
	}
	return visible
}

// launch prepares a step and registers a task of it, as the plugin does; the task
// lives as long as the test. It returns what it sees.
func (s *Stack) launch(t *testing.T, r model.Registration) string {
	t.Helper()
	r.Placed = s.visible(t, r)
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	var err error
	if r.Proc, err = procID(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if r.Stepd, err = procID(os.Getpid()); err != nil {
		t.Fatal(err)
	}
	if err := s.tell(wire.OpRegister, r); err != nil {
		t.Fatal(err)
	}
	return r.Placed
}

// TestGPUsOfAStep: jobs that Slurm put on one GPU are spread over two; all steps of
// a job get what its first one did, also from a new gimbald, and those that were
// not registered yet count.
func TestGPUsOfAStep(t *testing.T) {
	s := standIn(t, "gimbal")
	want := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s sees %q, want %q\n%s", what, got, want, tail(s.Log(), 5))
		}
	}
	want("the first job", s.launch(t, step(1, model.StepBatch, 2, "4GiB")), "0")
	want("the second", s.launch(t, step(2, 0, 2, "4GiB")), "1")
	want("a step of it", s.launch(t, step(2, 1, 2, "4GiB")), "1")
	own := step(2, 2, 2, "1GiB")
	own.Own = true
	want("a step with an option of its own", s.launch(t, own), "1")
	s.KillDaemon()
	s.startChoosing(t)
	want("a later step", s.launch(t, step(2, 3, 2, "4GiB")), "1")
	want("a job that fits in the rest of GPU 0 alone", s.launch(t, step(3, model.StepBatch, 2, "9GiB")), "0")
	want("one for which there are shards on GPU 1 alone", s.launch(t, step(4, model.StepBatch, 2, "1GiB")), "1")
	want("one for which there are none", s.visible(t, step(5, model.StepBatch, 1, "1GiB")), "")
	want("and its later step", s.visible(t, step(5, 0, 1, "1GiB")), "")
	whole := step(6, model.StepBatch, 0, "1GiB")
	want("a job with a whole GPU", s.visible(t, whole), "")
	several := step(7, model.StepBatch, 1, "1GiB")
	several.NNodes = 2
	want("a job on two nodes", s.visible(t, several), "")
	for name, gpu := range map[string]int{"1": 0, "2": 1, "3": 0, "4": 1} {
		v := s.tenant(t, name)
		gpus := s.Status(model.StatusQuery{}).GPUs
		if len(v.GPUs) != 1 || v.GPUs[0] != gpus[gpu].UUID || v.Terms.Placed == "" {
			t.Errorf("job %s: %+v", name, v)
		}
	}
}

// TestPreparedTogether: of eight jobs that are launched at the same moment four
// come on each GPU.
func TestPreparedTogether(t *testing.T) {
	s := standIn(t, "gimbal")
	var mu sync.Mutex
	count := map[string]int{}
	var all sync.WaitGroup
	for job := range uint32(8) {
		all.Go(func() {
			sees, err := s.prepare(step(job+1, model.StepBatch, 1, "1GiB"))
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			count[sees]++
		})
	}
	all.Wait()
	if count["0"] != 4 || count["1"] != 4 {
		t.Errorf("%v\n%s", count, tail(s.Log(), 5))
	}
}

// TestSlurmChoosesByDefault: nothing is said to a step where the site does not ask.
func TestSlurmChoosesByDefault(t *testing.T) {
	s := standIn(t, "slurm")
	for job := range uint32(2) {
		if sees := s.launch(t, step(job+1, model.StepBatch, 1, "1GiB")); sees != "" {
			t.Errorf("job %d sees %q", job+1, sees)
		}
	}
	if strings.Contains(s.Log(), "Slurm's choice") {
		t.Error("it is logged that Slurm chooses")
	}
}
