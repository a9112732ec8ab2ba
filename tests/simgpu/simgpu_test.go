package simgpu

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// start starts a trainer and returns its command.
func start(t *testing.T, d *Device, label string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := d.Trainer(label, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func exitCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}

func TestTrainerSaysWhenItIsDone(t *testing.T) {
	d := Start(t, Options{})
	progress := filepath.Join(t.TempDir(), "progress")
	cmd := d.Trainer("a", "--iterations", "20", "--gpu-ms", "5", "--cpu-ms", "1", "--report", "0.02")
	cmd.Env = append(cmd.Env, "GIMBAL_PROGRESS="+progress)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`(?m)^iter \d+/20$`).Match(out) {
		t.Errorf("no progress in %q", out)
	}
	if !regexp.MustCompile(`(?m)^done iterations=20 wall=\d+\.\d{3}\n\z`).Match(out) {
		t.Errorf("no last line in %q", out)
	}
	if text, _ := os.ReadFile(progress); string(text) != "20\n" {
		t.Errorf("progress file holds %q", text)
	}
	d.Stop()
	if busy := d.Record().Busy("a"); busy != 100*time.Millisecond {
		t.Errorf("20 kernels of 5 ms took %v of the GPU", busy)
	}
}

func TestTrainerEndsOnceAFileIsThere(t *testing.T) {
	d := Start(t, Options{})
	file := filepath.Join(t.TempDir(), "end")
	cmd := d.Trainer("a", "--until", file)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d.await("an iteration", func() bool { return d.Record().Busy("a") > 0 })
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestMemoryThatDoesNotFitIsRefused(t *testing.T) {
	d := Start(t, Options{Memory: "16GiB", Reserved: "300MiB"})
	for _, c := range []struct {
		size string
		code int
	}{{"16084MiB", 0}, {"16085MiB", 1}} {
		cmd := d.Trainer("a", "--memory", c.size, "--iterations", "1", "--gpu-ms", "1")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if code := exitCode(cmd.Run()); code != c.code {
			t.Errorf("%s on an empty GPU: exit %d, expected %d", c.size, code, c.code)
		}
		if c.code == 1 && !strings.Contains(stderr.String(), "CUDA error: out of memory") {
			t.Errorf("stderr is %q", stderr.String())
		}
	}
}

func TestSecondOfTwoLargeTrainersDies(t *testing.T) {
	d := Start(t, Options{})
	start(t, d, "first", "--memory", "9600MiB")
	first := d.WaitClients(1).Clients[0].PID
	waitUsed(t, d, 9600<<20)
	if code := exitCode(d.Trainer("second", "--memory", "9600MiB", "--seconds", "1").Run()); code != 1 {
		t.Errorf("second trainer: exit %d", code)
	}
	s := d.WaitClients(1)
	if s.Clients[0].PID != first || s.GPUs[0].Used != 9600<<20 {
		t.Errorf("first trainer was harmed: %+v", s)
	}
}

func waitUsed(t *testing.T, d *Device, used uint64) {
	t.Helper()
	d.await("memory to be used", func() bool { return d.Show().GPUs[0].Used == used })
}

func TestMemoryIsFreeOnceItsProcessIsDead(t *testing.T) {
	d := Start(t, Options{})
	pids := filepath.Join(t.TempDir(), "pids")
	cmd := start(t, d, "a", "--memory", "8GiB", "--fork", "2", "--daemon-workers", "1", "--pids", pids)
	d.WaitClients(1)
	waitUsed(t, d, 8<<30)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	waitUsed(t, d, 0)
	workers := workersIn(t, d, pids, 3)
	d.await("the workers to leave with their parent", func() bool {
		for _, pid := range workers {
			if syscall.Kill(pid, 0) == nil {
				return false
			}
		}
		return true
	})
}

// workersIn waits until n workers have noted their pids.
func workersIn(t *testing.T, d *Device, file string, n int) []int {
	t.Helper()
	var pids []int
	d.await("the workers' pids", func() bool {
		pids = nil
		text, _ := os.ReadFile(file)
		for _, w := range strings.Fields(string(text)) {
			pid, err := strconv.Atoi(w)
			if err == nil {
				pids = append(pids, pid)
			}
		}
		return len(pids) >= n
	})
	return pids
}

func TestTrainersShareAGPUFairly(t *testing.T) {
	d := Start(t, Options{})
	start(t, d, "a", "--cpu-ms", "2", "--memory", "1GiB")
	start(t, d, "b", "--cpu-ms", "2", "--gpu-ms", "7", "--queue", "4", "--memory", "1GiB")
	var r Record
	var both time.Duration // for which they competed: a busy machine may keep either from it
	d.await("a second of competition", func() bool {
		r = d.Record()
		both, _ = r.Overlap("a", "b")
		return both >= time.Second
	})
	alone := func(label string) time.Duration { return r.Of(label).length() - both }
	a, b := r.Busy("a")-alone("a"), r.Busy("b")-alone("b")
	if share := float64(a) / float64(a+b); share < 0.45 || share > 0.55 {
		t.Errorf("a got %.3f of the GPU", share)
	}
	if u := float64(a+b) / float64(both); u < 0.85 || u > 1 {
		t.Errorf("the GPU was used %.3f of the time", u)
	}
}

// length is for how long somebody kept the GPU busy.
func (r Record) length() (sum time.Duration) {
	for _, i := range r {
		sum += i.End - i.Start
	}
	return sum
}

// stop stops a process, and waits until each of its threads stands.
func stop(t *testing.T, d *Device, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	d.await("the process to stand", func() bool {
		threads, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/stat")
		for _, file := range threads {
			text, err := os.ReadFile(file)
			if _, rest, ok := strings.Cut(string(text), ") "); err != nil || !ok || rest[0] != 'T' {
				return false
			}
		}
		return len(threads) > 0
	})
}

func TestGPUsWorkSideBySide(t *testing.T) {
	d := Start(t, Options{GPUs: 2})
	a := d.Trainer("a", "--iterations", "40", "--gpu-ms", "10", "--cpu-ms", "0", "--gpus", "2")
	b := d.Trainer("b", "--iterations", "1", "--gpu-ms", "10")
	b.Env = append(b.Env, "CUDA_VISIBLE_DEVICES="+d.Show().GPUs[1].UUID)
	if err := errors.Join(a.Run(), b.Run()); err != nil {
		t.Fatal(err)
	}
	d.Stop()
	r := d.Record()
	for gpu := range 2 {
		if busy := r.On(gpu).Busy("a"); busy != 400*time.Millisecond {
			t.Errorf("GPU %d gave %v", gpu, busy)
		}
	}
	if len(r.On(0).Of("b")) != 0 || len(r.On(1).Of("b").Stretches()) != 1 {
		t.Errorf("b ran on the wrong GPU: %+v", r.Of("b"))
	}
}

func TestVisibleDevices(t *testing.T) {
	d := Start(t, Options{GPUs: 3, Seed: "fixed"})
	uuid := d.Show().GPUs[2].UUID
	for _, c := range []struct {
		visible string
		gpu     int // -1: refused
	}{{"0", 0}, {"2,0", 2}, {uuid, 2}, {uuid[:10], 2}, {"", -1}, {"7", -1}, {"GPU-", -1}, {"-1", -1}} {
		cmd := d.Trainer("v"+c.visible, "--iterations", "1", "--gpu-ms", "1")
		cmd.Env = append(cmd.Env, "CUDA_VISIBLE_DEVICES="+c.visible)
		if code := exitCode(cmd.Run()); (code == 0) != (c.gpu >= 0) {
			t.Errorf("%q: exit %d", c.visible, code)
		}
		var got []string
		for _, e := range d.Events() {
			if e.Label == "v"+c.visible && e.Name == "attach" {
				got = e.Args
			}
		}
		if c.gpu >= 0 && (len(got) != 1 || got[0] != strconv.Itoa(c.gpu)) {
			t.Errorf("%q: attached to %v, expected %d", c.visible, got, c.gpu)
		}
	}
}

func TestStoppedTrainerLeavesOnlyWhatIsInFlight(t *testing.T) {
	d := Start(t, Options{})
	a := start(t, d, "a", "--gpu-ms", "10", "--cpu-ms", "0", "--queue", "3")
	d.await("a to compute", func() bool { return d.Record().Busy("a") > 100*time.Millisecond })
	stop(t, d, a.Process.Pid)
	stopped := Now()
	b := d.Trainer("b", "--iterations", "40", "--gpu-ms", "10", "--cpu-ms", "0")
	if err := b.Run(); err != nil {
		t.Fatal(err)
	}
	if err := a.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	resumed := Now()
	d.await("a to go on", func() bool { _, end := d.Record().Of("a").Span(); return end > resumed })
	pause := d.Record().Between(stopped, resumed)
	if busy := pause.Busy("a"); busy > 30*time.Millisecond { // the three kernels that were queued
		t.Errorf("stopped, a still got %v", busy)
	}
	if busy := pause.Busy("b"); busy != 400*time.Millisecond {
		t.Errorf("beside a stopped trainer b got only %v", busy)
	}
}

func TestMPSClientsRunTogether(t *testing.T) {
	d := Start(t, Options{})
	alone := func(label string) *exec.Cmd {
		return start(t, d, label, "--mps", "--sm", "0.5", "--iterations", "40", "--cpu-ms", "0", "--gpu-ms", "10")
	}
	a, b := alone("a"), alone("b")
	if err := errors.Join(a.Wait(), b.Wait()); err != nil {
		t.Fatal(err)
	}
	d.Stop()
	for _, label := range []string{"a", "b"} {
		if took := d.Record().Of(label).length(); took > 600*time.Millisecond {
			t.Errorf("%s needed %v for 400 ms of kernels that fill half the GPU", label, took)
		}
	}
}

func TestSignalsAndGaps(t *testing.T) {
	d := Start(t, Options{})
	dir := t.TempDir()
	note := filepath.Join(dir, "note")
	a := start(t, d, "a", "--on-term", filepath.Join(dir, "term"), "--term-exit", "7", "--notify", "USR1:"+note)
	d.await("a to compute", func() bool { return d.Record().Busy("a") > 0 })
	_ = a.Process.Signal(syscall.SIGUSR1)
	d.await("the notice", func() bool { text, _ := os.ReadFile(note); return len(text) > 0 })
	_ = a.Process.Signal(syscall.SIGTERM)
	if code := exitCode(a.Wait()); code != 7 {
		t.Errorf("exit %d", code)
	}
	if text, _ := os.ReadFile(filepath.Join(dir, "term")); !strings.HasPrefix(string(text), "terminated iteration ") {
		t.Errorf("the file written on SIGTERM holds %q", text)
	}
	start(t, d, "gaps", "--gap-every", "0.1", "--gap", "0.2")
	var r Record
	d.await("three stretches", func() bool { r = d.Record().Of("gaps").Stretches(); return len(r) >= 3 })
	if begin, end := r.Span(); float64(r.Busy("gaps")) > 0.6*float64(end-begin) {
		t.Errorf("no gaps in %v", r)
	}
}

func TestGrowingTrainerRunsOutOfMemory(t *testing.T) {
	d := Start(t, Options{Memory: "2GiB", Reserved: "0"})
	cmd := d.Trainer("leak", "--memory", "1GiB", "--grow", "300MiB", "--grow-every", "0.01", "--gpu-ms", "1", "--cpu-ms", "1")
	if code := exitCode(cmd.Run()); code != 1 {
		t.Errorf("exit %d", code)
	}
	var last Event
	for _, e := range d.Events() {
		if e.Name != "exit" {
			last = e
		}
	}
	if last.Name != "out-of-memory" {
		t.Errorf("last event %+v", last)
	}
}

func TestWorkersOfEveryKind(t *testing.T) {
	d := Start(t, Options{})
	stay, pass := filepath.Join(t.TempDir(), "pids"), filepath.Join(t.TempDir(), "pids")
	a := start(t, d, "a", "--fork", "1", "--setsid-workers", "1", "--daemon-workers", "1", "--exec-workers", "1", "--pids", stay)
	start(t, d, "b", "--fork-every", "20", "--fork-kind", "daemon", "--child-life", "40", "--pids", pass)
	all := workersIn(t, d, stay, 4)
	workersIn(t, d, pass, 4)
	group, err := syscall.Getpgid(a.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	outside := 0
	for _, pid := range all {
		if g, err := syscall.Getpgid(pid); err == nil && g != group {
			outside++
		}
	}
	if outside < 2 {
		t.Errorf("%d workers left the process group, expected at least 2", outside)
	}
}

func TestMalformedCommandsAreRefused(t *testing.T) {
	d := Start(t, Options{})
	for _, c := range [][]string{
		{"set", "no-such=1"}, {"set", "lag=fast"}, {"set"}, {"set", "lost=yes", "gpu=9"},
		{"ghost", "pid=1"}, {"xid"}, {"explode"}, {"set", "process-util=maybe"},
	} {
		if out, err := d.TryCtl(c...); err == nil {
			t.Errorf("%v was accepted: %q", c, out)
		}
	}
	for _, args := range [][]string{{"--memory", "lots"}, {"--queue", "0"}, {"--sm", "2"}, {"extra"}} {
		if code := exitCode(d.Trainer("x", args...).Run()); code != 2 {
			t.Errorf("trainer %v: exit %d", args, code)
		}
	}
}

func TestTrainerMayIgnoreSIGTERM(t *testing.T) {
	d := Start(t, Options{})
	note := filepath.Join(t.TempDir(), "term")
	a := start(t, d, "a", "--on-term", note, "--ignore-term")
	d.await("a to compute", func() bool { return d.Record().Busy("a") > 0 })
	_ = a.Process.Signal(syscall.SIGTERM)
	d.await("the note", func() bool { text, _ := os.ReadFile(note); return len(text) > 0 })
	noted := Now()
	d.await("a to go on", func() bool { _, end := d.Record().Of("a").Span(); return end > noted })
}

func TestMPSLimits(t *testing.T) {
	d := Start(t, Options{})
	capped := d.Trainer("capped", "--mps", "--iterations", "20", "--cpu-ms", "0", "--gpu-ms", "10")
	capped.Env = append(capped.Env, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=1G,1=4G")
	if err := capped.Run(); err != nil {
		t.Fatal(err)
	}
	d.WaitClients(0)
	if start, end := d.Record().Span(); end-start < 390*time.Millisecond {
		t.Errorf("200 ms of kernels on half the GPU took %v", end-start)
	}
	greedy := d.Trainer("greedy", "--mps", "--memory", "1025MiB", "--iterations", "1")
	greedy.Env = capped.Env
	if code := exitCode(greedy.Run()); code != 1 {
		t.Errorf("beyond the memory limit: exit %d", code)
	}
}
