package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/tests/slurmtest"
)

// TestStatusAsSacct: of jobs of two users, an array, a het job and one with steps,
// gimbal status selects and lists what sacct itself does, for the same command line;
// and who is an operator of Slurm's gives orders to the jobs of others.
func TestStatusAsSacct(t *testing.T) {
	slurmtest.NeedAccounting(t)
	s := Start(t, Options{NoDaemon: true, Policy: "together", Slurm: slurmtest.Options{Nodes: 2, Accounting: true, Shards: 16}}) // a het job wants a node for each part
	text, err := os.ReadFile(s.ConfigPath())
	if err != nil {
		t.Fatal(err)
	}
	s.write(s.ConfigPath(), fmt.Sprintf("%s\n[slurm]\nconf = %q\n", text, filepath.Join(s.Cluster.Dir, "slurm.conf")))
	s.StartDaemon()
	begin := time.Now().Add(-time.Second).Format("2006-01-02T15:04:05")

	packed := []string{oneShard, "--gimbal-pack", "--gimbal-memory=1GiB"}
	short := Trainer("--memory 256MiB --seconds 0.3")
	array := s.Sbatch(t, short, append(packed, "--array=1-3", "--job-name=array")...)
	steps := s.Sbatch(t, "srun --overlap "+short+"\nsrun --overlap true", append(packed, "--job-name=steps")...)
	failed := s.Sbatch(t, short+"\nexit 3", append(packed, "--job-name=fails", "--uid=65534", "--gid=65534")...)
	het := s.Sbatch(t, "#!/bin/bash\n#SBATCH --gimbal-pack -n1\n#SBATCH hetjob\n#SBATCH -n1\nsrun --het-group=0,1 /bin/true\n", "--job-name=het")
	for _, job := range []int{array, steps, failed, het} {
		s.WaitDone(t, job, patience) // only the backfill scheduler starts het jobs
	}
	states := []string{"-a", "-n", "-X", "-P", "-o", "State"}
	ended := func(r slurmtest.Result) bool {
		return strings.Count(r.Stdout, "COMPLETED\n") == 6 && strings.Count(r.Stdout, "FAILED\n") == 1
	}
	Eventually(t, patience, "accounting and gimbald know that they have ended", func() bool {
		return ended(s.Run("sacct", states...)) && ended(s.Gimbal(append([]string{"status"}, states...)...))
	})
	for _, line := range []string{
		"-a", "-a -X", "-a -S now-1hours", "-a -S now-2hours -E now-1hours", "-a -S {begin}", "-a -S now+1minutes -E now+2minutes",
		"-j {array}", "-j {array} -X", "-j {array}_2", "-j {array}_1,{array}_3", "-j {array}_2.batch", "-j {het}", "-j {het}+0", "-j {het}+1",
		"-j {steps}.0", "-j {steps}.batch,{steps}.1", "-j {steps},{fails}", "-j {array}_1,{steps}.0,{het}+1",
		"-u nobody", "-u root", "-u root,nobody -X", "-u 65534", "-g 65534 -X",
		"-a -s F -S {begin} -E now", "-a -s CD,F -S {begin} -E now -X", "-a -s cd -S {begin} -E now", "-j {steps},{fails} -s F",
		"-a -s TO -S {begin} -E now", "-a --name=steps,fails -X", "-a --name=none",
	} {
		line = strings.NewReplacer("{array}", fmt.Sprint(array), "{het}", fmt.Sprint(het), "{steps}", fmt.Sprint(steps),
			"{fails}", fmt.Sprint(failed), "{begin}", begin).Replace(line)
		s.sameAsSacct(t, strings.Fields(line)...)
	}
	s.testOperator(t, packed)
}

// sameAsSacct compares the rows of both programs for a command line.
func (s *Stack) sameAsSacct(t *testing.T, args ...string) {
	t.Helper()
	columns := []string{"-n", "-P", "-o", "JobID,State,ExitCode"}
	rows := func(r slurmtest.Result) []string {
		out := strings.Split(strings.TrimSpace(r.Stdout), "\n")
		slices.Sort(out)
		return slices.DeleteFunc(out, func(l string) bool { return strings.Contains(l, ".extern|") })
	}
	theirs, ours := s.Run("sacct", append(args, columns...)...), s.Gimbal(append(append([]string{"status"}, args...), columns...)...)
	if theirs.Exit != ours.Exit || !slices.Equal(rows(theirs), rows(ours)) {
		t.Errorf("%q: sacct %s\n%s\ngimbal status %s\n%s", args, strings.TrimSpace(theirs.Stderr), strings.Join(rows(theirs), "\n"),
			strings.TrimSpace(ours.Stderr), strings.Join(rows(ours), "\n"))
	}
}

// testOperator has a user of Slurm's give an order before and after he is an operator.
func (s *Stack) testOperator(t *testing.T, packed []string) {
	gimbal := filepath.Join(s.Out, "gimbal") // where every user can reach it
	if r := s.Run("cp", Built("gimbal"), gimbal); r.Exit != 0 {
		t.Fatal(r)
	}
	job := s.Sbatch(t, Trainer("--memory 256MiB"), packed...)
	s.WaitTenant(job, patience, "RUNNING")
	notify := func(uid int) slurmtest.Result {
		return s.RunAs(uid, uid, gimbal, "notify", "--socket", s.Socket(), fmt.Sprint(job))
	}
	if r := notify(65534); r.Exit != 1 || !strings.Contains(r.Stderr, "denied") {
		t.Errorf("somebody else: %s", r)
	}
	for _, args := range [][]string{{"add", "account", "lab"}, {"add", "user", "daemon", "account=lab", "adminlevel=Operator"}} {
		if r := s.Run("sacctmgr", append([]string{"--immediate"}, args...)...); r.Exit != 0 {
			t.Fatalf("sacctmgr %q: %s", args, r)
		}
	}
	if r := notify(1); r.Exit != 0 || !strings.Contains(r.Stdout, "notify ordered") { // daemon is user 1
		t.Errorf("an operator of Slurm's: %s", r)
	}
	s.scancel(t, job)
	s.WaitDone(t, job, patience)
}
