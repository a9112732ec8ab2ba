// Package contrib tests what contrib/ holds with the programs that it is for:
// a real slurmctld, dpkg and Prometheus.
package contrib

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/tests/slurmtest"
)

// patience bounds every wait; nothing here takes nearly that long.
const patience = time.Minute

// top is the folder that holds contrib/.
const top = "../.."

// site is a Slurm with two GPUs of 16 shards, the plugin and both scripts.
type site struct {
	*slurmtest.Cluster
	t      *testing.T
	writes int
}

// newSite starts it, with scripts that do nothing.
func newSite(t *testing.T) *site {
	t.Helper()
	slurmtest.Need(t)
	for _, plugin := range []string{"job_submit_lua.so", "cli_filter_lua.so"} {
		found, _ := filepath.Glob("/usr/lib*/*/slurm-wlm/" + plugin)
		if also, _ := filepath.Glob("/usr/lib*/slurm/" + plugin); len(found)+len(also) == 0 {
			t.Skipf("SKIPPED: Slurm's %s is missing", plugin)
		}
	}
	build := exec.Command("make", "-s", "build/gimbal.so", "build/gimbal_core.so")
	build.Dir = top
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the plugin: %v\n%s", err, out)
	}
	plugin, err := filepath.Abs(filepath.Join(top, "build", "gimbal.so"))
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "gimbal-contrib")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, Cluster: &slurmtest.Cluster{Dir: dir}}
	s.idle()
	s.Cluster, err = slurmtest.Up(t.Context(), dir, slurmtest.Options{
		Nodes: 1, GPUs: 2, Shards: 32,
		Plugstack: fmt.Sprintf("optional %s socket=%s/none pending=%s/pending", plugin, dir, dir),
		ConfExtra: []string{
			"JobSubmitPlugins=lua", "CliFilterPlugins=lua",
			"PartitionName=plain Nodes=ALL MaxTime=INFINITE State=UP",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Down(); err != nil {
			t.Error(err)
		}
	})
	s.LogsOnFailure(t)
	return s
}

// idle puts scripts in place that do nothing.
func (s *site) idle() {
	s.t.Helper()
	const nothing = "function %s() return slurm.SUCCESS end\n"
	s.write("job_submit.lua", fmt.Sprintf(nothing+nothing, "slurm_job_submit", "slurm_job_modify"))
	s.write("cli_filter.lua", fmt.Sprintf(nothing+nothing+nothing,
		"slurm_cli_setup_defaults", "slurm_cli_pre_submit", "slurm_cli_post_submit"))
}

// install puts one of our scripts in place of what does nothing, with these
// settings of the site in place of its own.
func (s *site) install(name string, settings map[string]string) {
	s.t.Helper()
	s.idle()
	s.write(name, configured(s.t, name, settings))
}

// configured is a script with settings as an admin would edit them.
func configured(t *testing.T, name string, settings map[string]string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, "contrib", name))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	for key, value := range settings {
		n := 0
		for i, line := range lines {
			if strings.HasPrefix(line, "    "+key+" = ") {
				lines[i] = "    " + key + " = " + value + ","
				n++
			}
		}
		if n != 1 {
			t.Fatalf("%s: %d settings are called %s, want 1", name, n, key)
		}
	}
	return strings.Join(lines, "\n")
}

// write replaces a script. slurmctld reads one again when its time of change
// is later than before, in whole seconds.
func (s *site) write(name, text string) {
	s.t.Helper()
	s.writes++
	path := filepath.Join(s.Dir, name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
	when := time.Now().Add(time.Duration(s.writes) * 10 * time.Second)
	if err := os.Chtimes(path, when, when); err != nil {
		s.t.Fatal(err)
	}
}

// held submits a job that stays pending, and returns its id.
func (s *site) held(t *testing.T, options ...string) int {
	t.Helper()
	return s.Sbatch(t, "true", append(options, "--hold")...)
}

var tres = regexp.MustCompile(`(?:^JobId=\d+|TresPer(?:Node|Job|Task|Socket)=\S+)`)

// requests returns what slurmctld will place for each job: its TresPer fields,
// "" for none.
func (s *site) requests(t *testing.T) map[int]string {
	t.Helper()
	r := s.Run("scontrol", "show", "job", "-o")
	all := map[int]string{}
	for line := range strings.Lines(r.Stdout) {
		words := tres.FindAllString(line, -1)
		if len(words) == 0 {
			continue
		}
		id, err := strconv.Atoi(strings.TrimPrefix(words[0], "JobId="))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		all[id] = strings.Join(words[1:], " ")
	}
	return all
}
