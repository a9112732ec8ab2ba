// Package mps speaks to NVIDIA's multi-process service through its control
// program, nvidia-cuda-mps-control. The control daemon is the site's: nothing is
// started here but the program that asks it, for two seconds at most.
//
// A process is a client of MPS if it finds the control daemon's pipes; what it may
// take is said in its environment before it starts. Its kernels run in a server
// that it shares with others, so that a client which is killed with work
// outstanding can take the server and all of its clients down: its work has to be
// ended first (NVIDIA, "Multi-Process Service", terminate_client).
package mps

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds of one question.
const (
	Timeout = 2 * time.Second
	maxOut  = 64 << 10
	maxErr  = 1 << 10
)

// Control asks one control daemon. Its zero value asks the one of CUDA's default
// folder.
type Control struct {
	Command string        // of the control program; "": nvidia-cuda-mps-control, by PATH
	Pipe    string        // folder of the control daemon's pipes
	Timeout time.Duration // of one question; 0: 2 s
}

// Servers lists the process ids of the servers that run, none while no client has
// come yet.
func (c *Control) Servers(ctx context.Context) ([]int, error) {
	return c.pids(ctx, "get_server_list")
}

// Clients lists the process ids of a server's clients.
func (c *Control) Clients(ctx context.Context, server int) ([]int, error) {
	return c.pids(ctx, fmt.Sprintf("get_client_list %d", server))
}

// Release ends the outstanding work of those of the processes that are clients of
// a server. Only when it returns nil may they be killed.
func (c *Control) Release(ctx context.Context, pids []int) error {
	servers, err := c.Servers(ctx)
	if err != nil {
		return err
	}
	for _, s := range servers {
		clients, err := c.Clients(ctx, s)
		if err != nil {
			return err
		}
		for _, p := range clients {
			if !slices.Contains(pids, p) {
				continue
			}
			if _, err := c.ask(ctx, fmt.Sprintf("terminate_client %d %d", s, p)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Control) pids(ctx context.Context, question string) ([]int, error) {
	answer, err := c.ask(ctx, question)
	if err != nil {
		return nil, err
	}
	var out []int
	for _, word := range strings.Fields(answer) {
		pid, err := strconv.Atoi(word)
		if err != nil || pid <= 1 {
			return nil, fmt.Errorf("mps: %s: %.40q is not a process id", question, word)
		}
		out = append(out, pid)
	}
	return out, nil
}

// ask puts one question and returns the answer. The program is gone when ask
// returns.
func (c *Control) ask(ctx context.Context, question string) (string, error) {
	limit := c.Timeout
	if limit <= 0 {
		limit = Timeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out, errs := &capped{max: maxOut}, &capped{max: maxErr}
	cmd := c.command(ctx)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(question+"\n"), out, errs
	err := cmd.Run()
	switch first, _, _ := strings.Cut(strings.TrimSpace(errs.String()), "\n"); {
	case ctx.Err() != nil:
		return "", fmt.Errorf("mps: %s: no answer within %s: %w", question, limit, ctx.Err())
	case err != nil && first != "":
		return "", fmt.Errorf("mps: %s: %w: %s", question, err, first)
	case err != nil:
		return "", fmt.Errorf("mps: %s: %w", question, err)
	case out.cut:
		return "", fmt.Errorf("mps: %s: %w", question, errLong)
	}
	return out.String(), nil
}

var errLong = errors.New("the answer is too long")

// command is the control program.
func (c *Control) command(ctx context.Context) *exec.Cmd {
	name := c.Command
	if name == "" {
		name = "nvidia-cuda-mps-control"
	}
	cmd := exec.CommandContext(ctx, name)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	if c.Pipe != "" {
		cmd.Env = append(cmd.Env, "CUDA_MPS_PIPE_DIRECTORY="+c.Pipe)
	}
	cmd.Dir = "/"
	cmd.WaitDelay = time.Second // a busy machine reads late what was answered in time
	return cmd
}

// capped keeps the first bytes that are written to it.
type capped struct {
	kept bytes.Buffer
	max  int
	cut  bool
}

func (c *capped) Write(p []byte) (int, error) {
	n := min(len(p), c.max-c.kept.Len())
	c.cut = c.cut || n < len(p)
	c.kept.Write(p[:n])
	return len(p), nil
}

func (c *capped) String() string { return c.kept.String() }
