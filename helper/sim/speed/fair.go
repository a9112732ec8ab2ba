package speed

import (
	"cmp"
	"slices"

	"github.com/gimbal-hpc/gimbal/helper/sim"
)

// busy is the share of a resource from which on a job leaves none of it idle.
const busy = 0.95

// fair shares out what jobs together would get too much of: the storage and CPU,
// the GPU, the network. A GPU that divides its time among those that have work
// gives each as much as any other, and what one has no use for to the others
// (max-min fairness). Counted are jobs of which is known how much they use alone:
// by their stages, else by their utilisation.
//
// How much there is to share, two of the jobs show: the most that any two get
// together, and all of it at least where none of them would keep it busy alone.
// So what it costs to change hands counts, and what kernels gain that overlap.
type fair struct {
	use  []sim.Stages // of each job at full speed, as a share of the resource
	most sim.Stages   // what the two that get most of it get together
	full [len(sim.Stages{})]bool
}

func newFair(jobs []*sim.Job) *fair {
	f := &fair{use: make([]sim.Stages, len(jobs))}
	for i, j := range jobs {
		f.use[i] = uses(j)
		for r, u := range f.use[i] {
			f.full[r] = f.full[r] || u >= busy
		}
	}
	return f
}

// uses is how much of each resource a job uses alone; zero where that is not
// known.
func uses(j *sim.Job) (share sim.Stages) {
	if j.Stages.Sum() == 0 || j.IterTime == 0 {
		share[1] = j.Util
		return share
	}
	for r, s := range j.Stages {
		share[r] = min(1, s/j.IterTime)
	}
	return share
}

// pair notes how fast two of the jobs are beside each other.
func (f *fair) pair(i, j int, a, b float64) {
	for r := range f.most {
		f.most[r] = max(f.most[r], f.use[i][r]*a+f.use[j][r]*b)
	}
}

// share slows down those that would get more than their part.
func (f *fair) share(speeds []float64) {
	order := make([]int, len(f.use))
	for r, most := range f.most {
		if !f.full[r] {
			most = max(1, most)
		}
		got := func(i int) float64 { return f.use[i][r] * speeds[i] }
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(got(a), got(b)) })
		for k, i := range order { // who wants least first: what it leaves is the others'
			part := most / float64(len(order)-k)
			if got(i) > part {
				speeds[i] *= part / got(i)
			}
			most -= got(i)
		}
	}
}
