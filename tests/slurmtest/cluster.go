// Package slurmtest gives Go tests a real Slurm on this machine: munged,
// slurmctld and slurmd from the distribution's packages, started and ended by
// scripts/slurm-node, with all their state in one folder.
//
// A test that wants a cluster of its own calls Start; a package whose tests
// share one calls Up and Down from TestMain. Jobs of another user come from
// Sbatch with --uid and --gid, or from RunAs.
package slurmtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// RequireVar names the environment variable that, when set, turns the skipping
// of tests without Slurm into a failure.
const RequireVar = "SLURMTEST_REQUIRE"

// commands are the programs without which there is no cluster.
var commands = []string{"munged", "slurmctld", "slurmd", "sbatch", "scontrol", "setsid", "flock", "shuf"}

// Options describe a cluster; the zero value is one node with two GPUs and
// eight shards, proctrack/linuxproc and an empty plug stack.
type Options struct {
	Nodes            int           // nodes, each with its own slurmd; 0: one
	CPUs             int           // CPUs that each node claims to have; 0: 32
	GPUs             int           // GPUs of each node; 0: two, negative: none
	Shards           int           // shards of each node; 0: eight, negative: none
	Proctrack        string        // "linuxproc" (also "") or "cgroup"
	ConstrainDevices bool          // with "cgroup": a job reaches its own GPUs only
	Plugstack        string        // lines of plugstack.conf, or the file that holds them
	KillWait         time.Duration // from SIGTERM to SIGKILL, whole seconds; 0: 2 s
	PrologFlags      string        // slurm.conf's PrologFlags
	Accounting       bool          // with slurmdbd and a database; NeedAccounting tells whether that is possible
	Env              []string      // NAME=VALUE for the daemons and for Cluster.Env
	ConfExtra        []string      // lines appended to slurm.conf
	CgroupExtra      []string      // lines appended to cgroup.conf
}

func (o Options) args() []string {
	var args []string
	add := func(name, value string, given bool) {
		if given {
			args = append(args, name, value)
		}
	}
	number := func(name string, n int) { add(name, strconv.Itoa(max(n, 0)), n != 0) }
	number("--nodes", o.Nodes)
	number("--cpus", o.CPUs)
	number("--gpus", o.GPUs)
	number("--shards", o.Shards)
	number("--kill-wait", int(o.KillWait/time.Second))
	add("--proctrack", o.Proctrack, o.Proctrack != "")
	add("--plugstack", o.Plugstack, o.Plugstack != "")
	add("--prolog-flags", o.PrologFlags, o.PrologFlags != "")
	if o.ConstrainDevices {
		args = append(args, "--constrain-devices")
	}
	if o.Accounting {
		args = append(args, "--accounting")
	}
	each := func(name string, values []string) {
		for _, value := range values {
			add(name, value, true)
		}
	}
	each("--env", o.Env)
	each("--conf-extra", o.ConfExtra)
	each("--cgroup-extra", o.CgroupExtra)
	return args
}

// Cluster is a running Slurm. It is not changed after Up, so tests that run at
// the same time may share it.
type Cluster struct {
	Dir   string   // holds slurm.conf, plugstack.conf, log/, run/, spool/
	Out   string   // the folder commands run in, writable for every user
	Nodes []string // their names

	script  string
	ownsDir bool
	env     []string
}

// Start brings up a cluster for one test and takes it down at the test's end,
// with the tails of its logs if the test failed. It skips the test where there
// is no Slurm or no root, unless RequireVar is set.
func Start(t testing.TB, opts Options) *Cluster {
	t.Helper()
	Need(t)
	c, err := Up(t.Context(), "", opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Down(); err != nil {
			t.Error(err)
		}
	})
	c.LogsOnFailure(t)
	return c
}

// Need skips the test where Unavailable says why; with RequireVar set it fails.
func Need(t testing.TB) {
	t.Helper()
	err := Unavailable()
	switch {
	case err == nil:
	case os.Getenv(RequireVar) != "":
		t.Fatalf("%s is set, but %v", RequireVar, err)
	default:
		t.Skipf("SKIPPED: %v", err)
	}
}

// NeedAccounting is Need for a cluster with accounting.
func NeedAccounting(t testing.TB) {
	t.Helper()
	Need(t)
	for _, name := range []string{"slurmdbd", "mariadbd", "mariadb-install-db", "sacctmgr"} {
		if _, err := find(name); err != nil {
			t.Skipf("SKIPPED: %s is missing: run scripts/install-deps accounting", name)
		}
	}
}

// Unavailable says why this machine cannot run a cluster; nil when it can.
func Unavailable() error {
	if os.Geteuid() != 0 {
		return errors.New("a test cluster needs root")
	}
	for _, name := range commands {
		if _, err := find(name); err != nil {
			return fmt.Errorf("%s is missing: run scripts/install-deps slurm", name)
		}
	}
	return nil
}

// Up starts a cluster with its state in dir, or in a temporary folder when dir
// is empty. dir may hold what is left of a crashed cluster. A cluster whose
// process dies without Down goes down by itself within seconds.
func Up(ctx context.Context, dir string, opts Options) (*Cluster, error) {
	script, err := findScript()
	if err != nil {
		return nil, err
	}
	c := &Cluster{Dir: dir, script: script, ownsDir: dir == ""}
	if err := c.makeDir(); err != nil {
		return nil, fmt.Errorf("start a Slurm cluster: %w", err)
	}
	c.Out = filepath.Join(c.Dir, "out")
	args := append([]string{"up", c.Dir, "--owner", strconv.Itoa(os.Getpid())}, opts.args()...)
	out, err := exec.CommandContext(ctx, script, args...).CombinedOutput()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start a Slurm cluster in %s: %w\n%s", c.Dir, err, out), c.Down())
	}
	c.env = append(baseEnv(), "SLURM_CONF="+filepath.Join(c.Dir, "slurm.conf"))
	c.env = append(c.env, opts.Env...)
	c.Nodes = strings.Fields(c.Run("sinfo", "-h", "-N", "-o", "%N").Stdout)
	return c, nil
}

// makeDir makes the temporary folder, which every user can reach, if no other
// was given.
func (c *Cluster) makeDir() (err error) {
	if c.ownsDir {
		if c.Dir, err = os.MkdirTemp("", "slurm-"); err != nil {
			return err
		}
		return os.Chmod(c.Dir, 0o755)
	}
	c.Dir, err = filepath.Abs(c.Dir)
	return err
}

// Down ends every process of the cluster, jobs included, and removes its
// files and cgroups. The second call does nothing.
func (c *Cluster) Down() error {
	out, err := exec.Command(c.script, "down", c.Dir).CombinedOutput()
	if err != nil {
		return fmt.Errorf("take down the Slurm cluster in %s: %w\n%s", c.Dir, err, out)
	}
	if !c.ownsDir {
		return nil
	}
	if err := os.RemoveAll(c.Dir); err != nil {
		return fmt.Errorf("take down the Slurm cluster: %w", err)
	}
	return nil
}

// LogsOnFailure prints the tails of the daemons' logs at the end of a test
// that failed; Start has it called already.
func (c *Cluster) LogsOnFailure(t testing.TB) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.Logs(30))
		}
	})
}

// Logs returns the last lines of slurmctld's and of each slurmd's log.
func (c *Cluster) Logs(lines int) string {
	var all strings.Builder
	paths, _ := filepath.Glob(filepath.Join(c.Dir, "log", "*.log"))
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		tail := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
		tail = tail[max(0, len(tail)-lines):]
		fmt.Fprintf(&all, "---- %s\n%s\n", path, strings.Join(tail, "\n"))
	}
	return all.String()
}

// findScript looks for scripts/slurm-node in the working folder and above it:
// go test runs a package's tests in the package's folder.
func findScript() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find scripts/slurm-node: %w", err)
	}
	for {
		script := filepath.Join(dir, "scripts", "slurm-node")
		if _, err := os.Stat(script); err == nil {
			return script, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("find scripts/slurm-node: not in the working folder or above it")
		}
		dir = parent
	}
}
