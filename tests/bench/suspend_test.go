package bench

import (
	"fmt"
	"os/exec"
	"regexp"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/tests/e2e"
)

// members is how many processes the job has that is paused.
const members = 34

// still is a policy under which nobody is paused but by an order, and by that
// at once.
func still() map[string]string {
	return map[string]string{"still": `
name = "still"
objective = "all at once"
[limits]
min_run = "0s"
max_pause = "0s"
launch_grace = "1h"
`}
}

// BenchmarkSuspend compares, on the same job of 34 processes, gimbal pause with
// Slurm's own scontrol suspend: from the start of the command until the last
// process has stopped. They take turns. Beside them stands what a policy's pause
// takes, which needs no command: from the decision until the daemon has seen all
// of them stopped.
func BenchmarkSuspend(b *testing.B) {
	for _, track := range []string{"linuxproc", "cgroup"} {
		b.Run(track, func(b *testing.B) { benchSuspend(b, track) })
	}
}

func benchSuspend(b *testing.B, track string) {
	o := e2e.Options{Policy: "still", Policies: still()}
	o.Slurm.Proctrack = track
	s := e2e.StartB(b, o)
	job, pids := family(b, s)
	for b.Loop() {
		var slurm, gimbal []time.Duration
		for range rounds / 3 {
			slurm = append(slurm, stopBy(b, pids, func() { scontrol(b, s, "suspend", job) }))
			scontrol(b, s, "resume", job)
			untilAll(b, pids, false)
			e2e.Eventually(b, time.Minute, "Gimbal sees the resume", func() bool { v := s.Tenant(fmt.Sprint(job)); return v != nil && v.Word() == "RUNNING" })
			gimbal = append(gimbal, stopBy(b, pids, func() { order(b, s, "pause", job) }))
			s.WaitTenant(job, time.Minute, "PAUSED")
			order(b, s, "release", job)
			untilAll(b, pids, false)
			s.WaitTenant(job, time.Minute, "RUNNING")
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(ms(median(slurm)), "ms/scontrol-suspend")
		b.ReportMetric(ms(median(gimbal)), "ms/gimbal-pause")
		b.ReportMetric(ms(median(logged(b, s))), "ms/policy-pause")
	}
}

// logged lists how long the daemon took for each pause of all of the job.
func logged(b *testing.B, s *e2e.Stack) (took []time.Duration) {
	b.Helper()
	line := regexp.MustCompile(fmt.Sprintf(`: %d processes (?:stopped|frozen) in (\S+)`, members))
	for _, found := range line.FindAllStringSubmatch(s.Log(), -1) {
		d, err := time.ParseDuration(found[1])
		if err != nil {
			b.Fatal(err)
		}
		took = append(took, d)
	}
	if len(took) == 0 {
		b.Fatal("the daemon logged no pause")
	}
	return took
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }

// family starts a job of so many processes and waits until it runs.
func family(b *testing.B, s *e2e.Stack) (job int, pids []int) {
	b.Helper()
	job = s.Sbatch(b, fmt.Sprintf("for i in $(seq %d); do sleep 3000 & done; wait", members-1),
		"--gres=shard:1", "--gimbal-pack", "--gimbal-memory=100MiB")
	s.WaitTenant(job, time.Minute, "RUNNING")
	e2e.Eventually(b, time.Minute, "its processes are there", func() bool {
		_, pids = e2e.Stopped(s.Pids(job))
		return len(pids) == members
	})
	return job, pids
}

// stopBy runs a command that stops the processes, and returns when the last of
// them was seen stopped after its start.
func stopBy(b *testing.B, pids []int, command func()) time.Duration {
	b.Helper()
	done := make(chan struct{})
	begin := time.Now()
	go func() { defer close(done); command() }()
	took := untilAll(b, pids, true).Sub(begin)
	<-done
	return took
}

// untilAll returns when all of the processes were seen stopped, or running.
func untilAll(b *testing.B, pids []int, stopped bool) time.Time {
	b.Helper()
	end := time.Now().Add(time.Minute)
	for i := 0; i < len(pids); {
		if s, _ := e2e.Stopped(pids[i : i+1]); len(s) == 1 == stopped {
			i++
		} else if time.Now().After(end) {
			b.Fatalf("%d of %d processes: stopped is not %t", len(pids)-i, len(pids), stopped)
		}
	}
	return time.Now()
}

func scontrol(b *testing.B, s *e2e.Stack, do string, job int) {
	b.Helper()
	if r := s.Run("scontrol", do, fmt.Sprint(job)); r.Exit != 0 {
		b.Error(r)
	}
}

// order gives an order as a person does.
func order(b *testing.B, s *e2e.Stack, do string, job int) {
	b.Helper()
	out, err := exec.Command(e2e.Built("gimbal"), do, "--socket", s.Socket(), fmt.Sprint(job)).CombinedOutput()
	if err != nil {
		b.Errorf("gimbal %s: %v: %s", do, err, out)
	}
}
