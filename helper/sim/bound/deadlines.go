package bound

import (
	"cmp"
	"slices"
)

// deadlinesMet is the bound on how many deadlines are met.
func (p *problem) deadlinesMet() int {
	var can []*job
	for i := range p.jobs {
		if j := &p.jobs[i]; j.inTime() {
			can = append(can, j)
		}
	}
	slices.SortStableFunc(can, func(a, b *job) int { return cmp.Compare(a.Deadline, b.Deadline) })
	fewest := len(can)
	for _, j := range can {
		for _, prices := range p.prices {
			fewest = min(fewest, p.metFrom(can, j.ready, prices))
		}
	}
	return fewest
}

// metFrom is how many of these, in order of deadlines, can be met if those that are
// ready from a time on have the whole cluster from then on, and all others are met.
func (p *problem) metFrom(can []*job, from float64, prices prices) int {
	others, sum := 0, 0.0
	var kept []float64 // sizes
	for _, j := range can {
		if j.ready < from {
			others++
			continue
		}
		kept = append(kept, j.size(j.work, prices))
		sum += kept[len(kept)-1]
		if sum > overfull*p.gpus*(j.Deadline-from) {
			largest := slices.Index(kept, slices.Max(kept))
			sum -= kept[largest]
			kept = slices.Delete(kept, largest, largest+1)
		}
	}
	return others + len(kept)
}
