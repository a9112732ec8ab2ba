package gpu

import (
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// memory fills total, reserved and used. Where the driver tells reserved
// memory apart it is taken from there; the older call counts it as used.
func (r *Reader) memory(dev nvml.Device, g *model.GPU, u *unit) nvml.Return {
	if r.canExactly("nvmlDeviceGetMemoryInfo_v2") {
		m, ret := dev.GetMemoryInfo_v2()
		if ret == nvml.SUCCESS {
			r.setMemory(g, m.Total, m.Used, m.Reserved)
			return ret
		}
		if !absent(ret) {
			return r.unread(g.UUID, "memory", ret)
		}
	}
	return r.oldMemory(dev, g, u)
}

// setMemory takes the three over if they can be true together.
func (r *Reader) setMemory(g *model.GPU, total, used, reserved uint64) {
	ok := total > 0 && total < 1<<62 && used <= total && reserved <= total
	r.noteOn(g.UUID, "implausible memory", !ok, "implausible memory: %d used and %d reserved of %d bytes", used, reserved, total)
	if !ok {
		return
	}
	g.Total = model.Known(model.Bytes(total))
	g.Used = model.Known(model.Bytes(used))
	g.Reserved = model.Known(model.Bytes(reserved))
	r.checkMemory(g)
}

// oldMemory reads a driver that counts reserved memory as used. What is used
// while no process is there is what the driver reserves.
func (r *Reader) oldMemory(dev nvml.Device, g *model.GPU, u *unit) nvml.Return {
	if !r.canExactly("nvmlDeviceGetMemoryInfo") {
		return nvml.SUCCESS
	}
	m, ret := dev.GetMemoryInfo()
	if ret != nvml.SUCCESS {
		return r.unread(g.UUID, "memory", ret)
	}
	r.setMemory(g, m.Total, m.Used, 0)
	all, ok := g.Used.Get()
	if !ok {
		return nvml.SUCCESS
	}
	procs, listed := g.Procs.Get()
	if listed && len(procs) == 0 && all < u.reserved.Or(all+1) {
		u.reserved = model.Known(all)
	}
	g.Reserved = u.reserved
	g.Used = sum(procs, listed)
	if reserved, ok := u.reserved.Get(); ok {
		g.Used = model.Known(max(all-reserved, 0))
	}
	return nvml.SUCCESS
}

// sum is the memory of all processes, unknown where that of one is.
func sum(procs []model.GPUProc, listed bool) model.Reading[model.Bytes] {
	if !listed {
		return model.Unknown[model.Bytes]()
	}
	var all model.Bytes
	for _, p := range procs {
		m, ok := p.Memory.Get()
		if !ok {
			return model.Unknown[model.Bytes]()
		}
		all += m
	}
	return model.Known(all)
}
