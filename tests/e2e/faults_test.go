package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// forTheLast is a policy under which the GPU is whose who came last, until it ends.
const forTheLast = `
name = "timeslice"
objective = "the GPU for who comes last, for tests that look into a pause"
[share]
together = 1
tier = "-tenant.age"
[limits]
min_run = "0s"
max_pause = "1h"
launch_grace = "5m"
`

// lastComes is a stack on which who is paused stays so for as long as a test looks at
// it.
func lastComes() Options {
	return Options{Policies: map[string]string{"timeslice": forTheLast}, Config: "[limits]\nmax_pause = \"1h\"\n"}
}

// onePaused starts two trainers, the second of which has the GPU, and waits until the
// first is paused: the daemon then has something on its conscience.
func (s *Stack) onePaused(t *testing.T, trainer string) (paused, running int) {
	t.Helper()
	paused = s.Sbatch(t, trainer, oneShard, "--gimbal-pack", "--gimbal-memory=2GiB")
	s.WaitTenant(paused, patience, "RUNNING")
	s.WaitClients(t, 1)
	return paused, s.overtake(t, paused, trainer)
}

// overtake starts a trainer that has the GPU before a job, and waits until that is
// paused for it.
func (s *Stack) overtake(t *testing.T, job int, trainer string) (running int) {
	t.Helper()
	running = s.Sbatch(t, trainer, oneShard, "--gimbal-pack", "--gimbal-memory=2GiB")
	s.waitStates(t, map[int]string{job: "PAUSED", running: "RUNNING"})
	return running
}

// guardPID finds the guard of a daemon.
func guardPID(t *testing.T, daemon int) int {
	t.Helper()
	pid := findGuard(t, daemon)
	if pid == 0 {
		t.Fatalf("daemon %d has no guard", daemon)
	}
	return pid
}

// findGuard is the same, 0 while there is none.
func findGuard(t *testing.T, daemon int) int {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		cmd, err := os.ReadFile(filepath.Join(d, "cmdline"))
		if err != nil || !strings.Contains(string(cmd), "--guard\x00") {
			continue
		}
		stat, err := os.ReadFile(filepath.Join(d, "stat"))
		if err != nil {
			continue
		}
		rest := string(stat)[strings.LastIndexByte(string(stat), ')')+2:]
		if strings.Fields(rest)[1] == strconv.Itoa(daemon) {
			pid, err := strconv.Atoi(filepath.Base(d))
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
	}
	return 0
}

// wantRunning waits until none of the processes is stopped.
func wantRunning(t *testing.T, pids []int, limit time.Duration) {
	t.Helper()
	Eventually(t, limit, fmt.Sprintf("every one of the processes %v runs", pids), func() bool {
		stopped, running := Stopped(pids)
		return len(stopped) == 0 && len(running) > 0
	})
}

// TestDaemonDies: whatever ends or hangs the daemon in the middle of a pause,
// every process runs again within the time, the jobs finish, and the next
// daemon takes them over.
func TestDaemonDies(t *testing.T) {
	s := Start(t, lastComes())
	cases := []struct {
		name  string
		limit time.Duration
		fault func(t *testing.T)
	}{
		{"killed", time.Second, func(*testing.T) { s.KillDaemon() }},
		{"stopped", 6 * time.Second, func(*testing.T) { s.Signal(syscall.SIGSTOP) }},
		{"guard killed first", patience, func(t *testing.T) {
			old := guardPID(t, s.DaemonPID())
			if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			Eventually(t, patience, "another guard", func() bool {
				_, err := os.Stat(fmt.Sprintf("/proc/%d", old))
				guard := findGuard(t, s.DaemonPID())
				return err != nil && guard != 0 && guard != old
			})
			s.KillDaemon()
		}},
		{"both killed at once and the daemon started again", patience, func(t *testing.T) {
			guard := guardPID(t, s.DaemonPID())
			if err := syscall.Kill(guard, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			s.KillDaemon()
			s.write(s.policyPath("timeslice"), strings.Replace(forTheLast, "together = 1", "together = 2", 1))
			s.StartDaemon()
		}},
		{"asked to leave", 0, func(t *testing.T) {
			s.Signal(syscall.SIGTERM)
			Eventually(t, patience, "the daemon has left", func() bool { return !s.alive() })
		}},
	}
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s.write(s.policyPath("timeslice"), forTheLast)
			s.Signal(syscall.SIGHUP)
			option, end := s.until(t, fmt.Sprint("end-", i))
			paused, other := s.onePaused(t, Trainer("--memory 2GiB"+option))
			pids := s.Pids(paused)
			if stopped, _ := Stopped(pids); len(stopped) == 0 {
				t.Fatalf("none of the processes %v of job %d is stopped", pids, paused)
			}
			c.fault(t)
			wantRunning(t, pids, c.limit)
			if c.name == "stopped" {
				s.Signal(syscall.SIGCONT)
			} else if !s.alive() {
				s.StartDaemon()
			}
			if got := s.State(paused); got == "" {
				t.Errorf("the daemon does not know job %d any more:\n%s", paused, tail(s.Log(), 20))
			}
			end()
			for _, j := range []int{paused, other} {
				wantState(t, s.WaitDone(t, j, patience), "COMPLETED")
			}
			s.wantHealthy(t)
		})
	}
}

func (s *Stack) alive() bool {
	select {
	case <-s.done:
		return false
	default:
		return true
	}
}

// TestSlurmEndsPackedJobs: scancel, a time limit, a signal and Slurm's suspend
// meet a paused and a held tenant; the outcome is Slurm's usual one, the node
// is never drained, nothing stays stopped.
func TestSlurmEndsPackedJobs(t *testing.T) {
	for _, track := range []string{"linuxproc", "cgroup"} {
		t.Run(track, func(t *testing.T) {
			o := lastComes()
			o.Slurm.Proctrack = track
			s := Start(t, o)
			t.Run("scancel of a paused one", func(t *testing.T) {
				paused, other := s.onePaused(t, Trainer("--memory 2GiB"))
				s.scancel(t, paused)
				wantState(t, s.WaitDone(t, paused, patience), "CANCELLED")
				s.scancel(t, other)
				s.wantHealthy(t)
			})
			t.Run("scancel of a held one", func(t *testing.T) {
				first := s.Sbatch(t, Trainer("--memory 9GiB"), oneShard, "--gimbal-pack", "--gimbal-memory=9GiB")
				s.WaitTenant(first, patience, "RUNNING")
				held := s.Sbatch(t, slowly("--memory 9GiB"), oneShard, "--gimbal-pack", "--gimbal-memory=9GiB")
				s.WaitTenant(held, patience, "HELD")
				s.scancel(t, held)
				wantState(t, s.WaitDone(t, held, patience), "CANCELLED")
				s.scancel(t, first)
				s.wantHealthy(t)
			})
			t.Run("scancel of many held scripts leaves no process", func(t *testing.T) {
				first := s.Sbatch(t, Trainer("--memory 9GiB"), oneShard, "--gimbal-pack", "--gimbal-memory=9GiB")
				s.WaitTenant(first, patience, "RUNNING")
				var held []int
				for range 6 {
					held = append(held, s.Sbatch(t, slowly("--memory 9GiB")+"\ntrue", oneShard, "--gimbal-pack", "--gimbal-memory=9GiB"))
				}
				for _, j := range held {
					s.WaitTenant(j, patience, "HELD")
				}
				for _, j := range append(held, first) {
					s.scancel(t, j)
				}
				for _, j := range held {
					wantState(t, s.WaitDone(t, j, patience), "CANCELLED")
				}
				s.wantHealthy(t)
			})
			t.Run("SIGTERM reaches a paused one", func(t *testing.T) {
				file := filepath.Join(s.Out, "term-"+track)
				paused, other := s.onePaused(t, "exec "+Trainer("--memory 2GiB --on-term "+file))
				s.Run("scancel", "-s", "TERM", "--full", fmt.Sprint(paused))
				Eventually(t, patience, "the job's own handler ran", func() bool { _, err := os.Stat(file); return err == nil })
				s.WaitDone(t, paused, patience)
				s.scancel(t, other)
				s.wantHealthy(t)
			})
			t.Run("suspended stays suspended", func(t *testing.T) { testSuspend(t, s) })
		})
	}
}

func (s *Stack) scancel(t *testing.T, job int) {
	t.Helper()
	if r := s.Run("scancel", fmt.Sprint(job)); r.Exit != 0 {
		t.Errorf("scancel %d: %s", job, r)
	}
}

// testSuspend suspends a paused job by Slurm: it stays stopped when its turn
// comes, runs after Slurm's resume, and finishes.
func testSuspend(t *testing.T, s *Stack) {
	option, end := s.until(t, "suspended")
	paused, other := s.onePaused(t, Trainer("--memory 2GiB"+option))
	if r := s.Run("scontrol", "suspend", fmt.Sprint(paused)); r.Exit != 0 {
		t.Fatalf("suspend: %s", r)
	}
	s.WaitState(t, paused, patience, "SUSPENDED")
	pids := s.Pids(paused)
	Eventually(t, patience, fmt.Sprintf("Slurm's stop has reached the processes %v", pids), func() bool {
		return slices.ContainsFunc(pids, func(pid int) bool { return signalWaits(pid, syscall.SIGTSTP) })
	})
	s.scancel(t, other) // now it would be the suspended one's turn
	s.WaitDone(t, other, patience)
	deadline := time.Now().Add(3 * time.Second)
	for time.Now().Before(deadline) {
		if _, running := Stopped(pids); len(running) > 0 {
			t.Fatalf("processes %v run although Slurm suspended the job", running)
		}
		time.Sleep(100 * time.Millisecond)
	}
	if r := s.Run("scontrol", "resume", fmt.Sprint(paused)); r.Exit != 0 {
		t.Fatalf("resume: %s", r)
	}
	end()
	wantState(t, s.WaitDone(t, paused, patience), "COMPLETED")
	s.wantHealthy(t)
}

// signalWaits tells whether a signal waits for a process that is stopped.
func signalWaits(pid int, sig syscall.Signal) bool {
	for line := range strings.Lines(readFile(fmt.Sprintf("/proc/%d/status", pid))) {
		name, value, _ := strings.Cut(line, ":")
		if name != "ShdPnd" {
			continue
		}
		set, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		return err == nil && set&(1<<(sig-1)) != 0
	}
	return false
}
