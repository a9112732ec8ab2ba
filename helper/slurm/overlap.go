package slurm

import (
	"context"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// noBinding is what srun says of each --cpu-bind where no TaskPlugin binds. It
// harms nothing.
const noBinding = "cluster configuration lacks support for cpu binding"

// Overlap runs a command on one node of a running job, in a step that takes
// nothing from the job's other steps and is not packed. Only the job's owner
// and root may. What the command printed comes back even where it failed; the
// error then holds the first line that it wrote on standard error, or Slurm.
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
		return out.String(), explain(ctx, named, err, telling(errs.String()))
	}
	return out.String(), nil
}

// telling puts what a step's command wrote on standard error before what Slurm
// did, and leaves out what is harmless: the first line then says why it failed.
func telling(stderr string) string {
	var slurms, rest []string
	for l := range strings.Lines(stderr) {
		l = strings.TrimSpace(l)
		switch {
		case l == "" || strings.Contains(l, noBinding):
		case !strings.HasPrefix(l, "srun: ") && !strings.HasPrefix(l, "slurmstepd: "):
			rest = append(rest, l)
		default:
			slurms = append(slurms, l)
		}
	}
	return strings.Join(append(rest, slurms...), "\n")
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
