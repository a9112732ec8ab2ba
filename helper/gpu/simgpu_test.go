package gpu

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/tests/simgpu"
)

// childVar names the library that a child of the test binary reads. The
// bindings stay with the first library that a process loads, so each variant
// needs a process of its own.
const childVar = "GIMBAL_TEST_NVML"

func TestMain(m *testing.M) {
	if lib := os.Getenv(childVar); lib != "" {
		os.Exit(readOnce(lib))
	}
	if err := simgpu.Build(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// shown is what a child prints.
type shown struct {
	Report model.GPUReport
	Procs  map[string]model.Reading[map[int]model.Reading[model.Bytes]]
	Notes  []string
}

func readOnce(lib string) int {
	r := Open(lib)
	defer r.Close()
	r.Read(time.Second)
	s := shown{Report: r.Read(2 * time.Second), Procs: map[string]model.Reading[map[int]model.Reading[model.Bytes]]{}, Notes: r.Notes()}
	for _, g := range s.Report.GPUs {
		procs, ok := g.Procs.Get()
		if !ok {
			continue
		}
		m := map[int]model.Reading[model.Bytes]{}
		for _, p := range procs {
			m[p.PID] = p.Memory
		}
		s.Procs[g.UUID] = model.Known(m)
	}
	if err := json.NewEncoder(os.Stdout).Encode(s); err != nil {
		return 1
	}
	return 0
}

// inChild reads a library in a process of its own.
func inChild(t *testing.T, d *simgpu.Device, lib string) shown {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), d.Env()...), childVar+"="+lib)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("read %s: %v", lib, err)
	}
	var s shown
	if err := json.Unmarshal(out, &s); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return s
}

// open reads the device in this process.
func open(t *testing.T, d *simgpu.Device) *Reader {
	t.Helper()
	t.Setenv("SIMGPU_DIR", d.Dir)
	r := Open(simgpu.NVML(""))
	t.Cleanup(r.Close)
	return r
}

// NV-03: whatever the age of the driver, the processes are right or unknown.
func TestProcessListsOfAllDrivers(t *testing.T) {
	d := simgpu.Start(t, simgpu.Options{Memory: "16GiB", Reserved: "300MiB"})
	sizes := map[int]int64{4001: 1 << 30, 4002: 2 << 30, 4003: 3 << 30}
	for pid, size := range sizes {
		d.Ctl("ghost", fmt.Sprintf("pid=%d", pid), fmt.Sprintf("memory=%d", size))
	}
	for variant, right := range map[string]bool{"": true, "v1": true, "v2": true, "v3-32": false, "none": false} {
		t.Run("variant "+variant, func(t *testing.T) {
			s := inChild(t, d, simgpu.NVML(variant))
			if s.Report.Fault != "" || len(s.Report.GPUs) != 1 {
				t.Fatalf("report %+v", s.Report)
			}
			procs, known := s.Procs[s.Report.GPUs[0].UUID].Get()
			if known != right || right && len(procs) != len(sizes) {
				t.Fatalf("processes %v (known %v)", procs, known)
			}
			for pid, m := range procs {
				wantBytes(t, fmt.Sprint("pid ", pid), m, sizes[pid])
			}
			if len(s.Notes) > 1 {
				t.Errorf("notes %q", s.Notes)
			}
		})
	}
}

// ME-03, NV-09: reserved memory is nobody's, minors are not indices.
func TestFactsOfAnIdleNode(t *testing.T) {
	d := simgpu.Start(t, simgpu.Options{GPUs: 4, Memory: "80GiB", Reserved: "600MiB", Minors: "6,4,0,2"})
	r := open(t, d)
	report := r.Read(time.Second)
	if report.Fault != "" || len(report.GPUs) != 4 {
		t.Fatalf("%+v", report)
	}
	state := d.Show()
	for i, g := range report.GPUs {
		if g.Index != i || g.Minor != []int{6, 4, 0, 2}[i] || g.UUID != state.GPUs[i].UUID || g.Name == "" || g.Capability != 90 || g.MIG || g.Fault != "" {
			t.Errorf("GPU %d: %+v", i, g)
		}
		wantBytes(t, "total", g.Total, 80<<30)
		wantBytes(t, "reserved", g.Reserved, 600<<20)
		wantBytes(t, "used", g.Used, 0)
		wantShare(t, "utilisation", g.Util, 0)
	}
	got, err := Resolve([]string{"0"}, "0", report.GPUs)
	if err != nil || len(got) != 1 || got[0] != state.GPUs[2].UUID {
		t.Errorf("Slurm's GPU 0: %q, %v", got, err)
	}
}

// NV-01, NV-11: an idle GPU is no error, and polling costs nothing that stays.
func TestPollingAnIdleGPU(t *testing.T) {
	d := simgpu.Start(t, simgpu.Options{GPUs: 2})
	r := open(t, d)
	r.Read(0)
	before := openFiles(t)
	for i := range 10_000 {
		if rep := r.Read(time.Duration(i) * time.Second); rep.Fault != "" || len(rep.GPUs) != 2 {
			t.Fatalf("look %d: %+v", i, rep)
		}
	}
	if n := r.Notes(); len(n) > 0 {
		t.Errorf("notes %q", n)
	}
	if after := openFiles(t); after > before {
		t.Errorf("open files: %d before, %d after", before, after)
	}
	if inits := d.Show().Inits; inits != 1 {
		t.Errorf("initialised %d times", inits)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	e, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(e)
}

// NV-05: what an instance does not tell is unknown, never zero.
func TestInstances(t *testing.T) {
	d := simgpu.Start(t, simgpu.Options{GPUs: 1, MIG: 2})
	r := open(t, d)
	gpus := r.Read(time.Second).GPUs
	if len(gpus) != 2 {
		t.Fatalf("%+v", gpus)
	}
	for _, g := range gpus {
		if !g.MIG || g.Parent == "" || g.Fault != "" || !g.Total.Known() || !g.Procs.Known() {
			t.Errorf("%+v", g)
		}
		wantShare(t, "utilisation", g.Util, unknown)
	}
	if n := r.Notes(); len(n) > 0 {
		t.Errorf("notes %q", n)
	}
}

// A process that computes is seen, with its memory and its share of time.
func TestTrainer(t *testing.T) {
	d := simgpu.Start(t, simgpu.Options{Memory: "16GiB", Reserved: "300MiB"})
	r := open(t, d)
	cmd := d.Trainer("one", "--memory", "2GiB", "--iterations", "100000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d.WaitClients(1)
	var last model.GPU
	await(t, "the trainer to compute", func() bool {
		last = r.Read(time.Duration(time.Now().UnixNano())).GPUs[0]
		procs := last.Procs.Or(nil)
		return len(procs) == 1 && procs[0].PID == cmd.Process.Pid && procs[0].Memory.Or(0) >= 2<<30 &&
			procs[0].SM.Or(0) > 0 && last.Util.Or(0) > 0
	})
	if used := last.Used.Or(0); used < 2<<30 || used > 3<<30 {
		t.Errorf("used %s", used)
	}
	d.Ctl("set", "process-util=garbage")
	await(t, "garbage to count as unknown", func() bool {
		procs := r.Read(time.Duration(time.Now().UnixNano())).GPUs[0].Procs.Or(nil)
		return len(procs) == 1 && !procs[0].SM.Known()
	})
	d.Ctl("set", "process-memory=not-available")
	procs := r.Read(time.Duration(time.Now().UnixNano())).GPUs[0].Procs.Or(nil)
	wantBytes(t, "memory that is not available", procs[0].Memory, unknown)
}

// NV-07: a mismatch is the report's fault, and passes without a restart.
func TestMismatchAndRecovery(t *testing.T) {
	d := simgpu.Start(t, simgpu.Options{})
	r := open(t, d)
	if rep := r.Read(0); rep.Fault != "" {
		t.Fatal(rep.Fault)
	}
	d.Ctl("set", "driver=mismatch")
	for i := range 100 {
		if rep := r.Read(time.Duration(i) * 100 * time.Millisecond); rep.Fault != "driver/library version mismatch" {
			t.Fatalf("look %d: %q", i, rep.Fault)
		}
	}
	d.Ctl("set", "driver=ok")
	if rep := r.Read(time.Minute); rep.Fault != "" || len(rep.GPUs) != 1 {
		t.Errorf("after recovery: %+v", rep)
	}
	if n := d.Show().Inits; n != 2 {
		t.Errorf("initialised %d times", n)
	}
}

// The daemon may start before the driver does.
func TestDriverThatComesLater(t *testing.T) {
	t.Setenv("SIMGPU_DIR", t.TempDir())
	r := Open(simgpu.NVML(""))
	t.Cleanup(r.Close)
	if rep := r.Read(0); rep.Fault != "driver not loaded" {
		t.Errorf("without a driver: %q", rep.Fault)
	}
	d := simgpu.Start(t, simgpu.Options{})
	t.Setenv("SIMGPU_DIR", d.Dir)
	if rep := r.Read(time.Minute); rep.Fault != "" || len(rep.GPUs) != 1 {
		t.Errorf("with one: %+v", rep)
	}
	none := Open("/nonexistent/libnvidia-ml.so.1")
	if rep := none.Read(0); !strings.HasPrefix(rep.Fault, "driver library not found") {
		t.Errorf("without a library: %q", rep.Fault)
	}
}

// NV-12: GPUs that go and come back, and instances that are made anew.
func TestGPUsThatComeAndGo(t *testing.T) {
	d := simgpu.Start(t, simgpu.Options{GPUs: 2})
	r := open(t, d)
	uuids := []string{r.Read(0).GPUs[0].UUID, r.Read(0).GPUs[1].UUID}
	d.Ctl("set", "present=no", "gpu=0")
	d.Ctl("set", "present=no", "gpu=1")
	gone := r.Read(time.Second)
	if gone.Fault != "" || len(gone.GPUs) != 2 || gone.GPUs[0].Fault != "device gone" || gone.GPUs[1].Fault != "device gone" {
		t.Fatalf("without a GPU: %+v", gone)
	}
	d.Ctl("set", "present=yes", "gpu=0")
	d.Ctl("set", "present=yes", "gpu=1")
	d.Ctl("set", "uuid=GPU-another", "gpu=1")
	back := r.Read(2 * time.Second)
	faults := map[string]string{}
	for _, g := range back.GPUs {
		faults[g.UUID] = g.Fault
	}
	want := map[string]string{uuids[0]: "", "GPU-another": "", uuids[1]: "device gone"}
	for uuid, f := range want {
		if got, ok := faults[uuid]; !ok || got != f {
			t.Errorf("%s: fault %q (shown %v), want %q", uuid, got, ok, f)
		}
	}
	d.Ctl("set", "lost=yes", "gpu=0")
	if g := r.Read(3 * time.Second).GPUs[0]; g.UUID != uuids[0] || g.Fault != "lost" {
		t.Errorf("a lost GPU: %+v", g)
	}
}

// A driver that hangs stops nobody who asks.
func TestDriverThatHangs(t *testing.T) {
	defer goleak.VerifyNone(t)
	d := simgpu.Start(t, simgpu.Options{})
	t.Setenv("SIMGPU_DIR", d.Dir)
	clock := &monotonic{start: time.Now()}
	s := Watch(Open(simgpu.NVML("")), 5*time.Millisecond, clock.now)
	await(t, "a report", func() bool { r, ok := s.Report(time.Minute); return ok && len(r.GPUs) == 1 })
	d.Ctl("set", "hang=60s")
	await(t, "the hang to be told", func() bool {
		r, _ := s.Report(100 * time.Millisecond)
		return strings.Contains(r.Fault, "not answered")
	})
	d.Ctl("set", "hang=0s")
	await(t, "the driver to answer again", func() bool { r, ok := s.Report(time.Minute); return ok && r.Fault == "" && s.Age() < time.Second })
	if err := s.Close(10 * time.Second); err != nil {
		t.Error(err)
	}
	d.Stop()
}
