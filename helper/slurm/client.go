// Package slurm calls Slurm's own commands: to requeue, cancel, annotate and
// extend a job, and to ask what Slurm thinks of it. Every call is bounded in
// time, in what it reads, and in how often it is made: slurmctld is shared by
// the whole cluster.
package slurm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// Bounds of a call.
const (
	defaultTimeout = 10 * time.Second
	defaultGap     = 100 * time.Millisecond
	maxOut         = 1 << 20
	maxErr         = 4 << 10
)

// ErrNoJob is what a call about a job returns that Slurm does not know, or no
// longer.
var ErrNoJob = errors.New("no such job in Slurm")

// ErrNoNode is what a call about a node returns that slurm.conf does not have.
var ErrNoNode = errors.New("no such node in Slurm")

// unknownNode is what Slurm says of a node that it does not have.
type unknownNode string

func (u unknownNode) Error() string { return string(u) }

func (u unknownNode) Is(target error) bool { return target == ErrNoNode }

var noNode = regexp.MustCompile(`^Node \S+ not found$`)

// Options say how the commands are found and called.
type Options struct {
	Bin     string        // folder of the commands; "": PATH
	Conf    string        // SLURM_CONF; "": Slurm's own
	Timeout time.Duration // of one call; 0: 10 s
	Gap     time.Duration // least time between the starts of two calls; 0: 100 ms
}

// Client calls Slurm's commands, one at a time. Several goroutines may use it.
type Client struct {
	opts Options
	env  []string
	turn chan time.Time // holds when the last call began, while none is under way
}

// New makes a client. It starts nothing.
func New(o Options) *Client {
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	if o.Gap <= 0 {
		o.Gap = defaultGap
	}
	c := &Client{opts: o, env: environment(os.Environ(), o.Conf), turn: make(chan time.Time, 1)}
	c.turn <- time.Time{}
	return c
}

// environment is the caller's without what would change how the commands
// behave or print. Times are printed in UTC.
func environment(base []string, conf string) []string {
	var env []string
	for _, v := range base {
		name, _, _ := strings.Cut(v, "=")
		if name == "SLURM_CONF" && conf == "" || !steers(name) {
			env = append(env, v)
		}
	}
	env = append(env, "LC_ALL=C", "TZ=UTC", "SLURM_TIME_FORMAT=standard")
	if conf != "" {
		env = append(env, "SLURM_CONF="+conf)
	}
	return env
}

// steers tells whether a variable is one that Slurm's commands obey.
func steers(name string) bool {
	for _, p := range []string{"SLURM_", "SRUN_", "SQUEUE_", "SCANCEL_", "SINFO_", "SCONTROL_", "SACCT_", "SACCTMGR_", "LC_", "LANG"} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return name == "TZ"
}

// call runs one command and returns what it printed.
func (c *Client) call(ctx context.Context, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	if err := c.wait(ctx); err != nil {
		return "", fmt.Errorf("%s: %w", line(name, args), err)
	}
	start := time.Now()
	defer func() { c.turn <- start }()
	out, errs := &capped{max: maxOut}, &capped{max: maxErr}
	cmd := exec.CommandContext(ctx, c.path(name), args...)
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = c.env, out, errs, time.Second
	if err := cmd.Run(); err != nil {
		return "", explain(ctx, line(name, args), err, said(errs, out))
	}
	if out.cut {
		return "", fmt.Errorf("%s: printed more than %d bytes", line(name, args), maxOut)
	}
	return out.String(), nil
}

// path is where a command lies.
func (c *Client) path(name string) string {
	if c.opts.Bin == "" {
		return name
	}
	return filepath.Join(c.opts.Bin, name)
}

// wait takes the turn: when no other call is under way and the last one began
// long enough ago.
func (c *Client) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case last := <-c.turn:
		timer := time.NewTimer(time.Until(last.Add(c.opts.Gap)))
		defer timer.Stop()
		select {
		case <-ctx.Done():
			c.turn <- last
			return ctx.Err()
		case <-timer.C:
			return nil
		}
	}
}

// explain words the failure of a command by its own first line.
func explain(ctx context.Context, line string, err error, stderr string) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", line, ctx.Err())
	}
	first, _, _ := strings.Cut(strings.TrimSpace(stderr), "\n")
	if strings.Contains(first, "Invalid job id") {
		return fmt.Errorf("%s: %w", line, ErrNoJob)
	}
	if noNode.MatchString(first) {
		return fmt.Errorf("%s: %w: %w", line, err, unknownNode(first))
	}
	if first == "" {
		return fmt.Errorf("%s: %w", line, err)
	}
	return fmt.Errorf("%s: %w: %s", line, err, first)
}

// said is what a command that failed has to say for itself: scontrol tells on
// standard output that it knows no node of a name.
func said(errs, out *capped) string {
	if text := strings.TrimSpace(errs.String()); text != "" {
		return text
	}
	return string(out.kept[:min(len(out.kept), maxErr)])
}

// line is a command as one would type it, for errors; long arguments are cut.
func line(name string, args []string) string {
	s := strings.Join(append([]string{name}, args...), " ")
	if len(s) > 120 {
		s = s[:117] + "..."
	}
	return s
}

// capped keeps the first bytes that are written to it.
type capped struct {
	kept []byte
	max  int
	cut  bool
}

func (c *capped) Write(p []byte) (int, error) {
	n := min(len(p), c.max-len(c.kept))
	c.cut = c.cut || n < len(p)
	c.kept = append(c.kept, p[:n]...)
	return len(p), nil
}

func (c *capped) String() string { return string(c.kept) }
