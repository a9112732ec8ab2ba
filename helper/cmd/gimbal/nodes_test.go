package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/report"
)

// fakeSlurm puts a squeue that shows some jobs and an srun that prints what a
// node's file holds first in the path. A node without a file does not answer.
func fakeSlurm(t *testing.T, job string) string {
	t.Helper()
	dir := t.TempDir()
	for name, body := range map[string]string{
		"squeue": "echo \"$@\" >" + dir + "/asked; [[ -z '" + job + "' ]] || echo -e '" + job + "'",
		"srun": `for a; do case $a in --nodelist=*) node=${a#*=};; esac; done
echo "$@" >>` + dir + `/calls
cat ` + dir + `/$node && exit
echo "srun: error: Unable to create step for job 7: Node $node is down" >&2; exit 1`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/bash\nexec 3>&2 2>/dev/null\n"+strings.ReplaceAll(body, ">&2", ">&3")+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return dir
}

// answer writes what a node is to say of job 7.
func answer(t *testing.T, dir, node string, change func(*model.Snapshot)) {
	t.Helper()
	wide := tenant(7, "wide", 1001, 0)
	wide.State, wide.Exempt = model.Running, "job on 3 nodes"
	wide.Reason = model.Reason{Code: "exempt", Text: "never stopped: job on 3 nodes"}
	wide.Reg.Node = ""
	_, mono := at(10)
	snap := model.Snapshot{Node: "told-otherwise", At: noon, GPUs: gpus(), Tenants: []model.View{model.ViewAt(wide, noon, mono)}}
	change(&snap)
	text, err := json.Marshal(snap)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, node), text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// gimbalCommand runs a command line as root at noon.
func gimbalCommand(args ...string) (stdout, stderr string, code int) {
	var out, errs bytes.Buffer
	code = run(args, world{&out, &errs, func(string) string { return "" }, func() time.Time { return noon }, 0})
	return out.String(), errs.String(), code
}

func TestAllNodes(t *testing.T) {
	dir := fakeSlurm(t, "7|RUNNING|N/A|5:00|n[0-2]|None")
	for _, node := range []string{"n0", "n1", "n2"} {
		answer(t, dir, node, func(*model.Snapshot) {})
	}
	columns := []string{"-n", "-P", "-X", "-o", "nodelist,jobid,state,reason"}
	status := append([]string{"status", "--all-nodes", "-j", "7"}, columns...)
	row := func(node string) string { return node + "|7|RUNNING|never stopped: job on 3 nodes\n" }

	out, errs, code := gimbalCommand(status...)
	if want := row("n0") + row("n1") + row("n2"); out != want || errs != "" || code != exitOK {
		t.Errorf("exit %d, stderr %q, got\n%swant\n%s", code, errs, out, want)
	}
	calls, err := os.ReadFile(filepath.Join(dir, "calls"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(calls)) {
		if !strings.Contains(line, "--jobid=7 ") || !strings.Contains(line, "--overlap") || !strings.Contains(line, "status --snapshot -j 7") || strings.Contains(line, "--all-nodes") {
			t.Errorf("srun %s", line)
		}
	}

	if err := os.Remove(filepath.Join(dir, "n1")); err != nil {
		t.Fatal(err)
	}
	out, errs, code = gimbalCommand(status...)
	if want := row("n0") + row("n2"); out != want || code != exitUnreachable || !strings.Contains(errs, "node n1: ") || !strings.Contains(errs, "Node n1 is down") {
		t.Errorf("exit %d, stderr %q, got\n%swant\n%s", code, errs, out, want)
	}
	answer(t, dir, "n2", func(s *model.Snapshot) { s.Degraded = "no driver" })
	out, errs, _ = gimbalCommand("status", "--all-nodes", "-j", "7", "--json")
	var doc report.NodesDocument
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.Nodes) != 2 || doc.Nodes[1].Node != "n2" || doc.Nodes[1].Degraded != "no driver" || len(doc.Silent) != 1 || doc.Silent[0].Node != "n1" {
		t.Errorf("stderr %q, JSON %s", errs, out)
	}
	if out, _, _ = gimbalCommand("status", "--all-nodes", "-j", "7"); !strings.Contains(strings.SplitN(out, "\n", 2)[0], "NodeList") {
		t.Errorf("no column for the node in\n%s", out)
	}
}

// TestAllNodesTellsWhy: what gimbal says on a node is shown, not what srun says
// about itself before and after it.
func TestAllNodesTellsWhy(t *testing.T) {
	const noise, died = "srun: error: cluster configuration lacks support for cpu binding", "srun: error: n0: task 0: Exited with exit code 3"
	const own, slurms = "gimbal status: no gimbald listens", "srun: error: Unable to create step for job 7: Node n0 is down"
	for _, tc := range []struct{ stderr, want string }{
		{noise + "\n" + own + "\n" + died, own},
		{died + "\n" + own, own},
		{noise + "\n" + slurms, slurms},
		{slurms + "\n" + noise, slurms},
		{noise + "\nslurmstepd: error: execve(): no such file\n" + died, "slurmstepd: error: execve(): no such file"},
		{noise, "exit status 3"},
	} {
		dir := fakeSlurm(t, "7|RUNNING|N/A|5:00|n0|None")
		script := "#!/bin/sh\ncat >&2 <<'X'\n" + tc.stderr + "\nX\nexit 3\n"
		if err := os.WriteFile(filepath.Join(dir, "srun"), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		_, errs, code := gimbalCommand("status", "--all-nodes", "-j", "7")
		if code != exitUnreachable || !strings.HasSuffix(errs, tc.want+"\n") {
			t.Errorf("of %q: exit %d, %q; want %q at its end", tc.stderr, code, errs, tc.want)
		}
	}
}

func TestAllNodesRefuses(t *testing.T) {
	for _, tc := range []struct {
		job  string
		args []string
		code int
		want string
	}{
		{"", []string{}, exitUsage, "the nodes of which jobs?"},
		{"", []string{"-j", "r1"}, exitUsage, "on this host alone"},
		{"", []string{"-j", "7_1,8.0"}, exitFailed, "no such job"},
		{"", []string{"-j", "7", "--gpus"}, exitUsage, "goes with none of"},
		{"", []string{"-j", "7", "--offline"}, exitUsage, "goes with none of"},
		{"", []string{"-j", "7", "-o", "banana"}, exitUsage, "banana"},
		{"", []string{"-j", "7"}, exitFailed, "no such job"},
		{"7|PENDING|N/A|5:00||Resources", []string{"-j", "7"}, exitFailed, "job 7 is PENDING: no step can be started"},
		{"7|COMPLETED|N/A|5:00|n[0-2]|None", []string{"-j", "7"}, exitFailed, "job 7 is COMPLETED"},
	} {
		fakeSlurm(t, tc.job)
		out, errs, code := gimbalCommand(append([]string{"status", "--all-nodes"}, tc.args...)...)
		if code != tc.code || out != "" || !strings.Contains(errs, tc.want) {
			t.Errorf("%q of job %q: exit %d, stdout %q, stderr %q; want %d, %q", tc.args, tc.job, code, out, errs, tc.code, tc.want)
		}
	}
}

// TestAllNodesOfParts: the parts of arrays and het jobs are asked for as squeue
// knows them, each node once, by a job that is on it; what runs nowhere is named.
func TestAllNodesOfParts(t *testing.T) {
	dir := fakeSlurm(t, "7|RUNNING|N/A|5:00|n[0-1]|None\n8|RUNNING|N/A|5:00|n[1-2]|None\n9|PENDING|N/A|5:00||Priority")
	for _, node := range []string{"n0", "n1", "n2"} {
		answer(t, dir, node, func(*model.Snapshot) {})
	}
	_, errs, code := gimbalCommand("status", "--all-nodes", "-j", "6_[3,4].batch,6_3.0,5+1,2", "-X")
	if want := "gimbal status: job 9 is PENDING: asked is where the others run\n"; code != exitOK || errs != want {
		t.Errorf("exit %d, stderr %q, want %q", code, errs, want)
	}
	asked, err := os.ReadFile(filepath.Join(dir, "asked"))
	if err != nil || !strings.Contains(string(asked), "--jobs=6_3,6_4,5,2 ") {
		t.Errorf("squeue %s, %v", asked, err)
	}
	calls, err := os.ReadFile(filepath.Join(dir, "calls"))
	if err != nil || strings.Count(string(calls), "\n") != 3 {
		t.Errorf("%s%v", calls, err)
	}
	for node, job := range map[string]string{"n0": "7", "n1": "7", "n2": "8"} {
		if !strings.Contains(string(calls), "--jobid="+job+" --nodes=1 --ntasks=1 --nodelist="+node+" ") {
			t.Errorf("%s is not asked by a step of job %s:\n%s", node, job, calls)
		}
	}
}

// TestAskNodes: the answers come in the order of the nodes, and no more than a
// few are asked at once.
func TestAskNodes(t *testing.T) {
	var nodes []string
	for i := range 50 {
		nodes = append(nodes, fmt.Sprint("n", i))
	}
	var now, most atomic.Int32
	answers := askNodes(nodes, func(node string) nodeAnswer {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		time.Sleep(time.Millisecond)
		now.Add(-1)
		return nodeAnswer{node: node}
	})
	for i, a := range answers {
		if a.node != nodes[i] {
			t.Errorf("answer %d is of %s", i, a.node)
		}
	}
	if most.Load() > nodesAtOnce || most.Load() < 2 {
		t.Errorf("%d were asked at once", most.Load())
	}
}

// TestNodeInPaths: %n is the node by Slurm's name.
func TestNodeInPaths(t *testing.T) {
	t.Setenv("SLURMD_NODENAME", "n17")
	_, errs, code := gimbalCommand("status", "--socket", "/nonexistent/%n/sock", "--state-dir", "/nonexistent/%n")
	if code != exitUnreachable || !strings.Contains(errs, "/nonexistent/n17/sock") {
		t.Errorf("exit %d, %s", code, errs)
	}
}
