package baseline

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gimbal-hpc/gimbal/helper/sim"
	"github.com/gimbal-hpc/gimbal/helper/sim/speed"
	"github.com/gimbal-hpc/gimbal/tests/draw"
)

// watched passes a scheduler through and checks what it leaves behind.
type watched struct {
	sim.Scheduler
	t     *rapid.T
	w     *sim.World
	alone bool // no two tasks may share GPUs
}

func (c *watched) Start(w *sim.World) {
	c.w = w
	c.Scheduler.Start(w)
}

func (c *watched) Schedule() float64 {
	next := c.Scheduler.Schedule()
	gpus, asked := c.w.Cluster.GPUs(), 0
	c.w.Each(func(t *sim.Task) { asked += t.Job.GPUs })
	if c.alone && asked > gpus {
		c.t.Fatalf("at %v tasks run on %d GPUs, there are %d", c.w.Now, asked, gpus)
	}
	if c.w.Busy < 0 || c.w.Busy > gpus || c.w.Busy > asked {
		c.t.Fatalf("at %v %d GPUs are said to be busy; %d are asked for, there are %d", c.w.Now, c.w.Busy, asked, gpus)
	}
	return next
}

var costs = map[string]*sim.Cost{
	"none": sim.NoCost(),
	"muri": sim.MuriCost(),
	"file": {Name: "file", Solo: 1, Staged: sim.NoCost().Staged, Restart: sim.Times{Other: 20}, Pause: sim.Times{Other: 1}},
}

// TestEveryPolicy replays made-up traces under every policy and cost model: all
// jobs end, none before its work is done, no GPU is given away twice, and a
// second run gives the same.
func TestEveryPolicy(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) { draw.Check(t, func(t *rapid.T) { checkPolicy(t, name) }) })
	}
}

func checkPolicy(t *rapid.T, name string) {
	nodes, per := rapid.IntRange(1, 5).Draw(t, "nodes"), rapid.SampledFrom([]int{1, 2, 4, 8}).Draw(t, "gpus")
	jobs := synthetic(rapid.Uint64().Draw(t, "seed"), rapid.IntRange(1, 40).Draw(t, "jobs"), nodes*per, rapid.Float64Range(0.3, 4).Draw(t, "load"))
	for i := range jobs {
		if g := jobs[i].GPUs; g <= nodes && g > 1 && rapid.IntRange(0, 9).Draw(t, "spread") == 0 {
			jobs[i].Nodes = g
		}
		if rapid.IntRange(0, 4).Draw(t, "plain") == 0 {
			jobs[i].Stages = sim.Stages{}
		}
	}
	cost := rapid.SampledFrom([]string{"none", "muri", "file"}).Draw(t, "cost")
	c := sim.Config{Nodes: nodes, GPUsPerNode: per, Cost: costs[cost], Interference: &speed.Model{}, Seed: 1, History: true}
	alone := slices.Contains([]string{"exclusive", "srtf", "srsf", "las"}, name)
	first := replay(t, name, jobs, c, alone)
	for i, o := range first.Jobs {
		if o.End < o.Start || o.Start < o.Job.Submit {
			t.Fatalf("%s: job %s comes at %v, starts at %v, ends at %v", name, o.Job.ID, o.Job.Submit, o.Start, o.End)
		}
		if packs := name == "muri-s" || name == "muri-l"; !packs && o.Held < o.Job.Work()*(1-1e-6) {
			t.Fatalf("%s: job %s held GPUs for %v s and needs %v s", name, o.Job.ID, o.Held, o.Job.Work())
		}
		if alone && cost == "none" && math.Abs(o.Held-o.Job.Work()) > 1e-6*o.Job.Work()+1e-3 {
			t.Fatalf("%s: job %s held GPUs for %v s and needs %v s alone", name, o.Job.ID, o.Held, o.Job.Work())
		}
		if !alone && !slices.Contains([]string{"muri-s", "muri-l"}, name) && o.Preempts > 0 && name != "fifo-pack" {
			t.Fatalf("%s preempts job %d", name, i)
		}
	}
	checkHistory(t, first)
	if diff := cmp.Diff(first, replay(t, name, jobs, c, alone)); diff != "" {
		t.Fatalf("%s: two runs differ (-first +second):\n%s", name, diff)
	}
}

// checkHistory compares the stays with what the jobs are said to have held, and
// the loads with the time that GPUs are said to have been busy.
func checkHistory(t *rapid.T, o *sim.Outcome) {
	held, last, busy := make([]float64, len(o.Jobs)), 0.0, 0.0
	for _, s := range o.History.Stays {
		if s.To < s.From {
			t.Fatalf("a stay ends before it begins: %+v", s)
		}
		held[s.Job] += s.To - s.From
		last = max(last, s.To)
	}
	for i, j := range o.Jobs {
		if math.Abs(held[i]-j.Held) > 1e-6*(1+j.End) {
			t.Fatalf("job %s stayed for %v s and held GPUs for %v s", j.Job.ID, held[i], j.Held)
		}
	}
	for i, l := range o.History.Loads {
		next := last
		if i+1 < len(o.History.Loads) {
			next = o.History.Loads[i+1].At
		}
		busy += float64(l.Busy) * (next - l.At)
	}
	if math.Abs(busy-o.BusyTime) > 1e-6*(1+o.BusyTime) {
		t.Fatalf("the loads add up to %v GPU seconds, the run has %v", busy, o.BusyTime)
	}
}

func replay(t *rapid.T, name string, jobs []sim.Job, c sim.Config, alone bool) *sim.Outcome {
	s, err := New(name)
	if err != nil {
		t.Fatal(err)
	}
	o, err := sim.Run(jobs, c, &watched{Scheduler: s, t: t, alone: alone})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return o
}
