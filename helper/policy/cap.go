package policy

import (
	"math"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// Cap is what a tenant's processes are told before they start: what they may take
// of a GPU at most. A tenant that says so itself is not told otherwise.
type Cap struct {
	MPS      bool    // whether it is to be a client of MPS
	SM       *Number // share of the multiprocessors under MPS; nil: all
	Priority *Number // of its kernels under MPS, 0 normal, 1 below; nil: 0
	Memory   *Number // bytes on each GPU; nil: no limit
	Growth   bool    // frameworks take memory as they need it, and not at once
	PyTorch  string  // options of PyTorch's allocator
}

// Capped is the limits of one tenant, as its policy's [cap] works them out.
// Unknown is none.
type Capped struct {
	Policy   string
	MPS      bool
	SM       model.Reading[float64] // above 0, below 1
	Priority model.Reading[int]
	Memory   model.Reading[model.Bytes]
	Growth   bool
	PyTorch  string
}

// Cap works out the limits of a tenant that is about to be launched beside those
// of the node. Use a decider of its own for it: what the last decision of this one
// found is forgotten.
func (d *Decider) Cap(n *model.Node, t *model.Tenant, now time.Duration) Capped {
	d.begin(n, now)
	v := &view{t: t, m: &memo{demand: math.NaN()}, p: d.set.Default, share: 1}
	for _, uuid := range t.GPUs {
		if _, ok := d.index[uuid]; !ok {
			d.addGPU(uuid, nil)
		}
	}
	d.seat(v)
	d.rule()
	if len(v.seats) > 0 {
		v.p = d.gpus[v.seats[0]].p
	}
	return d.capOf(v)
}

func (d *Decider) capOf(v *view) Capped {
	c := v.p.Cap
	out := Capped{Policy: v.p.Name, MPS: c.MPS, Growth: c.Growth, PyTorch: c.PyTorch}
	d.env.t, d.env.mate, d.env.g = v, nil, nil
	value := func(n *Number) float64 {
		if n == nil {
			return math.NaN()
		}
		return n.eval(&d.env)
	}
	if x := value(c.SM); x > 0 && x < 1 {
		out.SM = model.Known(x)
	}
	if x := value(c.Priority); x >= 0 && x <= 1 {
		out.Priority = model.Known(int(math.Round(x)))
	}
	if x := value(c.Memory); x >= float64(model.MiB) && x < float64(1<<60) {
		out.Memory = model.Known(model.Bytes(x))
	}
	return out
}
