package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/tests/simgpu"
	"github.com/gimbal-hpc/gimbal/tests/slurmtest"
)

// startPlacing brings up a node with two GPUs and gimbald on it, which may ask
// this Slurm; who chooses the GPUs is told by choose.
func startPlacing(t *testing.T, o slurmtest.Options) *Stack {
	t.Helper()
	s := Start(t, Options{NoDaemon: true, GPU: simgpu.Options{GPUs: 2}, Slurm: o, Policy: "together",
		Policies: map[string]string{"together": quickTogether}, Plugin: "timeout=5s"})
	text, err := os.ReadFile(s.ConfigPath())
	if err != nil {
		t.Fatal(err)
	}
	s.write(s.ConfigPath(), fmt.Sprintf("%s[slurm]\nconf = %q\n", text, filepath.Join(s.Cluster.Dir, "slurm.conf")))
	return s
}

// choose has the GPUs chosen by gimbald or Slurm from the daemon's next start on.
func (s *Stack) choose(t *testing.T, who string) {
	t.Helper()
	text, err := os.ReadFile(s.ConfigPath())
	if err != nil {
		t.Fatal(err)
	}
	s.write(s.ConfigPath(), strings.Replace(string(text), "[node]\n", fmt.Sprintf("[node]\nplace = %q\n", who), 1))
}

// startChoosing starts gimbald and waits until it knows whether it may choose.
func (s *Stack) startChoosing(t *testing.T) {
	t.Helper()
	told := func() int {
		return strings.Count(s.Log(), "the GPUs of jobs are chosen here") + strings.Count(s.Log(), "Slurm's choice of GPUs stays")
	}
	before := told()
	s.StartDaemon()
	goFirst(t, s.DaemonPID()) // it has half a second of a launch
	Eventually(t, patience, "Slurm and the driver have told of the GPUs", func() bool {
		reply := s.Status(model.StatusQuery{Start: time.Now()})
		return told() > before && reply != nil && len(reply.GPUs) == 2 && len(reply.Foreign) == 2
	})
}

// heavy submits a job that keeps a GPU busy all the time, and waits until it is
// on one. It tells which GPUs its script and two steps of it see, the last one
// once the file flag is there.
func (s *Stack) heavy(t *testing.T, flag string) int {
	t.Helper()
	script := Trainer("--memory 2GiB --gpu-ms 20 --cpu-ms 1") + " &\n" +
		"echo batch $CUDA_VISIBLE_DEVICES\n" +
		"srun --overlap -n2 --quiet sh -c 'echo step $CUDA_VISIBLE_DEVICES'\n" +
		"while [ ! -e " + flag + " ]; do sleep 0.1; done\n" +
		"srun --overlap -n1 --quiet sh -c 'echo later $CUDA_VISIBLE_DEVICES'\necho end\nwait\n"
	id := s.Sbatch(t, script, oneShard, "-n2", "--gimbal-pack", "--gimbal-memory=2GiB")
	s.WaitTenant(id, patience, "RUNNING")
	Eventually(t, patience, fmt.Sprintf("job %d computes", id), func() bool {
		return s.GPU.Record().Busy(label(id)) > 0 && strings.Count(s.JobOutput(t, id), "step ") == 2
	})
	return id
}

// on is the GPU on which a job computes, -1 if it does on several, or on none.
func (s *Stack) on(id int) int {
	found := -1
	for g := range 2 {
		if s.GPU.Record().On(g).Busy(label(id)) > 0 {
			if found >= 0 {
				return -1
			}
			found = g
		}
	}
	return found
}

// seesOnly waits until a job's last step has ended: its script and its steps see
// this GPU alone.
func (s *Stack) seesOnly(t *testing.T, id, gpu int) {
	t.Helper()
	var out string
	Eventually(t, patience, "the last step has ended", func() bool {
		out = s.JobOutput(t, id)
		return strings.Contains(out, "end\n")
	})
	told := seen.FindAllStringSubmatch(out, -1)
	if len(told) != 4 {
		t.Errorf("job %d tells of %d tasks: %s", id, len(told), out)
	}
	for _, m := range told {
		if m[2] != fmt.Sprint(gpu) {
			t.Errorf("job %d: %s, want GPU %d", id, m[0], gpu)
		}
	}
}

// seen is what a task says of the GPUs that it sees.
var seen = regexp.MustCompile(`(?m)^(batch|step|later) (.*)$`)

// saysWhy wants the reason for a job's GPUs in explain and status.
func (s *Stack) saysWhy(t *testing.T, id int, why string) {
	t.Helper()
	if r := s.Gimbal("explain", fmt.Sprint(id)); !strings.Contains(r.Stdout, "Gimbal chose "+why) {
		t.Errorf("explain does not say why: %s", r)
	}
	if r := s.Gimbal("status", "-n", "-P", "-X", "-j", fmt.Sprint(id), "-o", "Placed"); !strings.Contains(r.Stdout, why) {
		t.Errorf("status does not say why: %s", r)
	}
}

// TestGimbalChoosesTheGPU: Slurm puts two heavy jobs on one of two GPUs; gimbald
// puts them on two, with all their steps, also those that are launched when another
// gimbald has taken over, and says so. While a job has a whole GPU it leaves the
// choice to Slurm.
func TestGimbalChoosesTheGPU(t *testing.T) {
	s := startPlacing(t, slurmtest.Options{})
	file := func(name string) string { return filepath.Join(s.Cluster.Out, name) }
	s.StartDaemon()
	t.Run("Slurm", func(t *testing.T) {
		first, second := s.heavy(t, file("a")), s.heavy(t, file("a"))
		if a, b := s.on(first), s.on(second); a != 0 || b != 0 {
			t.Fatalf("Slurm put them on %d and %d: there is nothing to be mended", a, b)
		}
		s.scancel(t, first)
		s.scancel(t, second)
		s.wantHealthy(t) // else they count on their GPU
	})
	s.StopDaemon()
	s.choose(t, "gimbal")
	s.startChoosing(t)

	first := s.heavy(t, file("b"))
	second := s.heavy(t, file("b"))
	gpu := map[int]int{first: s.on(first), second: s.on(second)}
	if gpu[first]+gpu[second] != 1 {
		t.Fatalf("they compute on %d and %d", gpu[first], gpu[second])
	}
	s.KillDaemon()
	s.startChoosing(t)
	s.write(file("b"), "")
	for id := range gpu {
		s.seesOnly(t, id, gpu[id])
		if gpu[id] == 1 {
			s.saysWhy(t, id, "GPU 1, alone; next best GPU 0")
		}
	}
	if a, b := s.tenant(t, fmt.Sprint(first)), s.tenant(t, fmt.Sprint(second)); slices.Equal(a.GPUs, b.GPUs) {
		t.Errorf("status shows them on %+v and %+v", a, b)
	}

	whole := s.Sbatch(t, "sleep 300", "--gres=gpu:1")
	// Slurm gives a whole GPU only where it gave no shards.
	s.WaitState(t, whole, patience, "RUNNING")
	s.StopDaemon()
	s.startChoosing(t) // it asks Slurm anew
	third := s.heavy(t, file("b"))
	if !strings.Contains(s.Log(), "Slurm's choice of GPUs stays: a job has a whole GPU of this node") {
		t.Errorf("it is not said why job %d stays where Slurm put it", third)
	}
	if v := s.tenant(t, fmt.Sprint(third)); v.Reg.Placed != "" || v.Terms.Placed != "" {
		t.Errorf("%+v", v)
	}
	for _, id := range []int{whole, first, second, third} {
		s.scancel(t, id)
	}
	s.wantHealthy(t)
}

// TestConfinedJobsStay: a job that reaches only the GPU that Slurm gave it is
// given no other.
func TestConfinedJobsStay(t *testing.T) {
	s := startPlacing(t, slurmtest.Options{Proctrack: "cgroup", ConstrainDevices: true})
	s.choose(t, "gimbal")
	s.startChoosing(t)
	first := s.heavy(t, filepath.Join(s.Cluster.Out, "never"))
	second := s.heavy(t, filepath.Join(s.Cluster.Out, "never"))
	if a, b := s.on(first), s.on(second); a != 0 || b != 0 {
		t.Errorf("they compute on %d and %d, Slurm gave both GPU 0", a, b)
	}
	if !strings.Contains(s.Log(), "Slurm's choice of GPUs stays: jobs reach only the GPUs that Slurm gave them (ConstrainDevices)") {
		t.Error("it is not said why")
	}
	s.scancel(t, first)
	s.scancel(t, second)
	s.wantHealthy(t)
}
