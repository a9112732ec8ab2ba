package baseline

import (
	"math"
	"testing"

	"github.com/gimbal-hpc/gimbal/helper/sim"
)

// fixed is the speed of two jobs beside each other by their models; pairs that
// it does not have cannot run together.
type fixed map[[2]string]float64

func (f fixed) Profile(j *sim.Job) sim.Profile { return sim.Profile{Model: j.Model} }

func (f fixed) Speeds(jobs []*sim.Job, out []float64) {
	for i, a := range jobs {
		out[i] = 1
		for k, b := range jobs {
			if k != i {
				out[i] *= f[[2]string{a.Model, b.Model}]
			}
		}
	}
}

// j is a job with its model, arrival, GPUs and seconds of work.
func j(model string, submit float64, gpus int, seconds float64) sim.Job {
	return sim.Job{ID: model, Model: model, Submit: submit, GPUs: gpus, Iterations: seconds, IterTime: 1, Deadline: sim.Never}
}

// TestEpisodes works small cases out by hand: when each job starts and ends.
func TestEpisodes(t *testing.T) {
	half := fixed{{"a", "b"}: 0.5, {"b", "a"}: 0.5, {"a", "c"}: 0.9, {"c", "a"}: 0.8, {"b", "c"}: 0.4, {"c", "b"}: 0.4}
	light := fixed{{"a", "b"}: 1, {"b", "a"}: 1, {"a", "a"}: 1, {"b", "b"}: 1}
	for _, c := range []struct {
		name, policy string
		nodes, gpus  int
		pairs        fixed
		jobs         []sim.Job
		want         [][2]float64
	}{
		{"c ends before b could start, d would not", "exclusive", 1, 4, nil,
			[]sim.Job{j("a", 0, 3, 100), j("b", 1, 4, 50), j("c", 2, 1, 90), j("d", 3, 1, 100)},
			[][2]float64{{0, 100}, {100, 150}, {2, 92}, {150, 250}}},
		{"d is too long but fits beside the node that b waits for", "exclusive", 2, 4, nil,
			[]sim.Job{j("a", 0, 3, 100), j("b", 1, 3, 900), j("c", 2, 4, 50), j("d", 3, 1, 990)},
			[][2]float64{{0, 100}, {1, 901}, {100, 150}, {3, 993}}},
		{"the short one takes the place of the long one", "srtf", 1, 2, nil,
			[]sim.Job{j("a", 0, 2, 100), j("b", 10, 1, 20), j("c", 15, 1, 200)},
			[][2]float64{{0, 120}, {10, 30}, {15, 305}}},
		{"a wide one with little left is not disturbed", "srtf", 2, 2, nil,
			[]sim.Job{j("a", 0, 4, 100), j("b", 90, 1, 20)},
			[][2]float64{{0, 100}, {100, 120}}},
		{"GPU time counts, not time", "srsf", 1, 4, nil,
			[]sim.Job{j("a", 0, 4, 50), j("b", 10, 1, 90)},
			[][2]float64{{0, 140}, {10, 100}}},
		{"who has had 3250 GPU seconds gives way", "las", 1, 1, nil,
			[]sim.Job{j("a", 0, 1, 4000), j("b", 100, 1, 500)},
			[][2]float64{{0, 4500}, {3250, 3750}}},
		{"the first running task that pays takes one in", "fifo-pack", 1, 1, half,
			[]sim.Job{j("a", 0, 1, 90), j("c", 0, 1, 80), j("b", 0, 1, 10)},
			[][2]float64{{0, 100}, {0, 100}, {100, 110}}},
		{"nobody overtakes the one that does not pay", "fifo-pack", 1, 1, half,
			[]sim.Job{j("a", 0, 1, 100), j("b", 0, 1, 10), j("c", 0, 1, 10)},
			[][2]float64{{0, 100}, {100, 110}, {110, 120}}},
		{"all together", "naive", 1, 1, half,
			[]sim.Job{j("a", 0, 1, 50), j("b", 0, 1, 60)},
			[][2]float64{{0, 100}, {0, 110}}},
		{"what cannot run together waits", "naive", 1, 1, fixed{},
			[]sim.Job{j("a", 0, 1, 50), j("b", 0, 1, 60)},
			[][2]float64{{0, 50}, {50, 110}}},
		{"light ones share, but not a third", "lucid", 1, 1, light,
			[]sim.Job{j("a", 0, 1, 50), j("b", 0, 1, 60), j("a", 0, 1, 60)},
			[][2]float64{{0, 50}, {0, 60}, {50, 110}}},
		{"not beside one with less than half the GPU time left", "lucid", 1, 1, light,
			[]sim.Job{j("a", 0, 1, 50), j("b", 0, 1, 101)},
			[][2]float64{{0, 50}, {50, 151}}},
		{"heavy ones do not share", "lucid", 1, 1, fixed{{"a", "b"}: 0.5, {"b", "a"}: 0.5},
			[]sim.Job{j("a", 0, 1, 50), j("b", 0, 1, 60)},
			[][2]float64{{0, 50}, {50, 110}}},
		{"a pair on one GPU", "gandiva", 1, 1, half,
			[]sim.Job{j("a", 0, 1, 90), j("c", 0, 1, 80)},
			[][2]float64{{0, 100}, {0, 100}}},
		{"a pair that cannot run takes turns", "gandiva", 1, 1, fixed{},
			[]sim.Job{j("a", 0, 1, 40), j("b", 0, 1, 50)},
			[][2]float64{{0, 80}, {0, 90}}},
	} {
		t.Run(c.policy+": "+c.name, func(t *testing.T) {
			for i := range c.jobs {
				c.jobs[i].ID += string(rune('0' + i))
			}
			s, err := New(c.policy)
			if err != nil {
				t.Fatal(err)
			}
			o, err := sim.Run(c.jobs, sim.Config{Nodes: c.nodes, GPUsPerNode: c.gpus, Interference: c.pairs}, s)
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range c.want {
				if j := o.Jobs[i]; math.Abs(j.Start-want[0]) > 1e-6 || math.Abs(j.End-want[1]) > 1e-6 {
					t.Errorf("job %s runs from %v to %v, want from %v to %v", j.Job.ID, j.Start, j.End, want[0], want[1])
				}
			}
		})
	}
}
