package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
`

// swapsForTheLast gives the GPU to who came last, until it ends: what is swapped out
// for it stays so for as long as a test looks at it.
const swapsForTheLast = `
name = "swap"
objective = "the GPU for who comes last, for tests that look into a swap"
[share]
together = 1
tier = "-tenant.age"
swap = true
[limits]
min_run = "200ms"
launch_grace = "5m"
`

// startSwap brings up a node whose policy swaps.
func startSwap(t *testing.T, policy string) *Stack {
	t.Helper()
	return Start(t, swapOptions(policy))
}

func swapOptions(policy string) Options {
	return Options{Policy: "swap", Policies: map[string]string{"swap": policy},
		GPU:    simgpu.Options{Args: []string{"--swap-rate", "20GiB"}},
		Config: fmt.Sprintf("[swap]\nlibrary = %q\ncommand = \"\"\nmargin = \"64MiB\"\n", simgpu.CUDA())}
}

// bigTrainer needs so much of the memory that two do not fit.
func bigTrainer(more string) string { return slowly("--memory 9.6GiB --queue 1 " + more) }

var bigPack = []string{oneShard, "--gimbal-pack", "--gimbal-memory=9.6GiB"}

// TestSwapTurns: three trainers of 60 % of the memory each take turns on one
// GPU and all finish. None runs out of memory, no two compute at once, and the
// device's record shows each of them in several turns.
func TestSwapTurns(t *testing.T) {
	s := startSwap(t, quickSwaps)
	option, end := s.until(t, "end")
	var jobs []int
	for range 3 {
		jobs = append(jobs, s.Sbatch(t, bigTrainer("--gpu-ms 20 --cpu-ms 5"+option), bigPack...))
	}
	Eventually(t, 2*patience, "each has computed in two turns", func() bool {
		rec := s.GPU.Record()
		return !slices.ContainsFunc(jobs, func(j int) bool { return turnsOf(rec.Of(label(j))) < 2 })
	})
	end()
	for _, j := range jobs {
		done := s.WaitDone(t, j, patience)
		wantState(t, done, "COMPLETED")
		if done.State != "COMPLETED" {
			t.Logf("job %d: %s", j, s.JobOutput(t, j))
		}
	}
	rec := s.GPU.Record()
	for i, a := range jobs {
		t.Logf("job %d computed %s in %d turns", a, rec.Busy(label(a)), turnsOf(rec.Of(label(a))))
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

// oneSwapped starts two trainers that do not fit together, and waits until the first is
// swapped out and the other runs.
func (s *Stack) oneSwapped(t *testing.T, trainer string) (swapped, other int) {
	t.Helper()
	swapped = s.Sbatch(t, trainer, bigPack...)
	s.waitComputes(t, swapped)
	other = s.Sbatch(t, trainer, bigPack...)
	s.waitStates(t, map[int]string{swapped: "SWAPPED", other: "RUNNING"})
	return swapped, other
}

// TestDaemonDiesWithSwapped: whatever ends the daemon while a tenant is in host
// RAM, it is restored by the next one, and both finish.
func TestDaemonDiesWithSwapped(t *testing.T) {
	s := startSwap(t, swapsForTheLast)
	for i, c := range []struct {
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
			option, end := s.until(t, fmt.Sprint("end-", i))
			swapped, other := s.oneSwapped(t, bigTrainer(option))
			c.fault()
			if left := s.swapped(t); len(left) != 1 {
				t.Errorf("written down as swapped: %v", left)
			}
			s.StartDaemon()
			end()
			for _, j := range []int{swapped, other} {
				done := s.WaitDone(t, j, patience)
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
	s := startSwap(t, swapsForTheLast)
	option, end := s.until(t, "end")
	swapped, other := s.oneSwapped(t, bigTrainer(option))
	s.KillDaemon()
	s.scancel(t, other)
	wantState(t, s.WaitDone(t, other, patience), "CANCELLED")
	s.release(t)
	end()
	wantState(t, s.WaitDone(t, swapped, patience), "COMPLETED")
	s.wantNothingSwapped(t)
}

// TestSlurmEndsSwapped: a swapped job that is cancelled ends as any other, and
// one that catches SIGTERM gets to its handler.
func TestSlurmEndsSwapped(t *testing.T) {
	o := swapOptions(swapsForTheLast)
	o.Slurm.KillWait = time.Minute // the handler is to have its time on a slow machine too
	s := Start(t, o)
	file := filepath.Join(s.Out, "term")
	option, end := s.until(t, "end")
	swapped, other := s.oneSwapped(t, "exec "+bigTrainer("--on-term "+file+option))
	s.scancel(t, swapped)
	wantState(t, s.WaitDone(t, swapped, patience), "CANCELLED")
	if _, err := os.Stat(file); err != nil {
		t.Errorf("its handler of SIGTERM did not run: %v", err)
	}
	end()
	wantState(t, s.WaitDone(t, other, patience), "COMPLETED")
	s.wantHealthy(t)
	s.wantNothingSwapped(t)
}

// TestSwapThatFails: where the driver refuses, jobs run as they would without
// swapping, one after the other, and status says why.
func TestSwapThatFails(t *testing.T) {
	s := startSwap(t, quickSwaps)
	s.GPU.Ctl("set", "cuda-checkpoint=not-supported")
	option, end := s.until(t, "end")
	first := s.Sbatch(t, bigTrainer(option), bigPack...)
	s.waitComputes(t, first)
	second := s.Sbatch(t, bigTrainer("--iterations 50"), bigPack...)
	s.WaitTenant(second, patience, "HELD")
	var notes string
	eventuallyShown(t, "status says why it cannot be swapped", &notes, func() bool {
		notes = strings.Join(s.tenant(t, fmt.Sprint(first)).Terms.Notes, "; ")
		return strings.Contains(notes, "operation not supported")
	})
	if v := s.tenant(t, fmt.Sprint(first)); v.State != model.Running {
		t.Errorf("job %d is %s after a swap that failed", first, v.State)
	}
	end()
	for _, j := range []int{first, second} {
		wantState(t, s.WaitDone(t, j, patience), "COMPLETED")
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
