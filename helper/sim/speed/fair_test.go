package speed

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gimbal-hpc/gimbal/helper/sim"
)

func TestFair(t *testing.T) {
	half, third, heavy := &sim.Job{Util: 0.5}, &sim.Job{Util: 0.3}, &sim.Job{Util: 1}
	loads := &sim.Job{IterTime: 1, Stages: sim.Stages{0.6, 0.4, 0}}
	for _, c := range []struct {
		name string
		jobs []*sim.Job
		want []float64
	}{
		{"three fit", []*sim.Job{third, third, third}, []float64{1, 1, 1}},
		{"two of three fit", []*sim.Job{half, half, half}, []float64{2 / 3.0, 2 / 3.0, 2 / 3.0}},
		{"who wants little is not cut", []*sim.Job{third, half, half, half}, []float64{5 / 6.0, 0.5, 0.5, 0.5}},
		{"what unknown jobs use is not counted", []*sim.Job{{}, {}, {}}, []float64{1 / 3.0, 1 / 3.0, 1 / 3.0}},
		{"two that keep it busy share what is left", []*sim.Job{heavy, heavy, third}, []float64{(1 - 0.3/1.6) / 2, (1 - 0.3/1.6) / 2, 1 / 1.6}},
		{"no more of the storage than two of them get", []*sim.Job{loads, loads, loads}, []float64{2 / 1.12 / 3, 2 / 1.12 / 3, 2 / 1.12 / 3}},
	} {
		got := make([]float64, len(c.jobs))
		(&Model{}).Speeds(c.jobs, got)
		for i := range got {
			if math.Abs(got[i]-c.want[i]) > 1e-9 {
				t.Errorf("%s: speeds %.4f, want %.4f", c.name, got, c.want)
				break
			}
		}
	}
}

// trainer is a job that alternates: cpu ms of its own, then gpu ms of the GPU. It
// goes on while up to ahead kernels are to be done; with none it waits for each.
type trainer struct {
	gpu, cpu float64
	ahead    int
}

func (tr trainer) String() string { return fmt.Sprintf("%v/%v/%d", tr.gpu, tr.cpu, tr.ahead) }

// sliced plays trainers on a GPU that gives them slices of 2 ms in turn and takes
// 0.1 ms to change, for 10 s, and returns the iterations of each. CPU work varies
// by a tenth, so that they do not fall into step.
func sliced(trainers []trainer) []float64 {
	const slice, change, end = 2.0, 0.1, 10000.0
	g := slicer{
		r: rand.New(rand.NewPCG(1, 1)), trainers: trainers, queued: make([]int, len(trainers)),
		left: make([]float64, len(trainers)), ready: make([]float64, len(trainers)), done: make([]float64, len(trainers)),
	}
	for i, tr := range trainers {
		g.ready[i] = tr.cpu * g.r.Float64()
	}
	current, rest := -1, 0.0
	for g.now < end {
		g.launch()
		next := slices.Min(g.ready)
		other := g.after(current)
		switch {
		case other < 0:
			g.now = next
			continue
		case other != current && (current < 0 || g.queued[current] == 0 || rest <= 0):
			current, rest = other, slice
			g.now += change
			continue
		case rest <= 0:
			rest = slice
		}
		step := min(g.left[current], rest, max(next-g.now, 1e-6))
		rest -= step
		g.now += step
		g.work(current, step)
	}
	return g.done
}

type slicer struct {
	r        *rand.Rand
	now      float64
	trainers []trainer
	queued   []int     // kernels
	left     []float64 // of the first of them, ms
	ready    []float64 // when the CPU work is done; never while it waits
	done     []float64
}

func (g *slicer) think(i int) { g.ready[i] = g.now + g.trainers[i].cpu*(0.9+0.2*g.r.Float64()) }

// launch queues the kernels of those whose CPU work is done.
func (g *slicer) launch() {
	for i, tr := range g.trainers {
		for g.ready[i] <= g.now && g.queued[i] < max(tr.ahead, 1) {
			if g.queued[i]++; g.queued[i] == 1 {
				g.left[i] = tr.gpu
			}
			if g.ready[i] = sim.Never; tr.ahead > 0 {
				g.think(i)
			}
		}
		if g.ready[i] <= g.now {
			g.ready[i] = sim.Never // until a kernel ends
		}
	}
}

// after is who has work and is next in turn: the current one last, or -1.
func (g *slicer) after(current int) int {
	for k := range g.trainers {
		if i := (current + 1 + k) % len(g.trainers); g.queued[i] > 0 {
			return i
		}
	}
	return -1
}

func (g *slicer) work(i int, ms float64) {
	if g.left[i] -= ms; g.left[i] > 1e-9 {
		return
	}
	g.queued[i]--
	g.done[i]++
	g.left[i] = g.trainers[i].gpu
	if g.ready[i] == sim.Never {
		if g.ready[i] = g.now; g.trainers[i].ahead == 0 {
			g.think(i)
		}
	}
}

// TestManyAgainstSlices holds what is said of three to five jobs, of which is known
// how they fare in pairs and how much of a GPU each uses, to a GPU that is played
// slice by slice. Jobs that wait for each kernel are the harder ones: what
// they ask for depends on what they get.
func TestManyAgainstSlices(t *testing.T) {
	for _, c := range []struct {
		name      string
		ahead     []int
		mean, all float64 // how far off speeds may be
	}{
		{"kernels queued ahead", []int{1, 2}, 0.03, 0.15},
		{"waiting for each kernel", []int{0}, 0.10, 0.30},
		{"both", []int{0, 1, 2}, 0.07, 0.35},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(7, 0))
			sum, n := 0.0, 0.0
			for range 60 {
				mix := make([]trainer, 3+r.IntN(3))
				for i := range mix {
					k := [][2]float64{{20, 2}, {10, 10}, {5, 20}, {20, 10}, {15, 10}, {6, 10}, {3, 12}, {8, 24}, {12, 4}}[r.IntN(9)]
					mix[i] = trainer{k[0], k[1], c.ahead[r.IntN(len(c.ahead))]}
				}
				said, want := predicted(t, mix), sliced(mix)
				for i := range mix {
					want[i] /= sliced(mix[i : i+1])[0]
					off := math.Abs(said[i]/want[i] - 1)
					if off > c.all {
						t.Errorf("%v: speeds %.2f, said to be %.2f", mix, want, said)
					}
					sum, n = sum+off, n+1
				}
			}
			t.Logf("%.1f %% off on average", 100*sum/n)
			if sum/n > c.mean {
				t.Errorf("speeds are %.1f %% off on average", 100*sum/n)
			}
		})
	}
}

// predicted is what the model says of a mix, from its trainers alone and in pairs.
func predicted(t *testing.T, mix []trainer) []float64 {
	t.Helper()
	var csv strings.Builder
	csv.WriteString("job_a,job_b,norm_a,norm_b\n")
	seen, jobs := make(map[[2]string]bool), make([]*sim.Job, len(mix))
	for i, a := range mix {
		alone := sliced(mix[i : i+1])[0]
		jobs[i] = &sim.Job{Model: a.String(), Util: min(1, alone*a.gpu/10000)}
		for _, b := range mix[:i] {
			if key := pairKey(a.String(), b.String()); !seen[key] {
				seen[key] = true
				s := sliced([]trainer{a, b})
				fmt.Fprintf(&csv, "%v,%v,%v,%v\n", a, b, s[0]/alone, s[1]/sliced([]trainer{b})[0])
			}
		}
	}
	p, err := Read(strings.NewReader(csv.String()), "pairs.csv", Choice{})
	if err != nil {
		t.Fatal(err)
	}
	out := make([]float64, len(mix))
	(&Model{Pairs: p}).Speeds(jobs, out)
	return out
}
