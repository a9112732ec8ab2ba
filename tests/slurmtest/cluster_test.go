package slurmtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const patience = time.Minute

// shared is the cluster of the tests that need nothing special and change
// nothing; the first of them starts it.
var shared struct {
	once sync.Once
	*Cluster
	err error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.Cluster != nil {
		if err := shared.Down(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func useShared(t *testing.T) *Cluster {
	t.Helper()
	Need(t)
	shared.once.Do(func() {
		opts := Options{Nodes: 2, GPUs: -1, Env: []string{"SLURMTEST_WORD=two words"}}
		shared.Cluster, shared.err = Up(context.Background(), "", opts)
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	shared.LogsOnFailure(t)
	return shared.Cluster
}

func TestBatchJob(t *testing.T) {
	t.Parallel()
	c := useShared(t)
	id := c.Sbatch(t, `echo "$SLURMTEST_WORD on $SLURMD_NODENAME"; exit 3`, "--job-name=x JobState=RUNNING ExitCode=0:0 StdOut=/x")
	job := c.WaitDone(t, id, patience)
	if job.State != "FAILED" || job.ExitCode != 3 {
		t.Errorf("state %s, exit %d, want FAILED, 3", job.State, job.ExitCode)
	}
	if got, want := c.JobOutput(t, id), "two words on "+c.Nodes[0]+"\n"; got != want {
		t.Errorf("JobOutput() = %q, want %q", got, want)
	}
}

// The second GPU is number 1 to Slurm; to a job that reaches no other it is 0.
func TestShardsFillOneGPUThenTheNext(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/sys/fs/cgroup/devices"); err != nil {
		t.Skip("SKIPPED: no device cgroup of version 1")
	}
	c := Start(t, Options{Proctrack: "cgroup", ConstrainDevices: true})
	const script = `srun bash -c 'echo $SLURM_JOB_GPUS $SLURM_STEP_GPUS $CUDA_VISIBLE_DEVICES'; sleep 300`
	first := c.Sbatch(t, script, "--gres=shard:4")
	c.WaitState(t, first, patience, "RUNNING")
	second := c.Sbatch(t, script, "--gres=shard:1")
	c.WaitState(t, second, patience, "RUNNING")
	for id, want := range map[int]string{first: "0 0 0\n", second: "1 1 0\n"} {
		eventually(t, "output of the job", func() bool { return c.JobOutput(t, id) == want })
	}
	c.must(t, "scancel", strconv.Itoa(first))
	if job := c.WaitDone(t, first, patience); job.State != "CANCELLED" {
		t.Errorf("state %s, want CANCELLED", job.State)
	}
	if got := c.NodeState(t); got != "mixed" {
		t.Errorf("NodeState() = %q, want mixed", got)
	}
}

func TestJobsOfAnotherUser(t *testing.T) {
	t.Parallel()
	c := useShared(t)
	id := c.Sbatch(t, "id -u", "--uid=65534", "--gid=65534")
	result := c.RunAs(65534, 65534, "srun", "id", "-u")
	if result.Exit != 0 || result.Stdout != "65534\n" {
		t.Errorf("srun as nobody: %s", result)
	}
	c.WaitDone(t, id, patience)
	if got := c.JobOutput(t, id); got != "65534\n" {
		t.Errorf("sbatch --uid: %q, want 65534", got)
	}
}

func TestSeveralNodes(t *testing.T) {
	t.Parallel()
	c := useShared(t)
	result := c.Run("srun", "-N2", "printenv", "SLURMD_NODENAME")
	names := strings.Fields(result.Stdout)
	slices.Sort(names)
	if len(c.Nodes) != 2 || !slices.Equal(names, c.Nodes) {
		t.Errorf("nodes %q, srun on %s", c.Nodes, result)
	}
}

func TestPlugstackIsReadByCommands(t *testing.T) {
	t.Parallel()
	c := Start(t, Options{Plugstack: "optional /nonexistent/plugin.so"})
	if got, err := os.ReadFile(filepath.Join(c.Dir, "plugstack.conf")); err != nil ||
		string(got) != "optional /nonexistent/plugin.so\n" {
		t.Errorf("plugstack.conf = %q, %v", got, err)
	}
	if result := c.Run("srun", "-Q", "true"); result.Exit != 0 {
		t.Errorf("srun with an optional plugin that is missing: %s", result)
	}
	path := filepath.Join(c.Dir, "plugstack.conf")
	if err := os.WriteFile(path, []byte("required /nonexistent/plugin.so\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if result := c.Run("srun", "true"); result.Exit == 0 || !strings.Contains(result.Stderr, "plugin.so") {
		t.Errorf("srun with a required plugin that is missing: %s", result)
	}
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	testDrain(t, c)
}

// testDrain begins when a job's end has been told, but the node may still be busy
// with it.
func testDrain(t *testing.T, c *Cluster) {
	t.Helper()
	waitNode(t, c, "idle", "")
	c.must(t, "scontrol", "update", "NodeName="+c.Nodes[0], "State=drain", "Reason=by the test")
	waitNode(t, c, "drained", "by the test")
}

func waitNode(t *testing.T, c *Cluster, state, reason string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(pollEvery) {
		gotState, gotReason := c.NodeState(t), c.DrainReason(t)
		if gotState == state && gotReason == reason {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("state %q, reason %q, want %s and %q", gotState, gotReason, state, reason)
		}
	}
}

func TestTwoClustersAtOnceShareNothing(t *testing.T) {
	t.Parallel()
	Need(t)
	clusters := make(chan *Cluster)
	for range 2 {
		go func() {
			c, err := Up(t.Context(), "", Options{Proctrack: "cgroup"})
			if err != nil {
				t.Error(err)
			}
			clusters <- c
		}()
	}
	a, b := <-clusters, <-clusters
	for _, c := range []*Cluster{a, b} {
		if c != nil {
			t.Cleanup(func() { mustGoDown(t, c) })
		}
	}
	if a == nil || b == nil {
		return
	}
	if a.Nodes[0] == b.Nodes[0] {
		t.Fatalf("both have the node %s", a.Nodes[0])
	}
	id := b.Sbatch(t, "sleep 300")
	b.WaitState(t, id, patience, "RUNNING")
	mustGoDown(t, a)
	if job, err := b.Job(id); err != nil || job.State != "RUNNING" || b.NodeState(t) != "mixed" {
		t.Errorf("after the other cluster's end: job %v, %v", job, err)
	}
}

// A crash kills all daemons and leaves stopped tasks, a frozen cgroup and a
// task that has left its session; up and down deal with them.
func TestUpAfterACrash(t *testing.T) {
	t.Parallel()
	Need(t)
	dir := folder(t)
	c := mustGoUp(t, dir, Options{Proctrack: "cgroup"})
	id := c.Sbatch(t, "setsid sleep 300 & sleep 300")
	c.WaitState(t, id, patience, "RUNNING")
	var pids []int
	eventually(t, "the script and its two children", func() bool {
		pids = c.Pids(id)
		return len(pids) == 3
	})
	if err := syscall.Kill(pids[0], syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	frozen := freeze(c.Nodes[0])
	for _, pid := range daemonPids(t, c) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}

	again := mustGoUp(t, dir, Options{})
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("process %d of the job survived (frozen: %v)", pid, frozen)
		}
	}
	if result := again.Run("srun", "true"); result.Exit != 0 {
		t.Errorf("srun after the crash: %s", result)
	}
	mustGoDown(t, again)
}

// One task of the job leaves its session and, where it can, its cgroup.
func TestDownLeavesNothing(t *testing.T) {
	t.Parallel()
	c := Start(t, Options{})
	id := c.Sbatch(t, `
		leave() {
			echo $BASHPID >/sys/fs/cgroup/unified/cgroup.procs || echo $BASHPID >/sys/fs/cgroup/cgroup.procs
			exec setsid sleep 300
		} 2>/dev/null
		leave & echo $!
		sleep 300`)
	c.WaitState(t, id, patience, "RUNNING")
	var pids []int
	eventually(t, "the script and its two children", func() bool {
		pids = c.Pids(id)
		return len(pids) == 3 && c.JobOutput(t, id) != ""
	})
	left, err := strconv.Atoi(strings.TrimSpace(c.JobOutput(t, id)))
	if err != nil {
		t.Fatal(err)
	}
	pids = append(append(pids, left), daemonPids(t, c)...)

	mustGoDown(t, c)
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("process %d is left", pid)
		}
	}
	if err := c.Down(); err != nil {
		t.Errorf("second Down: %v", err)
	}
}

func TestUpSaysWhyItFailed(t *testing.T) {
	Need(t)
	tests := []struct {
		name string
		opts Options
		want string
	}{
		{"slurmctld", Options{ConfExtra: []string{"SelectType=select/nonsense"}}, "select/nonsense"},
		{"slurmd", Options{Plugstack: "required /nonexistent/plugin.so"}, "plugin.so"},
		{"option", Options{Proctrack: "pgid"}, "--proctrack must be"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c, err := Up(t.Context(), "", test.opts)
			if err == nil {
				mustGoDown(t, c)
				t.Fatal("it started")
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("the message does not hold %q: %v", test.want, err)
			}
		})
	}
}

func mustGoUp(t *testing.T, dir string, opts Options) *Cluster {
	t.Helper()
	c, err := Up(t.Context(), dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mustGoDown(t, c) })
	return c
}

// mustGoDown takes the cluster down and looks for what it left.
func mustGoDown(t *testing.T, c *Cluster) {
	t.Helper()
	if err := c.Down(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(c.Dir); len(left) > 0 {
		t.Errorf("files left: %v, %v", left, err)
	}
	port := strings.TrimSuffix(strings.TrimPrefix(c.Nodes[0], "p"), "n0")
	for _, pattern := range []string{"/sys/fs/cgroup/*/slurm_p%sn*", "/sys/fs/cgroup/*/slurm-node.p%s"} {
		left, _ := filepath.Glob(fmt.Sprintf(pattern, port))
		list, _ := script(t, "list")
		taken := strings.Contains("\n"+list, "\n"+port+" ") // by the next cluster
		if len(left) > 0 && !taken {
			t.Errorf("cgroups left: %v", left)
		}
	}
}

// daemonPids reads the pid files of munged, slurmctld and slurmd.
func daemonPids(t *testing.T, c *Cluster) []int {
	t.Helper()
	var pids []int
	for _, name := range append([]string{"munged", "slurmctld"}, c.Nodes...) {
		text, err := os.ReadFile(filepath.Join(c.Dir, "run", name))
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.Fields(string(text))[0])
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// freeze freezes the steps of a node where there is the v1 freezer.
func freeze(node string) bool {
	states, _ := filepath.Glob("/sys/fs/cgroup/freezer/slurm_" + node + "/uid_*/job_*/step_*/freezer.state")
	for _, state := range states {
		if err := os.WriteFile(state, []byte("FROZEN"), 0); err != nil {
			return false
		}
	}
	return len(states) > 0
}

// alive says whether the process exists and is no zombie.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

func eventually(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !reached(); time.Sleep(pollEvery) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s", patience, what)
		}
	}
}
