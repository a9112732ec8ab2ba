package node

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gimbal-hpc/gimbal/helper/engine"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/policy"
	"github.com/gimbal-hpc/gimbal/helper/sim"
	"github.com/gimbal-hpc/gimbal/helper/sim/speed"
	"github.com/gimbal-hpc/gimbal/policies"
	"github.com/gimbal-hpc/gimbal/tests/draw"
)

func shipped(t testing.TB, name string) *policy.Policy {
	t.Helper()
	p, err := policy.Parse(name+".toml", policies.Shipped()[name])
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// job is a job with its arrival, GPUs and seconds of work.
func job(id string, submit float64, gpus int, seconds float64) sim.Job {
	return sim.Job{ID: id, Model: id, Submit: submit, GPUs: gpus, Iterations: seconds, IterTime: 1, Deadline: sim.Never}
}

func light(j sim.Job, util float64) sim.Job {
	j.Util = util
	return j
}

// TestEpisodes compares when jobs end with what can be worked out by hand, to
// within the few turns that it depends on.
func TestEpisodes(t *testing.T) {
	for _, c := range []struct {
		name, policy string
		nodes, gpus  int
		options      Options
		jobs         []sim.Job
		ends         []float64
		within       float64
	}{
		{"one alone", "timeslice", 1, 1, Options{}, []sim.Job{job("a", 5, 1, 1000)}, []float64{1005}, 1},
		{"two take turns", "timeslice", 1, 1, Options{}, []sim.Job{job("a", 0, 1, 50000), job("b", 0, 1, 50000)}, []float64{100000, 100000}, 2500},
		{"a short one comes", "timeslice", 1, 1, Options{}, []sim.Job{job("a", 0, 1, 50000), job("b", 10000, 1, 600)}, []float64{50600, 11200}, 120},
		{"there are two GPUs", "timeslice", 1, 2, Options{}, []sim.Job{job("a", 0, 1, 1000), job("b", 0, 1, 1000)}, []float64{1000, 1000}, 1},
		{"both at once", "together", 1, 1, Options{}, []sim.Job{light(job("a", 0, 1, 1000), 0.5), light(job("b", 0, 1, 1000), 0.4)}, []float64{1000, 1000}, 1},
		{"both at once, slowly", "together", 1, 1, Options{}, []sim.Job{light(job("a", 0, 1, 1000), 1), light(job("b", 0, 1, 1000), 1)}, []float64{2000, 2000}, 1},
		{"Slurm lets one onto a GPU", "together", 1, 1, Options{Slots: 1}, []sim.Job{job("a", 0, 1, 1000), job("b", 0, 1, 500)}, []float64{1000, 1500}, 1},
		{"memory for one", "together", 1, 1, Options{GPUMemory: 1000}, []sim.Job{memory(job("a", 0, 1, 1000), 600), memory(job("b", 0, 1, 1000), 600)}, []float64{1000, 2000}, 1},
		{"who spans nodes shares", "together", 2, 1, Options{}, []sim.Job{job("a", 0, 2, 1000), light(job("b", 0, 1, 100), 0.1)}, []float64{1010, 110}, 1},
		{"who spans nodes is never paused", "timeslice", 2, 1, Options{}, []sim.Job{job("a", 0, 2, 1000), job("b", 0, 1, 100)}, []float64{1100, 200}, 30},
		{"four that fit", "throughput", 1, 1, Options{}, []sim.Job{light(job("a", 0, 1, 5000), 0.2), light(job("b", 0, 1, 5000), 0.2), light(job("c", 0, 1, 5000), 0.2), light(job("d", 0, 1, 5000), 0.2)}, []float64{5000, 5000, 5000, 5000}, 100},
		{"shards for one", "together", 1, 1, Options{}, []sim.Job{shards(job("a", 0, 1, 1000), 3), shards(job("b", 0, 1, 500), 2)}, []float64{1000, 1500}, 1},
		{"shards for both", "together", 1, 1, Options{}, []sim.Job{shards(job("a", 0, 1, 1000), 2), shards(job("b", 0, 1, 1000), 2)}, []float64{2000, 2000}, 1},
		// A guaranteed job at 0.1 * 0.5 + 0.9 of its speed, beside one at 0.1 * 0.5.
		{"one is throttled", "qos", 1, 1, Options{}, []sim.Job{light(job("a", 0, 1, 1000), 1), opportunistic(light(job("b", 0, 1, 1000), 1))}, []float64{1053, 2000}, 15},
		{"a pair that pays", "throughput", 1, 1, Options{}, []sim.Job{light(job("a", 0, 1, 5000), 0.4), light(job("b", 0, 1, 5000), 0.4)}, []float64{5000, 5000}, 60},
	} {
		t.Run(c.policy+": "+c.name, func(t *testing.T) {
			o, err := sim.Run(c.jobs, sim.Config{Nodes: c.nodes, GPUsPerNode: c.gpus, Interference: &speed.Model{}}, New(shipped(t, c.policy), c.options))
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range c.ends {
				if got := o.Jobs[i].End; math.Abs(got-want) > c.within {
					t.Errorf("job %s ends at %.1f, want %.0f", o.Jobs[i].Job.ID, got, want)
				}
			}
		})
	}
}

func opportunistic(j sim.Job) sim.Job {
	j.Opportunistic = true
	return j
}

func shards(j sim.Job, n int) sim.Job {
	j.Shards = n
	return j
}

func memory(j sim.Job, mib float64) sim.Job {
	j.Memory = mib
	j.Util = 0.1
	return j
}

// never is an interference under which nothing runs beside anything.
type never struct{ speed.Model }

func (never) Speeds(jobs []*sim.Job, out []float64) { clear(out[:len(jobs)]) }

func TestWhatCannotRunTogetherWaits(t *testing.T) {
	jobs := []sim.Job{job("a", 0, 2, 100), job("b", 0, 2, 100), job("c", 0, 1, 100)}
	o, err := sim.Run(jobs, sim.Config{Nodes: 1, GPUsPerNode: 2, Interference: &never{}}, New(shipped(t, "together"), Options{}))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{100, 200, 300} {
		if got := o.Jobs[i].End; math.Abs(got-want) > 1 {
			t.Errorf("job %s ends at %.1f, want %.0f", o.Jobs[i].Job.ID, got, want)
		}
	}
}

// TestPausesCost compares a cluster on which a turn costs 3 s with one on
// which it costs nothing.
func TestPausesCost(t *testing.T) {
	jobs := []sim.Job{job("a", 0, 1, 3000), job("b", 0, 1, 3000)}
	end := func(c *sim.Cost) float64 {
		o, err := sim.Run(jobs, sim.Config{Nodes: 1, GPUsPerNode: 1, Cost: c, Interference: &speed.Model{}}, New(shipped(t, "timeslice"), Options{}))
		if err != nil {
			t.Fatal(err)
		}
		return o.Summary().Makespan
	}
	dear := sim.NoCost()
	dear.Pause.Other = 3
	free, paid := end(sim.NoCost()), end(dear)
	if math.Abs(free-6000) > 1 || paid < 6010 || paid > 6600 {
		t.Errorf("makespan %v s where turns are free and %v s where each costs 3 s; want 6000 s and up to a tenth more", free, paid)
	}
}

// book keeps the records of a node.
type book struct{ records []model.Record }

func (b *book) Append(r model.Record) error {
	b.records = append(b.records, r)
	return nil
}

func TestJournal(t *testing.T) {
	b := &book{}
	o := Options{Journal: func(int) engine.Journal { return b }}
	if _, err := sim.Run([]sim.Job{job("a", 0, 1, 100), job("b", 0, 1, 100)}, sim.Config{Nodes: 1, GPUsPerNode: 1, Interference: &speed.Model{}}, New(shipped(t, "timeslice"), o)); err != nil {
		t.Fatal(err)
	}
	var did []string
	for _, r := range b.records {
		switch {
		case r.Event != nil:
			did = append(did, string(r.Event.Kind))
		case r.Action != nil:
			did = append(did, string(r.Action.Do))
		}
	}
	all := strings.Join(did, " ")
	if !strings.HasPrefix(all, "registered registered ") || !strings.HasSuffix(all, "ended") || !strings.Contains(all, "pause done resume done") {
		t.Errorf("records: %s", all)
	}
}

// TestEveryPolicy replays made-up traces under every shipped policy: all jobs
// end, none before its work is done, and a second run gives the same.
func TestEveryPolicy(t *testing.T) {
	for name := range policies.Shipped() {
		t.Run(name, func(t *testing.T) {
			p := shipped(t, name)
			draw.Check(t, func(t *rapid.T) { checkPolicy(t, p) })
		})
	}
}

func checkPolicy(t *rapid.T, p *policy.Policy) {
	nodes, per := rapid.IntRange(1, 3).Draw(t, "nodes"), rapid.IntRange(1, 4).Draw(t, "gpus")
	var jobs []sim.Job
	for i := range rapid.IntRange(1, 12).Draw(t, "jobs") {
		j := job(fmt.Sprint("j", i), float64(rapid.IntRange(0, 300).Draw(t, "gap")), rapid.IntRange(1, nodes*per).Draw(t, "asked"), float64(rapid.IntRange(0, 3000).Draw(t, "seconds")))
		if i > 0 {
			j.Submit += jobs[i-1].Submit
		}
		j.Util = rapid.SampledFrom([]float64{0, 0.2, 0.6, 1}).Draw(t, "util")
		j.Memory = rapid.SampledFrom([]float64{0, 3000, 9000}).Draw(t, "memory")
		j.Opportunistic = rapid.Bool().Draw(t, "opportunistic")
		if rapid.Bool().Draw(t, "urgent") {
			j.Deadline = j.Submit + 2000
		}
		jobs = append(jobs, j)
	}
	c := sim.Config{Nodes: nodes, GPUsPerNode: per, Interference: &speed.Model{GPUMemory: 10000}}
	o := Options{Slots: rapid.IntRange(1, 4).Draw(t, "slots"), GPUMemory: 10000}
	first, err := sim.Run(jobs, c, New(p, o))
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range first.Jobs {
		if j.End-j.Start < j.Job.Work()-1e-3 || j.Held < j.Job.Work()-1e-3 {
			t.Fatalf("job %s needs %v s and has run from %v to %v", j.Job.ID, j.Job.Work(), j.Start, j.End)
		}
	}
	second, err := sim.Run(jobs, c, New(p, o))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, second); diff != "" {
		t.Fatalf("two runs differ (-first +second):\n%s", diff)
	}
}

// TestFirstTurnsCount: a tenant's first turn is served as any other, also where
// nothing but the turn's end makes the engine look at the node.
func TestFirstTurnsCount(t *testing.T) {
	text := strings.Replace(string(policies.Shipped()["timeslice"]), `"30s"`, `"3s"`, 1) + "\n[limits]\nmin_run = \"0s\"\n"
	p, err := policy.Parse("timeslice.toml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	jobs := []sim.Job{job("a", 0, 1, 10), job("b", 1, 1, 6), job("c", 2, 1, 6)}
	o, err := sim.Run(jobs, sim.Config{Nodes: 1, GPUsPerNode: 1, Interference: &speed.Model{}}, New(p, Options{}))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{22, 15, 18} { // turns of 3 s: a b c a b c a
		if got := o.Jobs[i].End; math.Abs(got-want) > 0.05 {
			t.Errorf("%s ends at %.1f s, want %.0f s", jobs[i].ID, got, want)
		}
	}
}

// TestNewPlansWaitForTurns: of two that take turns together one is not parted from the
// other, at once and for ever anew, for whom there is no memory as soon as it is planned.
func TestNewPlansWaitForTurns(t *testing.T) {
	jobs := []sim.Job{job("1", 0, 1, 0), job("2", 0, 1, 0), light(job("a", 0, 1, 582), 0.6), light(job("b", 0, 1, 581), 0.6)}
	for i := range 3 {
		jobs = append(jobs, job(fmt.Sprint("short", i), 0, 1, 0))
	}
	jobs = append(jobs, job("c", 30, 1, 0), light(memory(job("d", 30, 1, 0), 3000), 0))
	for _, name := range []string{"makespan", "throughput"} {
		c := sim.Config{Nodes: 1, GPUsPerNode: 1, Interference: &speed.Model{GPUMemory: 10000}}
		s := &bounded{Scheduler: New(shipped(t, name), Options{GPUMemory: 10000}), left: 5000}
		if _, err := sim.Run(jobs, c, s); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRemainingIsTold compares when a long and a short job end where the policy
// knows how long they need, and where it does not.
func TestRemainingIsTold(t *testing.T) {
	jobs := []sim.Job{job("long", 0, 1, 20000), job("short", 0, 1, 5000)}
	end := func(told bool) float64 {
		c := sim.Config{Nodes: 1, GPUsPerNode: 1, Interference: &speed.Model{}}
		o, err := sim.Run(jobs, c, New(shipped(t, "jct"), Options{Remaining: told}))
		if err != nil {
			t.Fatal(err)
		}
		return o.Jobs[1].End
	}
	if told, untold := end(true), end(false); told > 6000 || untold < 8000 {
		t.Errorf("the short job ends at %.0f s where its rest is known and at %.0f s where not; want 5000 s and 10000 s", told, untold)
	}
}

// bounded is a scheduler that fails when a run does not come to its end.
type bounded struct {
	sim.Scheduler
	w    *sim.World
	left int
}

func (b *bounded) Start(w *sim.World) {
	b.w = w
	b.Scheduler.Start(w)
}

func (b *bounded) Schedule() float64 {
	if b.left--; b.left < 0 {
		b.w.Fail(fmt.Errorf("no end in sight at %.0f s", b.w.Now))
	}
	return b.Scheduler.Schedule()
}

// TestTurnsRestartNobody: where each arrival and each end costs every job there a
// restart, as in Muri's simulator, turns do not.
func TestTurnsRestartNobody(t *testing.T) {
	const restart, n = 10.0, 6
	var jobs []sim.Job
	for i := range n {
		jobs = append(jobs, light(job(fmt.Sprint(i), float64(100*i), 1, 2000), 0.5))
	}
	for name := range policies.Shipped() {
		t.Run(name, func(t *testing.T) {
			var makespans [2]float64
			for i, cost := range []*sim.Cost{sim.NoCost(), {Solo: 1, EveryMoment: true, Restart: sim.Times{Other: restart}}} {
				s := &bounded{Scheduler: New(shipped(t, name), Options{}), left: 20000}
				o, err := sim.Run(jobs, sim.Config{Nodes: 1, GPUsPerNode: 2, Cost: cost, Interference: &speed.Model{}}, s)
				if err != nil {
					t.Fatal(err)
				}
				makespans[i] = o.Summary().Makespan
			}
			if more := makespans[1] - makespans[0]; more < restart || more > 2*n*restart {
				t.Errorf("restarts of %v s at %d arrivals and ends make the run %.0f s longer", restart, 2*n, more)
			}
		})
	}
}
