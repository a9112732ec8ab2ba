package cuda

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// maxOutput bounds what is kept of a command's output, in bytes.
const maxOutput = 16 << 10

// maxCommands bounds the commands that run at once, those that hang included.
const maxCommands = 16

// Command is a Driver that runs the cuda-checkpoint command for each call. It
// initialises CUDA anew each time, which takes seconds on a real GPU.
type Command struct {
	path  string
	env   []string
	slots chan struct{}
}

// NewCommand returns a Driver of the command at path, or found by that name.
// env is its environment; nil is that of this process.
func NewCommand(path string, env []string) *Command {
	return &Command{path: path, env: env, slots: make(chan struct{}, maxCommands)}
}

// Supported tells whether the command is there and can lock and checkpoint in
// separate steps.
func (c *Command) Supported(ctx context.Context) Support {
	s := Support{By: "command"}
	var usage string
	for _, args := range [][]string{{"--help"}, nil} {
		out, err := c.run(ctx, args...)
		if out == "" && err != nil {
			s.Reason = err.Error()
			return s
		}
		usage += out
	}
	s.OK = strings.Contains(usage, "--action")
	if !s.OK {
		s.Reason = fmt.Sprintf("%s is older than driver R570: it has no --action", c.path)
	}
	return s
}

// State returns the driver's own view of a process.
func (c *Command) State(ctx context.Context, p model.ProcID) (State, error) {
	out, err := c.on(ctx, p, "--get-state")
	if err != nil {
		return Unknown, err
	}
	return parseState(out)
}

// parseState reads a state as the command prints it: its name or number.
func parseState(out string) (State, error) {
	word := strings.ToLower(strings.TrimSpace(out))
	for i, name := range stateNames {
		if word == name || word == strconv.Itoa(i) {
			return State(i), nil
		}
	}
	return Unknown, fmt.Errorf("cuda-checkpoint printed the state %.40q", out)
}

// Lock keeps a process from making further CUDA calls.
func (c *Command) Lock(ctx context.Context, p model.ProcID, timeout time.Duration) error {
	ms, err := milliseconds(timeout)
	if err != nil {
		return err
	}
	_, err = c.on(ctx, p, "--action", opLock, "--timeout", strconv.Itoa(int(ms)))
	return err
}

// Checkpoint moves the GPU memory of a locked process to host RAM.
func (c *Command) Checkpoint(ctx context.Context, p model.ProcID) error {
	_, err := c.on(ctx, p, "--action", opCheckpoint)
	return err
}

// Restore moves it back; the process is locked then.
func (c *Command) Restore(ctx context.Context, p model.ProcID) error {
	_, err := c.on(ctx, p, "--action", opRestore)
	return err
}

// Unlock lets a locked process make CUDA calls again.
func (c *Command) Unlock(ctx context.Context, p model.ProcID) error {
	_, err := c.on(ctx, p, "--action", opUnlock)
	return err
}

func (c *Command) on(ctx context.Context, p model.ProcID, args ...string) (string, error) {
	if err := verify(p); err != nil {
		return "", err
	}
	out, err := c.run(ctx, append(args, "--pid", strconv.Itoa(p.PID))...)
	if err != nil && verify(p) != nil {
		return "", fmt.Errorf("process %d: %w", p.PID, ErrGone)
	}
	return out, err
}

// ran is how a command ended.
type ran struct {
	out string
	err error
}

// run returns when the command has ended or the context has, even if the
// command cannot be killed.
func (c *Command) run(ctx context.Context, args ...string) (string, error) {
	select {
	case c.slots <- struct{}{}:
	default:
		return "", fmt.Errorf("run %s: %w: %d of them hang", c.path, ErrHelper, maxCommands)
	}
	done := make(chan ran, 1)
	go func() {
		defer func() { <-c.slots }()
		out, err := c.exec(ctx, args)
		done <- ran{out, err}
	}()
	select {
	case r := <-done:
		return r.out, r.err
	case <-ctx.Done():
		return "", fmt.Errorf("run %s: %w: %w", c.path, ErrTimeout, ctx.Err())
	}
}

func (c *Command) exec(ctx context.Context, args []string) (string, error) {
	cmd := exec.CommandContext(ctx, c.path, args...)
	cmd.Env = c.env
	cmd.WaitDelay = time.Second
	out := &limited{}
	cmd.Stdout, cmd.Stderr = out, out
	err := cmd.Run()
	text := strings.TrimSpace(out.String())
	switch {
	case err == nil:
		return text, nil
	case ctx.Err() != nil:
		return "", fmt.Errorf("run %s: %w: %w", c.path, ErrTimeout, ctx.Err())
	}
	if r, ok := parseResult(text); ok {
		return text, fmt.Errorf("run %s %s: %w", c.path, strings.Join(args, " "), r)
	}
	return text, fmt.Errorf("run %s %s: %w: %.200s", c.path, strings.Join(args, " "), err, text)
}

var resultNumber = regexp.MustCompile(`(?i)\bresult:? (\d{1,4})\b`)

// parseResult finds the driver's result in what a command that failed printed:
// a number, or the driver's words for it.
func parseResult(text string) (Result, bool) {
	if m := resultNumber.FindStringSubmatch(text); m != nil {
		n, err := strconv.Atoi(m[1])
		return Result(n), err == nil && n != 0
	}
	for r, name := range resultNames {
		if strings.Contains(strings.ToLower(text), name) {
			return r, true
		}
	}
	return 0, false
}

// limited keeps the first maxOutput bytes that are written to it.
type limited struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *limited) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf.Write(b[:min(len(b), maxOutput-l.buf.Len())])
	return len(b), nil
}

func (l *limited) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
