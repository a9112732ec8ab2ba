package simgpu

import (
	"bytes"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The states and results of CUDA's checkpoint calls.
const (
	running, locked, checkpointed, failed = 0, 1, 2, 3

	invalidValue, outOfMemory, illegalState, notReady, notSupported, unknown = 1, 2, 401, 600, 801, 999
)

// cuda runs one checkpoint call in a process of its own; it returns CUDA's
// result and what was printed.
func cuda(t *testing.T, d *Device, pid int, args ...string) (result int, out string) {
	t.Helper()
	cmd := exec.Command(Binary("cuda-checkpoint"), append([]string{"--pid", strconv.Itoa(pid)}, args...)...)
	cmd.Env = d.Env()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		if _, scan := fmt.Sscanf(stderr.String(), "CUDA result %d", &result); scan != nil {
			t.Fatalf("cuda-checkpoint %v: %v: %s", args, err, stderr.String())
		}
	}
	return result, strings.TrimSpace(string(text))
}

func act(t *testing.T, d *Device, pid int, action string, want int) {
	t.Helper()
	if r, _ := cuda(t, d, pid, "--action", action, "--timeout", "60000"); r != want {
		t.Errorf("%s: result %d, expected %d", action, r, want)
	}
}

func expectState(t *testing.T, d *Device, pid, want int) {
	t.Helper()
	if r, out := cuda(t, d, pid, "--get-state"); r != 0 || out != strconv.Itoa(want) {
		t.Errorf("state %q (result %d), expected %d", out, r, want)
	}
}

func trainerThatComputes(t *testing.T, d *Device, label string, args ...string) int {
	t.Helper()
	cmd := start(t, d, label, args...)
	d.await(label+" to compute", func() bool { return d.Record().Busy(label) > 0 })
	return cmd.Process.Pid
}

func TestCheckpointMovesMemoryOffTheGPUAndBack(t *testing.T) {
	d := Start(t, Options{Args: []string{"--swap-rate", "40GiB"}})
	pid := trainerThatComputes(t, d, "a", "--memory", "8GiB")
	expectState(t, d, pid, running)
	act(t, d, pid, "lock", 0)
	expectState(t, d, pid, locked)
	quiet := Now()
	act(t, d, pid, "checkpoint", 0)
	expectState(t, d, pid, checkpointed)
	if s := d.Show(); s.GPUs[0].Used != 0 || len(s.GPUs[0].Processes) != 0 {
		t.Errorf("checkpointed, yet on the GPU: %+v", s.GPUs)
	}
	if code := exitCode(d.Trainer("b", "--memory", "12GiB", "--iterations", "5").Run()); code != 0 {
		t.Errorf("no room for another: exit %d", code)
	}
	act(t, d, pid, "restore", 0)
	expectState(t, d, pid, locked)
	waitUsed(t, d, 8<<30)
	if busy := d.Record().Between(quiet, Now()).Busy("a"); busy != 0 {
		t.Errorf("locked, a still got %v", busy)
	}
	act(t, d, pid, "unlock", 0)
	expectState(t, d, pid, running)
	unlocked := Now()
	d.await("a to go on", func() bool { _, end := d.Record().Of("a").Span(); return end > unlocked })
}

func TestCheckpointRefusesWhatTheStateForbids(t *testing.T) {
	d := Start(t, Options{})
	pid := trainerThatComputes(t, d, "a")
	for _, action := range []string{"checkpoint", "restore", "unlock"} {
		act(t, d, pid, action, illegalState)
	}
	act(t, d, pid, "lock", 0)
	act(t, d, pid, "lock", illegalState)
	act(t, d, pid, "restore", illegalState)
	act(t, d, pid, "unlock", 0)
	act(t, d, d.PID(), "lock", invalidValue)
	if _, tid := cuda(t, d, pid, "--get-restore-tid"); tid == "" || tid == "0" || tid == strconv.Itoa(pid) {
		t.Errorf("restore thread %q of process %d", tid, pid)
	}
}

func TestLockOfAStoppedProcessTimesOut(t *testing.T) {
	d := Start(t, Options{})
	pid := trainerThatComputes(t, d, "a")
	stop(t, d, pid)
	if r, _ := cuda(t, d, pid, "--action", "lock", "--timeout", "100"); r != notReady {
		t.Errorf("result %d", r)
	}
	expectState(t, d, pid, running)
	resumed := Now()
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	d.await("a to go on", func() bool { _, end := d.Record().Of("a").Span(); return end > resumed+50*time.Millisecond })
	act(t, d, pid, "lock", 0)
}

func TestCheckpointOfAStoppedProcessHangs(t *testing.T) {
	d := Start(t, Options{})
	pid := trainerThatComputes(t, d, "a")
	act(t, d, pid, "lock", 0)
	stop(t, d, pid)
	done := make(chan int, 1)
	go func() { r, _ := cuda(t, d, pid, "--action", "checkpoint"); done <- r }()
	select {
	case r := <-done:
		t.Fatalf("a stopped process was checkpointed: result %d", r)
	case <-time.After(300 * time.Millisecond):
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if r := <-done; r != 0 {
		t.Errorf("result %d once it runs again", r)
	}
	expectState(t, d, pid, checkpointed)
}

func TestRestoreNeedsRoom(t *testing.T) {
	d := Start(t, Options{Args: []string{"--swap-rate", "100GiB"}})
	pid := trainerThatComputes(t, d, "a", "--memory", "9GiB")
	act(t, d, pid, "lock", 0)
	act(t, d, pid, "checkpoint", 0)
	d.Ctl("ghost", "pid=4000000", "memory=9GiB")
	act(t, d, pid, "restore", outOfMemory)
	expectState(t, d, pid, checkpointed)
	d.Ctl("ghost", "pid=4000000", "memory=0")
	act(t, d, pid, "restore", 0)
}

func TestCheckpointFaults(t *testing.T) {
	d := Start(t, Options{})
	pid := trainerThatComputes(t, d, "a")
	d.Ctl("set", "cuda-lock=not-supported")
	act(t, d, pid, "lock", notSupported)
	d.Ctl("set", "cuda-lock=ok")
	act(t, d, pid, "lock", 0)
	d.Ctl("set", "cuda-checkpoint=failed")
	act(t, d, pid, "checkpoint", unknown)
	expectState(t, d, pid, failed)
	act(t, d, pid, "unlock", illegalState)
}
