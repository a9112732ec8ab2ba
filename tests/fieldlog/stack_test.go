// Package fieldlog tests what went wrong with GPU sharing elsewhere. Each case
// has an id; README.md says which test covers which case, here or in the room
// that the case belongs to.
package fieldlog

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/tests/e2e"
	"github.com/gimbal-hpc/gimbal/tests/simgpu"
	"github.com/gimbal-hpc/gimbal/tests/slurmtest"
)

// patience bounds waits for what takes a moment where the machine is idle.
const patience = 40 * time.Second

// turns is a policy that lets one tenant compute at a time, for so long, and
// pauses right after a launch.
func turns(quantum string) map[string]string {
	return map[string]string{"timeslice": fmt.Sprintf(`
name = "timeslice"
objective = "turns that a test can look into"
[share]
together = 1
quantum = %q
[limits]
min_run = "0s"
launch_grace = "3s"
`, quantum)}
}

// site is a node with Gimbal on it.
type site struct{ *e2e.Stack }

func start(t *testing.T, o e2e.Options) *site {
	t.Helper()
	return &site{e2e.Start(t, o)}
}

// pack submits a packed job of 1 GiB.
func (s *site) pack(t *testing.T, script string, more ...string) int {
	t.Helper()
	return s.Sbatch(t, script, append([]string{"--gres=shard:1", "--gimbal-pack", "--gimbal-memory=1GiB"}, more...)...)
}

// pair starts two jobs of trainers that take turns, and waits until the first, which
// has got as far as to compute, is paused.
func (s *site) pair(t *testing.T, script string, more ...string) (paused, other int) {
	t.Helper()
	paused = s.pack(t, script, more...)
	s.WaitTenant(paused, patience, "RUNNING")
	e2e.Eventually(t, patience, "the first computes", func() bool { return s.computes(paused) })
	other = s.pack(t, script)
	s.WaitTenant(paused, patience, "PAUSED")
	return paused, other
}

// computes tells whether a job has computed. By then its trainer catches what it is
// to catch, and has its workers.
func (s *site) computes(job int) bool {
	return slices.ContainsFunc(s.GPU.Record(), func(i simgpu.Interval) bool {
		return strings.HasPrefix(i.Label, fmt.Sprintf("%d.", job))
	})
}

// cancel ends jobs and waits until they are gone.
func (s *site) cancel(t *testing.T, jobs ...int) {
	t.Helper()
	for _, id := range jobs {
		if r := s.Run("scancel", fmt.Sprint(id)); r.Exit != 0 {
			t.Errorf("scancel %d: %v", id, r)
		}
	}
	for _, id := range jobs {
		s.WaitDone(t, id, patience)
	}
}

// wantState checks how a job ended.
func wantState(t *testing.T, j slurmtest.Job, state string) {
	t.Helper()
	if j.State != state {
		t.Errorf("job %d is %s (exit %d, signal %d), want %s", j.ID, j.State, j.ExitCode, j.Signal, state)
	}
}

// wantClean checks that nothing is left of any job: no drained node, no
// slurmstepd, no tenant.
func (s *site) wantClean(t *testing.T) {
	t.Helper()
	e2e.Eventually(t, patience, "no slurmstepd is left", func() bool { return len(s.stepds()) == 0 })
	if why := s.DrainReason(t); why != "" {
		t.Errorf("the node is drained: %s", why)
	}
	e2e.Eventually(t, patience, "the node is idle", func() bool { return s.NodeState(t) == "idle" })
	var left []string
	deadline := time.Now().Add(patience)
	for left = s.left(); len(left) > 0 && time.Now().Before(deadline); left = s.left() {
		time.Sleep(50 * time.Millisecond)
	}
	if len(left) > 0 {
		t.Errorf("tenants are left: %s", strings.Join(left, "; "))
	}
}

// left describes the live tenants.
func (s *site) left() []string {
	reply := s.Status(model.StatusQuery{Start: time.Now()})
	if reply == nil {
		return []string{"unknown: the daemon does not answer"}
	}
	var out []string
	for i := range reply.Tenants {
		v := &reply.Tenants[i]
		text := fmt.Sprintf("%s %s %s, %d processes", v.Name(), v.Word(), v.Reason.Text, v.Procs)
		for _, id := range []model.ProcID{v.Reg.Proc, v.Reg.Stepd} {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id.PID))
			text += fmt.Sprintf(", %d@%d: %s %v", id.PID, id.Start, stat, err)
		}
		out = append(out, text+"; alive: "+s.survivors(v.Reg.JobID))
	}
	return out
}

// survivors describes the processes that have a job of this node in their
// environment.
func (s *site) survivors(job uint32) string {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return err.Error()
	}
	var out []string
	for _, dir := range dirs {
		env, err := os.ReadFile(filepath.Join(dir, "environ"))
		if err != nil || !strings.Contains(string(env), fmt.Sprintf("SLURM_JOB_ID=%d\x00", job)) || !strings.Contains(string(env), s.Cluster.Dir) {
			continue
		}
		cmd, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		stat, _ := os.ReadFile(filepath.Join(dir, "stat"))
		out = append(out, fmt.Sprintf("%q %.60s", cmd, stat))
	}
	return strings.Join(out, ", ")
}

// stepds lists the slurmstepds of this cluster: those that hold one of its
// files open.
func (s *site) stepds() []int {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil
	}
	var out []int
	for _, dir := range dirs {
		comm, err := os.ReadFile(filepath.Join(dir, "comm"))
		if err == nil && strings.TrimSpace(string(comm)) == "slurmstepd" && holds(dir, s.Cluster.Dir+"/") {
			var pid int
			if _, err := fmt.Sscan(filepath.Base(dir), &pid); err == nil {
				out = append(out, pid)
			}
		}
	}
	return out
}

// holds tells whether a process has a file below a folder open.
func holds(procDir, folder string) bool {
	fds, err := os.ReadDir(filepath.Join(procDir, "fd"))
	if err != nil {
		return false
	}
	for _, fd := range fds {
		if to, err := os.Readlink(filepath.Join(procDir, "fd", fd.Name())); err == nil && strings.HasPrefix(to, folder) {
			return true
		}
	}
	return false
}

// trainers lists the processes of a job but for Slurm's own and the shell's.
func (s *site) trainers(job int) []int {
	var out []int
	for _, pid := range s.Pids(job) {
		comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if err == nil && strings.HasPrefix(string(comm), "simgpu-train") {
			out = append(out, pid)
		}
	}
	return out
}

// wantRunning waits until every process of a job runs.
func (s *site) wantRunning(t *testing.T, job int, limit time.Duration) {
	t.Helper()
	e2e.Eventually(t, limit, fmt.Sprintf("every process of job %d runs", job), func() bool {
		stopped, running := e2e.Stopped(s.Pids(job))
		return len(stopped) == 0 && len(running) > 0
	})
}

// tenant is a live job's own tenant; the test fails without one.
func (s *site) tenant(t *testing.T, job int) *model.View {
	t.Helper()
	v := s.Tenant(fmt.Sprint(job))
	if v == nil {
		t.Fatalf("the daemon does not know job %d", job)
	}
	return v
}

// configure changes gimbald.toml and has it read again.
func (s *site) configure(t *testing.T, change func(text string) string) {
	t.Helper()
	text, err := os.ReadFile(s.ConfigPath())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.ConfigPath(), []byte(change(string(text))), 0o644); err != nil {
		t.Fatal(err)
	}
	s.Signal(syscall.SIGHUP)
}

// replace returns a change of the configuration; it fails where there is
// nothing to replace.
func replace(t *testing.T, old, new string) func(string) string {
	return func(text string) string {
		if !strings.Contains(text, old) {
			t.Fatalf("the configuration has no %q:\n%s", old, text)
		}
		return strings.Replace(text, old, new, 1)
	}
}

// logged waits until gimbald has logged something.
func (s *site) logged(t *testing.T, text string) {
	t.Helper()
	e2e.Eventually(t, patience, fmt.Sprintf("gimbald logs %q", text), func() bool { return strings.Contains(s.Log(), text) })
}
