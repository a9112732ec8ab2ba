package main

import "fmt"

// What a simulation and a drawing can have at most: more is a slip of the keyboard, for
// which memory would not suffice.
const (
	mostNodes   = 100_000
	mostPerNode = 1_000
	mostShards  = 1_000      // of a GPU
	mostGPUs    = 1_000_000  // of all nodes
	mostSeats   = 10_000_000 // shards of all GPUs
	mostWidth   = 10_000     // columns
)

// checkSize refuses a cluster that is larger than any. What was not said is 0.
func checkSize(nodes, perNode, shards int) error {
	for _, n := range [...]struct {
		option     string
		said, most int
	}{{"nodes", nodes, mostNodes}, {"gpus-per-node", perNode, mostPerNode}, {"shards", shards, mostShards}} {
		if n.said > n.most {
			return fmt.Errorf("--%s: %d is too many: at most %d can be simulated", n.option, n.said, n.most)
		}
	}
	gpus := max(nodes, 1) * max(perNode, 1)
	switch {
	case gpus > mostGPUs:
		return fmt.Errorf("--nodes and --gpus-per-node make %d GPUs: at most %d can be simulated", gpus, mostGPUs)
	case gpus*shards > mostSeats:
		return fmt.Errorf("--shards: %d GPUs have %d of them: at most %d can be simulated", gpus, gpus*shards, mostSeats)
	}
	return nil
}

// checkWidth refuses a width that no screen or paper has.
func checkWidth(width int) error {
	switch {
	case width < 0:
		return fmt.Errorf("a width of %d columns", width)
	case width > mostWidth:
		return fmt.Errorf("a width of %d columns: at most %d can be drawn", width, mostWidth)
	}
	return nil
}
