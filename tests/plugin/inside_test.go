package plugin

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// TestSubmittedFromInside: a job that a packed one submits, its script by standard
// input, has its own options. Of the outer one's it has what sbatch's environment
// gives to any job.
func TestSubmittedFromInside(t *testing.T) {
	s := newSite(t)
	d := s.startDaemon()
	const alone, step = "true", "srun /bin/true"
	for _, tc := range []struct {
		name   string
		env    string   // of the outer job
		outer  []string // its options
		within string   // what runs the inner sbatch
		inner  string   // options of the inner one
		script string   // of the inner one
		steps  int      // of the inner one that are packed
		want   model.Options
	}{
		{"not asked", "", []string{"--gimbal-pack=alpha", "--gimbal-memory=1GiB"}, "", "", step, 0, model.Options{}},
		{"not asked, in a step", "", []string{"--gimbal-pack=alpha"}, "srun --overlap", "", step, 0, model.Options{}},
		{"not asked, in a step of its own", "", []string{"--gimbal-pack=alpha"}, "srun --overlap --gimbal-pack=gamma", "", step, 0, model.Options{}},
		{"not asked, NONE", "", []string{"--gimbal-pack=alpha"}, "", "--export=NONE", step, 0, model.Options{}},
		{"not asked, NIL", "", []string{"--gimbal-pack=alpha"}, "", "--export=NIL", alone, 0, model.Options{}},
		{"its own", "", []string{"--gimbal-pack=alpha", "--gimbal-memory=1GiB", "--gimbal-weight=3"}, "", "--gimbal-pack=beta", step, 2, model.Options{Pack: "beta"}},
		{"its own, NONE", "", []string{"--gimbal-pack=alpha", "--gimbal-memory=1GiB"}, "", "--export=NONE --gimbal-pack=beta --gimbal-memory=2GiB", step, 2, model.Options{Pack: "beta", Memory: "2048MiB"}},
		{"its own, bare", "", []string{"--gimbal-pack=alpha"}, "", "--gimbal-pack", step, 2, model.Options{Pack: "1"}},
		{"its directive", "", []string{"--gimbal-pack=alpha", "--gimbal-memory=1GiB"}, "", "", "#SBATCH --gimbal-pack=beta\\n" + step, 2, model.Options{Pack: "beta"}},
		{"off", "GIMBAL_PACK=alpha", nil, "", "--gimbal-pack=off", step, 0, model.Options{}},
		{"the outer variables", "GIMBAL_PACK=alpha GIMBAL_MEMORY=1GiB", nil, "", "", step, 2, model.Options{Pack: "alpha", Memory: "1024MiB"}},
		{"the outer variables over its directive", "GIMBAL_PACK=alpha", nil, "", "", "#SBATCH --gimbal-pack=beta\\n" + step, 2, model.Options{Pack: "alpha"}},
		{"its own over the outer variables", "GIMBAL_PACK=alpha", nil, "", "--gimbal-pack=beta", step, 2, model.Options{Pack: "beta"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d.t, s.t = t, t
			d.forget()
			note := filepath.Join(s.Out, "inner-"+strings.ReplaceAll(tc.name, " ", "_"))
			script := fmt.Sprintf("#!/bin/bash\nprintf '#!/bin/bash\\n%s\\n' | %s sbatch --parsable -o /dev/null %s >%s\n", tc.script, tc.within, tc.inner, note)
			outer := s.outer(tc.env, tc.outer, script)
			inner := strings.TrimSpace(s.run("cat", note).Stdout)
			s.waitExit0(inner)
			steps := 1 + strings.Count(tc.within, "srun")
			for _, r := range d.registrations(steps + tc.steps) {
				id := strconv.Itoa(int(r.JobID))
				switch {
				case id == outer:
					steps--
				case id != inner || r.Options != tc.want || r.Own:
					t.Errorf("job %s of %s and %s: own %v, %s", id, outer, inner, r.Own, as(r.Options))
				default:
					tc.steps--
				}
			}
			if steps != 0 || tc.steps != 0 {
				t.Errorf("steps missing: %d of the outer job, %d of the inner one; calls: %s", steps, tc.steps, d)
			}
		})
	}
}

// TestGivenIsNotHandedOn: what gimbald sets in a packed job is not in a job that this
// one submits, unless its user set it.
func TestGivenIsNotHandedOn(t *testing.T) {
	s := newSite(t)
	d := s.startDaemon()
	d.env = map[string]string{"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "40", "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.3", "GIMBAL_TEST": "a b=c"}
	note := filepath.Join(s.Out, "given")
	script := fmt.Sprintf("env >%s.outer; printf '#!/bin/bash\\nenv\\n' | sbatch --parsable -o %s.inner >%s", note, note, note)
	s.outer("XLA_PYTHON_CLIENT_MEM_FRACTION=0.9", []string{"--gimbal-pack"}, script)
	s.waitExit0(strings.TrimSpace(s.run("cat", note).Stdout))
	for name, want := range map[string][2]string{ // in the outer job, in the inner one
		"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": {"40", ""}, "GIMBAL_TEST": {"a b=c", ""}, "CUDA_DEVICE_ORDER": {"PCI_BUS_ID", ""},
		"XLA_PYTHON_CLIENT_MEM_FRACTION": {"0.9", "0.9"},
	} {
		for i, of := range []string{".outer", ".inner"} {
			if got := environment(s.run("cat", note+of).Stdout)[name]; got != want[i] {
				t.Errorf("%s: %s=%q, want %q", of, name, got, want[i])
			}
		}
	}
}

// outer submits a job with more environment, and returns its number once it has
// ended well.
func (s *site) outer(env string, options []string, script string) string {
	s.t.Helper()
	args := append(strings.Fields(env), "sbatch", "--parsable", "-o", "/dev/null")
	args = append(append(args, options...), "--wrap", script)
	id := strings.TrimSpace(s.run("env", args...).Stdout)
	s.waitExit0(id)
	return id
}
