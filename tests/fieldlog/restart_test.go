package fieldlog

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/tests/e2e"
)

// TestDaemonsOwnCgroup is DL-05: no process of a job ever lives in gimbald's
// own control group, and a restart of the service (TERM, then start) leaves
// every job process alive and running, and keeps the records.
func TestDaemonsOwnCgroup(t *testing.T) {
	s := start(t, e2e.Options{Policies: turns("8s")})
	group := ownGroup(t)
	s.moveDaemon(t, group)
	paused, other := s.pair(t, e2e.Trainer("--memory 512MiB --seconds 300 --fork 2"))
	s.wantOnlyDaemon(t, group)

	var pids []int
	e2e.Eventually(t, patience, "two trainers have two children each", func() bool {
		pids = append(s.trainers(paused), s.trainers(other)...)
		return len(pids) >= 6
	})
	before := s.tenant(t, paused)
	s.StopDaemon()
	s.wantRunning(t, paused, patience)
	s.StartDaemon()
	for _, pid := range pids {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err != nil {
			t.Errorf("process %d of a job did not survive the restart", pid)
		}
	}
	after := s.tenant(t, paused)
	if after.ID != before.ID || after.Tally.Pauses < before.Tally.Pauses || after.Reg.Proc != before.Reg.Proc {
		t.Errorf("the record of the paused job is another one:\nbefore %+v\nafter %+v", before.Tenant, after.Tenant)
	}
	s.cancel(t, paused, other)
	s.wantClean(t)
}

// ownGroup makes a control group of the test's own.
func ownGroup(t *testing.T) string {
	t.Helper()
	var made string
	for _, root := range []string{"/sys/fs/cgroup/freezer", "/sys/fs/cgroup/unified", "/sys/fs/cgroup"} {
		dir := filepath.Join(root, fmt.Sprintf("gimbald-test-%d", os.Getpid()))
		if _, err := os.Stat(filepath.Join(root, "cgroup.procs")); err == nil && os.Mkdir(dir, 0o755) == nil {
			made = dir
			break
		}
	}
	if made == "" {
		t.Skip("SKIPPED: no control group can be made here")
	}
	t.Cleanup(func() {
		for _, pid := range groupPIDs(t, made) {
			moveTo(t, filepath.Dir(made), pid)
		}
		e2e.Eventually(t, patience, "the control group is removed", func() bool { return os.Remove(made) == nil })
	})
	return made
}

// moveDaemon puts gimbald and its guard into the group, as systemd starts
// them in one.
func (s *site) moveDaemon(t *testing.T, group string) {
	t.Helper()
	moveTo(t, group, s.DaemonPID())
	for _, pid := range children(s.DaemonPID()) {
		moveTo(t, group, pid)
	}
}

func (s *site) wantOnlyDaemon(t *testing.T, group string) {
	t.Helper()
	pids := groupPIDs(t, group)
	if !slices.Contains(pids, s.DaemonPID()) {
		t.Fatalf("gimbald is not in its group: %v", pids)
	}
	for _, pid := range pids {
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		if err == nil && filepath.Base(strings.TrimSuffix(exe, " (deleted)")) != "gimbald" {
			t.Errorf("%s (process %d) is in gimbald's control group", exe, pid)
		}
	}
}

func moveTo(t *testing.T, group string, pid int) {
	t.Helper()
	err := os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o644)
	if _, gone := os.Stat(fmt.Sprintf("/proc/%d", pid)); err != nil && gone == nil {
		t.Errorf("move process %d to %s: %v", pid, group, err)
	}
}

func groupPIDs(t *testing.T, group string) []int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(group, "cgroup.procs"))
	if err != nil {
		t.Fatal(err)
	}
	return numbers(string(text))
}

// children lists the child processes of a process.
func children(pid int) []int {
	var all []int
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, f := range files {
		if text, err := os.ReadFile(f); err == nil {
			all = append(all, numbers(string(text))...)
		}
	}
	return all
}

func numbers(text string) []int {
	var all []int
	for _, word := range strings.Fields(text) {
		if n, err := strconv.Atoi(word); err == nil {
			all = append(all, n)
		}
	}
	return all
}

// TestRequeuedJobIsAnother is SH-09: a paused job is requeued while a process
// of its first run lives on, which Slurm lost. The second run is a tenant of
// its own that starts from nothing, the first ends with its last process, and
// history shows both.
func TestRequeuedJobIsAnother(t *testing.T) {
	s := start(t, e2e.Options{Policies: turns("3s")})
	lost := "(setsid sleep 20 >/dev/null 2>&1 &)\n"
	job, other := s.pair(t, lost+"exec "+e2e.Trainer("--memory 512MiB --seconds 300"), "--requeue")
	first := s.tenant(t, job)
	if first.Tally.Pauses == 0 {
		t.Fatalf("the job was never paused: %+v", first.Tally)
	}
	s.cancelled(t, other)
	s.requeue(t, job)
	var second *model.View
	e2e.Eventually(t, patience, "the job is another tenant", func() bool {
		second = s.secondRun(job, first.ID)
		return second != nil
	})
	if second.Tally.Pauses != 0 || second.Tally.Paused != 0 || !second.Start.After(first.Start) {
		t.Errorf("the second run does not start from nothing: %+v", second.Tally)
	}
	e2e.Eventually(t, patience, "the trainer of the second run computes", func() bool { return len(s.trainers(job)) == 1 })
	s.cancel(t, job)
	s.wantClean(t)
	r := s.Gimbal("status", "-j", fmt.Sprint(job), "-X", "-n", "-P", "-o", "JobID,State")
	if rows := strings.Split(strings.TrimSpace(r.Stdout), "\n"); r.Exit != 0 || len(rows) != 2 {
		t.Errorf("history shows %d runs, want two: %v", len(rows), r)
	}
}

// secondRun is the live tenant of a job that is not its first one.
func (s *site) secondRun(job int, first model.TenantID) *model.View {
	reply := s.Status(model.StatusQuery{Start: time.Now()})
	if reply == nil {
		return nil
	}
	for i := range reply.Tenants {
		if v := &reply.Tenants[i]; v.Reg.JobID == uint32(job) && v.ID != first {
			return v
		}
	}
	return nil
}

// cancelled cancels a job without waiting for its end.
func (s *site) cancelled(t *testing.T, job int) {
	t.Helper()
	if r := s.Run("scancel", fmt.Sprint(job)); r.Exit != 0 {
		t.Errorf("scancel %d: %v", job, r)
	}
}

// requeue requeues a job and has it start within seconds rather than minutes:
// not at once, since Slurm refuses a credential of the second of the requeue.
func (s *site) requeue(t *testing.T, job int) {
	t.Helper()
	if r := s.Run("scontrol", "requeue", fmt.Sprint(job)); r.Exit != 0 {
		t.Fatalf("requeue: %v", r)
	}
	s.WaitState(t, job, patience, "PENDING")
	e2e.Eventually(t, patience, "the job may start again", func() bool {
		return s.Run("scontrol", "update", fmt.Sprintf("jobid=%d", job), "starttime=now+4").Exit == 0
	})
}

// TestKilledAtAnyMoment is DL-01: the daemon is killed at random moments of
// pauses and resumes; nothing stays stopped, and the next daemon takes over.
func TestKilledAtAnyMoment(t *testing.T) {
	s := start(t, e2e.Options{Policies: turns("100ms")})
	script := "exec " + e2e.Trainer("--memory 512MiB --seconds 600 --fork 3")
	jobs := []int{s.pack(t, script), s.pack(t, script)}
	for _, id := range jobs {
		s.WaitTenant(id, patience, "PAUSED")
	}
	const kills = 12
	for i := range kills {
		time.Sleep(time.Duration(i) * 23 * time.Millisecond) // each at another place of a turn
		s.KillDaemon()
		for _, id := range jobs {
			s.wantRunning(t, id, patience)
		}
		s.StartDaemon()
		reply := s.Status(model.StatusQuery{Start: time.Now()})
		if reply == nil || len(reply.Tenants) != len(jobs) {
			t.Fatalf("after kill %d the new daemon knows %+v", i, reply)
		}
	}
	for _, id := range jobs {
		s.WaitTenant(id, patience, "PAUSED") // turns go on
	}
	s.cancel(t, jobs...)
	s.wantClean(t)
}
