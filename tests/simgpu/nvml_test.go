package simgpu

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// open initialises go-nvml on a device; it is shut down when the test ends.
func open(t *testing.T, d *Device) nvml.Interface {
	t.Helper()
	t.Setenv("SIMGPU_DIR", d.Dir)
	lib := nvml.New(nvml.WithLibraryPath(NVML("")))
	must(t, lib.Init())
	t.Cleanup(func() { _ = lib.Shutdown() })
	return lib
}

func must(t *testing.T, r nvml.Return) {
	t.Helper()
	if r != nvml.SUCCESS {
		t.Fatalf("NVML: %v", r)
	}
}

func get[T any](t *testing.T) func(T, nvml.Return) T {
	return func(v T, r nvml.Return) T {
		t.Helper()
		must(t, r)
		return v
	}
}

func TestNVMLShowsTheGPUs(t *testing.T) {
	d := Start(t, Options{GPUs: 4, Minors: "6,4,0,2", Memory: "80GiB", Reserved: "600MiB"})
	lib := open(t, d)
	if n := get[int](t)(lib.DeviceGetCount()); n != 4 {
		t.Fatalf("%d GPUs", n)
	}
	for i, minor := range []int{6, 4, 0, 2} {
		dev := get[nvml.Device](t)(lib.DeviceGetHandleByIndex(i))
		if m := get[int](t)(dev.GetMinorNumber()); m != minor {
			t.Errorf("GPU %d has minor %d", i, m)
		}
		uuid := get[string](t)(dev.GetUUID())
		if want := d.Show().GPUs[i].UUID; uuid != want {
			t.Errorf("UUID %s, the device says %s", uuid, want)
		}
		same := get[nvml.Device](t)(lib.DeviceGetHandleByUUID(uuid))
		if get[int](t)(same.GetMinorNumber()) != minor {
			t.Error("the UUID leads to another GPU")
		}
	}
	dev := get[nvml.Device](t)(lib.DeviceGetHandleByIndex(0))
	if m := get[nvml.Memory](t)(dev.GetMemoryInfo()); m.Total != 80<<30 || m.Used != 600<<20 || m.Free != 80<<30-600<<20 {
		t.Errorf("memory, v1: %+v", m)
	}
	if m := get[nvml.Memory_v2](t)(dev.GetMemoryInfo_v2()); m.Total != 80<<30 || m.Used != 0 || m.Reserved != 600<<20 {
		t.Errorf("memory, v2: %+v", m)
	}
	if pci := get[nvml.PciInfo](t)(dev.GetPciInfo()); pci.Bus != 0x10 {
		t.Errorf("PCI: %+v", pci)
	}
	if v := get[string](t)(lib.SystemGetDriverVersion()); v != "575.57.08" {
		t.Errorf("driver %s", v)
	}
	if _, r := lib.DeviceGetHandleByUUID("GPU-none"); r != nvml.ERROR_NOT_FOUND {
		t.Errorf("an unknown UUID: %v", r)
	}
	if _, r := lib.DeviceGetHandleByIndex(4); r != nvml.ERROR_INVALID_ARGUMENT {
		t.Errorf("an index too large: %v", r)
	}
}

func TestNVMLShowsProcessesAndTheirUse(t *testing.T) {
	d := Start(t, Options{})
	lib := open(t, d)
	dev := get[nvml.Device](t)(lib.DeviceGetHandleByIndex(0))
	if _, r := dev.GetProcessUtilization(0); r != nvml.ERROR_NOT_FOUND {
		t.Errorf("utilisation of an idle GPU: %v", r)
	}
	if p := get[[]nvml.ProcessInfo](t)(dev.GetComputeRunningProcesses()); len(p) != 0 {
		t.Errorf("processes on an idle GPU: %v", p)
	}
	memory := map[int]uint64{}
	for _, size := range []string{"1GiB", "2GiB", "3GiB"} {
		cmd := start(t, d, size, "--memory", size, "--cpu-ms", "1", "--gpu-ms", "10")
		memory[cmd.Process.Pid] = uint64(size[0]-'0') << 30
	}
	waitUsed(t, d, 6<<30)
	processes := get[[]nvml.ProcessInfo](t)(dev.GetComputeRunningProcesses())
	for _, p := range processes {
		if memory[int(p.Pid)] != p.UsedGpuMemory {
			t.Errorf("process %+v, expected %v", p, memory)
		}
	}
	if len(processes) != 3 {
		t.Errorf("%d processes", len(processes))
	}
	var samples []nvml.ProcessUtilizationSample
	amiss := func(s nvml.ProcessUtilizationSample) bool {
		return memory[int(s.Pid)] == 0 || s.SmUtil < 20 || s.SmUtil > 45
	}
	// A busy machine may keep one of them from competing for a while.
	d.await("a second for which three compete", func() bool {
		began := uint64(time.Now().UnixMicro())
		d.await("a second of samples", func() bool {
			s, r := dev.GetProcessUtilization(began)
			samples = s
			return r == nvml.SUCCESS && len(s) == 3 && s[0].TimeStamp > began+800_000
		})
		u := get[nvml.Utilization](t)(dev.GetUtilizationRates())
		return !slices.ContainsFunc(samples, amiss) && u.Gpu >= 60 && u.Gpu <= 100
	})
	last := samples[0].TimeStamp + 3_600_000_000
	if _, r := dev.GetProcessUtilization(last); r != nvml.ERROR_NOT_FOUND {
		t.Errorf("utilisation since a time to come: %v", r)
	}
}

func TestNVMLSamplesLag(t *testing.T) {
	d := Start(t, Options{Args: []string{"--lag", "60s"}})
	lib := open(t, d)
	dev := get[nvml.Device](t)(lib.DeviceGetHandleByIndex(0))
	start(t, d, "a")
	d.await("a to compute", func() bool { return d.Record().Busy("a") > 0 })
	if _, r := dev.GetProcessUtilization(0); r != nvml.ERROR_NOT_FOUND {
		t.Errorf("samples of the last minute: %v", r)
	}
	d.Ctl("set", "lag=0s")
	d.await("samples", func() bool { _, r := dev.GetProcessUtilization(0); return r == nvml.SUCCESS })
}

func TestNVMLFaults(t *testing.T) {
	d := Start(t, Options{GPUs: 2})
	lib := open(t, d)
	dev := get[nvml.Device](t)(lib.DeviceGetHandleByIndex(0))
	start(t, d, "a", "--memory", "1GiB")
	d.await("samples", func() bool { _, r := dev.GetProcessUtilization(0); return r == nvml.SUCCESS })
	for _, c := range []struct {
		set, unset string
		call       func() nvml.Return
		want       nvml.Return
	}{
		{"process-util=not-found", "process-util=ok", func() nvml.Return { _, r := dev.GetProcessUtilization(0); return r }, nvml.ERROR_NOT_FOUND},
		{"process-util=not-supported", "process-util=ok", func() nvml.Return { _, r := dev.GetProcessUtilization(0); return r }, nvml.ERROR_NOT_SUPPORTED},
		{"utilization=not-supported", "utilization=ok", func() nvml.Return { _, r := dev.GetUtilizationRates(); return r }, nvml.ERROR_NOT_SUPPORTED},
		{"memory-info=not-supported", "memory-info=ok", func() nvml.Return { _, r := dev.GetMemoryInfo_v2(); return r }, nvml.ERROR_NOT_SUPPORTED},
		{"processes=unknown", "processes=ok", func() nvml.Return { _, r := dev.GetComputeRunningProcesses(); return r }, nvml.ERROR_UNKNOWN},
		{"driver=mismatch", "driver=ok", func() nvml.Return { _, r := lib.DeviceGetCount(); return r }, nvml.ERROR_LIB_RM_VERSION_MISMATCH},
		{"lost=yes", "lost=no", func() nvml.Return { _, r := dev.GetMemoryInfo(); return r }, nvml.ERROR_GPU_IS_LOST},
	} {
		d.Ctl("set", c.set)
		if r := c.call(); r != c.want {
			t.Errorf("%s: %v", c.set, r)
		}
		d.Ctl("set", c.unset)
		if r := c.call(); r != nvml.SUCCESS {
			t.Errorf("%s: %v", c.unset, r)
		}
	}
	d.Ctl("set", "process-memory=not-available", "gpu=0")
	if p := get[[]nvml.ProcessInfo](t)(dev.GetComputeRunningProcesses()); p[0].UsedGpuMemory != ^uint64(0) {
		t.Errorf("memory that is not available: %+v", p)
	}
	d.Ctl("set", "process-util=garbage")
	if s := get[[]nvml.ProcessUtilizationSample](t)(dev.GetProcessUtilization(0)); s[0].SmUtil <= 100 {
		t.Errorf("garbage: %+v", s)
	}
}

func TestNVMLCallThatHangs(t *testing.T) {
	d := Start(t, Options{})
	lib := open(t, d)
	dev := get[nvml.Device](t)(lib.DeviceGetHandleByIndex(0))
	began := time.Now()
	d.Ctl("set", "hang=300ms")
	get[nvml.Memory](t)(dev.GetMemoryInfo())
	if took := time.Since(began); took < 300*time.Millisecond {
		t.Errorf("the call ended %v after the hang began", took)
	}
	d.Ctl("set", "hang=600s")
	done := make(chan nvml.Return)
	go func() { _, r := dev.GetMemoryInfo(); done <- r }()
	d.Ctl("set", "hang=0s")
	select {
	case r := <-done:
		must(t, r)
	case <-time.After(10 * time.Second):
		t.Error("the call still hangs")
	}
}

func TestNVMLDevicesVanishAndReturn(t *testing.T) {
	d := Start(t, Options{GPUs: 2})
	lib := open(t, d)
	kept := get[nvml.Device](t)(lib.DeviceGetHandleByIndex(0))
	lost := get[nvml.Device](t)(lib.DeviceGetHandleByIndex(1))
	uuid := get[string](t)(lost.GetUUID())
	d.Ctl("set", "present=no", "gpu=1")
	if n := get[int](t)(lib.DeviceGetCount()); n != 1 {
		t.Errorf("%d GPUs are left", n)
	}
	if _, r := lost.GetMemoryInfo(); r != nvml.ERROR_GPU_IS_LOST {
		t.Errorf("a handle of a GPU that is not there: %v", r)
	}
	get[nvml.Memory](t)(kept.GetMemoryInfo())
	d.Ctl("set", "present=yes", "gpu=1")
	if _, r := lost.GetMemoryInfo(); r != nvml.ERROR_INVALID_ARGUMENT {
		t.Errorf("an old handle: %v", r)
	}
	again := get[nvml.Device](t)(lib.DeviceGetHandleByUUID(uuid))
	get[nvml.Memory](t)(again.GetMemoryInfo())
}

func TestNVMLShowsAGhost(t *testing.T) {
	d := Start(t, Options{})
	lib := open(t, d)
	dev := get[nvml.Device](t)(lib.DeviceGetHandleByIndex(0))
	d.Ctl("ghost", "pid=4000000", "memory=5GiB")
	p := get[[]nvml.ProcessInfo](t)(dev.GetComputeRunningProcesses())
	if len(p) != 1 || p[0].Pid != 4000000 || p[0].UsedGpuMemory != 5<<30 {
		t.Errorf("processes %+v", p)
	}
	if code := exitCode(d.Trainer("a", "--memory", "12GiB", "--iterations", "1").Run()); code != 1 {
		t.Errorf("a trainer found room beside the ghost: exit %d", code)
	}
	d.Ctl("ghost", "pid=4000000", "memory=0")
	if p := get[[]nvml.ProcessInfo](t)(dev.GetComputeRunningProcesses()); len(p) != 0 {
		t.Errorf("processes %+v", p)
	}
}

func TestNVMLEvents(t *testing.T) {
	d := Start(t, Options{GPUs: 2})
	lib := open(t, d)
	dev := get[nvml.Device](t)(lib.DeviceGetHandleByIndex(1))
	set := get[nvml.EventSet](t)(lib.EventSetCreate())
	must(t, dev.RegisterEvents(nvml.EventTypeXidCriticalError, set))
	if _, r := set.Wait(1); r != nvml.ERROR_TIMEOUT {
		t.Errorf("no event: %v", r)
	}
	d.Ctl("xid", "code=13", "gpu=0")
	d.Ctl("xid", "code=79", "gpu=1")
	if e := get[nvml.EventData](t)(set.Wait(5000)); e.EventData != 79 || e.EventType != nvml.EventTypeXidCriticalError {
		t.Errorf("event %+v", e)
	}
	must(t, set.Free())
}

func TestNVMLInMIGMode(t *testing.T) {
	d := Start(t, Options{MIG: 2})
	lib := open(t, d)
	if n := get[int](t)(lib.DeviceGetCount()); n != 1 {
		t.Fatalf("%d GPUs", n)
	}
	gpu := get[nvml.Device](t)(lib.DeviceGetHandleByIndex(0))
	if mode, _, r := gpu.GetMigMode(); r != nvml.SUCCESS || mode != nvml.DEVICE_MIG_ENABLE {
		t.Errorf("MIG mode %d, %v", mode, r)
	}
	if _, r := gpu.GetUtilizationRates(); r != nvml.ERROR_NOT_SUPPORTED {
		t.Errorf("utilisation: %v", r)
	}
	mig := get[nvml.Device](t)(gpu.GetMigDeviceHandleByIndex(1))
	if _, r := gpu.GetMigDeviceHandleByIndex(2); r != nvml.ERROR_NOT_FOUND {
		t.Errorf("a third instance: %v", r)
	}
	cmd := d.Trainer("a", "--memory", "5GiB")
	cmd.Env = append(cmd.Env, "CUDA_VISIBLE_DEVICES="+get[string](t)(mig.GetUUID()))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d.await("the instance to be used", func() bool {
		return get[nvml.Memory_v2](t)(mig.GetMemoryInfo_v2()).Used == 5<<30
	})
	p := get[[]nvml.ProcessInfo](t)(gpu.GetComputeRunningProcesses())
	if len(p) != 1 || p[0].GpuInstanceId != 2 || int(p[0].Pid) != cmd.Process.Pid {
		t.Errorf("processes of the whole GPU: %+v", p)
	}
	if m := get[nvml.Memory_v2](t)(gpu.GetMemoryInfo_v2()); m.Used != 5<<30 {
		t.Errorf("memory of the whole GPU: %+v", m)
	}
}

func TestNVMLFollowsARestart(t *testing.T) {
	d := Start(t, Options{Seed: "same"})
	lib := open(t, d)
	d.Stop()
	if _, r := lib.DeviceGetCount(); r != nvml.ERROR_GPU_IS_LOST {
		t.Errorf("without a device: %v", r)
	}
	d.Restart(Options{Seed: "same", GPUs: 3})
	if n := get[int](t)(lib.DeviceGetCount()); n != 3 {
		t.Errorf("%d GPUs after the restart", n)
	}
}

func TestNVMLKeepsNoDescriptors(t *testing.T) {
	d := Start(t, Options{})
	lib := open(t, d)
	dev := get[nvml.Device](t)(lib.DeviceGetHandleByIndex(0))
	before := descriptors(t)
	began := time.Now()
	const calls = 10000
	for range calls {
		get[nvml.Memory](t)(dev.GetMemoryInfo())
		get[[]nvml.ProcessInfo](t)(dev.GetComputeRunningProcesses())
		if _, r := dev.GetProcessUtilization(0); r != nvml.ERROR_NOT_FOUND {
			t.Fatalf("utilisation of an idle GPU: %v", r)
		}
	}
	t.Logf("%v for each poll of three calls", time.Since(began)/calls)
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors, then %d", before, after)
	}
	if s := d.Show(); s.Inits != 1 || s.Calls < 3*calls {
		t.Errorf("%d inits, %d calls", s.Inits, s.Calls)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
