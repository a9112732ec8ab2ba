package bound_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gimbal-hpc/gimbal/helper/policy"
	"github.com/gimbal-hpc/gimbal/helper/sim"
	"github.com/gimbal-hpc/gimbal/helper/sim/baseline"
	"github.com/gimbal-hpc/gimbal/helper/sim/bound"
	"github.com/gimbal-hpc/gimbal/helper/sim/node"
	"github.com/gimbal-hpc/gimbal/helper/sim/speed"
	"github.com/gimbal-hpc/gimbal/policies"
	"github.com/gimbal-hpc/gimbal/tests/draw"
)

// kinds is how many models the made-up traces have.
const kinds = 5

// table is a random table of pairs. Some are faster beside each other than alone, as
// measurements have it, and some cannot run together.
func table(r *rand.Rand) string {
	b := strings.Builder{}
	b.WriteString("job_a,job_b,norm_a,norm_b\n")
	for i := range kinds {
		for k := range i + 1 {
			x, y := .2+.9*r.Float64(), .2+.9*r.Float64()
			if r.IntN(10) == 0 {
				x, y = 0, 0
			}
			fmt.Fprintf(&b, "m%d,m%d,%v,%v\n", i, k, x, y)
		}
	}
	return b.String()
}

// made makes up jobs, some at the first moment and some later, many more than fit.
func made(r *rand.Rand, n, gpus int, staged bool) []sim.Job {
	jobs := make([]sim.Job, n)
	at, first := 0.0, r.IntN(n+1)
	for i := range jobs {
		if i > first {
			at += 3000 * r.Float64()
		}
		k := r.IntN(kinds)
		seconds := 100 + 10000*r.Float64()*r.Float64()
		jobs[i] = sim.Job{
			ID: strconv.Itoa(i + 1), Model: "m" + strconv.Itoa(k), Submit: at, GPUs: min(gpus, 1<<r.IntN(3)),
			Iterations: seconds, IterTime: 1, Memory: 2000 + 6000*float64(k), Deadline: at + (1+2*r.Float64())*seconds, Opportunistic: r.IntN(3) == 0,
		}
		if staged {
			gpu := .1 + .2*float64(k)
			jobs[i].Stages = sim.Stages{1 - gpu, gpu, .1}
		}
	}
	return jobs
}

// TestNobodyIsBetter: on random traces no policy passes a bound, ours and the baselines'
// rules on Slurm's placement not those for seated jobs either. (antman is left out: its
// guaranteed jobs are never slowed down, which no model of sharing has.)
func TestNobodyIsBetter(t *testing.T) {
	draw.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		nodes, per := rapid.IntRange(1, 2).Draw(t, "nodes"), rapid.SampledFrom([]int{1, 2, 4}).Draw(t, "gpus")
		staged := rapid.Bool().Draw(t, "staged")
		jobs := made(r, rapid.IntRange(1, 14).Draw(t, "jobs"), nodes*per, staged)
		model := &speed.Model{GPUMemory: 40000}
		if !staged {
			pairs, err := speed.Read(strings.NewReader(table(r)), "pairs", speed.Choice{})
			if err != nil {
				t.Fatal(err)
			}
			model.Pairs = pairs
		}
		c := sim.Config{Nodes: nodes, GPUsPerNode: per, Cost: sim.NoCost(), Interference: model, Seed: 1}
		c.Cost.Restart.Other = rapid.SampledFrom([]float64{0, 10, 500}).Draw(t, "restart")
		checkAll(t, jobs, c)
	})
}

func checkAll(t *rapid.T, jobs []sim.Job, c sim.Config) {
	o := node.Options{Slots: 4, GPUMemory: 40000, Turns: 10, Remaining: true}
	seats, err := node.FirstSeats(jobs, c, o)
	if err != nil {
		t.Fatal(err)
	}
	anywhere, seated, err := bound.Of(jobs, c, seats)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range baseline.Names() {
		if s, _ := baseline.New(name); name != "antman" {
			check(t, name, anywhere, replay(t, jobs, c, s))
		}
	}
	shipped := policies.Shipped()
	var names []string
	for name := range shipped {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		p, err := policy.Parse(name, shipped[name])
		if err != nil {
			t.Fatal(err)
		}
		check(t, name, seated, replay(t, jobs, c, node.New(p, o)))
		chooses := o
		chooses.Place = true
		check(t, name+", choosing", anywhere, replay(t, jobs, c, node.New(p, chooses)))
	}
}

// TestTurnsAreAskedInTheirOrder: with this rule, which knows nothing of one that would
// stand still, one may run beside three and not beside two of them. Asked beside two
// while it runs, and beside three while it waits, it would stop and go for ever.
func TestTurnsAreAskedInTheirOrder(t *testing.T) {
	const with, without = "mate.deadline_in * (mate.speed ?? mate.speed_guess) > (mate.remaining ?? 0)",
		"mate.deadline_in > (mate.remaining ?? 0) / (mate.speed ?? mate.speed_guess)"
	text := strings.Replace(string(policies.Shipped()["deadline"]), with, without, 1)
	p, err := policy.Parse("deadline.toml", []byte(text))
	if err != nil || !strings.Contains(text, without) {
		t.Fatalf("%v: %s", err, text)
	}
	r := rand.New(rand.NewPCG(149, 0))
	jobs := made(r, 13, 2, false)
	pairs, err := speed.Read(strings.NewReader(table(r)), "pairs", speed.Choice{})
	if err != nil {
		t.Fatal(err)
	}
	c := sim.Config{Nodes: 2, GPUsPerNode: 1, Cost: sim.NoCost(), Interference: &speed.Model{GPUMemory: 40000, Pairs: pairs}, Seed: 1}
	if _, err := sim.Run(jobs, c, node.New(p, node.Options{Slots: 4, GPUMemory: 40000, Turns: 10, Remaining: true})); err != nil {
		t.Error(err)
	}
}

func replay(t *rapid.T, jobs []sim.Job, c sim.Config, s sim.Scheduler) sim.Summary {
	o, err := sim.Run(jobs, c, s)
	if err != nil {
		t.Fatal(err)
	}
	return o.Summary()
}

// check holds what came of a policy against the bounds. A run takes ends that are a
// billionth apart to be one.
func check(t *rapid.T, name string, b bound.Bounds, is sim.Summary) {
	const rounding = 1 - 1e-7
	for _, v := range []struct {
		what      string
		is, bound float64
	}{
		{"average completion time", is.AvgJCT, b.AvgJCT}, {"99th percentile", is.P99JCT, b.P99JCT},
		{"makespan", is.Makespan, b.Makespan}, {"finish-time ratio", is.MaxFTF, b.MaxFTF},
		{"deadlines missed", float64(is.Deadlines - *is.DeadlinesMet), float64(is.Deadlines - b.DeadlinesMet)},
	} {
		if v.is < v.bound*rounding {
			t.Fatalf("%s: %s %v, none has less than %v", name, v.what, v.is, v.bound)
		}
	}
}
