package policy

import (
	"math"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// demandAfter is how long a tenant has to run before its SM time is taken for
// what it needs: the driver's figure is that of a window in the past.
const demandAfter = 2 * time.Second

// learnDemand takes in what a new reading of the driver shows of the tenants
// that compute. A paused one shows nothing, and its demand stays.
func (d *Decider) learnDemand() {
	for i := range d.views {
		v := &d.views[i]
		if v.m.read == d.n.Read || v.t.State != model.Running || !v.t.OnGPU || d.now-v.t.Since < demandAfter {
			continue
		}
		v.m.read = d.n.Read
		sm := math.NaN()
		alone := true
		for _, s := range v.seats {
			g := &d.gpus[s]
			if x, ok := v.t.Use[g.uuid].SM.Get(); ok && !(x <= sm) {
				sm = x
			}
			alone = alone && g.aloneOn(v)
		}
		v.m.learn(sm, alone)
	}
}

// aloneOn tells whether nobody else computes on the GPU.
func (g *gpuView) aloneOn(v *view) bool {
	for _, o := range g.pack {
		if o != v && o.computes && o.t.OnGPU {
			return false
		}
	}
	return true
}

// learn keeps a moving mean of what was seen alone. Beside others a tenant
// gets at most what it needs, so there only more than was known is news.
func (m *memo) learn(sm float64, alone bool) {
	switch {
	case math.IsNaN(sm):
	case math.IsNaN(m.demand):
		m.demand = sm
	case alone || sm > m.demand:
		m.demand += 0.2 * (sm - m.demand)
	}
}
