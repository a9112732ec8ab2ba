package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/tests/e2e"
)

// BenchmarkDaemon is what gimbald costs with 64 tenants of four processes at
// one sample a second, beside its floor: the least reads by which a stop and a
// freeze by somebody else are seen, in a bare loop at the same pace.
func BenchmarkDaemon(b *testing.B) {
	for _, track := range []string{"linuxproc", "cgroup"} {
		b.Run(track, func(b *testing.B) { benchDaemon(b, track) })
	}
}

func benchDaemon(b *testing.B, track string) {
	s := crowd(b, track, e2e.Options{Policy: "together"})
	files := watched(b, s)
	for b.Loop() {
		const window = 20 * time.Second
		before := cpu(b, s.DaemonPID())
		floor := bareLooks(b, files, window)
		used := cpu(b, s.DaemonPID()) - before
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(100*used.Seconds()/window.Seconds(), "%core")
		b.ReportMetric(100*floor.Seconds()/window.Seconds(), "%core-floor")
		b.ReportMetric(float64(rss(b, s.DaemonPID()))/(1<<20), "MiB")
	}
}

// tenants is how many jobs a crowd has.
const tenants = 64

// crowd is a node with so many tenants of four processes at one sample a second.
func crowd(b *testing.B, track string, o e2e.Options) *e2e.Stack {
	b.Helper()
	o.Interval = time.Second
	o.Slurm.Proctrack = track
	o.Slurm.CPUs, o.Slurm.Shards = 80, 80
	s := e2e.StartB(b, o)
	for range tenants {
		submit(b, s, "--gimbal-memory=100MiB", "--wrap", "sleep 600 & sleep 600 & sleep 600 & wait")
	}
	e2e.Eventually(b, 2*time.Minute, "all tenants are there", func() bool { return s.Tenants() == tenants })
	time.Sleep(3 * time.Second) // for all of them to be launched
	return s
}

// BenchmarkDaemonPaused is what gimbald costs while all but one of the tenants of
// BenchmarkDaemon are paused, beside what it costs while they run.
func BenchmarkDaemonPaused(b *testing.B) {
	for _, track := range []string{"linuxproc", "cgroup"} {
		b.Run(track, func(b *testing.B) { benchPaused(b, track) })
	}
}

func benchPaused(b *testing.B, track string) {
	const window = 15 * time.Second
	s := crowd(b, track, e2e.Options{Policy: "still", Policies: still()})
	share := func() float64 {
		before := cpu(b, s.DaemonPID())
		time.Sleep(window)
		return 100 * (cpu(b, s.DaemonPID()) - before).Seconds() / window.Seconds()
	}
	for b.Loop() {
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(share(), "%core-running")
		for i, v := range s.Status(model.StatusQuery{Start: time.Now()}).Tenants {
			if i > 0 {
				order(b, s, "pause", int(v.Reg.JobID))
			}
		}
		e2e.Eventually(b, time.Minute, "all but one are paused", func() bool { return paused(s) == tenants-1 })
		b.ReportMetric(share(), "%core-paused")
	}
}

func paused(s *e2e.Stack) (n int) {
	reply := s.Status(model.StatusQuery{Start: time.Now()})
	for i := 0; reply != nil && i < len(reply.Tenants); i++ {
		if reply.Tenants[i].Word() == "PAUSED" {
			n++
		}
	}
	return n
}

func submit(b *testing.B, s *e2e.Stack, args ...string) {
	b.Helper()
	if r := s.Run("sbatch", append([]string{"--gres=shard:1", "--gimbal-pack"}, args...)...); r.Exit != 0 {
		b.Fatal(r)
	}
}

// watched opens of each tenant's first process the stat, and the state of its
// freezer cgroup where it has one of its own.
func watched(b *testing.B, s *e2e.Stack) []int {
	b.Helper()
	var fds []int
	add := func(path string) {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			b.Fatal(err)
		}
		fds = append(fds, fd)
		b.Cleanup(func() { _ = unix.Close(fd) })
	}
	reply := s.Status(model.StatusQuery{Start: time.Now()})
	if reply == nil {
		b.Fatal("gimbald does not answer")
	}
	for i := range reply.Tenants {
		pid := reply.Tenants[i].Workers[0].Proc.PID
		add(fmt.Sprintf("/proc/%d/stat", pid))
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		if err != nil {
			b.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if _, below, ok := strings.Cut(strings.TrimSpace(line), ":freezer:"); ok && strings.Contains(below, "/step_") {
				add(filepath.Join("/sys/fs/cgroup/freezer", below, "freezer.state"))
			}
		}
	}
	return fds
}

// bareLooks reads files once a second for a while, and returns the processor
// time that the reads took.
func bareLooks(b *testing.B, fds []int, window time.Duration) (took time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var buf [1280]byte
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for range int(window / time.Second) {
		<-tick.C
		begin := clock(b, unix.CLOCK_THREAD_CPUTIME_ID)
		for _, fd := range fds {
			if _, err := unix.Pread(fd, buf[:], 0); err != nil {
				b.Fatal(err)
			}
		}
		took += clock(b, unix.CLOCK_THREAD_CPUTIME_ID) - begin
	}
	return took
}

// cpu is the processor time that a process has used.
func cpu(b *testing.B, pid int) time.Duration {
	b.Helper()
	const scheduler = 2
	return clock(b, int32(^pid<<3|scheduler)) // as clock_getcpuclockid makes it
}

func clock(b *testing.B, id int32) time.Duration {
	b.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		b.Fatal(err)
	}
	return time.Duration(ts.Nano())
}

func rss(b *testing.B, pid int) int {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		b.Fatal(err)
	}
	var size, resident int
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
		b.Fatal(err)
	}
	return resident * os.Getpagesize()
}

// deaths is how often BenchmarkDeath kills the daemon.
const deaths = 100

// BenchmarkDeath measures how long it takes from the daemon's SIGKILL until a
// paused job of 34 processes runs again, by the guard.
func BenchmarkDeath(b *testing.B) {
	s := e2e.StartB(b, e2e.Options{Policy: "still", Policies: still()})
	job, pids := family(b, s)
	for b.Loop() {
		var took []time.Duration
		for range deaths {
			order(b, s, "pause", job)
			untilAll(b, pids, true)
			begin := time.Now()
			s.KillDaemon()
			took = append(took, untilAll(b, pids, false).Sub(begin))
			s.StartDaemon()
			order(b, s, "release", job)
			s.WaitTenant(job, time.Minute, "RUNNING")
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(ms(median(took)), "ms/median")
		b.ReportMetric(ms(slices.Max(took)), "ms/most")
	}
}
