package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// twoInTurns starts two trainers that take turns and waits until the first is
// paused: the daemon then has something on its conscience.
func twoInTurns(t *testing.T, s *Stack, trainer string) (paused, running int) {
	t.Helper()
	first := s.Sbatch(t, trainer, oneShard, "--gimbal-pack", "--gimbal-memory=2GiB")
	s.WaitTenant(first, 15*time.Second, "RUNNING")
	second := s.Sbatch(t, trainer, oneShard, "--gimbal-pack", "--gimbal-memory=2GiB")
	s.WaitTenant(first, 15*time.Second, "PAUSED")
	return first, second
}

const longTurns = `
name = "timeslice"
objective = "turns that a test can look into"
[share]
together = 1
quantum = "8s"
[limits]
min_run = "0s"
launch_grace = "3s"
`

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

// wantRunning waits until none of the job's processes is stopped.
func (s *Stack) wantRunning(t *testing.T, job int, limit time.Duration) {
	t.Helper()
	Eventually(t, limit, fmt.Sprintf("every process of job %d runs", job), func() bool {
		stopped, running := Stopped(s.Pids(job))
		return len(stopped) == 0 && len(running) > 0
	})
}

// TestDaemonDies: whatever ends or hangs the daemon in the middle of a pause,
// every process runs again within the time, the jobs finish, and the next
// daemon takes them over.
func TestDaemonDies(t *testing.T) {
	s := Start(t, Options{Policies: map[string]string{"timeslice": longTurns}})
	trainer := Trainer("--memory 2GiB --iterations 500")
	cases := []struct {
		name  string
		limit time.Duration
		fault func(t *testing.T)
	}{
		{"killed", time.Second, func(*testing.T) { s.KillDaemon() }},
		{"stopped", 6 * time.Second, func(*testing.T) { s.Signal(syscall.SIGSTOP) }},
		{"guard killed first", 1500 * time.Millisecond, func(t *testing.T) {
			old := guardPID(t, s.DaemonPID())
			if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			Eventually(t, 5*time.Second, "another guard", func() bool {
				_, err := os.Stat(fmt.Sprintf("/proc/%d", old))
				guard := findGuard(t, s.DaemonPID())
				return err != nil && guard != 0 && guard != old
			})
			s.KillDaemon()
		}},
		{"both killed at once and the daemon started again", 6 * time.Second, func(t *testing.T) {
			guard := guardPID(t, s.DaemonPID())
			if err := syscall.Kill(guard, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			s.KillDaemon()
			s.StartDaemon()
		}},
		{"asked to leave", 2 * time.Second, func(t *testing.T) {
			s.Signal(syscall.SIGTERM)
			Eventually(t, 5*time.Second, "the daemon has left", func() bool { return !s.alive() })
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			paused, other := twoInTurns(t, s, trainer)
			c.fault(t)
			s.wantRunning(t, paused, c.limit)
			if c.name == "stopped" {
				s.Signal(syscall.SIGCONT)
			} else if !s.alive() {
				s.StartDaemon()
			}
			if got := s.State(paused); got == "" {
				t.Errorf("the daemon does not know job %d any more:\n%s", paused, tail(s.Log(), 20))
			}
			for _, j := range []int{paused, other} {
				wantState(t, s.WaitDone(t, j, 120*time.Second), "COMPLETED")
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
			o := Options{Policies: map[string]string{"timeslice": longTurns}}
			o.Slurm.Proctrack = track
			s := Start(t, o)
			t.Run("scancel of a paused one", func(t *testing.T) {
				paused, other := twoInTurns(t, s, Trainer("--memory 2GiB --seconds 60"))
				s.scancel(t, paused)
				wantState(t, s.WaitDone(t, paused, 8*time.Second), "CANCELLED")
				s.scancel(t, other)
				s.wantHealthy(t)
			})
			t.Run("scancel of a held one", func(t *testing.T) {
				first := s.Sbatch(t, Trainer("--memory 9GiB --seconds 60"), oneShard, "--gimbal-pack", "--gimbal-memory=9GiB")
				s.WaitTenant(first, 15*time.Second, "RUNNING")
				held := s.Sbatch(t, Trainer("--startup 0.3 --memory 9GiB --seconds 60"), oneShard, "--gimbal-pack", "--gimbal-memory=9GiB")
				s.WaitTenant(held, 15*time.Second, "HELD")
				s.scancel(t, held)
				wantState(t, s.WaitDone(t, held, 8*time.Second), "CANCELLED")
				s.scancel(t, first)
				s.wantHealthy(t)
			})
			t.Run("scancel of many held scripts leaves no process", func(t *testing.T) {
				first := s.Sbatch(t, Trainer("--memory 9GiB --seconds 60"), oneShard, "--gimbal-pack", "--gimbal-memory=9GiB")
				s.WaitTenant(first, 15*time.Second, "RUNNING")
				var held []int
				for range 6 {
					// Like Python, they are not at the GPU within milliseconds.
					held = append(held, s.Sbatch(t, Trainer("--startup 0.3 --memory 9GiB --seconds 60")+"\ntrue", oneShard, "--gimbal-pack", "--gimbal-memory=9GiB"))
				}
				for _, j := range held {
					s.WaitTenant(j, 20*time.Second, "HELD")
				}
				for _, j := range append(held, first) {
					s.scancel(t, j)
				}
				for _, j := range held {
					wantState(t, s.WaitDone(t, j, 15*time.Second), "CANCELLED")
				}
				s.wantHealthy(t)
			})
			t.Run("SIGTERM reaches a paused one", func(t *testing.T) {
				file := filepath.Join(s.Out, "term-"+track)
				paused, other := twoInTurns(t, s, "exec "+Trainer("--memory 2GiB --seconds 60 --on-term "+file))
				s.Run("scancel", "-s", "TERM", "--full", fmt.Sprint(paused))
				Eventually(t, 10*time.Second, "the job's own handler ran", func() bool { _, err := os.Stat(file); return err == nil })
				s.WaitDone(t, paused, 10*time.Second)
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
	paused, other := twoInTurns(t, s, Trainer("--memory 2GiB --iterations 500"))
	if r := s.Run("scontrol", "suspend", fmt.Sprint(paused)); r.Exit != 0 {
		t.Fatalf("suspend: %s", r)
	}
	s.WaitState(t, paused, 10*time.Second, "SUSPENDED")
	s.scancel(t, other) // now it would be the suspended one's turn
	s.WaitDone(t, other, 10*time.Second)
	deadline := time.Now().Add(3 * time.Second)
	for time.Now().Before(deadline) {
		if _, running := Stopped(s.Pids(paused)); len(running) > 0 {
			t.Fatalf("processes %v run although Slurm suspended the job", running)
		}
		time.Sleep(100 * time.Millisecond)
	}
	if r := s.Run("scontrol", "resume", fmt.Sprint(paused)); r.Exit != 0 {
		t.Fatalf("resume: %s", r)
	}
	wantState(t, s.WaitDone(t, paused, 60*time.Second), "COMPLETED")
	s.wantHealthy(t)
}
