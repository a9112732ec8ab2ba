package gpu

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

const (
	pidMax      = 1 << 22         // PID_MAX_LIMIT of the kernel
	firstWindow = time.Second     // of utilisation, at the first look
	maxLag      = 3 * time.Second // by which samples of utilisation may come late
	maxProcs    = 4096            // on one GPU; more is garbage
)

// processes lists who has a context on a GPU. A list with one entry that
// cannot be true is unknown as a whole: some drivers of the 535 series wrote
// entries of another size under the same name.
func (r *Reader) processes(dev nvml.Device, uuid string) (model.Reading[[]model.GPUProc], nvml.Return) {
	unknown := model.Unknown[[]model.GPUProc]()
	if !r.can("nvmlDeviceGetComputeRunningProcesses") {
		return unknown, nvml.SUCCESS
	}
	infos, ret := list(dev.GetComputeRunningProcesses)
	if ret != nvml.SUCCESS {
		return unknown, r.unread(uuid, "list of processes", ret)
	}
	if r.can("nvmlDeviceGetMPSComputeRunningProcesses") {
		if mps, ret := list(dev.GetMPSComputeRunningProcesses); ret == nvml.SUCCESS {
			infos = append(infos, mps...)
		}
	}
	ok := plausible(infos)
	r.noteOn(uuid, "implausible list", !ok, "the list of processes is implausible and is not used")
	if !ok {
		return unknown, nvml.SUCCESS
	}
	return model.Known(merge(infos)), nvml.SUCCESS
}

// list calls NVML for a list. The bindings panic where a driver says that the
// list is too long for the buffer, and is empty.
func list(call func() ([]nvml.ProcessInfo, nvml.Return)) (infos []nvml.ProcessInfo, ret nvml.Return) {
	defer func() {
		if recover() != nil {
			infos, ret = nil, nvml.ERROR_UNKNOWN
		}
	}()
	return call()
}

func plausible(infos []nvml.ProcessInfo) bool {
	if len(infos) > maxProcs {
		return false
	}
	return !slices.ContainsFunc(infos, func(p nvml.ProcessInfo) bool { return p.Pid == 0 || p.Pid > pidMax })
}

// merge makes one entry of each process, by pid; one that is listed twice, as
// a compute and as an MPS process, is the larger of the two.
func merge(infos []nvml.ProcessInfo) []model.GPUProc {
	out := make([]model.GPUProc, 0, len(infos))
	for _, p := range infos {
		out = append(out, model.GPUProc{PID: int(p.Pid), Memory: bytes(p.UsedGpuMemory)})
	}
	slices.SortFunc(out, func(a, b model.GPUProc) int {
		return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(b.Memory.Or(-1), a.Memory.Or(-1)))
	})
	return slices.CompactFunc(out, func(a, b model.GPUProc) bool { return a.PID == b.PID })
}

// bytes reads a size of NVML's, in which all ones mean "not available".
func bytes(n uint64) model.Reading[model.Bytes] {
	if n > math.MaxInt64 {
		return model.Unknown[model.Bytes]()
	}
	return model.Known(model.Bytes(n))
}

// utilisation fills the GPU's share of time with work, and each process's.
func (r *Reader) utilisation(dev nvml.Device, g *model.GPU, u *unit) nvml.Return {
	if r.can("nvmlDeviceGetUtilizationRates") {
		rates, ret := dev.GetUtilizationRates()
		if ret == nvml.SUCCESS {
			g.Util = percent(rates.Gpu)
		} else if ret = r.unread(g.UUID, "utilisation", ret); ret != nvml.SUCCESS {
			return ret
		}
	}
	procs, ok := g.Procs.Get()
	if !ok || !r.can("nvmlDeviceGetProcessUtilization") {
		return nvml.SUCCESS
	}
	return r.processUtil(dev, g.UUID, procs, u)
}

// checkMemory takes back what a process cannot hold.
func (r *Reader) checkMemory(g *model.GPU) {
	procs, _ := g.Procs.Get()
	total, ok := g.Total.Get()
	if !ok {
		return
	}
	bad := false
	for i := range procs {
		if m, known := procs[i].Memory.Get(); known && m > total {
			procs[i].Memory = model.Unknown[model.Bytes]()
			bad = true
		}
	}
	r.noteOn(g.UUID, "implausible process memory", bad, "a process is said to hold more memory than there is; it counts as unknown")
}

// processUtil sets each process's share of SM time since the last look. That
// nothing is found means that nothing ran.
func (r *Reader) processUtil(dev nvml.Device, uuid string, procs []model.GPUProc, u *unit) nvml.Return {
	samples, ret := dev.GetProcessUtilization(u.since)
	switch ret {
	case nvml.SUCCESS:
	case nvml.ERROR_NOT_FOUND:
		samples = nil
	case nvml.ERROR_INSUFFICIENT_SIZE: // processes came between its two calls: next time
		return nvml.SUCCESS
	default:
		return r.unread(uuid, "utilisation of processes", ret)
	}
	_ = r.unread(uuid, "utilisation of processes", nvml.SUCCESS)
	shares := average(samples)
	odd := false
	for i := range procs {
		share, ran := shares[uint32(procs[i].PID)]
		if !ran {
			share = model.Known(0.0)
		}
		procs[i].SM = share
		odd = odd || !share.Known()
	}
	r.noteOn(uuid, "implausible utilisation", odd, "implausible utilisation of a process; it counts as unknown")
	u.since = r.advance(u.since, samples)
	return nvml.SUCCESS
}

// average is each process's mean over its samples; one that is out of range
// makes it unknown.
func average(samples []nvml.ProcessUtilizationSample) map[uint32]model.Reading[float64] {
	sums, counts := map[uint32]float64{}, map[uint32]int{}
	bad := map[uint32]bool{}
	for _, s := range samples {
		share, ok := percent(s.SmUtil).Get()
		bad[s.Pid] = bad[s.Pid] || !ok
		sums[s.Pid] += share
		counts[s.Pid]++
	}
	out := map[uint32]model.Reading[float64]{}
	for pid, n := range counts {
		out[pid] = model.Known(sums[pid] / float64(n))
		if bad[pid] {
			out[pid] = model.Unknown[float64]()
		}
	}
	return out
}

// percent reads a percentage of NVML's; a little above a hundred is rounding,
// more is garbage.
func percent(n uint32) model.Reading[float64] {
	if n > 110 {
		return model.Unknown[float64]()
	}
	return model.Known(min(float64(n)/100, 1))
}

// advance is the stamp from which the next look wants samples: that of the
// newest one seen, but never so old that a long idle time would thin the next
// average, nor in the future.
func (r *Reader) advance(since uint64, samples []nvml.ProcessUtilizationSample) uint64 {
	now := r.stamp(0)
	for _, s := range samples {
		if s.TimeStamp > since && s.TimeStamp <= now {
			since = s.TimeStamp
		}
	}
	return min(max(since, r.stamp(-maxLag)), now)
}
