package main

import (
	"fmt"

	"github.com/gimbal-hpc/gimbal/helper/report"
	"github.com/gimbal-hpc/gimbal/helper/sim"
	"github.com/gimbal-hpc/gimbal/helper/sim/bound"
	"github.com/gimbal-hpc/gimbal/helper/sim/node"
)

// aim is the gain that was aimed at: what the paper that this follows reports.
const aim = 1.32

const (
	roomTitle = "How much there is to gain"
	roomText  = "At best is the ratio that a policy would have that reached the bound which package bound proves, on Slurm's placement: no policy has more. Whether any policy reaches it is not known."
)

// limits is what no policy passes in a scenario, as package bound proves it.
type limits struct {
	Slurm bound.Bounds `json:"slurm_placement"` // with the places that Slurm gives at first
	Any   bound.Bounds `json:"any_placement"`
}

// limits finds them for a scenario's jobs.
func (o *options) limits(jobs []sim.Job, c sim.Config) (l limits, err error) {
	seats, err := node.FirstSeats(jobs, c, o.node())
	if err == nil {
		l.Any, l.Slurm, err = bound.Of(jobs, c, seats)
	}
	return l, err
}

// atBound is the figures of a policy that would reach all bounds.
func atBound(b bound.Bounds) *entry {
	return &entry{Policy: "bound", Kind: "bound", Summary: sim.Summary{
		AvgJCT: b.AvgJCT, P99JCT: b.P99JCT, Makespan: b.Makespan, MaxFTF: b.MaxFTF, DeadlinesMet: &b.DeadlinesMet,
	}}
}

// room is how much there is to gain, over all scenarios: what ours gains, and what no
// policy on Slurm's placement can gain more than.
func (r *results) room() report.Table {
	t := report.Table{Columns: []string{"objective"}}
	for _, versus := range []string{versusRule, versusOwn} {
		t.Columns = append(t.Columns, versus, atBest, fmt.Sprintf("%.2f can be", aim))
	}
	for i := range objectives {
		o := &objectives[i]
		rule, own := newRoom(), newRoom()
		for k := range r.Scenarios {
			if c, ok := r.Scenarios[k].compare(o); ok {
				rule.add(o, c.ours, c.slurm, c.rule)
				own.add(o, c.ours, c.slurm, c.pack)
			}
		}
		t.Rows = append(t.Rows, append(append([]string{o.name}, rule.cells()...), own.cells()...))
	}
	return t
}

// room compares with the best of others over several scenarios.
type room struct {
	is, most *tally
	can      int // scenarios in which no proof keeps a policy from the aim
}

func newRoom() *room { return &room{is: newTally(), most: newTally()} }

func (r *room) add(o *objective, ours, limit, other *entry) {
	r.is.add(o.gain(ours, other))
	most := o.gain(limit, other)
	r.most.add(most)
	if most >= aim {
		r.can++
	}
}

// cells is what ours gains, the most that can be gained, and in how many scenarios the
// aim can be reached, and whether it can in the mean.
func (r *room) cells() []string {
	mean := "not in the mean"
	if r.most.value() >= aim {
		mean = "not disproven in the mean"
	}
	return []string{r.is.mean(), r.most.mean(), fmt.Sprintf("in %d of %d, %s", r.can, r.is.n, mean)}
}
