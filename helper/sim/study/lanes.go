package study

import (
	"cmp"
	"slices"

	"github.com/gimbal-hpc/gimbal/helper/sim"
)

// Seat is a job on a GPU for a time. Jobs on a GPU at once have different
// slots.
type Seat struct {
	Job       int // its place in the trace
	GPU, Slot int // the GPU counts over all nodes
	From, To  float64
}

// Seats shows each job on GPUs of the nodes where it was, and how many slots a
// GPU has at most. Which GPUs of a node the job had is not recorded: it is shown
// on those with the fewest jobs, as Slurm gives them.
func Seats(o *sim.Outcome, nodes int) (seats []Seat, slots int) {
	placed, per := Placed(o), o.GPUs/nodes
	if !placed {
		per = o.GPUs
	}
	f := make(lanes, o.GPUs)
	for i := range o.History.Stays {
		s := &o.History.Stays[i]
		if !(s.To > s.From) {
			continue
		}
		for _, at := range sharesOf(o, s, placed) {
			for _, gpu := range f.emptiest(at.Node*per, per, at.GPUs, s.From) {
				slot := f.sit(gpu, s.To)
				slots = max(slots, slot+1)
				seats = append(seats, Seat{s.Job, gpu, slot, s.From, s.To})
			}
		}
	}
	return seats, slots
}

// lanes is, for each GPU and slot, until when a job sits there.
type lanes [][]float64

// load is how many jobs sit on a GPU at a time.
func (l lanes) load(gpu int, now float64) int {
	n := 0
	for i, to := range l[gpu] {
		if to <= now {
			l[gpu][i] = 0
		} else {
			n++
		}
	}
	return n
}

// emptiest is the n of the GPUs from first on with the fewest jobs.
func (l lanes) emptiest(first, of, n int, now float64) []int {
	order, load := make([]int, of), make([]int, of)
	for i := range order {
		order[i], load[i] = first+i, l.load(first+i, now)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(load[a-first], load[b-first]) })
	return order[:min(n, of)]
}

// sit takes the first free slot of a GPU.
func (l lanes) sit(gpu int, to float64) int {
	if i := slices.Index(l[gpu], 0); i >= 0 {
		l[gpu][i] = to
		return i
	}
	l[gpu] = append(l[gpu], to)
	return len(l[gpu]) - 1
}
