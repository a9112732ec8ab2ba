package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestJobNamesAreSlurms: however a job came to its name, status shows the one that
// Slurm does.
func TestJobNamesAreSlurms(t *testing.T) {
	s := Start(t, Options{Policy: "together"})
	file := filepath.Join(s.Dir, "my script.sh")
	s.write(file, "#!/bin/sh\nexec sleep 600\n")
	if err := os.Chmod(file, 0o755); err != nil {
		t.Fatal(err)
	}
	options := []string{oneShard, "--gimbal-pack", "--gimbal-memory=1MiB"}
	submit := func(more ...string) int {
		r := s.Run("sbatch", append(append([]string{"--parsable"}, options...), more...)...)
		var job int
		if _, err := fmt.Sscan(r.Stdout, &job); err != nil || r.Exit != 0 {
			t.Fatalf("sbatch %q: %v", more, r)
		}
		return job
	}
	for how, job := range map[string]int{
		"standard input":             s.Sbatch(t, "exec sleep 600", options...),
		"standard input, and a name": s.Sbatch(t, "exec sleep 600", append(options, "--job-name=a b|c")...),
		"--wrap":                     submit("--wrap=exec sleep 600"),
		"a file":                     submit(file),
		"a file, --export=NONE":      submit("--export=NONE", file),
	} {
		s.WaitTenant(job, patience, "RUNNING")
		want := strings.TrimSuffix(s.Run("squeue", "-h", "-o", "%j", "-j", fmt.Sprint(job)).Stdout, "\n")
		if got := s.tenant(t, fmt.Sprint(job)).Reg.JobName; got != want || got == "" {
			t.Errorf("%s: called %q, by Slurm %q", how, got, want)
		}
		s.scancel(t, job)
	}
}
