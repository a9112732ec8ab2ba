package gpu

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

func TestMemory(t *testing.T) {
	for name, tc := range map[string]struct {
		device                func(d *fakeDevice)
		lacks                 string
		total, used, reserved int64
		note                  bool
	}{
		"v2, idle": {func(d *fakeDevice) {}, "", 80 * gib, 0, gib, false},
		"v2, used": {func(d *fakeDevice) { d.mem2.Used = 5 * gib }, "", 80 * gib, 5 * gib, gib, false},
		"v1, idle": {func(d *fakeDevice) {}, "nvmlDeviceGetMemoryInfo_v2", 80 * gib, 0, gib, false},
		"v1 where v2 is too old": {func(d *fakeDevice) { d.mem2Ret = nvml.ERROR_ARGUMENT_VERSION_MISMATCH }, "",
			80 * gib, 0, gib, false},
		"v1, never idle": {func(d *fakeDevice) { d.procs = []nvml.ProcessInfo{proc(7, 3*gib)}; d.mem.Used = 4 * gib },
			"nvmlDeviceGetMemoryInfo_v2", 80 * gib, 3 * gib, unknown, false},
		"v1, a process without a size": {func(d *fakeDevice) { d.procs = []nvml.ProcessInfo{proc(7, ^uint64(0))} },
			"nvmlDeviceGetMemoryInfo_v2", 80 * gib, unknown, unknown, false},
		"unified memory": {func(d *fakeDevice) { d.mem2Ret, d.memRet = nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_NOT_SUPPORTED }, "",
			unknown, unknown, unknown, false},
		"no permission":        {func(d *fakeDevice) { d.mem2Ret = nvml.ERROR_NO_PERMISSION }, "", unknown, unknown, unknown, true},
		"more used than there": {func(d *fakeDevice) { d.mem2.Used = 81 * gib }, "", unknown, unknown, unknown, true},
		"no memory at all":     {func(d *fakeDevice) { d.mem2.Total = 0 }, "", unknown, unknown, unknown, true},
		"garbage":              {func(d *fakeDevice) { d.mem2.Total = ^uint64(0) }, "", unknown, unknown, unknown, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := gpuOf(1, 0)
			tc.device(d)
			r, read := fakeReader(&fakeLib{devices: []*fakeDevice{d}, lacks: map[string]bool{tc.lacks: true}})
			var g model.GPU
			for now := time.Second; now < 100*time.Second; now += time.Second {
				g = read(now).GPUs[0]
			}
			wantBytes(t, "total", g.Total, tc.total)
			wantBytes(t, "used", g.Used, tc.used)
			wantBytes(t, "reserved", g.Reserved, tc.reserved)
			if n := r.Notes(); len(n) > 1 || (len(n) == 1) != tc.note {
				t.Errorf("notes after many looks: %q", n)
			}
			if g.Fault != "" {
				t.Errorf("a reading that is missing made the GPU faulty: %s", g.Fault)
			}
		})
	}
}

func TestReservedIsLearntWhileIdle(t *testing.T) {
	d := gpuOf(1, 0)
	_, read := fakeReader(&fakeLib{devices: []*fakeDevice{d}, lacks: map[string]bool{"nvmlDeviceGetMemoryInfo_v2": true}})
	read(time.Second)
	d.procs, d.mem.Used = []nvml.ProcessInfo{proc(7, 3*gib)}, 5*gib // a context takes more than its process is charged
	g := read(2 * time.Second).GPUs[0]
	wantBytes(t, "reserved", g.Reserved, gib)
	wantBytes(t, "used", g.Used, 4*gib)
}

func TestProcesses(t *testing.T) {
	for name, tc := range map[string]struct {
		device func(d *fakeDevice)
		want   map[int]int64 // nil: unknown
		note   bool
	}{
		"none":               {func(d *fakeDevice) {}, map[int]int64{}, false},
		"two":                {func(d *fakeDevice) { d.procs = []nvml.ProcessInfo{proc(9, 2), proc(7, 1)} }, map[int]int64{7: 1, 9: 2}, false},
		"MPS clients":        {func(d *fakeDevice) { d.procs, d.mps = []nvml.ProcessInfo{proc(9, 2)}, []nvml.ProcessInfo{proc(7, 1)} }, map[int]int64{7: 1, 9: 2}, false},
		"listed twice":       {func(d *fakeDevice) { d.procs, d.mps = []nvml.ProcessInfo{proc(9, 2)}, []nvml.ProcessInfo{proc(9, 5)} }, map[int]int64{9: 5}, false},
		"memory unavailable": {func(d *fakeDevice) { d.procs = []nvml.ProcessInfo{proc(9, ^uint64(0))} }, map[int]int64{9: unknown}, false},
		"memory beyond":      {func(d *fakeDevice) { d.procs = []nvml.ProcessInfo{proc(9, 81*gib)} }, map[int]int64{9: unknown}, true},
		"pid 0":              {func(d *fakeDevice) { d.procs = []nvml.ProcessInfo{proc(9, 2), proc(0, 7)} }, nil, true},
		"pid beyond":         {func(d *fakeDevice) { d.procs = []nvml.ProcessInfo{proc(1<<22+1, 2)} }, nil, true},
		"no permission":      {func(d *fakeDevice) { d.procRet = nvml.ERROR_NO_PERMISSION }, nil, true},
		"not supported":      {func(d *fakeDevice) { d.procRet = nvml.ERROR_NOT_SUPPORTED }, nil, false},
		"bindings panic":     {func(d *fakeDevice) { d.panics = true }, nil, true},
		"endless":            {func(d *fakeDevice) { d.procs = make([]nvml.ProcessInfo, maxProcs+1) }, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := gpuOf(1, 0)
			tc.device(d)
			r, read := fakeReader(&fakeLib{devices: []*fakeDevice{d}})
			read(time.Second)
			procs, ok := read(2 * time.Second).GPUs[0].Procs.Get()
			if ok != (tc.want != nil) || len(procs) != len(tc.want) {
				t.Fatalf("processes %v (known %v), want %v", procs, ok, tc.want)
			}
			for _, p := range procs {
				wantBytes(t, "memory", p.Memory, tc.want[p.PID])
			}
			if n := r.Notes(); len(n) > 1 || (len(n) == 1) != tc.note {
				t.Errorf("notes: %q", n)
			}
		})
	}
}

func TestUtilisation(t *testing.T) {
	sample := func(pid, sm uint32) nvml.ProcessUtilizationSample {
		return nvml.ProcessUtilizationSample{Pid: pid, SmUtil: sm, TimeStamp: stampAt(1500 * time.Millisecond)}
	}
	for name, tc := range map[string]struct {
		device   func(d *fakeDevice)
		gpu      float64
		seven    float64
		nine     float64
		note     bool
		lackings []string
	}{
		"nothing ran":     {device: func(d *fakeDevice) {}},
		"one ran":         {device: func(d *fakeDevice) { d.util.Gpu = 40; d.samples = append(d.samples, sample(7, 40)); d.sampRet = 0 }, gpu: .4, seven: .4},
		"several samples": {device: func(d *fakeDevice) { d.samples = append(d.samples, sample(7, 40), sample(7, 60)); d.sampRet = 0 }, seven: .5},
		"rounding":        {device: func(d *fakeDevice) { d.util.Gpu = 101; d.samples = append(d.samples, sample(7, 104)); d.sampRet = 0 }, gpu: 1, seven: 1},
		"garbage": {device: func(d *fakeDevice) {
			d.util.Gpu = 1 << 30
			d.samples = append(d.samples, sample(7, 1<<30))
			d.sampRet = 0
		}, gpu: unknown, seven: unknown, note: true},
		"a stranger ran": {device: func(d *fakeDevice) { d.samples = append(d.samples, sample(8, 40)); d.sampRet = 0 }},
		"not supported": {device: func(d *fakeDevice) { d.utilRet, d.sampRet = nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_NOT_SUPPORTED },
			gpu: unknown, seven: unknown, nine: unknown},
		"unknown error":  {device: func(d *fakeDevice) { d.sampRet = nvml.ERROR_UNKNOWN }, seven: unknown, nine: unknown, note: true},
		"list grew":      {device: func(d *fakeDevice) { d.sampRet = nvml.ERROR_INSUFFICIENT_SIZE }, seven: unknown, nine: unknown},
		"function gone":  {device: func(d *fakeDevice) {}, lackings: []string{"nvmlDeviceGetProcessUtilization"}, seven: unknown, nine: unknown},
		"both functions": {device: func(d *fakeDevice) {}, lackings: []string{"nvmlDeviceGetProcessUtilization", "nvmlDeviceGetUtilizationRates"}, gpu: unknown, seven: unknown, nine: unknown},
	} {
		t.Run(name, func(t *testing.T) {
			d := gpuOf(1, 0)
			d.procs = []nvml.ProcessInfo{proc(7, 1), proc(9, 1)}
			tc.device(d)
			lacks := map[string]bool{}
			for _, s := range tc.lackings {
				lacks[s], lacks[s+"_v2"], lacks[s+"_v3"] = true, true, true
			}
			r, read := fakeReader(&fakeLib{devices: []*fakeDevice{d}, lacks: lacks})
			read(time.Second)
			g := read(2 * time.Second).GPUs[0]
			procs := g.Procs.Or(nil)
			wantShare(t, "GPU", g.Util, tc.gpu)
			wantShare(t, "process 7", procs[0].SM, tc.seven)
			wantShare(t, "process 9", procs[1].SM, tc.nine)
			if n := r.Notes(); len(n) > 1 || (len(n) == 1) != tc.note {
				t.Errorf("notes: %q", n)
			}
			if g.Fault != "" {
				t.Errorf("faulty: %s", g.Fault)
			}
		})
	}
}

func TestUtilisationIsAskedSinceTheLastSample(t *testing.T) {
	d := gpuOf(1, 0)
	_, read := fakeReader(&fakeLib{devices: []*fakeDevice{d}})
	step := func(now time.Duration, stamp uint64) {
		d.samples, d.sampRet = nil, nvml.ERROR_NOT_FOUND
		if stamp > 0 {
			d.samples, d.sampRet = []nvml.ProcessUtilizationSample{{Pid: 7, TimeStamp: stamp, SmUtil: 5}}, nvml.SUCCESS
		}
		read(now)
	}
	step(10*time.Second, stampAt(9*time.Second))
	step(11*time.Second, stampAt(10500*time.Millisecond))
	step(12*time.Second, stampAt(time.Hour)) // from the future: not believed
	step(13*time.Second, 0)
	step(100*time.Second, 0) // idle for long: the next average must not be thinned
	step(101*time.Second, 0)
	want := []uint64{stampAt(9 * time.Second), stampAt(9 * time.Second), stampAt(10500 * time.Millisecond),
		stampAt(10500 * time.Millisecond), stampAt(10500 * time.Millisecond), stampAt(97 * time.Second)}
	for i, w := range want {
		if d.since[i] != w {
			t.Errorf("look %d asked since %v, want %v", i, int64(d.since[i])-int64(stampAt(0)), int64(w)-int64(stampAt(0)))
		}
	}
}

func TestPartitionedGPU(t *testing.T) {
	parent, a, b := gpuOf(1, 3), gpuOf(2, 0), gpuOf(3, 0)
	a.uuid, b.uuid = "MIG-a", "MIG-b"
	a.procs = []nvml.ProcessInfo{proc(7, gib)}
	parent.mig = []*fakeDevice{a, b}
	r, read := fakeReader(&fakeLib{devices: []*fakeDevice{parent, gpuOf(4, 1)}})
	read(time.Second)
	gpus := read(2 * time.Second).GPUs
	if len(gpus) != 3 || gpus[0].UUID != "MIG-a" || !gpus[0].MIG || gpus[0].Parent != parent.uuid || gpus[0].Minor != -1 || gpus[2].MIG {
		t.Fatalf("GPUs: %+v", gpus)
	}
	wantShare(t, "instance", gpus[0].Util, unknown)
	procs := gpus[0].Procs.Or(nil)
	if len(procs) != 1 {
		t.Fatalf("processes of the instance: %v", procs)
	}
	wantShare(t, "its process", procs[0].SM, unknown)
	wantBytes(t, "its memory", procs[0].Memory, gib)
	if len(a.since)+len(r.Notes()) != 0 {
		t.Error("utilisation of an instance was asked for")
	}
	parent.mig = []*fakeDevice{b, gpuOf(5, 0)} // a new layout
	gpus = read(3 * time.Second).GPUs
	if len(gpus) != 4 || gpus[3].UUID != "MIG-a" || gpus[3].Fault != "device gone" {
		t.Errorf("after a new layout: %+v", gpus)
	}
}

func TestLostGPU(t *testing.T) {
	one, two := gpuOf(1, 0), gpuOf(2, 1)
	_, read := fakeReader(&fakeLib{devices: []*fakeDevice{one, two}})
	read(time.Second)
	for _, ret := range []nvml.Return{nvml.ERROR_GPU_IS_LOST, nvml.ERROR_TIMEOUT, nvml.ERROR_UNKNOWN} {
		one.handle = ret
		gpus := read(2 * time.Second).GPUs
		if len(gpus) != 2 || gpus[0].UUID != one.uuid || gpus[0].Fault == "" || gpus[1].Fault != "" {
			t.Fatalf("%s: %+v", describe(ret), gpus)
		}
		wantBytes(t, "its memory", gpus[0].Total, unknown)
	}
	one.handle = nvml.SUCCESS
	if g := read(3 * time.Second).GPUs[0]; g.Fault != "" {
		t.Errorf("back again, and still %q", g.Fault)
	}
}

func TestResetUnderTheLook(t *testing.T) {
	d := gpuOf(1, 0)
	d.procRet = nvml.ERROR_INVALID_ARGUMENT // the handle has died since it was given
	d.reset = gpuOf(1, 0)
	_, read := fakeReader(&fakeLib{devices: []*fakeDevice{d}})
	g := read(time.Second).GPUs[0]
	if g.Fault != "" || !g.Procs.Known() {
		t.Errorf("%+v", g)
	}
	d.reset.procRet = nvml.ERROR_GPU_IS_LOST
	if g := read(2 * time.Second).GPUs[0]; g.Fault != "lost" || g.Procs.Known() {
		t.Errorf("lost for good: %+v", g)
	}
}

func TestGoneGPUIsForgottenInTheEnd(t *testing.T) {
	lib := &fakeLib{devices: []*fakeDevice{gpuOf(1, 0), gpuOf(2, 1)}}
	r, read := fakeReader(lib)
	read(time.Second)
	lib.devices = lib.devices[:1]
	if gpus := read(2 * time.Second).GPUs; len(gpus) != 2 || gpus[1].Fault != "device gone" {
		t.Errorf("just gone: %+v", gpus)
	}
	if gpus := read(2*time.Second + 2*keepGone).GPUs; len(gpus) != 1 {
		t.Errorf("gone for long: %+v", gpus)
	}
	for i := range 1000 { // a new UUID each time
		lib.devices = []*fakeDevice{gpuOf(i+10, 0)}
		read(3*keepGone + time.Duration(i))
	}
	if len(r.units) > maxGone+2 {
		t.Errorf("%d units are kept", len(r.units))
	}
}

func TestLibraryFaultsAndRecovery(t *testing.T) {
	lib := &fakeLib{init: nvml.ERROR_DRIVER_NOT_LOADED, devices: []*fakeDevice{gpuOf(1, 0)}}
	_, read := fakeReader(lib)
	now := time.Duration(0)
	for range 600 { // a minute at 100 ms
		if got := read(now).Fault; got != "driver not loaded" {
			t.Fatalf("at %s: fault %q", now, got)
		}
		now += 100 * time.Millisecond
	}
	if lib.inits > 10 {
		t.Errorf("%d tries to initialise in a minute", lib.inits)
	}
	lib.init = nvml.SUCCESS
	until := now + lastRetry
	for ; now <= until; now += 100 * time.Millisecond {
		if read(now).Fault == "" {
			break
		}
	}
	if now > until {
		t.Fatal("no recovery")
	}
	inits := lib.inits
	for range 10_000 {
		now += 100 * time.Millisecond
		if got := read(now).Fault; got != "" {
			t.Fatal(got)
		}
	}
	if lib.inits != inits {
		t.Errorf("%d more initialisations while all was well", lib.inits-inits)
	}
	for _, ret := range []nvml.Return{nvml.ERROR_LIB_RM_VERSION_MISMATCH, nvml.ERROR_UNINITIALIZED} {
		lib.count = ret
		if got := read(now).Fault; got != describe(ret) {
			t.Errorf("fault %q, want %q", got, describe(ret))
		}
		lib.count = nvml.SUCCESS
		now += lastRetry + time.Second
		if got := read(now); got.Fault != "" || len(got.GPUs) != 1 {
			t.Errorf("after %s no recovery: %+v", describe(ret), got)
		}
	}
}

func TestLibraryThatIsNotNVML(t *testing.T) {
	lib := &fakeLib{}
	r := newReader("x", lib, func(string) error { return errors.New("x is not NVML") })
	if got := r.Read(0).Fault; got != "x is not NVML" || lib.inits != 0 {
		t.Errorf("fault %q, %d initialisations", got, lib.inits)
	}
	if err := probe("libc.so.6"); err == nil || !strings.Contains(err.Error(), "not NVML") {
		t.Errorf("libc: %v", err)
	}
	if err := probe("/nonexistent/libnvidia-ml.so.1"); err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("no file: %v", err)
	}
}

func TestLibraryWithoutTheFirstFunctions(t *testing.T) {
	_, read := fakeReader(&fakeLib{lacks: map[string]bool{
		"nvmlDeviceGetCount": true, "nvmlDeviceGetCount_v2": true, "nvmlDeviceGetCount_v3": true}})
	if got := read(0).Fault; got != describe(nvml.ERROR_FUNCTION_NOT_FOUND) {
		t.Errorf("fault %q", got)
	}
}
