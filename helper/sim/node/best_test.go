package node

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/gimbal-hpc/gimbal/helper/sim"
	"github.com/gimbal-hpc/gimbal/helper/sim/match"
	"github.com/gimbal-hpc/gimbal/helper/sim/speed"
)

// errEnough ends a run.
var errEnough = errors.New("seen enough")

// until ends the run of another scheduler at a time and notes how much work
// was done by then, in seconds alone.
type until struct {
	sim.Scheduler
	w    *sim.World
	at   float64
	done float64
}

func (u *until) Start(w *sim.World) {
	u.w = w
	u.Scheduler.Start(w)
}

func (u *until) Schedule() float64 {
	wake := u.Scheduler.Schedule()
	if u.w.Now < u.at {
		return min(wake, u.at)
	}
	for i := range u.w.Tasks {
		u.done += u.w.Tasks[i].Job.Work() - u.w.Remaining(&u.w.Tasks[i])
	}
	u.w.Fail(errEnough)
	return sim.Never
}

// worstRatio is what throughput reaches at least of the best local schedule that
// lets nobody compute beside others at a loss, as throughput lets nobody. One
// that does, to be done with those who do little, does up to a twentieth more.
const worstRatio = 0.97

// nearMatching is what throughput reaches at least of a matching of the largest
// weight, where Gimbal chooses the GPUs of jobs as they come.
const nearMatching = 0.95

const pairsPath = "../../../../shared/data/gavel_pairs_1gpu.csv"

// withPairs calls f with each of the tables of measured pairs, and skips the test
// where there are none.
func withPairs(t *testing.T, f func(c speed.Choice, pairs *speed.Pairs)) {
	if _, err := os.Stat(pairsPath); err != nil {
		t.Skipf("SKIPPED, NOT CHECKED: %v", err)
	}
	for _, c := range []speed.Choice{{GPU: "v100", Table: "simulation"}, {GPU: "v100", Table: "physical"}, {GPU: "p100", Table: "simulation"}, {GPU: "p100", Table: "physical"}} {
		pairs, err := speed.ReadFile(pairsPath, c)
		if err != nil {
			t.Fatal(err)
		}
		f(c, pairs)
	}
}

// randomJobs draws 64 jobs of the models that were measured.
func randomJobs(seed uint64) []sim.Job {
	r, names := rand.New(rand.NewPCG(seed, 0)), modelNames()
	var jobs []sim.Job
	for i := range 64 {
		j := job(fmt.Sprint(i), 0, 1, 1e6)
		j.Model = names[r.IntN(len(names))]
		jobs = append(jobs, j)
	}
	return jobs
}

// workUnder is the work per GPU-second of jobs under throughput on so many GPUs
// of one node, in the first seconds.
func workUnder(t *testing.T, pairs *speed.Pairs, jobs []sim.Job, gpus int, seconds float64, place bool) float64 {
	u := &until{Scheduler: New(shipped(t, "throughput"), Options{Turns: 400, Place: place}), at: seconds}
	_, err := sim.Run(jobs, sim.Config{Nodes: 1, GPUsPerNode: gpus, Interference: &speed.Model{Pairs: pairs}}, u)
	if !errors.Is(err, errEnough) {
		t.Fatal(err)
	}
	return u.done / (float64(gpus) * seconds)
}

// TestNearTheMatching lets 64 random jobs share 32 GPUs, each placed where it fits
// best as it comes, and compares the work per GPU-second with that of the best
// pairs of all 64. Where Slurm places them is reported beside it.
func TestNearTheMatching(t *testing.T) {
	const seeds, gpus, seconds = 4, 32, 40000
	withPairs(t, func(c speed.Choice, pairs *speed.Pairs) {
		ours, slurm, best := 0.0, 0.0, 0.0
		for seed := range uint64(seeds) {
			jobs := randomJobs(seed)
			ours += workUnder(t, pairs, jobs, gpus, seconds, true)
			slurm += workUnder(t, pairs, jobs, gpus, seconds, false)
			best += bestPairs(pairs, jobs)
		}
		t.Logf("%s %s: work per GPU-second %.3f; best pairs %.3f, ratio %.3f; as they come %.3f, ratio %.3f",
			c.GPU, c.Table, ours/seeds, best/seeds, ours/best, slurm/seeds, slurm/best)
		if ours < nearMatching*best {
			t.Errorf("%s %s: %.3f of the best pairs, want %v", c.GPU, c.Table, ours/best, nearMatching)
		}
	})
}

// TestNearTheBest lets 64 random jobs share 16 GPUs, four to each as they come,
// under throughput, and compares the work per GPU-second with that of the best
// groups on each GPU in equal turns. The best pairs of all 64 on 32 GPUs are
// reported beside it.
func TestNearTheBest(t *testing.T) {
	const seeds, gpus, seconds = 3, 16, 400000
	withPairs(t, func(c speed.Choice, pairs *speed.Pairs) {
		ours, local, atLoss, free := 0.0, 0.0, 0.0, 0.0
		for seed := range uint64(seeds) {
			jobs := randomJobs(seed)
			ours += workUnder(t, pairs, jobs, gpus, seconds, false)
			for g := range gpus {
				four := []*sim.Job{&jobs[g], &jobs[g+gpus], &jobs[g+2*gpus], &jobs[g+3*gpus]}
				local += bestGroups(&speed.Model{Pairs: pairs}, false, four, nil) / gpus
				atLoss += bestGroups(&speed.Model{Pairs: pairs}, true, four, nil) / gpus
			}
			free += bestPairs(pairs, jobs)
		}
		t.Logf("%s %s: work per GPU-second %.3f; best on each GPU %.3f, ratio %.3f; sharing at a loss too %.3f, ratio %.3f; best placement %.3f, ratio %.3f",
			c.GPU, c.Table, ours/seeds, local/seeds, ours/local, atLoss/seeds, ours/atLoss, free/seeds, ours/free)
		if ours < worstRatio*local {
			t.Errorf("%s %s: %.3f of the best local schedule, want %v", c.GPU, c.Table, ours/local, worstRatio)
		}
	})
}

// bestGroups is the work per GPU-second of jobs in the best groups, each of which
// has an equal turn, in addition to the groups that were made before. Unless a
// loss is allowed, a group does more than it would without any one of its jobs.
func bestGroups(m *speed.Model, atLoss bool, rest []*sim.Job, groups []float64) float64 {
	if len(rest) == 0 {
		sum := 0.0
		for _, work := range groups {
			sum += work
		}
		return sum / float64(len(groups))
	}
	best := 0.0
	for others := range 1 << (len(rest) - 1) {
		group, left := rest[:1:1], []*sim.Job(nil)
		for i, j := range rest[1:] {
			if others>>i&1 == 1 {
				group = append(group, j)
			} else {
				left = append(left, j)
			}
		}
		if atLoss || pays(m, group) {
			best = max(best, bestGroups(m, atLoss, left, append(groups[:len(groups):len(groups)], together(m, group))))
		}
	}
	return best
}

// pays tells whether jobs do more at once than without any one of them.
func pays(m *speed.Model, group []*sim.Job) bool {
	for i := range group {
		if len(group) > 1 && together(m, group) <= together(m, slices.Delete(slices.Clone(group), i, i+1)) {
			return false
		}
	}
	return true
}

// together is the work of jobs that compute at once.
func together(m *speed.Model, jobs []*sim.Job) float64 {
	if len(jobs) == 1 {
		return 1
	}
	speeds, sum := make([]float64, len(jobs)), 0.0
	m.Speeds(jobs, speeds)
	for _, v := range speeds {
		sum += v
	}
	return sum
}

// bestPairs is the work per GPU-second of jobs in the best pairs, each of which
// has an equal turn; where a pair does not pay its members take halves of it.
func bestPairs(p *speed.Pairs, jobs []sim.Job) float64 {
	n := len(jobs)
	weights := make([]int64, n*n)
	for i := range jobs {
		for k := range jobs {
			if i != k {
				x, y, _ := p.Of(jobs[i].Model, jobs[k].Model)
				weights[i*n+k] = int64(1e6 * max(1, x+y))
			}
		}
	}
	sum := 0.0
	for i, k := range match.Heaviest(n, weights) {
		sum += float64(weights[i*n+int(k)]) / 1e6 / float64(n)
	}
	return sum
}

// modelNames is the models that were measured.
func modelNames() []string {
	names := []string{"A3C", "CycleGAN"}
	for family, batches := range map[string][]int{
		"LM": {5, 10, 20, 40, 80}, "Recommendation": {512, 1024, 2048, 4096, 8192},
		"ResNet-18": {16, 32, 64, 128, 256}, "ResNet-50": {16, 32, 64, 128}, "Transformer": {16, 32, 64, 128, 256},
	} {
		for _, b := range batches {
			names = append(names, fmt.Sprintf("%s (batch size %d)", family, b))
		}
	}
	slices.Sort(names)
	return names
}
