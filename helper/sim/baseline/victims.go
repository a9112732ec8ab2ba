package baseline

import (
	"cmp"
	"math"
	"slices"

	"github.com/gimbal-hpc/gimbal/helper/sim"
)

// victims knows for each node and each number of GPUs how late in the order of
// running tasks those come that would have to make room there. A task takes
// the node where they come last.
type victims struct {
	cluster *sim.Cluster
	key     func(*sim.Task) float64 // of running tasks; the largest gives way first
	on      [][]keyed               // tasks on each node, the largest key first
	sizes   []int                   // numbers of GPUs that jobs take on a node
	latest  []*sim.MaxTree          // by size: the smallest key that would give way on each node
}

func newVictims(c *sim.Cluster, tasks []sim.Task, key func(*sim.Task) float64) *victims {
	v := &victims{cluster: c, key: key, on: make([][]keyed, c.Nodes())}
	seen := make(map[int]bool)
	for i := range tasks {
		for _, n := range tasks[i].Job.PerNode(c.PerNode) {
			seen[n] = true
		}
	}
	for n := range seen {
		v.sizes = append(v.sizes, n)
	}
	slices.Sort(v.sizes)
	for range v.sizes {
		tree := sim.NewMaxTree(c.Nodes())
		tree.Fill(math.Inf(1))
		v.latest = append(v.latest, tree)
	}
	return v
}

// find is the nodes that a task gets whose key is before those of all that
// give way, or nil where there are none.
func (v *victims) find(j *sim.Job, key float64) []sim.Share {
	var found []sim.Share
	enough := true
	for _, n := range j.PerNode(v.cluster.PerNode) {
		k, _ := slices.BinarySearch(v.sizes, n)
		last := v.latest[k].Max()
		if enough = last > key; !enough {
			break
		}
		node := v.latest[k].First(0, last)
		v.hide(node)
		found = append(found, sim.Share{Node: node, GPUs: n})
	}
	for _, s := range found {
		v.refresh(s.Node)
	}
	if !enough {
		return nil
	}
	return found
}

// hide keeps a node from being found until it is refreshed.
func (v *victims) hide(node int) {
	for _, tree := range v.latest {
		tree.Set(node, math.Inf(-1))
	}
}

// giveWay is the tasks that make room for a share, those that come last first.
func (v *victims) giveWay(s sim.Share) []*sim.Task {
	var out []*sim.Task
	free := v.cluster.FreeOn(s.Node)
	for _, k := range v.on[s.Node] {
		if free >= s.GPUs {
			break
		}
		out = append(out, k.task)
		free += gpusOn(k.task, s.Node)
	}
	return out
}

func gpusOn(t *sim.Task, node int) int {
	for _, s := range t.Nodes {
		if s.Node == node {
			return s.GPUs
		}
	}
	return 0
}

// add tells that a task runs on its nodes.
func (v *victims) add(t *sim.Task) {
	k := keyed{v.key(t), t}
	for _, s := range t.Nodes {
		at, _ := slices.BinarySearchFunc(v.on[s.Node], k, laterFirst)
		v.on[s.Node] = slices.Insert(v.on[s.Node], at, k)
		v.refresh(s.Node)
	}
}

// remove tells that a task runs on its nodes no more.
func (v *victims) remove(t *sim.Task) {
	for _, s := range t.Nodes {
		v.on[s.Node] = slices.DeleteFunc(v.on[s.Node], func(k keyed) bool { return k.task == t })
		v.refresh(s.Node)
	}
}

// reorder brings the keys of all running tasks up to date.
func (v *victims) reorder() {
	for node := range v.on {
		for i := range v.on[node] {
			v.on[node][i].key = v.key(v.on[node][i].task)
		}
		slices.SortFunc(v.on[node], laterFirst)
		v.refresh(node)
	}
}

func laterFirst(a, b keyed) int {
	return cmp.Or(cmp.Compare(b.key, a.key), b.task.Index-a.task.Index)
}

// refresh computes what would have to give way on a node.
func (v *victims) refresh(node int) {
	free, last, i := v.cluster.FreeOn(node), math.Inf(1), 0
	for k, n := range v.sizes {
		for free < n && i < len(v.on[node]) {
			free += gpusOn(v.on[node][i].task, node)
			last = v.on[node][i].key
			i++
		}
		v.latest[k].Set(node, last)
	}
}
