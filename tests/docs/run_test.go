package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/tests/e2e"
	"github.com/gimbal-hpc/gimbal/tests/slurmtest"
)

// fakePython makes a folder in which python is a short training job.
func fakePython(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "gimbal-docs-python-") // t.TempDir is root's alone
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	script := "#!/bin/sh\nexec " + e2e.Trainer("--memory 2GiB --seconds 1") + "\n"
	if err := os.WriteFile(filepath.Join(dir, "python"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestScriptsRun submits every job script of the pages to a real Slurm, and
// then runs the commands that the pages show on one of these jobs.
func TestScriptsRun(t *testing.T) {
	slurmtest.Need(t)
	s := e2e.Start(t, e2e.Options{Policy: "together", Slurm: slurmtest.Options{
		Shards: 16, Env: []string{"PATH=" + fakePython(t) + ":" + os.Getenv("PATH")},
	}})
	jobs := map[int]block{}
	for _, b := range allBlocks(t) {
		if b.lang == "bash" && strings.HasPrefix(b.text, "#!") {
			jobs[s.Sbatch(t, b.text)] = b
		}
	}
	if len(jobs) < 4 {
		t.Fatalf("only %d job scripts were found", len(jobs))
	}
	id := 0
	for job, b := range jobs {
		if j := s.WaitDone(t, job, 2*time.Minute); j.State != "COMPLETED" {
			t.Errorf("%s: the job is %s: %s", b, j.State, s.JobOutput(t, job))
		}
		if out := s.Gimbal("status", "-n", "-P", "-j", strconv.Itoa(job)); !strings.Contains(out.Stdout, "COMPLETED") {
			t.Errorf("%s: the job was not packed: %s", b, out)
		}
		id = job
	}
	runCommands(t, s, id)
}

// harmless are the commands that only show something. (--self and --all-nodes
// want a job that still runs.)
var harmless = regexp.MustCompile(`^gimbal ((?:status|explain|timeline|policies)(?: [^#]*|$))`)

// runCommands runs the pages' command lines that only show something.
func runCommands(t *testing.T, s *e2e.Stack, job int) {
	t.Helper()
	seen := map[string]bool{}
	for _, b := range allBlocks(t) {
		for _, line := range strings.Split(b.text, "\n") {
			m := harmless.FindStringSubmatch(line)
			if m == nil || regexp.MustCompile(`\.toml|\bFILE|\bNAME|--self|--all-nodes`).MatchString(m[1]) {
				continue
			}
			args := strings.Fields(strings.ReplaceAll(m[1], "1234", fmt.Sprint(job)))
			seen[m[1]] = true
			run := s.Gimbal
			if args[0] == "policies" {
				run = func(args ...string) slurmtest.Result {
					return s.Run(e2e.Built("gimbal"), append([]string{args[0], "--config", s.ConfigPath()}, args[1:]...)...)
				}
			}
			if r := run(args...); r.Exit != 0 || r.Stdout == "" {
				t.Errorf("%s: gimbal %s: %s", b, m[1], r)
			}
		}
	}
	if len(seen) < 8 {
		t.Errorf("only %d commands were found", len(seen))
	}
}
