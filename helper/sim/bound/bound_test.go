package bound

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/gimbal-hpc/gimbal/helper/sim"
	"github.com/gimbal-hpc/gimbal/helper/sim/speed"
)

// batch is jobs of so many seconds on one GPU each, all there at once.
func batch(seconds ...float64) []sim.Job {
	var jobs []sim.Job
	for i, s := range seconds {
		jobs = append(jobs, sim.Job{ID: strconv.Itoa(i + 1), Model: string(rune('a' + i)), GPUs: 1, Iterations: s, IterTime: 1, Deadline: sim.Never})
	}
	return jobs
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-3*want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// justBelow is for a bound that is sought step by step, and always is one.
func justBelow(t *testing.T, what string, got, want float64) {
	t.Helper()
	if got > want*(1+1e-9) || got < .99*want {
		t.Errorf("%s: %v, want %v or a little less", what, got, want)
	}
}

// one is a single GPU on which jobs share as a table of pairs has it.
func one(t *testing.T, rows string) sim.Config {
	t.Helper()
	pairs, err := speed.Read(strings.NewReader("job_a,job_b,norm_a,norm_b\n"+rows), "pairs", speed.Choice{})
	if err != nil {
		t.Fatal(err)
	}
	return sim.Config{Nodes: 1, GPUsPerNode: 1, Interference: &speed.Model{Pairs: pairs}}
}

// TestAlone: without sharing, one after the other and the shortest first is the best.
func TestAlone(t *testing.T) {
	jobs := batch(10, 30, 20)
	jobs[1].Deadline, jobs[2].Deadline = 31, 32
	b, seated, err := Of(jobs, sim.Config{Nodes: 1, GPUsPerNode: 1}, [][]int{{0, 1, 2}})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range []Bounds{b, seated} {
		near(t, "makespan", b.Makespan, 60)
		near(t, "longest", b.P99JCT, 60)
		justBelow(t, "average", b.AvgJCT, (10+30+60)/3.)
		if b.DeadlinesMet != 1 {
			t.Errorf("%d deadlines, want 1: the two need 50 s until 32", b.DeadlinesMet)
		}
	}
}

// TestTogether: two that each keep 0.8 of their speed do 1.6 a second.
func TestTogether(t *testing.T) {
	c := one(t, "a,b,.8,.8\na,a,.5,.5\nb,b,.5,.5\n")
	b, seated, err := Of(batch(16, 16), c, [][]int{{0, 1}})
	if err != nil {
		t.Fatal(err)
	}
	near(t, "makespan", b.Makespan, 20)
	near(t, "makespan, seated", seated.Makespan, 20)
	// Together until the first ends is 20 for both; alone 16 and 32.
	near(t, "average, seated", seated.AvgJCT, 20)
	if b.AvgJCT > seated.AvgJCT || b.AvgJCT < 16 {
		t.Errorf("average anywhere %v", b.AvgJCT)
	}
}

// TestArrivals: who comes late and is long ends late, however empty the cluster is; and
// what comes at the end has to be done at the end.
func TestArrivals(t *testing.T) {
	jobs := batch(10, 10, 10)
	jobs[1].Submit, jobs[2].Submit = 100, 100
	c := sim.Config{Nodes: 1, GPUsPerNode: 1, Cost: sim.NoCost()}
	c.Cost.Restart.Other = 5
	b, _, err := Of(jobs, c, nil)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "makespan", b.Makespan, 125)
	near(t, "longest", b.P99JCT, 25)
	justBelow(t, "average", b.AvgJCT, (15+15+25)/3.)
}

// TestRatio: two that each take half of a GPU's time cannot both have less than their
// share of it, and one alone has a ratio of 1.
func TestRatio(t *testing.T) {
	for _, seconds := range [][]float64{{10}, {10, 10}, {10, 10, 10, 10}} {
		b, _, err := Of(batch(seconds...), sim.Config{Nodes: 1, GPUsPerNode: 1}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if b.MaxFTF > 1.001 || b.MaxFTF < .99 {
			t.Errorf("%d jobs on a GPU: %v, want 1: they take turns", len(seconds), b.MaxFTF)
		}
	}
}

// TestTheRestIsNotCounted: of 101 jobs, one takes longer than the 99th percentile.
func TestTheRestIsNotCounted(t *testing.T) {
	seconds := make([]float64, 101)
	for i := range seconds {
		seconds[i] = 10
	}
	seconds[7] = 1000
	b, _, err := Of(batch(seconds...), sim.Config{Nodes: 1, GPUsPerNode: 101}, nil)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "99th percentile", b.P99JCT, 10)
	near(t, "makespan", b.Makespan, 1000)
}

func TestNoRoomAtFirst(t *testing.T) {
	b, seated, err := Of(batch(10, 10, 10, 10, 10), sim.Config{Nodes: 1, GPUsPerNode: 1}, [][]int{{0, 1, 2, 3}})
	if err != nil {
		t.Fatal(err)
	}
	justBelow(t, "average", b.AvgJCT, 30)
	justBelow(t, "average, seated", seated.AvgJCT, 30)
	if p := newProblem(batch(10, 10), sim.Config{Nodes: 1, GPUsPerNode: 1, Cost: sim.NoCost()}); !p.wait([][]int{{0}}) || p.jobs[1].ready != 10 {
		t.Errorf("the second is ready at %v, when the first can have ended at 10", p.jobs[1].ready)
	}
}

func TestMuriCostIsRefused(t *testing.T) {
	if _, _, err := Of(batch(1), sim.Config{Nodes: 1, GPUsPerNode: 1, Cost: sim.MuriCost()}, nil); err == nil {
		t.Error("bounds under a cost model under which packs have speeds of their own")
	}
	if b, _, err := Of(nil, sim.Config{Nodes: 1, GPUsPerNode: 1}, nil); err != nil || b != (Bounds{}) {
		t.Errorf("no jobs: %+v, %v", b, err)
	}
}

// TestMost compares with a linear program that is solved by hand.
func TestMost(t *testing.T) {
	x := most([]float64{3, 5}, [][]float64{{1, 0}, {0, 2}, {3, 2}}, []float64{4, 12, 18})
	if math.Abs(x[0]-2) > 1e-9 || math.Abs(x[1]-6) > 1e-9 {
		t.Errorf("%v, want 2 and 6", x)
	}
}
