package e2e

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/journal"
	"github.com/gimbal-hpc/gimbal/helper/learn"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/policy"
	"github.com/gimbal-hpc/gimbal/helper/sim"
	"github.com/gimbal-hpc/gimbal/helper/sim/node"
	pairs "github.com/gimbal-hpc/gimbal/helper/sim/speed"
	"github.com/gimbal-hpc/gimbal/tests/simgpu"
)

// within is how far the simulator may be from what happened.
const within = 0.05

// noGimbal is the arrangement without Gimbal: Slurm gives each job the GPU as a
// whole.
const noGimbal = "none"

// figures is what came of a mix, in seconds: the mean time from arrival to end,
// and the time from the first arrival to the last end.
type figures struct{ jct, makespan float64 }

func (f figures) String() string { return fmt.Sprintf("%.1f s, %.1f s", f.jct, f.makespan) }

// TestModelAgainstReality plays mixes of trainers under a real Slurm and in the
// simulator, which knows of the trainers how fast each is alone and beside each
// other and how much memory it takes. Both must agree on the mean completion time
// and the makespan. It prints a table of them under each policy, and without
// Gimbal.
func TestModelAgainstReality(t *testing.T) {
	if os.Getenv("GIMBAL_LONG") == "" {
		t.Skip("SKIPPED: takes a quarter of an hour on a machine that does nothing else, or with nice -n -19: set GIMBAL_LONG=1")
	}
	var table strings.Builder
	table.WriteString("| mix | policy | mean JCT | simulated | makespan | simulated |\n|---|---|---|---|---|---|\n")
	for _, m := range mixes() {
		t.Run(m.name, func(t *testing.T) {
			tr := measure(t, m.kinds())
			for _, name := range []string{noGimbal, "together", "timeslice", "throughput"} {
				t.Run(name, func(t *testing.T) {
					row := m.compare(t, tr, name)
					t.Log(row)
					table.WriteString(row)
				})
			}
		})
	}
	t.Logf("from sbatch to end:\n%s", table.String())
}

// compare plays the mix under a policy, holds the simulator to it, and returns
// the row of the table.
func (m mix) compare(t *testing.T, tr *trainers, name string) string {
	t.Helper()
	p := m.play(t, tr, name)
	asked := figuresOf(p.submit, p.end)
	if name == noGimbal {
		return fmt.Sprintf("| %s | %s | %.1f s | - | %.1f s | - |\n", m.name, name, asked.jct, asked.makespan)
	}
	got, want := m.simulate(t, tr, name, p.arrived), figuresOf(p.arrived, p.end)
	t.Logf("from registration to end: %s, simulated: %s", want, got)
	if off := math.Abs(got.jct/want.jct - 1); off > within {
		t.Errorf("the mean JCT is %.1f s, simulated %.1f s: %.1f %% off", want.jct, got.jct, 100*off)
	}
	if off := math.Abs(got.makespan/want.makespan - 1); off > within {
		t.Errorf("the makespan is %.1f s, simulated %.1f s: %.1f %% off", want.makespan, got.makespan, 100*off)
	}
	launch := want.jct - asked.jct // what Slurm takes, which the simulator leaves out
	return fmt.Sprintf("| %s | %s | %.1f s | %.1f s | %.1f s | %.1f s |\n", m.name, name,
		asked.jct, got.jct-launch, asked.makespan, got.makespan+asked.makespan-want.makespan)
}

// TestSpeedsOfMany holds what the simulator says of three and four trainers, of
// which it knows how they fare alone and in pairs, to the simulated GPU.
func TestSpeedsOfMany(t *testing.T) {
	if os.Getenv("GIMBAL_LONG") == "" {
		t.Skip("SKIPPED: takes a minute on a machine that does nothing else, or with nice -n -19: set GIMBAL_LONG=1")
	}
	heavy, even, light := kindOf("heavy"), kindOf("even"), kindOf("light")
	tr := measure(t, []kind{heavy, even, light})
	d := simgpu.Start(t, simgpu.Options{GPUs: 1})
	for _, mix := range [][]kind{
		{heavy, even, light}, {heavy, heavy, heavy}, {heavy, heavy, light}, {heavy, light, light}, {even, even, light},
		{light, light, light, light}, {even, light, light, light}, {heavy, even, light, light},
	} {
		jobs, said := make([]*sim.Job, len(mix)), make([]float64, len(mix))
		for i, k := range mix {
			j := tr.job(i, mixJob{kind: k.name, alone: time.Second}, 0)
			jobs[i] = &j
		}
		(&pairs.Model{Pairs: tr.pairs}).Speeds(jobs, said)
		got := rates(t, d, mix...)
		for i, k := range mix {
			got[i] /= tr.rate[k.name]
			if math.Abs(said[i]/got[i]-1) > 2*within {
				t.Errorf("%s in %v: speed %.3f, said to be %.3f", k.name, namesOf(mix), got[i], said[i])
			}
		}
		t.Logf("%v: speeds %.3f, said to be %.3f", namesOf(mix), got, said)
	}
}

func namesOf(mix []kind) (names []string) {
	for _, k := range mix {
		names = append(names, k.name)
	}
	return names
}

// short is the text of a shipped policy with turns of three seconds.
func short(name string) string {
	return strings.Replace(shipped(name)[name], `"30s"`, `"3s"`, 1)
}

// played is when the jobs of a mix were submitted, registered and ended, in
// seconds from the first submission.
type played struct{ submit, arrived, end []float64 }

func (m mix) play(t *testing.T, tr *trainers, name string) (p played) {
	t.Helper()
	o := Options{NoPlugin: name == noGimbal, NoDaemon: true, Policy: name, Policies: map[string]string{name: short(name)}}
	if name == noGimbal {
		o.Policy, o.Policies = "", nil
	}
	s := Start(t, o)
	if name != noGimbal {
		s.teach(t, tr, m.kinds())
		s.StartDaemon()
	}
	begin := time.Now()
	var ids []int
	for _, j := range m.jobs {
		time.Sleep(time.Until(begin.Add(j.after)))
		p.submit = append(p.submit, time.Since(begin).Seconds())
		ids = append(ids, s.submitMix(t, tr, j, name))
	}
	for _, id := range ids {
		wantState(t, s.WaitDone(t, id, 2*time.Minute), "COMPLETED")
		p.end = append(p.end, s.endOf(t, id).Sub(begin).Seconds())
	}
	if name != noGimbal {
		p.arrived = s.arrivals(t, ids, begin)
	}
	return p
}

// teach writes what gimbald would have learnt of kinds of trainers in earlier runs.
func (s *Stack) teach(t *testing.T, tr *trainers, of []kind) {
	t.Helper()
	now, kept := time.Now().Unix(), []learn.Kept{}
	for _, a := range of {
		k := learn.Kept{Job: learn.Job{Name: a.name}, Seen: now, Rate: tr.rate[a.name]}
		for _, b := range of {
			if x, _, ok := tr.pairs.Of(a.name, b.name); ok && x > 0 {
				k.Pairs = append(k.Pairs, learn.Pair{Mate: learn.Job{Name: b.name}, Speed: learn.Speed{Speed: min(1, x), Error: 0.01, Seen: now}})
			}
		}
		kept = append(kept, k)
	}
	text, err := learn.Encode(kept)
	if err == nil {
		err = os.MkdirAll(s.state(), 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(s.state(), "learnt"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (s *Stack) submitMix(t *testing.T, tr *trainers, j mixJob, name string) int {
	t.Helper()
	k := kindOf(j.kind)
	script := Trainer(fmt.Sprintf("%s --iterations %d", k.args(), tr.iterations(j))) + "\ndate +%s.%N >end-$SLURM_JOB_ID"
	if name == noGimbal {
		return s.Sbatch(t, script, "--gres=gpu:1")
	}
	return s.Sbatch(t, script, "--job-name="+k.name, oneShard, "--gimbal-pack", fmt.Sprintf("--gimbal-memory=%dGiB", k.memory))
}

// endOf is when the script of a job came to its end.
func (s *Stack) endOf(t *testing.T, id int) time.Time {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(s.Out, fmt.Sprintf("end-%d", id)))
	if err != nil {
		t.Fatal(err)
	}
	at, err := strconv.ParseFloat(strings.TrimSpace(string(b)), 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.UnixMicro(int64(at * 1e6))
}

// arrivals is when each job was registered with gimbald.
func (s *Stack) arrivals(t *testing.T, ids []int, begin time.Time) []float64 {
	t.Helper()
	out := make([]float64, len(ids))
	Eventually(t, 10*time.Second, "the journal holds every job", func() bool {
		views, err := journal.Ended(s.state(), model.StatusQuery{})
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for i, id := range ids {
			for k := range views {
				if views[k].Reg.JobID == uint32(id) {
					out[i] = views[k].Start.Sub(begin).Seconds()
					found++
				}
			}
		}
		return found == len(ids)
	})
	return out
}

// simulate plays the mix in the simulator, with the arrivals that it had. A policy
// is told there what gimbald was taught.
func (m mix) simulate(t *testing.T, tr *trainers, name string, arrived []float64) figures {
	t.Helper()
	p, err := policy.Parse(name+".toml", []byte(short(name)))
	if err != nil {
		t.Fatal(err)
	}
	var jobs []sim.Job
	for i, j := range m.jobs {
		jobs = append(jobs, tr.job(i+1, j, arrived[i]))
	}
	const memory = 16*1024 - 300 // MiB: what the driver keeps, jobs cannot have
	c := sim.Config{Nodes: 1, GPUsPerNode: 1, Interference: &pairs.Model{Pairs: tr.pairs, GPUMemory: memory}}
	out, err := sim.Run(jobs, c, node.New(p, node.Options{Slots: 8, GPUMemory: memory}))
	if err != nil {
		t.Fatal(err)
	}
	sum := out.Summary()
	return figures{sum.AvgJCT, sum.Makespan}
}

func figuresOf(from, to []float64) (f figures) {
	first, last := math.Inf(1), 0.0
	for i := range from {
		f.jct += (to[i] - from[i]) / float64(len(from))
		first, last = min(first, from[i]), max(last, to[i])
	}
	f.makespan = last - first
	return f
}
