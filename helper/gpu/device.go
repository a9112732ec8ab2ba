package gpu

import (
	"slices"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// readDevice looks at one GPU, or at the instances of a partitioned one. The
// code tells whether the GPU, or the library, is dead; single readings that
// fail are unknown.
func (r *Reader) readDevice(dev nvml.Device, uuid string, index int, now time.Duration) ([]model.GPU, nvml.Return) {
	if r.partitioned(dev) {
		return r.readInstances(dev, uuid, index, now)
	}
	g := model.GPU{UUID: uuid, Index: index, Minor: r.minor(dev), Name: r.name(dev), Capability: r.capability(dev)}
	ret := r.fill(dev, &g, now)
	return []model.GPU{g}, ret
}

func (r *Reader) partitioned(dev nvml.Device) bool {
	if !r.can("nvmlDeviceGetMigMode") || !r.can("nvmlDeviceGetMaxMigDeviceCount") ||
		!r.can("nvmlDeviceGetMigDeviceHandleByIndex") {
		return false
	}
	mode, _, ret := dev.GetMigMode()
	return ret == nvml.SUCCESS && mode == nvml.DEVICE_MIG_ENABLE
}

func (r *Reader) readInstances(dev nvml.Device, parent string, index int, now time.Duration) ([]model.GPU, nvml.Return) {
	count, ret := dev.GetMaxMigDeviceCount()
	if ret != nvml.SUCCESS {
		return nil, ret
	}
	var out []model.GPU
	for i := range count {
		mig, ret := dev.GetMigDeviceHandleByIndex(i)
		if ret == nvml.ERROR_NOT_FOUND || ret == nvml.ERROR_INVALID_ARGUMENT {
			continue // fewer instances than there might be
		}
		if ret != nvml.SUCCESS {
			return nil, ret
		}
		uuid, ret := mig.GetUUID()
		if ret != nvml.SUCCESS {
			return nil, ret
		}
		// A minor number is the parent's, and Slurm's index is not it.
		g := model.GPU{UUID: uuid, Index: index, Minor: -1, Name: r.name(mig), MIG: true, Parent: parent}
		if ret := r.fill(mig, &g, now); ret != nvml.SUCCESS {
			return nil, ret
		}
		out = append(out, g)
	}
	return out, nvml.SUCCESS
}

func (r *Reader) minor(dev nvml.Device) int {
	if r.can("nvmlDeviceGetMinorNumber") {
		if n, ret := dev.GetMinorNumber(); ret == nvml.SUCCESS {
			return n
		}
	}
	return -1
}

func (r *Reader) name(dev nvml.Device) string {
	if r.can("nvmlDeviceGetName") {
		if s, ret := dev.GetName(); ret == nvml.SUCCESS {
			return s
		}
	}
	return ""
}

func (r *Reader) capability(dev nvml.Device) int {
	if r.can("nvmlDeviceGetCudaComputeCapability") {
		if major, minor, ret := dev.GetCudaComputeCapability(); ret == nvml.SUCCESS {
			return 10*major + minor
		}
	}
	return 0
}

// fill takes all readings of a GPU or an instance.
func (r *Reader) fill(dev nvml.Device, g *model.GPU, now time.Duration) nvml.Return {
	u := r.units[g.UUID]
	if u == nil {
		u = &unit{since: r.stamp(-firstWindow)}
	}
	var ret nvml.Return
	if g.Procs, ret = r.processes(dev, g.UUID); ended(ret) {
		return ret
	}
	if ret = r.memory(dev, g, u); ended(ret) {
		return ret
	}
	if !g.MIG { // the driver knows no utilisation of an instance
		if ret = r.utilisation(dev, g, u); ended(ret) {
			return ret
		}
	}
	u.seen, u.at = *g, now
	u.seen.Procs = model.Unknown[[]model.GPUProc]()
	r.units[g.UUID] = u
	return nvml.SUCCESS
}

// ended tells whether a code ends the look at a GPU: the rest of it would fail
// alike.
func ended(ret nvml.Return) bool { return dead(ret) || fatal(ret) }

// unread turns a code that ends nothing into a note. A function that is
// missing is an absent reading.
func (r *Reader) unread(uuid, what string, ret nvml.Return) nvml.Return {
	failed := ret != nvml.SUCCESS && !absent(ret) && !ended(ret)
	r.noteOn(uuid, what, failed, "the %s cannot be read: %s", what, describe(ret))
	if ended(ret) && ret != nvml.ERROR_FUNCTION_NOT_FOUND {
		return ret
	}
	return nvml.SUCCESS
}

// stamp is a time on the driver's clock: microseconds of the wall clock.
func (r *Reader) stamp(d time.Duration) uint64 {
	us := r.wall().Add(d).UnixMicro()
	return uint64(max(us, 0))
}

func sortGPUs(gpus []model.GPU) {
	slices.SortFunc(gpus, func(a, b model.GPU) int {
		if a.Index != b.Index {
			return a.Index - b.Index
		}
		if a.UUID < b.UUID {
			return -1
		}
		return 1
	})
}
