// Package bench measures, on a real Slurm with the simulated GPU, what the
// README claims. Each figure is a ratio within one run, of medians.
package bench

import (
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
