package harness

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// TestWordsOfARegistration: what Slurm says arrives as it was said.
func TestWordsOfARegistration(t *testing.T) {
	d := startDaemon(t)
	// A name that looks like the fields of a stat file that follow it.
	odd := filepath.Join(filepath.Dir(d.socket), "a) S 1 (b")
	data, err := os.ReadFile(sanitized.fake)
	if err == nil {
		err = os.WriteFile(odd, data, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	bin := sanitized
	bin.fake = odd
	for _, name := range []string{"plain", `q"\u0041\\`, "tab\tand\x01\x1f", "é€😀", "</script>&", "\xff\xfe", strings.Repeat("\x02", 1024)} {
		s := bin.script(remote, append(d.args(), "core=/nowhere")...).items().do("jobenv SLURM_JOB_NAME=%s", name).do("jobenv SLURM_JOB_END_TIME=99")
		s.do("hook init").do("ropt gimbal-pack alpha").do("ropt gimbal-deadline uts1795966109").do("hook init_post_opt").do("tasks 1").run(t)
		d.mu.Lock()
		r := d.last
		d.mu.Unlock()
		if want := strings.ToValidUTF8(name, "\ufffd"); r.JobName != want && !strings.Contains(name, "\xff") || r.JobName == "" {
			t.Errorf("name %q, want %q", r.JobName, want)
		}
		if r.JobID != 42 || r.UID != 1000 || r.Tasks != 1 || r.EndTime != 99 || r.Options.Pack != "alpha" || r.Options.Deadline != "1795966109" {
			t.Errorf("%+v", r)
		}
		if r.Proc.Start == 0 || r.Stepd.Start == 0 || r.Proc.Start < r.Stepd.Start || time.Since(time.Unix(0, r.Launched)) > time.Minute {
			t.Errorf("process %+v, slurmstepd %+v, launched %d", r.Proc, r.Stepd, r.Launched)
		}
		if own, err := os.ReadFile("/proc/self/cgroup"); err == nil && r.Cgroup != strings.TrimSuffix(string(own), "\n") {
			t.Errorf("cgroup %q, want %q", r.Cgroup, own)
		}
	}
}

// TestJobWithoutAName: sbatch gives a script that came by standard input no name in
// its environment, and calls the job "sbatch". No other step is called so.
func TestJobWithoutAName(t *testing.T) {
	d := startDaemon(t)
	for _, c := range []struct {
		step       uint32
		name, want string
	}{
		{model.StepBatch, "", "sbatch"}, {model.StepBatch, "mine", "mine"}, {0, "", ""}, {model.StepInteractive, "", ""},
	} {
		s := plain.script(remote, d.args()...).items().do("item %d %d", itemStep, c.step)
		if c.name != "" {
			s.do("jobenv SLURM_JOB_NAME=%s", c.name)
		}
		s.do("hook init").do("ropt gimbal-pack alpha").do("hook init_post_opt").do("tasks 1").do("hook exit").run(t)
		d.mu.Lock()
		if r := d.last; r.StepID != c.step || r.JobName != c.want {
			t.Errorf("step %d, name %q: registered as step %d, %q", c.step, c.name, r.StepID, r.JobName)
		}
		d.mu.Unlock()
	}
}

// TestGPULists: those that Slurm makes, and those that it never should.
func TestGPULists(t *testing.T) {
	d := startDaemon(t)
	lists := map[string][]string{
		"":                          {},
		"0":                         {"0"},
		"1,0,7":                     {"1", "0", "7"},
		"2-4,9":                     {"2", "3", "4", "9"},
		" 1 , 2,":                   {"1", "2"},
		"4-2":                       {"4-2"},
		"0-255":                     numbers(0, 255),
		"0-256":                     {"0-256"},
		"65535-65536":               {"65535-65536"},
		"GPU-1a2b-3c,MIG-4-5":       {"GPU-1a2b-3c", "MIG-4-5"},
		"-1":                        {"-1"},
		"1-":                        {"1-"},
		"1-2-3":                     {"1-2-3"},
		"1- 2":                      {"1- 2"},
		",,,":                       {},
		"18446744073709551616-1":    {"18446744073709551616-1"},
		strings.Repeat("0-255,", 9): slices.Repeat(numbers(0, 255), 9),
	}
	for list, want := range lists {
		s := sanitized.script(remote, append(d.args(), "core=/nowhere")...).items().do("jobenv SLURM_STEP_GPUS=%s", list)
		s.do("hook init").do("ropt gimbal-pack").do("hook init_post_opt").do("tasks 1").run(t)
		d.mu.Lock()
		if got := d.last.GPUs; !slices.Equal(got, want) || got == nil {
			t.Errorf("%q: %q, want %q", list, got, want)
		}
		d.mu.Unlock()
	}
}

func numbers(first, last int) (list []string) {
	for n := first; n <= last; n++ {
		list = append(list, strconv.Itoa(n))
	}
	return list
}

// TestLongestRegistration: the longest values that are taken, each byte of
// which becomes six, fit or are said not to.
func TestLongestRegistration(t *testing.T) {
	d := startDaemon(t)
	names := []string{"SLURM_STEP_GPUS", "CUDA_VISIBLE_DEVICES", "SLURM_JOB_USER", "SLURM_JOB_ACCOUNT", "SLURM_JOB_PARTITION", "SLURM_JOB_NAME"}
	s := sanitized.script(remote, append(d.args(), "core=/nowhere")...).items()
	for _, name := range names {
		s.do("jobenv %s=%s", name, strings.Repeat("\x03", 1024))
	}
	out := s.do("hook init").do("ropt gimbal-pack").do("hook init_post_opt").do("tasks 1").do("hook exit").run(t)
	if got := d.counts(); got != [4]int32{1, 1, 1, 1} {
		t.Errorf("calls %v: %q", got, out)
	}
	ranges := strings.Repeat("0-255,", 170)
	s = sanitized.script(remote, append(d.args(), "core=/nowhere")...).items().do("jobenv SLURM_STEP_GPUS=%s", ranges)
	out = s.do("hook init").do("ropt gimbal-pack").do("hook init_post_opt").do("tasks 1").run(t)
	if said := strings.Join(grep(out, "info: "), "\n"); !strings.Contains(said, "is not registered: Message too long") {
		t.Errorf("said %q", said)
	}
}
