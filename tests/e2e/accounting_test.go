package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gimbal-hpc/gimbal/tests/slurmtest"
)

// recorded is the AdminComment that accounting has of a job.
func (s *Stack) recorded(t *testing.T, job int) string {
	t.Helper()
	r := s.Run("sacct", "-n", "-X", "-P", "-j", fmt.Sprint(job), "-o", "jobid,admincomment")
	_, comment, ok := strings.Cut(strings.TrimSpace(r.Stdout), "|")
	if r.Exit != 0 || !ok {
		t.Logf("sacct: %s", r)
	}
	return comment
}

// Where the admin asks for it, sacct tells how a job was packed, after what
// others have written there.
func TestAdminComment(t *testing.T) {
	slurmtest.NeedAccounting(t)
	s := Start(t, Options{NoDaemon: true, Slurm: slurmtest.Options{Accounting: true}})
	text, err := os.ReadFile(s.ConfigPath())
	if err != nil {
		t.Fatal(err)
	}
	s.write(s.ConfigPath(), fmt.Sprintf("%s\n[slurm]\nconf = %q\nadmin_comment = true\n", text, filepath.Join(s.Cluster.Dir, "slurm.conf")))
	s.StartDaemon()

	packed := []string{"--gres=shard:1", "--gimbal-pack", "--gimbal-memory=1GiB"}
	script := "exec " + Trainer("--memory 512MiB --iterations 80")
	batch := s.Sbatch(t, script, packed...)
	noted := s.Sbatch(t, script, append(packed, "--hold")...)
	kept := s.Sbatch(t, script, append(packed, "--hold")...)
	plain := s.Sbatch(t, "sleep 1")
	for job, words := range map[int]string{noted: "looked at by the admin", kept: "See Ticket 12"} {
		for _, args := range [][]string{{"update", fmt.Sprint("job=", job), "admincomment=" + words}, {"release", fmt.Sprint(job)}} {
			if r := s.Run("scontrol", args...); r.Exit != 0 {
				t.Fatal(r)
			}
		}
	}
	const form = `gimbal: node=\S+ policy=timeslice tenants=1 ran=\d+s paused=\d+s held=\d+s swapped=0s pauses=\d+ swaps=0 gpumem=(\d+)mib$`
	for job, want := range map[int]string{batch: "^" + form, noted: "^looked at by the admin; " + form} {
		pattern := regexp.MustCompile(want)
		var last string
		eventuallyShown(t, fmt.Sprintf("job %d has the comment %s", job, want), &last, func() bool {
			last = s.recorded(t, job)
			m := pattern.FindStringSubmatch(last)
			return m != nil && m[1] != "0"
		})
	}
	Eventually(t, patience, "it is said why one gets none", func() bool { return strings.Contains(s.Log(), "capital letters") })
	if got := s.recorded(t, kept); got != "See Ticket 12" {
		t.Errorf("the admin's words are now %q", got)
	}
	s.WaitDone(t, plain, patience)
	if got := s.recorded(t, plain); got != "" {
		t.Errorf("a job that is not packed has the comment %q", got)
	}
}
