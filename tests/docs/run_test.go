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

// TestExamplesRun submits every job script of the pages to a real Slurm, and runs
// the command lines that the pages show, on a job that runs and on what the scripts
// left.
func TestExamplesRun(t *testing.T) {
	slurmtest.NeedAccounting(t)
	s := e2e.Start(t, e2e.Options{Policy: "together", Config: "[run]\nallow = \"yes\"\n", Slurm: slurmtest.Options{
		Shards: 16, Accounting: true, Env: []string{"PATH=" + fakePython(t) + ":" + os.Getenv("PATH")},
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
	for job, b := range jobs {
		if j := s.WaitDone(t, job, 2*time.Minute); j.State != "COMPLETED" {
			t.Errorf("%s: the job is %s: %s", b, j.State, s.JobOutput(t, job))
		}
		if out := s.Gimbal("status", "-n", "-P", "-j", strconv.Itoa(job)); !strings.Contains(out.Stdout, "COMPLETED") {
			t.Errorf("%s: the job was not packed: %s", b, out)
		}
	}
	job := s.Sbatch(t, e2e.Trainer("--memory 2GiB --seconds 600 --notify USR1:/dev/null"), "--job-name=resnet", "--gres=shard:2", "--gimbal-pack", "--gimbal-memory=2GiB")
	s.WaitTenant(job, 30*time.Second, "RUNNING")
	runLines(t, s, newDesk(t, s, job))
}

var (
	// shown are the command lines that somebody types; what is in capitals stands for
	// something.
	shown       = regexp.MustCompile(`^(?:gimbal [a-z]+(?: |$)|gimbald --check|srun --jobid|sacct )`)
	placeholder = regexp.MustCompile(`\b(?:FILE|NAME|JOB|COMMAND)\b`)
	comment     = regexp.MustCompile(` +#.*`)
)

// lines are the pages' command lines, those last that end a job.
func lines(t *testing.T) []block {
	t.Helper()
	var first, last []block
	seen := map[string]bool{}
	for _, b := range allBlocks(t) {
		text := strings.Split(strings.ReplaceAll(b.text, "\\\n", " "), "\n")
		for _, line := range text {
			line = strings.TrimSpace(comment.ReplaceAllString(line, ""))
			if !shown.MatchString(line) || placeholder.MatchString(line) || line == "gimbal timeline: who computed when" || seen[line] {
				continue
			}
			seen[line] = true
			one := block{page: b.page, line: b.line, text: line}
			if strings.HasPrefix(line, "gimbal evict") {
				last = append(last, one)
			} else {
				first = append(first, one)
			}
		}
	}
	return append(first, last...)
}

// desk is the folder in which somebody types them, with the files that they name.
type desk struct {
	dir string
	job int
	csv map[string]string // the job history that each page shows
	put *strings.Replacer // what is elsewhere here
}

func newDesk(t *testing.T, s *e2e.Stack, job int) desk {
	t.Helper()
	d := desk{dir: t.TempDir(), job: job, csv: map[string]string{}}
	d.put = strings.NewReplacer("1234", strconv.Itoa(job), "/etc/gimbal/policies.d/", "", "/var/lib/gimbal", filepath.Join(s.Dir, "state"),
		"/run/gimbal/%n/gimbald.sock", s.Socket(), "-S 2025-10-01 -E 2025-11-01", "-S today", ">jobs.txt", ">all.txt",
		"gimbal status --self", fmt.Sprintf("srun --jobid=%d --overlap --gimbal-pack=off gimbal status --self", job))
	write := func(name, text string, mode os.FileMode) {
		if err := os.WriteFile(filepath.Join(d.dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, b := range allBlocks(t) {
		switch {
		case b.lang == "csv":
			d.csv[b.page] = b.text
		case strings.Contains(b.text, "name      = \"course\""):
			write("course.toml", b.text, 0o600)
			write("night.toml", strings.Replace(b.text, "course", "night", 1), 0o600)
		case strings.Contains(b.text, "name      = \"peruser\""):
			write("peruser.toml", b.text, 0o600)
		}
	}
	sacct := s.Run("sacct", "-P", "-a", "-X", "-o", "JobID,User,JobName,Submit,ElapsedRaw,Timelimit,NNodes,State,AllocTRES")
	write("jobs.txt", strings.ReplaceAll(sacct.Stdout, "billing=", "gres/gpu=1,billing="), 0o600) // this cluster accounts no GPUs
	write("python", "#!/bin/sh\nexec "+e2e.Trainer("--memory 1GiB --seconds 0.2")+"\n", 0o700)
	for _, node := range []string{"gpu01", "gpu02"} { // what their gimbald has learnt
		write(node, `{"schema":1,"jobs":[{"uid":1000,"name":"resnet","seen":1,"sm":0.9}]}`, 0o600)
	}
	gimbal := fmt.Sprintf(`#!/bin/sh
case $1 in
    status | explain | timeline | report) c=$1; shift; exec %[1]s $c --socket %[2]s --state-dir %[3]s "$@" ;;
    policies) shift
        [ "$1" != try ] || { shift; exec %[1]s policies --config %[4]s try --socket %[2]s "$@"; }
        exec %[1]s policies --config %[4]s "$@" ;;
    doctor) exec %[1]s "$@" --config %[4]s ;;
    simulate | learnt) exec %[1]s "$@" ;;
    *) c=$1; shift; exec %[1]s $c --socket %[2]s "$@" ;;
esac
`, e2e.Built("gimbal"), s.Socket(), filepath.Join(s.Dir, "state"), s.ConfigPath())
	write("gimbal", gimbal, 0o700)
	write("gimbald", fmt.Sprintf("#!/bin/sh\nexec %s --config %s \"$@\"\n", e2e.Built("gimbald"), s.ConfigPath()), 0o700)
	return d
}

// runLines types each line. gimbal doctor may find something.
func runLines(t *testing.T, s *e2e.Stack, d desk) {
	t.Helper()
	all := lines(t)
	for _, l := range all {
		line := d.put.Replace(l.text)
		if err := os.WriteFile(filepath.Join(d.dir, "jobs.csv"), []byte(d.csv[l.page]), 0o600); err != nil {
			t.Fatal(err)
		}
		r := s.Run("/bin/sh", "-c", fmt.Sprintf("cd %s; PATH=%s:$PATH; export PATH %s; %s", d.dir, d.dir, strings.Join(s.GPU.Env(), " "), line))
		if r.Exit != 0 && !(strings.HasPrefix(line, "gimbal doctor") && r.Exit == 1) {
			t.Errorf("%s: %s: %s", l, line, r)
		}
	}
	if len(all) < 35 {
		t.Errorf("only %d command lines were found", len(all))
	}
}
