package gpu

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// fakeLib is an NVML that does what a test says.
type fakeLib struct {
	nvml.ExtendedInterface
	inits, shutdowns int
	init, count      nvml.Return
	devices          []*fakeDevice
	lacks            map[string]bool // symbols
}

func (f *fakeLib) Init() nvml.Return     { f.inits++; return f.init }
func (f *fakeLib) Shutdown() nvml.Return { f.shutdowns++; return nvml.SUCCESS }

func (f *fakeLib) DeviceGetCount() (int, nvml.Return) { return len(f.devices), f.count }

func (f *fakeLib) DeviceGetHandleByIndex(i int) (nvml.Device, nvml.Return) {
	return f.devices[i], f.devices[i].handle
}

func (f *fakeLib) DeviceGetHandleByUUID(uuid string) (nvml.Device, nvml.Return) {
	for _, d := range f.devices {
		if d.uuid == uuid {
			if d.reset != nil {
				return d.reset, nvml.SUCCESS
			}
			return d, nvml.SUCCESS
		}
	}
	return nil, nvml.ERROR_NOT_FOUND
}

func (f *fakeLib) Extensions() nvml.ExtendedInterface { return f }

func (f *fakeLib) LookupSymbol(name string) error {
	if f.lacks[name] {
		return errors.New("not found")
	}
	return nil
}

// fakeDevice answers each call with a value and a code.
type fakeDevice struct {
	nvml.Device
	uuid    string
	minor   int
	handle  nvml.Return // of the lookup by index
	mem     nvml.Memory
	memRet  nvml.Return
	mem2    nvml.Memory_v2
	mem2Ret nvml.Return
	util    nvml.Utilization
	utilRet nvml.Return
	procs   []nvml.ProcessInfo
	procRet nvml.Return
	panics  bool
	mps     []nvml.ProcessInfo
	samples []nvml.ProcessUtilizationSample
	sampRet nvml.Return
	since   []uint64
	mig     []*fakeDevice
	migRet  nvml.Return
	reset   *fakeDevice // what the UUID leads to after a reset
}

func (d *fakeDevice) GetUUID() (string, nvml.Return)     { return d.uuid, nvml.SUCCESS }
func (d *fakeDevice) GetName() (string, nvml.Return)     { return "fake", nvml.SUCCESS }
func (d *fakeDevice) GetMinorNumber() (int, nvml.Return) { return d.minor, nvml.SUCCESS }

func (d *fakeDevice) GetCudaComputeCapability() (major, minor int, ret nvml.Return) {
	return 9, 0, nvml.SUCCESS
}
func (d *fakeDevice) GetMemoryInfo() (nvml.Memory, nvml.Return) {
	return d.mem, d.memRet
}
func (d *fakeDevice) GetMemoryInfo_v2() (nvml.Memory_v2, nvml.Return) {
	return d.mem2, d.mem2Ret
}
func (d *fakeDevice) GetUtilizationRates() (nvml.Utilization, nvml.Return) {
	return d.util, d.utilRet
}
func (d *fakeDevice) GetComputeRunningProcesses() ([]nvml.ProcessInfo, nvml.Return) {
	if d.panics {
		panic("index out of range")
	}
	return d.procs, d.procRet
}
func (d *fakeDevice) GetMPSComputeRunningProcesses() ([]nvml.ProcessInfo, nvml.Return) {
	return d.mps, nvml.SUCCESS
}
func (d *fakeDevice) GetProcessUtilization(since uint64) ([]nvml.ProcessUtilizationSample, nvml.Return) {
	d.since = append(d.since, since)
	return d.samples, d.sampRet
}
func (d *fakeDevice) GetMigMode() (int, int, nvml.Return) {
	if d.mig == nil {
		return 0, 0, nvml.ERROR_NOT_SUPPORTED
	}
	return nvml.DEVICE_MIG_ENABLE, nvml.DEVICE_MIG_ENABLE, nvml.SUCCESS
}
func (d *fakeDevice) GetMaxMigDeviceCount() (int, nvml.Return) { return 7, d.migRet }
func (d *fakeDevice) GetMigDeviceHandleByIndex(i int) (nvml.Device, nvml.Return) {
	if i >= len(d.mig) {
		return nil, nvml.ERROR_NOT_FOUND
	}
	return d.mig[i], nvml.SUCCESS
}

const gib = 1 << 30

// gpuOf makes a healthy GPU of 80 GiB with 1 GiB reserved.
func gpuOf(n, minor int) *fakeDevice {
	return &fakeDevice{
		uuid: fmt.Sprintf("GPU-%08d", n), minor: minor,
		mem: nvml.Memory{Total: 80 * gib, Used: gib}, mem2: nvml.Memory_v2{Total: 80 * gib, Reserved: gib},
		sampRet: nvml.ERROR_NOT_FOUND,
	}
}

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// stampAt is the driver's stamp of a time after start.
func stampAt(d time.Duration) uint64 { return uint64(start.Add(d).UnixMicro()) }

// fakeReader makes a reader whose wall clock follows now.
func fakeReader(lib *fakeLib) (r *Reader, read func(now time.Duration) model.GPUReport) {
	var at time.Duration
	r = newReader("fake", lib, func(string) error { return nil })
	r.wall = func() time.Time { return start.Add(at) }
	return r, func(now time.Duration) model.GPUReport {
		at = now
		return r.Read(now)
	}
}

func proc(pid uint32, memory uint64) nvml.ProcessInfo {
	return nvml.ProcessInfo{Pid: pid, UsedGpuMemory: memory}
}

func wantBytes(t *testing.T, what string, got model.Reading[model.Bytes], want int64) {
	t.Helper()
	b, ok := got.Get()
	if want < 0 && ok || want >= 0 && (!ok || int64(b) != want) {
		t.Errorf("%s: %d (known %v), want %d", what, b, ok, want)
	}
}

// unknown stands for a reading that is not known in wantBytes and wantShare.
const unknown = -1

func wantShare(t *testing.T, what string, got model.Reading[float64], want float64) {
	t.Helper()
	f, ok := got.Get()
	if want < 0 && ok || want >= 0 && (!ok || f < want-1e-9 || f > want+1e-9) {
		t.Errorf("%s: %v (known %v), want %v", what, f, ok, want)
	}
}
