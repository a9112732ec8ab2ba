package speed

import (
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gimbal-hpc/gimbal/helper/sim"
	"github.com/gimbal-hpc/gimbal/helper/sim/match"
)

const table = `table,gpu,job_a,job_b,norm_a,norm_b,status
simulation,k80,x,y,0.5,0.6,ok
simulation,v100,y,x,0.7,0.8,ok
simulation,v100,x,x,0.8,1,
simulation,v100,x,z,,,zero
simulation,v100,y,z,,,no_isolated
physical,v100,x,y,0.4,0.5,ok
`

func TestPairs(t *testing.T) {
	for _, c := range []struct {
		choice Choice
		x, y   float64
		note   bool
	}{
		{Choice{}, 0.8, 0.7, true},
		{Choice{GPU: "K80"}, 0.5, 0.6, true},
		{Choice{GPU: "v100", Table: "physical"}, 0.4, 0.5, false},
	} {
		p, err := Read(strings.NewReader(table), "pairs.csv", c.choice)
		if err != nil {
			t.Fatal(err)
		}
		if x, y, ok := p.Of("x", "y"); !ok || x != c.x || y != c.y {
			t.Errorf("%+v: x beside y %v, y beside x %v, %v; want %v and %v", c.choice, x, y, ok, c.x, c.y)
		}
		if (len(p.Notes) > 0) != c.note {
			t.Errorf("%+v: notes %q", c.choice, p.Notes)
		}
	}
	p, err := Read(strings.NewReader(table), "pairs.csv", Choice{})
	if err != nil {
		t.Fatal(err)
	}
	if x, y, ok := p.Of("x", "x"); !ok || x != 0.9 || y != 0.9 {
		t.Errorf("two of a model: %v, %v, %v; want their mean for both", x, y, ok)
	}
	if x, y, ok := p.Of("z", "x"); !ok || x != 0 || y != 0 {
		t.Errorf("a pair of status zero: %v, %v, %v; want zeros that are known", x, y, ok)
	}
	if holes, pairs, example := p.Holes([]string{"x", "y", "z"}); holes != 3 || pairs != 6 || example != [2]string{"y", "y"} {
		t.Errorf("%d holes of %d pairs, such as %v; want y-y, y-z and z-z of 6", holes, pairs, example)
	}
	if !p.Knows("x") || p.Knows("w") {
		t.Error("x is in the table, w is not")
	}
}

func TestPairsRefuse(t *testing.T) {
	const header = "job_a,job_b,norm_a,norm_b,status\n"
	for text, want := range map[string]string{
		"":                                  "pairs.csv:1: the file is empty",
		"job_a,job_b,norm_a\n":              `pairs.csv:1: column "norm_b" is missing`,
		header:                              "pairs.csv: the table of pairs has no rows",
		header + "x,y,,1,ok\n":              "pairs.csv:2:5: norm_a: is blank",
		header + "x,y,1,NaN,ok\n":           `pairs.csv:2:7: norm_b: "NaN" is not a number`,
		header + "x,y,1,-1,ok\n":            "pairs.csv:2:7: norm_b: -1 is not between 0",
		header + "x,y,1,1,maybe\n":          `pairs.csv:2:9: status: "maybe" is none of`,
		header + "x,y,1,1,ok\ny,x,1,1,ok\n": `pairs.csv:3:1: job_a: the pair of "y" and "x" is there twice`,
		header + ",y,1,1,ok\n":              `pairs.csv:2:1: job_a: a pair of "" and "y"`,
		header + "x,y,1,1\n":                "pairs.csv:2: 4 fields, but the header has 5",
	} {
		_, err := Read(strings.NewReader(text), "pairs.csv", Choice{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
	if _, err := Read(strings.NewReader(table), "pairs.csv", Choice{GPU: "h100"}); err == nil || !strings.Contains(err.Error(), `it has "simulation" on "k80"`) {
		t.Errorf("error %v, want one that lists what there is", err)
	}
}

func TestSpeeds(t *testing.T) {
	p, err := Read(strings.NewReader(table), "pairs.csv", Choice{})
	if err != nil {
		t.Fatal(err)
	}
	x, y, z := &sim.Job{Model: "x"}, &sim.Job{Model: "y"}, &sim.Job{Model: "z"}
	loads := &sim.Job{IterTime: 1, Stages: sim.Stages{0.8, 0.1, 0.1}, Memory: 600}
	computes := &sim.Job{IterTime: 1, Stages: sim.Stages{0.1, 0.9, 0}, Memory: 600}
	idle := &sim.Job{Util: 0.25, Memory: 100}
	for _, c := range []struct {
		name  string
		model Model
		jobs  []*sim.Job
		want  []float64
	}{
		{"measured", Model{Pairs: p}, []*sim.Job{x, y}, []float64{0.8, 0.7}},
		{"measured that it does not run", Model{Pairs: p}, []*sim.Job{z, x}, []float64{0, 0}},
		{"a hole: both are taken to keep the GPU busy", Model{Pairs: p}, []*sim.Job{y, z}, []float64{0.5, 0.5}},
		{"delays add up", Model{Pairs: p}, []*sim.Job{x, x, y}, []float64{1 / (1 + 1/0.9 - 1 + 1/0.8 - 1), 1 / (1 + 1/0.9 - 1 + 1/0.8 - 1), 1 / (1 + 2*(1/0.7-1))}},
		{"two of three cannot run together", Model{Pairs: p}, []*sim.Job{x, y, z}, []float64{0, 0, 0}},
		{"stages that do not meet", Model{}, []*sim.Job{loads, computes}, []float64{1, 1}},
		{"stages that meet", Model{}, []*sim.Job{loads, loads}, []float64{1 / (1 + 0.6*0.8), 1 / (1 + 0.6*0.8)}},
		{"utilisation with room", Model{}, []*sim.Job{idle, idle}, []float64{1, 1}},
		{"utilisation without", Model{}, []*sim.Job{idle, x}, []float64{0.8, 0.8}},
		{"three that keep the GPU busy", Model{}, []*sim.Job{x, y, z}, []float64{1 / 3.0, 1 / 3.0, 1 / 3.0}},
		{"memory is short", Model{GPUMemory: 1000}, []*sim.Job{loads, computes}, []float64{0, 0}},
		{"memory is enough", Model{GPUMemory: 1000}, []*sim.Job{loads, idle}, []float64{0.8, 0.8}},
	} {
		got := make([]float64, len(c.jobs))
		c.model.Speeds(c.jobs, got)
		for i := range got {
			if math.Abs(got[i]-c.want[i]) > 1e-12 {
				t.Errorf("%s: speeds %v, want %v", c.name, got, c.want)
				break
			}
		}
	}
}

// TestHeadroom draws 64 jobs on 32 GPUs from the published pairs, ten times,
// and compares the work per GPU second with that of running alone: all
// together, together only where it pays, and in the best pairs.
func TestHeadroom(t *testing.T) {
	const path = "../../../../shared/data/gavel_pairs_1gpu.csv"
	if _, err := os.Stat(path); err != nil {
		t.Skipf("SKIPPED, NOT CHECKED: %v", err)
	}
	for _, c := range []struct {
		choice                 Choice
		together, pays, paired float64
	}{
		{Choice{"v100", "simulation"}, 1.23, 1.36, 1.63},
		{Choice{"v100", "physical"}, 1.02, 1.21, 1.42},
		{Choice{"p100", "simulation"}, 1.14, 1.18, 1.28},
		{Choice{"p100", "physical"}, 0.96, 1.04, 1.08},
	} {
		p, err := ReadFile(path, c.choice)
		if err != nil {
			t.Fatal(err)
		}
		got := headroom(p)
		for i, want := range [3]float64{c.together, c.pays, c.paired} {
			if math.Abs(got[i]-want) > 0.04 {
				t.Errorf("%+v: %.3f, want %v", c.choice, got, want)
			}
		}
	}
}

func headroom(p *Pairs) (mean [3]float64) {
	const seeds, n = 10, 64
	var models []string
	for m := range p.models {
		models = append(models, m)
	}
	slices.Sort(models)
	for seed := range uint64(seeds) {
		r := rand.New(rand.NewPCG(seed, 0))
		var drawn [n]string
		for i := range drawn {
			drawn[i] = models[r.IntN(len(models))]
		}
		weights := make([]int64, n*n)
		for i := range drawn {
			for k := range drawn {
				if i != k { // running alone is worth one too
					weights[i*n+k] = int64(1e6 * max(1, sum(p, drawn[i], drawn[k])))
				}
			}
		}
		for i := 0; i < n; i += 2 {
			s := sum(p, drawn[i], drawn[i+1])
			mean[0] += s / (seeds * n / 2)
			mean[1] += max(1, s) / (seeds * n / 2)
		}
		for i, k := range match.Heaviest(n, weights) {
			mean[2] += float64(weights[i*n+int(k)]) / 1e6 / (seeds * n)
		}
	}
	return mean
}

func sum(p *Pairs, a, b string) float64 {
	x, y, _ := p.Of(a, b)
	return x + y
}

func FuzzRead(f *testing.F) {
	f.Add(table)
	f.Add("job_a,job_b,norm_a,norm_b\nx,y,1,0.5\n")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Read(strings.NewReader(text), "pairs.csv", Choice{})
		if err != nil {
			return
		}
		for k, v := range p.speeds {
			if !(v[0] >= 0 && v[1] >= 0 && v[0] <= maxSpeed && v[1] <= maxSpeed) || (v[0] == 0) != (v[1] == 0) {
				t.Fatalf("%q: pair %v has speeds %v", text, k, v)
			}
		}
	})
}
