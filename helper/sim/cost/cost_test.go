package cost

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gimbal-hpc/gimbal/helper/sim"
)

func TestRead(t *testing.T) {
	c, err := Read(strings.NewReader("num_gpu,model,overhead_s,pause_s\n4,bert,10,0.5\n,*,3,\n"), "costs.csv")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []struct {
		model          string
		gpus           int
		restart, pause float64
	}{{"bert", 4, 10, 0.5}, {"bert", 8, 3, 0}, {"vgg", 1, 3, 0}} {
		if r, p := c.Restart.At(k.model, k.gpus), c.Pause.At(k.model, k.gpus); r != k.restart || p != k.pause {
			t.Errorf("%s on %d GPUs: restart %v, pause %v; want %v and %v", k.model, k.gpus, r, p, k.restart, k.pause)
		}
	}
	if c.EveryMoment {
		t.Error("a table of costs is paid at starts, not at every moment")
	}
}

func TestReadRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                                  "costs.csv:1: the file is empty",
		"model,num_gpu\nbert,1\n":                           `costs.csv:1: column "overhead_s" is missing`,
		"model,num_gpu,overhead_s\n":                        "no rows",
		"model,num_gpu,overhead_s\nbert,1,NaN\n":            `costs.csv:2:8: overhead_s: "NaN" is not a number`,
		"model,num_gpu,overhead_s\nbert,1,-1\n":             "costs.csv:2:8: overhead_s: -1 is not between",
		"model,num_gpu,overhead_s\nbert,x,1\n":              `costs.csv:2:6: num_gpu: "x" is not a number`,
		"model,num_gpu,overhead_s\nbert,1,1\nbert,1,2\n":    "costs.csv:3:1: model: bert on 1 GPUs is there twice",
		"model,num_gpu,overhead_s,pause_s\nbert,1,1,soon\n": `costs.csv:2:10: pause_s: "soon" is not a number`,
	} {
		if _, err := Read(strings.NewReader(text), "costs.csv"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
}

// TestMuri compares the restart times that are built in with the published
// table.
func TestMuri(t *testing.T) {
	const path = "../../../../shared/data/muri_restart_overheads.csv"
	f, err := os.Open(path)
	if err != nil {
		t.Skipf("SKIPPED, NOT CHECKED: %v", err)
	}
	defer f.Close()
	want, err := Read(f, path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.Restart.By, sim.MuriCost().Restart.By); diff != "" {
		t.Errorf("restart times (-published +built in):\n%s", diff)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("num_gpu,model,overhead_s\n1,vgg16,7\n,*,2\n")
	f.Add("num_gpu,model,overhead_s,pause_s\n1,\"vgg\n16\",7,1e-3\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Read(strings.NewReader(text), "costs.csv")
		if err != nil {
			return
		}
		for k, v := range c.Restart.By {
			if !(v >= 0 && v <= maxSeconds) || k.GPUs < 1 {
				t.Fatalf("%q gives %v for %v", text, v, k)
			}
		}
	})
}
