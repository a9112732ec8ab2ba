package slurm

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Shards is how the shards of a node lie on its GPUs.
type Shards struct {
	Each  int          // of one GPU
	Used  map[int]int  // handed out, by Slurm's number of the GPU
	Whole map[int]bool // GPUs that a job has as a whole
}

var (
	nodeGres = regexp.MustCompile(` Gres=(\S+)`)
	jobNode  = regexp.MustCompile(` Nodes=(\S+) CPU_IDs=\S* Mem=\S* GRES=(\S*)`)
	gresUse  = regexp.MustCompile(`^(gpu|shard)(?::[^:(]+)?:(\d+)\(IDX:(\d+)(?:-(\d+))?\)$`)
)

// errShards says that shards cannot be told apart by GPU.
var errShards = errors.New("it cannot be told which GPU the shards are of")

// Shards asks Slurm which of a node's shards are handed out, and on which GPU.
// It fails where that cannot be told, as of a job with shards of several GPUs.
func (c *Client) Shards(ctx context.Context, node string) (Shards, error) {
	text, err := c.call(ctx, "scontrol", "show", "node", "-o", node)
	if err != nil {
		return Shards{}, err
	}
	s := Shards{Used: map[int]int{}, Whole: map[int]bool{}}
	if s.Each, err = shardsEach(text); err != nil {
		return s, fmt.Errorf("node %s: %w", node, err)
	}
	jobs, err := c.call(ctx, "scontrol", "-d", "show", "job", "-o")
	if err != nil {
		return s, err
	}
	for job := range strings.Lines(jobs) {
		if strings.Contains(job, " JobState=RUNNING ") || strings.Contains(job, " JobState=SUSPENDED ") || strings.Contains(job, " JobState=COMPLETING ") {
			if err := s.take(job, node); err != nil {
				return s, err
			}
		}
	}
	return s, nil
}

// shardsEach reads the shards of each GPU of a node: Slurm spreads them evenly.
func shardsEach(node string) (int, error) {
	m := nodeGres.FindStringSubmatch(node)
	if m == nil {
		return 0, errShards
	}
	count := map[string]int{}
	for _, g := range strings.Split(m[1], ",") {
		g, _, _ = strings.Cut(g, "(")
		parts := strings.Split(g, ":")
		n, err := strconv.Atoi(parts[len(parts)-1])
		if err != nil {
			return 0, errShards
		}
		count[parts[0]] += n
	}
	if count["gpu"] == 0 || count["shard"] == 0 || count["shard"]%count["gpu"] != 0 {
		return 0, errShards
	}
	return count["shard"] / count["gpu"], nil
}

// take adds what a job has of a node.
func (s *Shards) take(job, node string) error {
	for _, m := range jobNode.FindAllStringSubmatch(job, -1) {
		if m[1] != node {
			if strings.ContainsAny(m[1], "[,") && m[2] != "" {
				return errShards // several nodes in one word
			}
			continue
		}
		for _, g := range strings.Split(m[2], ",") {
			if err := s.use(g); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Shards) use(gres string) error {
	m := gresUse.FindStringSubmatch(gres)
	switch {
	case m == nil && (strings.HasPrefix(gres, "shard") || strings.HasPrefix(gres, "gpu")):
		return errShards
	case m == nil:
		return nil
	}
	n, _ := strconv.Atoi(m[2])
	from, _ := strconv.Atoi(m[3])
	to := from
	if m[4] != "" {
		to, _ = strconv.Atoi(m[4])
	}
	if m[1] == "gpu" {
		for i := from; i <= to; i++ {
			s.Whole[i] = true
		}
		return nil
	}
	if to != from {
		return errShards
	}
	s.Used[from] += n
	return nil
}
