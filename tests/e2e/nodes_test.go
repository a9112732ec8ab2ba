package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gimbal-hpc/gimbal/helper/report"
)

// TestSeveralNodes: a packed job on several nodes is registered by the gimbald
// of each, which says why it lets it run, and never paused, though jobs of one
// node take turns beside it. All its nodes can be asked at once; one that does
// not answer is named, and the others are shown.
func TestSeveralNodes(t *testing.T) {
	o := Options{EachNode: true, Policies: map[string]string{"timeslice": quickTurns}}
	o.Slurm.Nodes = 4
	if os.Getenv("GIMBAL_LONG") != "" {
		o.Slurm.Nodes = 8
	}
	s := Start(t, o)
	n := o.Slurm.Nodes
	wide := s.Sbatch(t, "srun "+Trainer("--memory 256MiB"), "-N", fmt.Sprint(n), "--ntasks-per-node=1",
		oneShard, "--gimbal-pack", "--gimbal-memory=256MiB", "--uid=65534", "--gid=65534")
	why := fmt.Sprintf("job on %d nodes", n)
	for _, node := range s.Nodes {
		s.At(node).WaitTenant(wide, patience, "RUNNING")
		if v := s.At(node).Tenant(fmt.Sprint(wide)); v == nil || v.Exempt != why {
			t.Errorf("%s: %+v, want it exempt for %q", node, v, why)
		}
	}
	first := s.At(s.Nodes[0])
	var narrow []int
	for range 2 {
		narrow = append(narrow, s.Sbatch(t, Trainer("--memory 256MiB"), oneShard, "-w", first.node, "--gimbal-pack", "--gimbal-memory=256MiB"))
	}
	Eventually(t, patience, "a job of one node is paused beside it", func() bool {
		a, b := first.Tenant(fmt.Sprint(narrow[0])), first.Tenant(fmt.Sprint(narrow[1]))
		return a != nil && b != nil && a.Tally.Pauses+b.Tally.Pauses > 0
	})

	t.Run("all nodes", func(t *testing.T) { s.testAllNodes(t, wide) })

	for _, node := range s.Nodes[:n-1] {
		if v := s.At(node).Tenant(fmt.Sprint(wide)); v == nil || v.Tally.Pauses+v.Tally.Holds > 0 {
			t.Errorf("%s: the job on all nodes was stopped: %+v", node, v)
		}
	}
	for _, job := range append(narrow, wide) {
		s.scancel(t, job)
		wantState(t, s.WaitDone(t, job, patience), "CANCELLED")
	}
	first.wantHealthy(t)
}

// testAllNodes asks as the job's owner; then the gimbald of the last node dies.
func (s *Stack) testAllNodes(t *testing.T, job int) {
	gimbal := filepath.Join(s.Out, "gimbal") // where every user can reach it
	if r := s.Run("cp", Built("gimbal"), gimbal); r.Exit != 0 {
		t.Fatal(r)
	}
	ask := func(args ...string) (stdout, stderr string, code int) {
		args = append([]string{"status", "--socket", s.Socket(), "--all-nodes", "-j", fmt.Sprint(job)}, args...)
		r := s.RunAs(65534, 65534, gimbal, args...)
		return r.Stdout, r.Stderr, r.Exit
	}
	row := func(node string) string {
		return fmt.Sprintf("%s|%d|RUNNING|job on %d nodes\n", node, job, len(s.Nodes))
	}
	columns := []string{"-n", "-P", "-X", "-o", "nodelist,jobid,state,exempt"}

	var want strings.Builder
	for _, node := range s.Nodes {
		want.WriteString(row(node))
	}
	if out, errs, code := ask(columns...); out != want.String() || errs != "" || code != 0 {
		t.Errorf("exit %d, stderr %q, got\n%swant\n%s", code, errs, out, want.String())
	}
	out, _, _ := ask("-X")
	t.Logf("gimbal status --all-nodes -X:\n%s", out)
	if !strings.Contains(out, "never stopped: job") {
		t.Errorf("no reason in\n%s", out)
	}

	last := s.Nodes[len(s.Nodes)-1]
	s.At(last).StopDaemon()
	out, errs, code := ask(columns...)
	if out != strings.TrimSuffix(want.String(), row(last)) || code != 3 || !strings.Contains(errs, "node "+last+": ") {
		t.Errorf("with %s silent: exit %d, stderr %q, got\n%s", last, code, errs, out)
	}
	out, _, _ = ask("--json")
	var doc report.NodesDocument
	if err := json.Unmarshal([]byte(out), &doc); err != nil || len(doc.Nodes) != len(s.Nodes)-1 || len(doc.Silent) != 1 || doc.Silent[0].Node != last {
		t.Errorf("%v: %s", err, out)
	}
	if r := s.RunAs(1234, 1234, gimbal, "status", "--socket", s.Socket(), "--all-nodes", "-j", fmt.Sprint(job)); r.Exit != 3 || r.Stdout != "" && strings.Count(r.Stdout, "\n") > 2 {
		t.Errorf("somebody else's job: %s", r)
	}
}
