package gpu

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// board has its GPUs in another order than their minor numbers.
func board(minors ...int) []model.GPU {
	uuids := []string{"GPU-aaaa1111-0000", "GPU-aaaa2222-0000", "GPU-bbbb3333-0000", "GPU-cccc4444-0000"}
	var out []model.GPU
	for i, m := range minors {
		out = append(out, model.GPU{UUID: uuids[i], Index: i, Minor: m})
	}
	return out
}

func TestResolve(t *testing.T) {
	const a1, a2, b3, c4 = "GPU-aaaa1111-0000", "GPU-aaaa2222-0000", "GPU-bbbb3333-0000", "GPU-cccc4444-0000"
	mixed, straight := board(6, 4, 0, 2), board(0, 1, 2, 3)
	mig := []model.GPU{{UUID: "MIG-one-1", Minor: -1, MIG: true}, {UUID: "MIG-two-2", Minor: -1, MIG: true}}
	for name, tc := range map[string]struct {
		gpus    string
		visible string
		known   []model.GPU
		want    string // "": an error; "-": none
	}{
		"a minor number":                        {"0", "", mixed, b3},
		"two, in the driver's order":            {"2,6", "", mixed, a1 + " " + c4},
		"renumbered inside the job":             {"6", "0", mixed, a1},
		"one of two":                            {"0,2", "1", mixed, b3 + " " + c4},
		"the task hides all":                    {"0", "-1", mixed, b3},
		"no device files":                       {"0", "NoDevFiles", mixed, b3},
		"a UUID":                                {a2, "", mixed, a2},
		"two UUIDs":                             {b3 + "," + a1, a1 + "," + b3, mixed, a1 + " " + b3},
		"a prefix":                              {"GPU-bb", "", mixed, b3},
		"a prefix of any case":                  {"gpu-BBBB", "", mixed, b3},
		"number and UUID agree":                 {"6", a1, mixed, a1},
		"number and prefix agree":               {"6,0", "GPU-bbbb", mixed, a1 + " " + b3},
		"twice the same":                        {"6," + a1, "", mixed, a1},
		"a UUID in CUDA's variable only":        {"", "GPU-cccc4444-0000", mixed, c4},
		"two prefixes in CUDA's variable only":  {"", "GPU-cccc,GPU-bbbb", mixed, b3 + " " + c4},
		"a number in CUDA's only, one order":    {"", "2,3", straight, b3 + " " + c4},
		"a number in CUDA's only, two orders":   {"", "0", mixed, ""},
		"instances, by CUDA's variable":         {"0", "MIG-two-2", mig, "MIG-two-2"},
		"instances, by UUID":                    {"MIG-one", "", mig, "MIG-one-1"},
		"instances by number alone":             {"0", "0", mig, ""},
		"a UUID that Slurm did not give":        {"6", a2, mixed, ""},
		"more than Slurm gave":                  {"6", "0,1", mixed, ""},
		"a minor that is not there":             {"1", "", mixed, ""},
		"negative":                              {"-1", "", mixed, ""},
		"a UUID that is not there":              {"GPU-dddd", "", mixed, ""},
		"a UUID in CUDA's that is not there":    {"6", "GPU-dddd", mixed, ""},
		"a prefix of two":                       {"GPU-aaaa", "", mixed, ""},
		"a prefix of all":                       {"GPU-", "", mixed, ""},
		"something else":                        {"nvidia0", "", mixed, ""},
		"nothing at all":                        {"", "", mixed, "-"},
		"no GPU known":                          {"0", "", nil, ""},
		"a whole UUID that begins another's":    {"GPU-x", "", []model.GPU{{UUID: "GPU-xy"}, {UUID: "GPU-x"}}, "GPU-x"},
		"spaces and empty parts do not disturb": {" 6 ,,", "", mixed, a1},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Resolve(strings.Split(tc.gpus, ","), tc.visible, tc.known)
			var want []string
			if tc.want != "-" {
				want = strings.Fields(tc.want)
			}
			if (err != nil) != (tc.want == "") || !slices.Equal(got, want) && err == nil {
				t.Errorf("%q, %v; want %q", got, err, want)
			}
			if errors.Is(err, ErrNoneKnown) != (tc.known == nil) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func FuzzResolve(f *testing.F) {
	f.Add("0,2", "GPU-aaaa")
	f.Add("GPU-aaaa1111-0000", "0")
	f.Add("", "NoDevFiles")
	known := board(6, 4, 0, 2)
	f.Fuzz(func(t *testing.T, gpus, visible string) {
		got, err := Resolve(strings.Split(gpus, ","), visible, known)
		if err != nil {
			return
		}
		for i, uuid := range got {
			if !slices.ContainsFunc(known, func(g model.GPU) bool { return g.UUID == uuid }) || slices.Contains(got[:i], uuid) {
				t.Errorf("%q, %q → %q", gpus, visible, got)
			}
		}
	})
}
