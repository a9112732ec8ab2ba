package slurmtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// runLimit ends a command that hangs.
const runLimit = 2 * time.Minute

// Result is what became of a command.
type Result struct {
	Stdout, Stderr string
	Exit           int // exit status; -1 when it did not start or a signal ended it
	Took           time.Duration
}

// Run runs a Slurm command, or any other, with the cluster's environment in
// the folder Out. After two minutes it is killed.
func (c *Cluster) Run(name string, args ...string) Result {
	ctx, cancel := context.WithTimeout(context.Background(), runLimit)
	defer cancel()
	return run(c.Command(ctx, name, args...))
}

// RunAs is Run as another user and group; 65534 is nobody.
func (c *Cluster) RunAs(uid, gid int, name string, args ...string) Result {
	ctx, cancel := context.WithTimeout(context.Background(), runLimit)
	defer cancel()
	cmd := c.Command(ctx, name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	return run(cmd)
}

// Command prepares a command with the cluster's environment; the caller runs it.
func (c *Cluster) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	if path, err := find(name); err == nil {
		name = path
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = c.Out
	cmd.Env = c.Env()
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// Env returns the environment of a shell on the cluster: this process's own
// without what an outer Slurm left in it, SLURM_CONF and Options.Env.
func (c *Cluster) Env() []string { return slices.Clone(c.env) }

// Sbatch submits a script with these options and returns the job's id. A
// script without an interpreter line is one for bash.
func (c *Cluster) Sbatch(t testing.TB, script string, options ...string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), runLimit)
	defer cancel()
	if !strings.HasPrefix(script, "#!") {
		script = "#!/bin/bash\n" + script
	}
	cmd := c.Command(ctx, "sbatch", append([]string{"--parsable"}, options...)...)
	cmd.Stdin = strings.NewReader(script)
	result := run(cmd)
	id, err := strconv.Atoi(strings.TrimSpace(result.Stdout))
	if err != nil || result.Exit != 0 {
		t.Fatalf("sbatch %q: %s", options, result)
	}
	return id
}

// NodeState returns the state of the cluster's node in sinfo's words ("idle",
// "mixed", "drained"); of several nodes, each distinct state once.
func (c *Cluster) NodeState(t testing.TB) string {
	t.Helper()
	states := strings.Fields(c.must(t, "sinfo", "-h", "-N", "-o", "%T"))
	slices.Sort(states)
	return strings.Join(slices.Compact(states), ",")
}

// DrainReason returns why nodes are drained, down or failing; "" if none is.
func (c *Cluster) DrainReason(t testing.TB) string {
	t.Helper()
	return strings.TrimSpace(c.must(t, "sinfo", "-h", "-R", "-o", "%E"))
}

// Restart ends slurmctld, or the slurmd of every node, by a signal and starts it
// again. It returns once it takes part in the cluster.
func (c *Cluster) Restart(t testing.TB, daemon string, sig syscall.Signal) {
	t.Helper()
	c.must(t, c.script, "restart", c.Dir, daemon, strconv.Itoa(int(sig)))
}

// Reboot ends every process of the nodes at once, jobs included, as a power cut
// does, and starts slurmd as after a boot.
func (c *Cluster) Reboot(t testing.TB) {
	t.Helper()
	c.must(t, c.script, "reboot", c.Dir)
}

// must runs a command that has to succeed and returns what it printed.
func (c *Cluster) must(t testing.TB, name string, args ...string) string {
	t.Helper()
	result := c.Run(name, args...)
	if result.Exit != 0 {
		t.Fatalf("%s %q: %s", name, args, result)
	}
	return result.Stdout
}

// String shows a result in a test's message.
func (r Result) String() string {
	return fmt.Sprintf("exit %d after %v, stdout %q, stderr %q", r.Exit, r.Took, r.Stdout, r.Stderr)
}

func run(cmd *exec.Cmd) Result {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	start := time.Now()
	err := cmd.Run()
	result := Result{Stdout: stdout.String(), Stderr: stderr.String(), Took: time.Since(start)}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		result.Exit = exit.ExitCode()
	case err != nil:
		result.Exit = -1
		result.Stderr += err.Error()
	}
	return result
}

// find looks in PATH and where Debian keeps daemons.
func find(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	return exec.LookPath(filepath.Join("/usr/sbin", name))
}

// baseEnv is this process's environment without the variables by which an
// outer Slurm would talk to the commands.
func baseEnv() []string {
	outer := []string{"SLURM", "SBATCH_", "SALLOC_", "SRUN_", "SINFO_", "SQUEUE_", "SCONTROL_", "SCANCEL_", "SACCT_"}
	return slices.DeleteFunc(os.Environ(), func(line string) bool {
		return slices.ContainsFunc(outer, func(prefix string) bool { return strings.HasPrefix(line, prefix) })
	})
}
