package slurm

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
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
	jobNode  = regexp.MustCompile(`(?m)^     Nodes=(\S+) CPU_IDs=\S* Mem=\S* GRES=(\S*)`)
	jobNodes = regexp.MustCompile(`(?m)^   JOB_GRES=.*\n(?:     Nodes=.*\n)*`)
	// What a job has of one kind: its numbers on the node (IDX:0-1,3), or, of
	// shards in newer versions, how many of each GPU's (1/8,0/8).
	gresUse = regexp.MustCompile(`(gpu|shard)(?::[^:(,]+)?:(\d+)\(([^)]*)\)`)
)

// maxGPUs bounds what a range of numbers is believed to name.
const maxGPUs = 1024

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
	ids, err := c.call(ctx, "squeue", "--noheader", "--states=RUNNING,SUSPENDED,COMPLETING", "--nodelist="+node, "--format=%A")
	if err != nil {
		return s, err
	}
	jobs, err := c.call(ctx, "scontrol", "-d", "show", "job")
	if err != nil {
		return s, err
	}
	return s, s.takeAll(jobs, strings.Fields(ids), node)
}

// takeAll adds what these jobs have of a node. Jobs' names and comments stand
// between what scontrol says, and may be written, line breaks included, to look
// like it: what is there twice is not believed.
func (s *Shards) takeAll(jobs string, ids []string, node string) error {
	seen := map[string]bool{}
	for job := range strings.SplitSeq(jobs, "\n\n") {
		first, _, _ := strings.Cut(job, " ")
		id := strings.TrimPrefix(first, "JobId=")
		if !slices.Contains(ids, id) {
			continue
		}
		places := jobNodes.FindAllString(job, -1)
		if seen[id] || len(places) != 1 || len(jobNode.FindAllString(job, -1)) != len(jobNode.FindAllString(places[0], -1)) {
			return errShards
		}
		seen[id] = true
		if err := s.take(places[0], node); err != nil {
			return err
		}
	}
	return nil
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
		if err := s.use(m[2]); err != nil {
			return err
		}
	}
	return nil
}

// use adds what a job has of this node's GPUs and shards.
func (s *Shards) use(gres string) error {
	for _, m := range gresUse.FindAllStringSubmatch(gres, -1) {
		numbers, indexed := strings.CutPrefix(m[3], "IDX:")
		var err error
		switch {
		case m[1] == "shard" && indexed:
			err = s.useOne(m[2], numbers)
		case m[1] == "shard":
			err = s.useEach(numbers)
		default:
			err = s.useWhole(numbers)
		}
		if err != nil {
			return errShards
		}
	}
	if rest := gresUse.ReplaceAllString(gres, ""); strings.Contains(rest, "gpu:") || strings.Contains(rest, "shard:") {
		return errShards
	}
	return nil
}

// useOne adds shards of a single GPU; of several it cannot be told.
func (s *Shards) useOne(count, gpu string) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(gpu)
	if err != nil {
		return err
	}
	s.Used[number] += n
	return nil
}

// useEach adds shards of each GPU: "2/8,0/8".
func (s *Shards) useEach(uses string) error {
	for gpu, use := range strings.Split(uses, ",") {
		count, _, _ := strings.Cut(use, "/")
		if n, err := strconv.Atoi(count); err != nil {
			return err
		} else if n > 0 {
			s.Used[gpu] += n
		}
	}
	return nil
}

// useWhole adds whole GPUs: "0-1,3".
func (s *Shards) useWhole(numbers string) error {
	for part := range strings.SplitSeq(numbers, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.Atoi(first)
		if err != nil {
			return err
		}
		to, err := strconv.Atoi(last)
		if err != nil {
			return err
		}
		for gpu := from; gpu <= min(to, from+maxGPUs); gpu++ {
			s.Whole[gpu] = true
		}
	}
	return nil
}
