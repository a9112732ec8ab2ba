package node

import (
	"slices"
	"strconv"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/policy"
	"github.com/gimbal-hpc/gimbal/helper/sim"
)

// newPlacer is what chooses among the GPUs of a node.
func newPlacer(n *instance) *policy.Decider {
	o := n.told()
	o.Demand = func(t *model.Tenant) float64 { return demand(n.s.taskOf(t).Job) }
	d := policy.NewDecider(&policy.Set{Default: n.s.policy}, o)
	d.SetEpoch(epoch())
	return d
}

// place chooses the GPU of a node on which a task fits best, of those that have
// a slot for it. Where that is left to Slurm, or its memory fits on none, the one
// that Slurm chose stays.
func (n *instance) place(t *sim.Task, slurm int, open []int) int {
	if len(n.news) > 0 {
		n.step() // so that it sees who came and went at this moment
	}
	ask := policy.Placing{
		Tenant: &model.Tenant{ID: model.TenantID(strconv.Itoa(t.Index+1) + "@1"), Reg: *n.registration(t), Whole: true, Terms: n.s.options.terms(t.Job)},
		GPUs:   t.Job.GPUs, Most: n.s.options.slots(),
	}
	for _, g := range open {
		ask.Among = append(ask.Among, uuid(g))
	}
	placed := n.placer.Place(n.engine.Node, ask, clock(n.s.w.Now))
	if i := slices.Index(ask.Among, placed.GPU); i >= 0 {
		return open[i]
	}
	return slurm
}
