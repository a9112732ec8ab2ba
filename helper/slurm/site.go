package slurm

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Site is what Slurm says of how the GPUs of a node are shared.
type Site struct {
	GPUs   int // of the node
	Shards int // of each of them
	Whole  int // GPUs that jobs have as a whole now
}

var (
	nodeUsed = regexp.MustCompile(` GresUsed=(\S+)`)
	gpuCount = regexp.MustCompile(`(?:^|,)gpu(?::\(null\)|:[^:,(]+)?:(\d+)`)
)

// Site asks how a node's GPUs are shared. It fails where Slurm does not tell, as
// of a node without shards.
func (c *Client) Site(ctx context.Context, node string) (Site, error) {
	text, err := c.call(ctx, "scontrol", "-d", "show", "node", "-o", node)
	if err != nil {
		return Site{}, err
	}
	s := Site{}
	if s.Shards, err = shardsEach(text); err != nil {
		return s, fmt.Errorf("node %s: %w", node, err)
	}
	used := nodeUsed.FindStringSubmatch(text)
	if used == nil {
		return s, fmt.Errorf("node %s: Slurm does not tell which of its GPUs are handed out", node)
	}
	s.GPUs, s.Whole = countGPUs(nodeGres.FindStringSubmatch(text)[1]), countGPUs(used[1])
	return s, nil
}

// countGPUs adds up the GPUs of a list such as gpu:a100:2(S:0),shard:8.
func countGPUs(gres string) (n int) {
	for _, m := range gpuCount.FindAllStringSubmatch(gres, -1) {
		k, _ := strconv.Atoi(m[1])
		n += k
	}
	return n
}

// Confines tells whether a job reaches no other GPUs than those that Slurm gave
// it: ConstrainDevices of cgroup.conf, with task/cgroup in TaskPlugin.
func (c *Client) Confines(ctx context.Context) (bool, error) {
	text, err := c.call(ctx, "scontrol", "show", "config")
	if err != nil {
		return false, err
	}
	values := map[string]string{}
	for row := range strings.Lines(text) {
		if key, value, ok := strings.Cut(row, "="); ok {
			values[strings.ToLower(strings.TrimSpace(key))] = strings.ToLower(strings.TrimSpace(value))
		}
	}
	plugins, told := values["taskplugin"]
	if !told {
		return false, errors.New("scontrol show config does not tell TaskPlugin")
	}
	return values["constraindevices"] == "yes" && strings.Contains(plugins, "task/cgroup"), nil
}
