package node

import (
	"github.com/gimbal-hpc/gimbal/helper/engine"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/sim"
)

func (o *Options) slots() int {
	if o.Slots > 0 {
		return o.Slots
	}
	return DefaultSlots
}

func (o *Options) turns() int {
	if o.Turns > 0 {
		return o.Turns
	}
	return DefaultTurns
}

// smallest is the memory of a slot where nothing is known, in MiB.
const smallest = 1024

// memory is the memory of a GPU: so much that all fit where it is unknown.
func (o *Options) memory() model.Bytes {
	mib := o.GPUMemory
	if mib == 0 {
		mib = float64(o.slots()) * max(o.largest, smallest)
	}
	return model.Bytes(mib) * model.MiB
}

// terms is what a job is granted.
func (o *Options) terms(j *sim.Job) model.Terms {
	t := model.Terms{Class: model.Guaranteed, Weight: 1}
	if j.Weight > 0 {
		t.Weight = j.Weight
	}
	if j.Opportunistic {
		t.Class = model.Opportunistic
	}
	t.Memory = model.Known(o.memory() / model.Bytes(o.slots()))
	if j.Memory > 0 {
		t.Memory = model.Known(model.Bytes(j.Memory) * model.MiB)
		t.Declared = t.Memory
	}
	if j.Deadline < sim.Never {
		t.Deadline = epoch().Add(clock(j.Deadline))
	}
	return t
}

// journal is where a node's records go.
func (o *Options) journal(node int) engine.Journal {
	if o.Journal == nil {
		return nowhere{}
	}
	return o.Journal(node)
}

// nowhere forgets all records.
type nowhere struct{}

func (nowhere) Append(model.Record) error { return nil }
