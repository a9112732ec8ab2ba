package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/journal"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/proc"
	"github.com/gimbal-hpc/gimbal/helper/wire"
	"github.com/gimbal-hpc/gimbal/tests/slurmtest"
)

// TestThousandRegistrations: a node takes a thousand steps within a minute, as
// the plugin tells of them, and each is in its history with its beginning and
// its end. The processes exist; the long form is of five thousand that live for a
// second each. MT-01: none of them leaves anything in the metrics.
func TestThousandRegistrations(t *testing.T) {
	const atOnce = 40
	jobs, life := uint32(slurmtest.Long(5000, 1000)), time.Duration(slurmtest.Long(1000, 50))*time.Millisecond
	page := filepath.Join(t.TempDir(), "gimbal.prom")
	s := Start(t, Options{NoSlurm: true, Policy: "together", Interval: time.Second,
		Config: fmt.Sprintf("[metrics]\ntextfile = %q\ninterval = \"1s\"\n", page)})
	before := s.firstPage(t, page)
	goFirst(t, os.Getpid(), s.DaemonPID())
	begin := time.Now()
	var next atomic.Uint32
	var slowest atomic.Int64
	var wg sync.WaitGroup
	for range atOnce {
		wg.Go(func() {
			for job := next.Add(1); job <= jobs; job = next.Add(1) {
				took, err := s.shortJob(job, life)
				if err != nil {
					t.Errorf("job %d: %v", job, err)
				}
				for was := slowest.Load(); took > time.Duration(was) && !slowest.CompareAndSwap(was, int64(took)); was = slowest.Load() {
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(begin)
	t.Logf("%d registrations in %.1f s, %d at once, the slowest in %v", jobs, took.Seconds(), atOnce, time.Duration(slowest.Load()))
	if took > time.Duration(jobs/1000)*time.Minute {
		t.Errorf("it took %v", took)
	}
	Eventually(t, patience, "no tenant is left", func() bool {
		reply := s.Status(model.StatusQuery{Start: time.Now()})
		return reply != nil && len(reply.Tenants) == 0
	})
	s.wantHistory(t, jobs)
	Eventually(t, patience, "the metrics are as small as before", func() bool {
		after := readFile(page)
		return !strings.Contains(after, "jobid=") && len(after) <= len(before)*101/100
	})
}

// firstPage waits for a page of metrics that knows the GPU.
func (s *Stack) firstPage(t *testing.T, path string) string {
	t.Helper()
	Eventually(t, patience, "metrics are written", func() bool { return strings.Contains(readFile(path), "gimbal_gpu_memory_used_bytes{") })
	return readFile(path)
}

// readFile is a file's text, "" where there is none.
func readFile(path string) string {
	text, _ := os.ReadFile(path)
	return string(text)
}

// shortJob is one step of one task from its announcement to its end; took is
// how long the daemon took to register it.
func (s *Stack) shortJob(job uint32, life time.Duration) (took time.Duration, err error) {
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	task, err := procID(cmd.Process.Pid)
	if err != nil {
		return 0, err
	}
	stepd, err := procID(os.Getpid())
	if err != nil {
		return 0, err
	}
	reg := model.Registration{JobID: job, ArrayTask: model.NoVal, HetOffset: model.NoVal, Tasks: 1, NNodes: 1, Proc: task, Stepd: stepd,
		GPUs: []string{"0"}, GPUsFrom: "SLURM_STEP_GPUS", JobName: "short", Launched: time.Now().UnixNano(), Options: model.Options{Pack: "1", Memory: "1MiB"}}
	if err := s.tell(wire.OpPrepare, wire.PrepareRequest{Step: reg}); err != nil {
		return 0, err
	}
	begin := time.Now()
	if err := s.tell(wire.OpRegister, reg); err != nil {
		return 0, err
	}
	took = time.Since(begin)
	time.Sleep(life)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	key := model.StepKey{JobID: job}
	if err := s.tell(wire.OpTaskExit, model.TaskExit{StepKey: key, Proc: task, Status: 9}); err != nil {
		return took, err
	}
	return took, s.tell(wire.OpStepEnd, key)
}

// tell makes one call on a connection of its own, as the plugin does.
func (s *Stack) tell(op wire.Op, params any) error {
	c, err := wire.Dial(s.Socket(), 10*time.Second)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	return c.Call(context.Background(), op, params, nil)
}

func procID(pid int) (model.ProcID, error) {
	id, err := proc.Host{}.Identify(pid)
	return model.ProcID(id), err
}

// wantHistory wants each job once, with its one task's exit.
func (s *Stack) wantHistory(t *testing.T, jobs uint32) {
	t.Helper()
	ended, err := journal.Ended(filepath.Join(s.Dir, "state"), model.StatusQuery{})
	if err != nil {
		t.Fatal(err)
	}
	times := map[uint32]int{}
	for _, v := range ended {
		times[v.Reg.JobID]++
		if len(v.Steps) != 1 || v.Steps[0].Tasks != 1 || v.Steps[0].Status != 9 || !v.Steps[0].Ended {
			t.Errorf("job %d: steps %+v", v.Reg.JobID, v.Steps)
		}
	}
	for job := uint32(1); job <= jobs; job++ {
		if times[job] != 1 {
			t.Errorf("job %d is %d times in the history", job, times[job])
		}
	}
	if log := s.Log(); strings.Contains(log, " ERR ") || strings.Contains(log, " WRN ") {
		t.Errorf("gimbald says\n%s", fmt.Sprint(tail(log, 20)))
	}
}
