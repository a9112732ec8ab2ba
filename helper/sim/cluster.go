package sim

import "fmt"

// Share is a number of GPUs on one node.
type Share struct{ Node, GPUs int }

// Cluster keeps how many GPUs are free on each node. It places as Slurm does
// with whole GPUs: a job that fits in one node goes to the first node with
// room; a larger one takes the first nodes that are wholly free, and what is
// left over goes to the first further node with room for it.
type Cluster struct {
	PerNode int // GPUs on each node
	free    *MaxTree
	idle    int // wholly free nodes
	used    int // GPUs in use
}

// NewCluster is a cluster of equal nodes, all of it free.
func NewCluster(nodes, perNode int) (*Cluster, error) {
	if nodes < 1 || perNode < 1 {
		return nil, fmt.Errorf("a cluster of %d nodes with %d GPUs each: both must be at least 1", nodes, perNode)
	}
	c := &Cluster{PerNode: perNode, free: NewMaxTree(nodes)}
	c.Reset()
	return c, nil
}

// Nodes is the number of nodes.
func (c *Cluster) Nodes() int { return c.free.Len() }

// GPUs is the number of GPUs of the whole cluster.
func (c *Cluster) GPUs() int { return c.Nodes() * c.PerNode }

// Used is the number of GPUs that are taken.
func (c *Cluster) Used() int { return c.used }

// FreeOn is the number of free GPUs on a node.
func (c *Cluster) FreeOn(node int) int { return int(c.free.At(node)) }

// Reset frees every GPU.
func (c *Cluster) Reset() {
	c.free.Fill(float64(c.PerNode))
	c.idle, c.used = c.Nodes(), 0
}

// Holds says whether the job would fit in the cluster if it were empty.
func (c *Cluster) Holds(j *Job) bool {
	if j.GPUs > c.GPUs() || j.Nodes > c.Nodes() {
		return false
	}
	return !spreads(j) || perAskedNode(j) <= c.PerNode
}

// spreads says whether the job asked for more nodes than it needs.
func spreads(j *Job) bool { return j.Nodes > 1 && j.GPUs >= j.Nodes }

// perAskedNode is how many GPUs the job wants on the fullest of its nodes.
func perAskedNode(j *Job) int { return (j.GPUs + j.Nodes - 1) / j.Nodes }

// Place takes GPUs for a job and appends where to into. It returns nil, and
// takes nothing, where the job does not fit.
func (c *Cluster) Place(j *Job, into []Share) []Share { return c.PlaceOutside(j, nil, into) }

// PlaceOutside is Place without the nodes of the given shares.
func (c *Cluster) PlaceOutside(j *Job, closed, into []Share) []Share {
	n := j.GPUs
	if n > c.GPUs()-c.used {
		return nil
	}
	switch {
	case spreads(j):
		return c.placeSpread(j, closed, into)
	case n > c.PerNode:
		return c.placeWide(n, closed, into)
	}
	node := c.first(0, n, closed)
	if node < 0 {
		return nil
	}
	c.take(node, n)
	return append(into, Share{node, n})
}

// placeWide places a job larger than a node.
func (c *Cluster) placeWide(n int, closed, into []Share) []Share {
	whole, rest := n/c.PerNode, n%c.PerNode
	if c.idle < whole {
		return nil
	}
	start := len(into)
	for node := -1; whole > 0; whole-- {
		if node = c.first(node+1, c.PerNode, closed); node < 0 {
			return nil
		}
		into = append(into, Share{node, c.PerNode})
	}
	if rest > 0 {
		node := c.first(0, rest, closed)
		for node >= 0 && holds(into[start:], node) {
			node = c.first(node+1, rest, closed)
		}
		if node < 0 {
			return nil
		}
		into = append(into, Share{node, rest})
	}
	c.Take(into[start:])
	return into
}

// placeSpread places a job on as many nodes as it asked for.
func (c *Cluster) placeSpread(j *Job, closed, into []Share) []Share {
	start, node := len(into), -1
	for _, n := range j.PerNode(c.PerNode) {
		if node = c.first(node+1, n, closed); node < 0 {
			return nil
		}
		into = append(into, Share{node, n})
	}
	c.Take(into[start:])
	return into
}

// first is the first node not below from, and not closed, with n free GPUs, or
// -1.
func (c *Cluster) first(from, n int, closed []Share) int {
	node := c.free.First(from, float64(n))
	for node >= 0 && holds(closed, node) {
		node = c.free.First(node+1, float64(n))
	}
	return node
}

func holds(shares []Share, node int) bool {
	for _, s := range shares {
		if s.Node == node {
			return true
		}
	}
	return false
}

// Release gives GPUs back.
func (c *Cluster) Release(shares []Share) {
	for _, s := range shares {
		c.take(s.Node, -s.GPUs)
	}
}

// Take takes GPUs on given nodes, where they must be free.
func (c *Cluster) Take(shares []Share) {
	for _, s := range shares {
		c.take(s.Node, s.GPUs)
	}
}

// take takes n GPUs of a node; a negative n gives them back.
func (c *Cluster) take(node, n int) {
	before := c.FreeOn(node)
	after := before - n
	if after < 0 || after > c.PerNode {
		panic(fmt.Sprintf("sim: node %d would have %d of %d GPUs free", node, after, c.PerNode))
	}
	if before == c.PerNode {
		c.idle--
	}
	if after == c.PerNode {
		c.idle++
	}
	c.used += n
	c.free.Set(node, float64(after))
}
