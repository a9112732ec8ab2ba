// Package bench measures, on a real Slurm with the simulated GPU, what the
// README claims. Each figure is a ratio within one run, of medians.
package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/tests/e2e"
)

// rounds is how often each command is run; they take turns, so that a change
// of the machine's speed meets all of them.
const rounds = 60

// BenchmarkSrun compares srun of /bin/true without the plugin, with it but
// without the option, and with the option. srun waits for much that is not
// ours, in steps of its own: on a machine that does other things as well, run it
// in the real-time class, which all that it starts inherits (chrt -r 1 go test).
func BenchmarkSrun(b *testing.B) {
	for _, track := range []string{"linuxproc", "cgroup"} {
		b.Run(track, func(b *testing.B) { benchSrun(b, track) })
	}
}

func benchSrun(b *testing.B, track string) {
	o := e2e.Options{Policy: "together"}
	o.Slurm.Proctrack = track
	s := e2e.StartB(b, o)
	plug := filepath.Join(s.Cluster.Dir, "plugstack.conf")
	line, err := os.ReadFile(plug)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		var none, without, with []time.Duration
		for range rounds {
			write(b, plug, "")
			none = append(none, srun(b, s))
			write(b, plug, string(line))
			without = append(without, srun(b, s))
			with = append(with, srun(b, s, "--gimbal-pack"))
		}
		n, wo, wi := median(none), median(without), median(with)
		b.ReportMetric(float64(n.Microseconds())/1e3, "ms/no-plugin")
		b.ReportMetric(float64(wo)/float64(n), "ratio/plugin-no-option")
		b.ReportMetric(float64((wi-n).Microseconds())/1e3, "ms-more/with-option")
	}
}

func write(b *testing.B, path, text string) {
	b.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		b.Fatal(err)
	}
}

func srun(b *testing.B, s *e2e.Stack, args ...string) time.Duration {
	b.Helper()
	r := s.Run("srun", append(args, "-n1", "/bin/true")...)
	if r.Exit != 0 {
		b.Fatalf("srun %s: %s", strings.Join(args, " "), r)
	}
	return r.Took
}

func median(d []time.Duration) time.Duration {
	s := slices.Clone(d)
	slices.Sort(s)
	return s[len(s)/2]
}

// BenchmarkDaemon is what gimbald costs with 64 tenants of four processes at
// one sample a second.
func BenchmarkDaemon(b *testing.B) {
	for _, track := range []string{"linuxproc", "cgroup"} {
		b.Run(track, func(b *testing.B) { benchDaemon(b, track) })
	}
}

func benchDaemon(b *testing.B, track string) {
	o := e2e.Options{Policy: "together", Interval: time.Second}
	o.Slurm.Proctrack = track
	o.Slurm.CPUs, o.Slurm.Shards = 80, 80
	s := e2e.StartB(b, o)
	script := "sleep 600 & sleep 600 & sleep 600 & wait"
	for range 64 {
		if r := s.Run("sbatch", "--gres=shard:1", "--gimbal-pack", "--gimbal-memory=100MiB", "--wrap", script); r.Exit != 0 {
			b.Fatal(r)
		}
	}
	deadline := time.Now().Add(2 * time.Minute)
	for s.Tenants() < 64 {
		if time.Now().After(deadline) {
			b.Fatalf("only %d of 64 tenants are there", s.Tenants())
		}
		time.Sleep(time.Second)
	}
	for b.Loop() {
		const window = 20 * time.Second
		before := cpu(b, s.DaemonPID())
		time.Sleep(window)
		used := cpu(b, s.DaemonPID()) - before
		b.ReportMetric(100*used.Seconds()/window.Seconds(), "%core")
		b.ReportMetric(float64(rss(b, s.DaemonPID()))/(1<<20), "MiB")
	}
}

// cpu is the processor time that a process has used, in ticks of 10 ms.
func cpu(b *testing.B, pid int) time.Duration {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	f := strings.Fields(string(text)[strings.LastIndexByte(string(text), ')')+2:])
	var user, system int
	if _, err := fmt.Sscan(f[11]+" "+f[12], &user, &system); err != nil {
		b.Fatal(err)
	}
	return time.Duration(user+system) * 10 * time.Millisecond
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
