package e2e

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/policies"
	"github.com/gimbal-hpc/gimbal/tests/simgpu"
)

// throttled is a policy that leaves each tenant for which a rule holds a share of its
// time, whoever is beside it.
func throttled(when string, share float64, period time.Duration) string {
	return fmt.Sprintf(`
name = "throttled"
objective = "a share of the time for everybody"
[share]
period = "%dms"
[limits]
min_run = "0s"
[[guard]]
name  = "for the test"
when  = %q
do    = ["throttle"]
share = %g
`, period.Milliseconds(), when, share)
}

// TestThrottle: by the device's own record a trainer alone on the machine gets
// its share of what it had before within 5 points over every ten periods; the
// journal has a line of it and not one for each period; and when the daemon is
// killed while the trainer is stopped it runs within a second.
func TestThrottle(t *testing.T) {
	for _, c := range []struct {
		share  float64
		period time.Duration
	}{{0.3, 200 * time.Millisecond}, {0.5, 100 * time.Millisecond}} {
		t.Run(c.period.String(), func(t *testing.T) { testThrottle(t, c.share, c.period) })
	}
}

func testThrottle(t *testing.T, share float64, period time.Duration) {
	s := Start(t, Options{Policy: "throttled", Policies: map[string]string{"throttled": throttled("false", share, period)}})
	goFirst(t, s.DaemonPID())
	id := s.Sbatch(t, "exec "+Trainer("--memory 2GiB --gpu-ms 2 --cpu-ms 0"), oneShard, "--gimbal-pack", "--gimbal-memory=2GiB")
	s.waitComputes(t, id)
	time.Sleep(500 * time.Millisecond)
	before := simgpu.Now()
	time.Sleep(1500 * time.Millisecond)
	after := simgpu.Now()
	s.write(s.policyPath("throttled"), throttled("true", share, period))
	s.Signal(syscall.SIGHUP)
	s.WaitTenant(id, patience, "THROTTLED")
	time.Sleep(time.Second)
	from := simgpu.Now()
	lines := strings.Count(s.journal(), "\n")
	time.Sleep(3*10*period + period)

	rec := s.GPU.Record()
	busy := func(from, to time.Duration) float64 {
		return rec.Between(from, to).Busy(label(id)).Seconds() / (to - from).Seconds()
	}
	whole := busy(before, after) // below 1 where the trainer has to wait for a core
	for k := range 3 {
		begin := from + time.Duration(k)*10*period
		got := busy(begin, begin+10*period) / whole
		t.Logf("ten periods: %.1f %% of the %.1f %% that it had before", 100*got, 100*whole)
		if math.Abs(got-share) > 0.05 {
			t.Errorf("%.1f %% of the time in ten periods, want %.0f", 100*got, 100*share)
		}
	}
	if more := strings.Count(s.journal(), "\n") - lines; more > 3 {
		t.Errorf("%d lines of the journal in 30 periods", more)
	}
	s.tellsOfThrottle(t, id, fmt.Sprintf("throttled: runs %.0f %% of each %s: for the test", 100*share, period))

	pids := s.Pids(id)
	Eventually(t, patience, "the trainer is stopped for the rest of a period", func() bool {
		stopped, _ := Stopped(pids)
		return len(stopped) > 0
	})
	s.KillDaemon()
	wantRunning(t, pids, time.Second)
	s.StartDaemon()
	s.WaitTenant(id, patience, "THROTTLED")
	s.scancel(t, id)
	s.wantHealthy(t)
}

// tellsOfThrottle holds that people can see the throttle.
func (s *Stack) tellsOfThrottle(t *testing.T, id int, words string) {
	t.Helper()
	row := strings.Split(strings.TrimSpace(s.Gimbal("status", "-n", "-P", "-X", "-j", fmt.Sprint(id), "-o", "State,Throttles,Withheld").Stdout), "|")
	if len(row) != 3 || row[0] != "THROTTLED" || row[1] != "1" || row[2] < "00:00:01" {
		t.Errorf("status says %q", row)
	}
	if out := s.Gimbal("explain", fmt.Sprint(id)).Stdout; !strings.Contains(out, words) {
		t.Errorf("explain says %s", out)
	}
}

// TestQosThrottles: beside a guaranteed trainer that is busy all the time an
// opportunistic one goes on at the tenth of the time that the policy leaves it.
func TestQosThrottles(t *testing.T) {
	text := minRun.ReplaceAllString(string(policies.Shipped()["qos"]), `min_run = "0s"`)
	s := Start(t, Options{Policy: "qos", Policies: map[string]string{"qos": text}})
	goFirst(t, s.DaemonPID())
	pack := []string{oneShard, "--gimbal-pack", "--gimbal-memory=2GiB"}
	low := s.Sbatch(t, "exec "+Trainer("--memory 2GiB --gpu-ms 2 --cpu-ms 0"), append(pack, "--gimbal-class=opportunistic")...)
	s.waitComputes(t, low)
	high := s.Sbatch(t, Trainer("--memory 2GiB --gpu-ms 20 --cpu-ms 0"), append(pack, "--gimbal-class=guaranteed")...)
	s.waitComputes(t, high)
	s.WaitTenant(low, patience, "THROTTLED")
	time.Sleep(time.Second)
	from := simgpu.Now()
	time.Sleep(5 * time.Second)
	to := simgpu.Now()
	rec := s.GPU.Record().Between(from, to)
	of := func(id int) float64 { return rec.Busy(label(id)).Seconds() / (to - from).Seconds() }
	t.Logf("guaranteed %.1f %%, opportunistic %.1f %%", 100*of(high), 100*of(low))
	if of(high) < 0.9*(of(high)+of(low)) || of(low) < 0.02 {
		t.Errorf("guaranteed %.1f %%, opportunistic %.1f %% of the GPU", 100*of(high), 100*of(low))
	}
	s.scancel(t, low)
	s.scancel(t, high)
	s.wantHealthy(t)
}

// TestTimeLimitIsCredited: by slurm.credit a paused job's time limit moves on in
// Slurm's own books.
func TestTimeLimitIsCredited(t *testing.T) {
	s := Start(t, Options{NoDaemon: true, Policy: "together", Policies: map[string]string{"together": quickTogether}})
	text, err := os.ReadFile(s.ConfigPath())
	if err != nil {
		t.Fatal(err)
	}
	s.write(s.ConfigPath(), fmt.Sprintf("%s[slurm]\nconf = %q\ncredit = true\ncredit_every = \"1s\"\n", text, filepath.Join(s.Cluster.Dir, "slurm.conf")))
	s.StartDaemon()
	id := s.Sbatch(t, Trainer("--memory 2GiB"), oneShard, "--gimbal-pack", "--gimbal-memory=2GiB", "--time=5")
	s.WaitTenant(id, patience, "RUNNING")
	s.WaitClients(t, 1)
	limit := func() string {
		return strings.TrimSpace(s.Run("squeue", "-h", "-j", fmt.Sprint(id), "-o", "%l").Stdout)
	}
	if before := limit(); before != "5:00" {
		t.Errorf("its limit is %s before", before)
	}
	if r := s.Run(Built("gimbal"), "pause", "--socket", s.Socket(), fmt.Sprint(id)); r.Exit != 0 {
		t.Fatalf("pause: %s", r.Stderr)
	}
	var told string
	eventuallyShown(t, "the limit is 6:00", &told, func() bool { told = limit(); return told == "6:00" })
	eventuallyShown(t, "explain tells of the credit", &told, func() bool {
		told = s.Gimbal("explain", fmt.Sprint(id)).Stdout
		return strings.Contains(told, "1m0s added to the job's time limit")
	})
	s.scancel(t, id)
	s.wantHealthy(t)
}
