package slurm

import (
	"context"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Overlap runs a command on one node of a running job, in a step that takes
// nothing from the job's other steps and is not packed. Only the job's owner
// and root may. What the command printed comes back even where it failed; the
// error then holds the first line that it, or srun, wrote on standard error.
// Several may run at once: a Client only spaces their starts.
func (c *Client) Overlap(ctx context.Context, job uint32, node string, command ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	args := append([]string{"--jobid=" + number(job), "--nodes=1", "--ntasks=1", "--nodelist=" + node,
		"--overlap", "--gres=none", "--cpu-bind=none", "--mpi=none", "--input=none", "--chdir=/", "--quiet"}, command...)
	named := "srun --jobid=" + number(job) + " --nodelist=" + node
	if err := c.wait(ctx); err != nil {
		return "", explain(ctx, named, err, "")
	}
	c.turn <- time.Now()
	out, errs := &capped{max: maxOut}, &capped{max: maxErr}
	cmd := exec.CommandContext(ctx, c.path("srun"), args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(unpacked(c.env), "GIMBAL_PACK=off"), out, errs
	// So that srun ends its step with itself.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 2 * time.Second
	if err := cmd.Run(); err != nil {
		return out.String(), explain(ctx, named, err, errs.String())
	}
	return out.String(), nil
}

// unpacked leaves out what would pack a step.
func unpacked(env []string) []string {
	var out []string
	for _, v := range env {
		if !strings.HasPrefix(v, "GIMBAL_") {
			out = append(out, v)
		}
	}
	return out
}
