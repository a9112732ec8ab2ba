package simgpu

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestIdleDeviceSleeps(t *testing.T) {
	d := Start(t, Options{})
	if err := d.Trainer("a", "--iterations", "3").Run(); err != nil {
		t.Fatal(err)
	}
	d.await("the device to have nothing to do", func() bool {
		before := switches(t, d.PID())
		time.Sleep(300 * time.Millisecond) // the stretch that is measured
		return switches(t, d.PID()) == before
	})
}

// switches returns how often a process went to sleep.
func switches(t *testing.T, pid int) string {
	t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\nvoluntary_ctxt_switches:")
	count, _, _ := strings.Cut(rest, "\n")
	return count
}

func TestDeviceLeavesWithItsStandardInput(t *testing.T) {
	d := Start(t, Options{})
	d.Stop()
	if _, err := d.TryCtl("show"); err == nil {
		t.Error("the device still answers")
	}
	if code := exitCode(d.Trainer("x", "--iterations", "1").Run()); code != 1 {
		t.Errorf("without a device the trainer exits %d", code)
	}
}

func TestSchedulerHoldsItsPromises(t *testing.T) {
	if err := Build(); err != nil {
		t.Fatal(err)
	}
	for seed := range 50 {
		if out, err := exec.Command(Binary("sched-check"), strconv.Itoa(seed)).CombinedOutput(); err != nil {
			t.Fatalf("seed %d: %v: %s", seed, err, out)
		}
	}
}
