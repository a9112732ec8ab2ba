package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/policies"
	"github.com/gimbal-hpc/gimbal/tests/simgpu"
)

// shipped is a shipped policy that pauses a tenant right after its launch.
func shipped(name string) map[string]string {
	text := string(policies.Shipped()[name])
	quick := minRun.ReplaceAllString(text, `min_run = "0s"`)
	if quick == text {
		quick = text + "\n[limits]\nmin_run = \"0s\"\n"
	}
	return map[string]string{name: quick}
}

var minRun = regexp.MustCompile(`(?m)^min_run *=.*$`)

var doneLine = regexp.MustCompile(`done iterations=(\d+) wall=([0-9.]+)`)

// speed is the iterations a second that a trainer says it made.
func speed(t *testing.T, output string) float64 {
	t.Helper()
	m := doneLine.FindStringSubmatch(output)
	if m == nil {
		t.Fatalf("the trainer does not say how fast it was: %q", output)
	}
	n, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	wall, err := strconv.ParseFloat(m[2], 64)
	if err != nil {
		t.Fatal(err)
	}
	return n / wall
}

// TestPriorityProtects: a guaranteed trainer that is busy all the time keeps at least
// 95 % of its speed alone beside an opportunistic one. The one that is alone runs at the
// same time, on another GPU: what else the machine does slows both.
func TestPriorityProtects(t *testing.T) {
	s := Start(t, Options{Policy: "priority", Policies: shipped("priority"), GPU: simgpu.Options{GPUs: 2}})
	goFirst(t, s.DaemonPID())
	busy := Trainer("--memory 2GiB --gpu-ms 20 --cpu-ms 2 --seconds 8")
	pack := func(class string, shards int) []string {
		return []string{fmt.Sprintf("--gres=shard:%d", shards), "--gimbal-pack", "--gimbal-memory=2GiB", "--gimbal-class=" + class}
	}
	low := s.Sbatch(t, "exec "+Trainer("--memory 2GiB --gpu-ms 20 --cpu-ms 2"), pack("opportunistic", 2)...)
	s.waitComputes(t, low)
	high := s.Sbatch(t, busy, pack("guaranteed", 2)...)
	alone := s.Sbatch(t, busy, pack("guaranteed", 1)...) // GPU 0 has four shards
	for _, j := range []int{high, alone} {
		wantState(t, s.WaitDone(t, j, patience), "COMPLETED")
	}
	if a, b, c := s.on(low), s.on(high), s.on(alone); a != 0 || b != 0 || c != 1 {
		t.Fatalf("the opportunistic trainer was on GPU %d, the guaranteed one on %d, the one alone on %d", a, b, c)
	}
	got, want := speed(t, s.JobOutput(t, high)), speed(t, s.JobOutput(t, alone))
	t.Logf("%.1f iterations a second beside an opportunistic job, %.1f alone: %.1f %%", got, want, 100*got/want)
	if got < 0.95*want {
		t.Errorf("%.1f iterations a second beside an opportunistic job, %.1f alone: %.0f %%", got, want, 100*got/want)
	}
	s.scancel(t, low)
	s.wantHealthy(t)
}

// TestPriorityFillsGaps: where a guaranteed trainer leaves gaps of six
// seconds, the opportunistic one uses at least half of them.
func TestPriorityFillsGaps(t *testing.T) {
	s := Start(t, Options{Policy: "priority", Policies: shipped("priority")})
	pack := []string{oneShard, "--gimbal-pack", "--gimbal-memory=2GiB"}
	low := s.Sbatch(t, Trainer("--memory 2GiB"), append(pack, "--gimbal-class=opportunistic")...)
	s.waitComputes(t, low)
	option, end := s.until(t, "end")
	high := s.Sbatch(t, Trainer("--memory 2GiB --gap-every 5 --gap 6"+option), append(pack, "--gimbal-class=guaranteed")...)
	Eventually(t, patience, "there were two gaps", func() bool { return len(gapsOf(s.GPU.Record().Of(label(high)))) >= 2 })
	end()
	wantState(t, s.WaitDone(t, high, patience), "COMPLETED")
	rec := s.GPU.Record()
	for _, g := range gapsOf(rec.Of(label(high))) {
		used := rec.Between(g.Start, g.End).Busy(label(low))
		t.Logf("a gap of %s, of which %s was used", g.End-g.Start, used)
		if used < (g.End-g.Start)/2 {
			t.Errorf("of a gap of %s the opportunistic trainer used %s, less than half", g.End-g.Start, used)
		}
	}
	s.scancel(t, low)
	s.wantHealthy(t)
}

// gapsOf are the times of five seconds and more between a tenant's stretches.
func gapsOf(r simgpu.Record) []simgpu.Interval {
	var gaps []simgpu.Interval
	stretches := r.Stretches()
	for i := 1; i < len(stretches); i++ {
		if d := stretches[i].Start - stretches[i-1].End; d >= 5*time.Second {
			gaps = append(gaps, simgpu.Interval{Start: stretches[i-1].End, End: stretches[i].Start})
		}
	}
	return gaps
}

// TestManyShortSteps: 200 short packed steps at 16 at a time, of which three
// fit at once and the others are held. None is lost, none is left stopped, the
// daemon's memory stays flat.
func TestManyShortSteps(t *testing.T) {
	s := Start(t, Options{Policy: "together", Policies: map[string]string{"together": quickTogether}})
	run := func(steps int) {
		script := fmt.Sprintf("seq %d | xargs -P 16 -I{} srun -n1 --overlap --gimbal-pack --gimbal-memory=5GiB --quiet true", steps)
		id := s.Sbatch(t, script, oneShard, "-n16")
		j := s.WaitDone(t, id, 5*patience)
		if j.State != "COMPLETED" {
			t.Fatalf("job %d is %s: %s", id, j.State, s.JobOutput(t, id))
		}
		Eventually(t, patience, "no tenant is left", func() bool { return s.Tenants() == 0 })
		if n := s.endedSteps(id); n != steps {
			t.Errorf("%d of %d steps are in the journal", n, steps)
		}
	}
	run(40)
	before := s.rss(t)
	run(160)
	s.wantHealthy(t)
	after := s.rss(t)
	t.Logf("the daemon's memory: %d bytes after 40 steps, %d after 200", before, after)
	if after > before+6<<20 {
		t.Errorf("the daemon grew from %d to %d bytes over 160 steps", before, after)
	}
}

// endedSteps counts the ended tenants of a job.
func (s *Stack) endedSteps(job int) int {
	r := s.Gimbal("status", "-a", "-X", "-n", "-P", "-o", "JobID", "-S", "now-1hour")
	n := 0
	for line := range strings.Lines(r.Stdout) {
		if strings.HasPrefix(line, fmt.Sprintf("%d.", job)) {
			n++
		}
	}
	return n
}

// rss is the daemon's resident memory in bytes.
func (s *Stack) rss(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.DaemonPID()))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(b))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// TestWorkersOfEveryKindArePaused: processes that fork, call setsid, fork
// twice or exec, also while the pause is under way, are paused with their job.
func TestWorkersOfEveryKindArePaused(t *testing.T) {
	for _, track := range []string{"linuxproc", "cgroup"} {
		t.Run(track, func(t *testing.T) {
			o := lastComes()
			o.Slurm.Proctrack = track
			s := Start(t, o)
			pids := filepath.Join(s.Out, "pids")
			paused := s.Sbatch(t, Trainer("--memory 2GiB --fork 3 --setsid-workers 3 --daemon-workers 3 "+
				"--exec-workers 2 --fork-every 20 --child-life 3000 --fork-kind setsid --pids "+pids), oneShard, "--gimbal-pack", "--gimbal-memory=2GiB")
			Eventually(t, patience, "the trainer tells of processes of every kind", func() bool { return len(readPIDs(pids)) >= 100 })
			other := s.overtake(t, paused, Trainer("--memory 2GiB"))
			stopped, running := Stopped(readPIDs(pids))
			if len(running) > 0 {
				t.Errorf("of %d processes of the paused job %v run", len(stopped)+len(running), running)
			}
			s.scancel(t, paused)
			s.scancel(t, other)
			s.wantHealthy(t)
		})
	}
}

// readPIDs lists the pids in a file, none where there is no such file.
func readPIDs(path string) []int {
	var pids []int
	for _, word := range strings.Fields(readFile(path)) {
		if pid, err := strconv.Atoi(word); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
