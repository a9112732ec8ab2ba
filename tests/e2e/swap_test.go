package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/tests/simgpu"
)

// quickSwaps is the shipped policy swap with turns of two seconds.
const quickSwaps = `
name = "swap"
objective = "turns of two seconds between tenants that do not fit together, for tests"
[share]
together = 1
quantum = "2s"
rank = "-tenant.service"
swap = true
[limits]
min_run = "200ms"
launch_grace = "3s"
`

// startSwap brings up a node whose policy swaps, with a device that moves
// memory at a rate.
func startSwap(t *testing.T, policy, rate string) *Stack {
	t.Helper()
	return Start(t, Options{Policy: "swap", Policies: map[string]string{"swap": policy},
		GPU:    simgpu.Options{Args: []string{"--swap-rate", rate}},
		Config: fmt.Sprintf("[swap]\nlibrary = %q\ncommand = \"\"\nmargin = \"64MiB\"\n", simgpu.CUDA())})
}

// bigTrainer needs so much of the memory that two do not fit. As a framework's
// import does, its start outlasts the moment between exec and hold.
func bigTrainer(more string) string {
	return Trainer("--startup 0.3 --memory 9.6GiB --queue 1 " + more)
}

var bigPack = []string{oneShard, "--gimbal-pack", "--gimbal-memory=9.6GiB"}

// TestSwapTurns: three trainers of 60 % of the memory each take turns on one
// GPU and all finish. None runs out of memory, no two compute at once, and the
// device's record shows each of them in several turns.
func TestSwapTurns(t *testing.T) {
	s := startSwap(t, quickSwaps, "20GiB")
	var jobs []int
	for range 3 {
		jobs = append(jobs, s.Sbatch(t, bigTrainer("--gpu-ms 20 --cpu-ms 5 --iterations 200"), bigPack...))
	}
	for _, j := range jobs {
		done := s.WaitDone(t, j, 150*time.Second)
		wantState(t, done, "COMPLETED")
		if done.State != "COMPLETED" {
			t.Logf("job %d: %s", j, s.JobOutput(t, j))
		}
	}
	rec := s.GPU.Record()
	for i, a := range jobs {
		turns := turnsOf(rec.Of(label(a)))
		t.Logf("job %d computed %s in %d turns", a, rec.Busy(label(a)), turns)
		if turns < 2 {
			t.Errorf("job %d computed in %d turns: it was not swapped", a, turns)
		}
		for _, b := range jobs[:i] {
			if total, longest := rec.Overlap(label(a), label(b)); longest > queuedWork {
				t.Errorf("jobs %d and %d computed together for %s at a stretch (%s in all)", a, b, longest, total)
			}
		}
	}
	for _, e := range s.GPU.Events() {
		if e.Name == "out-of-memory" {
			t.Errorf("%s ran out of memory", e.Label)
		}
	}
	s.wantHealthy(t)
	s.wantNothingSwapped(t)
}

// turnsOf counts the times that a tenant computed without a pause of a second.
func turnsOf(r simgpu.Record) int {
	n, last := 0, -time.Hour
	for _, i := range r.Stretches() {
		if i.Start-last > time.Second {
			n++
		}
		last = i.End
	}
	return n
}

// wantNothingSwapped checks that no record of a swap is left.
func (s *Stack) wantNothingSwapped(t *testing.T) {
	t.Helper()
	if left := s.swapped(t); len(left) > 0 {
		t.Errorf("written down as swapped: %v", left)
	}
}

// swapped lists the tenants that gimbald has written down as swapped.
func (s *Stack) swapped(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(s.Dir, "run", "swapped", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// twoSwapped starts two trainers that do not fit together and returns the one
// that was swapped out for the other.
func twoSwapped(t *testing.T, s *Stack, trainer string) (swapped, other int) {
	t.Helper()
	first := s.Sbatch(t, trainer, bigPack...)
	s.WaitClients(t, 1)
	second := s.Sbatch(t, trainer, bigPack...)
	Eventually(t, 30*time.Second, "one of them is swapped and the other runs", func() bool {
		a, b := s.State(first), s.State(second)
		if a == "SWAPPED" && b == "RUNNING" {
			swapped, other = first, second
		} else if b == "SWAPPED" && a == "RUNNING" {
			swapped, other = second, first
		}
		return swapped != 0
	})
	return swapped, other
}

// longSwaps gives turns that no test waits for: what was swapped out stays so
// until the other has ended.
var longSwaps = strings.Replace(quickSwaps, `quantum = "2s"`, `quantum = "3s"`, 1)

// TestDaemonDiesWithSwapped: whatever ends the daemon while a tenant is in host
// RAM, it is restored by the next one, and both finish.
func TestDaemonDiesWithSwapped(t *testing.T) {
	s := startSwap(t, longSwaps, "20GiB")
	trainer := bigTrainer("--iterations 250")
	for _, c := range []struct {
		name  string
		fault func()
	}{
		{"killed", func() { s.KillDaemon() }},
		{"killed with its guard", func() {
			if err := syscall.Kill(guardPID(t, s.DaemonPID()), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			s.KillDaemon()
		}},
		{"asked to leave", func() { s.StopDaemon() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			swapped, other := twoSwapped(t, s, trainer)
			c.fault()
			if left := s.swapped(t); len(left) != 1 {
				t.Errorf("written down as swapped: %v", left)
			}
			s.StartDaemon()
			for _, j := range []int{swapped, other} {
				done := s.WaitDone(t, j, 120*time.Second)
				wantState(t, done, "COMPLETED")
				if done.State != "COMPLETED" {
					t.Logf("job %d: %s", j, s.JobOutput(t, j))
				}
			}
			s.wantHealthy(t)
			s.wantNothingSwapped(t)
		})
	}
}

// TestReleaseRestores: with the daemon gone for good, gimbald --release brings
// back what is in host RAM once there is room.
func TestReleaseRestores(t *testing.T) {
	s := startSwap(t, longSwaps, "20GiB")
	swapped, other := twoSwapped(t, s, bigTrainer("--iterations 250"))
	s.KillDaemon()
	s.scancel(t, other)
	wantState(t, s.WaitDone(t, other, 20*time.Second), "CANCELLED")
	s.release(t)
	wantState(t, s.WaitDone(t, swapped, 60*time.Second), "COMPLETED")
	s.wantNothingSwapped(t)
}

// TestSlurmEndsSwapped: a swapped job that is cancelled ends as any other, and
// one that catches SIGTERM gets to its handler.
func TestSlurmEndsSwapped(t *testing.T) {
	s := startSwap(t, longSwaps, "20GiB")
	file := filepath.Join(s.Out, "term")
	trainer := "exec " + bigTrainer("--iterations 250 --on-term "+file)
	swapped, other := twoSwapped(t, s, trainer)
	s.scancel(t, swapped)
	wantState(t, s.WaitDone(t, swapped, 30*time.Second), "CANCELLED")
	if _, err := os.Stat(file); err != nil {
		t.Errorf("its handler of SIGTERM did not run: %v", err)
	}
	wantState(t, s.WaitDone(t, other, 60*time.Second), "COMPLETED")
	s.wantHealthy(t)
	s.wantNothingSwapped(t)
}

// TestSwapThatFails: where the driver refuses, jobs run as they would without
// swapping, one after the other, and status says why.
func TestSwapThatFails(t *testing.T) {
	s := startSwap(t, quickSwaps, "20GiB")
	s.GPU.Ctl("set", "cuda-checkpoint=not-supported")
	trainer := bigTrainer("--iterations 250")
	first := s.Sbatch(t, trainer, bigPack...)
	s.WaitClients(t, 1)
	second := s.Sbatch(t, trainer, bigPack...)
	s.WaitTenant(second, 20*time.Second, "HELD")
	Eventually(t, 20*time.Second, "status says why it cannot be swapped", func() bool {
		v := s.Tenant(fmt.Sprint(first))
		return v != nil && strings.Contains(strings.Join(v.Terms.Notes, "; "), "operation not supported")
	})
	if v := s.Tenant(fmt.Sprint(first)); v.State != model.Running {
		t.Errorf("job %d is %s after a swap that failed", first, v.State)
	}
	for _, j := range []int{first, second} {
		wantState(t, s.WaitDone(t, j, 90*time.Second), "COMPLETED")
	}
	s.wantHealthy(t)
	s.wantNothingSwapped(t)
}

// release runs gimbald --release.
func (s *Stack) release(t *testing.T) {
	t.Helper()
	cmd := exec.Command(Built("gimbald"), "--config", s.ConfigPath(), "--release")
	cmd.Env = append(os.Environ(), s.GPU.Env()...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("gimbald --release: %v: %s", err, out)
	} else {
		t.Logf("gimbald --release: %s", out)
	}
}
