package simgpu

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// TestNVMLVariants asks each library for the same three processes in a process
// of its own: go-nvml can be bound to one library only.
func TestNVMLVariants(t *testing.T) {
	if variant, ok := os.LookupEnv("SIMGPU_TEST_VARIANT"); ok {
		probe(t, variant)
		return
	}
	d := Start(t, Options{})
	want := map[uint32]uint64{4000001: 1 << 30, 4000002: 2 << 30, 4000003: 3 << 30}
	d.Ctl("ghost", "pid=4000001", "memory=1GiB")
	d.Ctl("ghost", "pid=4000002", "memory=2GiB")
	d.Ctl("ghost", "pid=4000003", "memory=3GiB")
	for _, c := range []struct {
		variant, symbol string
		right           int // pairs that a reader of 24-byte entries gets right
	}{
		{"", "nvmlDeviceGetComputeRunningProcesses_v3", 3},
		{"v2", "nvmlDeviceGetComputeRunningProcesses_v2", 3},
		{"v1", "nvmlDeviceGetComputeRunningProcesses", 3},
		{"v3-32", "nvmlDeviceGetComputeRunningProcesses_v3", 1},
		{"none", "", 0},
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestNVMLVariants$", "-test.v")
		cmd.Env = append(os.Environ(), "SIMGPU_TEST_VARIANT="+c.variant, "SIMGPU_DIR="+d.Dir)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v\n%s", c.variant, err, out)
		}
		var got answer
		_, line, _ := bytes.Cut(out, []byte("answer: "))
		if err := json.NewDecoder(bytes.NewReader(line)).Decode(&got); err != nil {
			t.Fatalf("%q: %v\n%s", c.variant, err, out)
		}
		right := 0
		for _, p := range got.Processes {
			if memory, ok := want[p.Pid]; ok && memory == p.UsedGpuMemory {
				right++
			}
		}
		if got.Symbol != c.symbol || right != c.right {
			t.Errorf("%q: %+v", c.variant, got)
		}
	}
}

type answer struct {
	Symbol    string
	Processes []nvml.ProcessInfo
}

// probe prints the newest function for the list of processes, and the list.
func probe(t *testing.T, variant string) {
	lib := nvml.New(nvml.WithLibraryPath(NVML(variant)))
	must(t, lib.Init())
	defer func() { must(t, lib.Shutdown()) }()
	var a answer
	for _, suffix := range []string{"_v3", "_v2", ""} {
		name := "nvmlDeviceGetComputeRunningProcesses" + suffix
		if lib.Extensions().LookupSymbol(name) == nil {
			a.Symbol = name
			dev := get[nvml.Device](t)(lib.DeviceGetHandleByIndex(0))
			a.Processes = get[[]nvml.ProcessInfo](t)(dev.GetComputeRunningProcesses())
			break
		}
	}
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("answer: %s\n", text)
}
