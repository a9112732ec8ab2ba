package match

import "slices"

// shrink makes a blossom of the circle that an edge between two outer nodes
// closes. base is where the ways from both ends meet.
func (m *matcher) shrink(base int32, e edge) {
	b := m.unused[len(m.unused)-1]
	m.unused = m.unused[:len(m.unused)-1]
	root := m.top[base]
	m.children[b], m.links[b] = m.circle(root, e)
	m.base[b], m.parent[b], m.dual[b] = base, none, 0
	m.role[b], m.entry[b] = outer, m.entry[root]
	for _, c := range m.children[b] {
		m.parent[c] = b
	}
	m.eachVertex(b, func(v int32) {
		if m.role[m.top[v]] == inner { // outer from now on
			m.queue = append(m.queue, v)
		}
		m.top[v] = b
	})
	m.gatherBests(b)
}

// circle is the nodes from root to one end of e and back from its other end,
// and the edges from each to the next.
func (m *matcher) circle(root int32, e edge) (nodes []int32, links []edge) {
	for c := m.top[e.from]; c != root; c = m.top[m.entry[c].from] {
		nodes, links = append(nodes, c), append(links, m.entry[c])
	}
	nodes = append(nodes, root)
	slices.Reverse(nodes)
	slices.Reverse(links)
	links = append(links, e)
	for c := m.top[e.to]; c != root; c = m.top[m.entry[c].from] {
		nodes, links = append(nodes, c), append(links, m.entry[c].back())
	}
	return nodes, links
}

// gatherBests finds the edge with the least slack from a new blossom to each
// other outer node.
func (m *matcher) gatherBests(b int32) {
	for _, c := range m.children[b] {
		if m.bests[c] != nil {
			for _, e := range m.bests[c] {
				m.keepBest(b, e)
			}
		} else {
			m.eachVertex(c, func(v int32) {
				for w := range int32(m.n) {
					if m.weight[int(v)*m.n+int(w)] > 0 {
						m.keepBest(b, edge{v, w})
					}
				}
			})
		}
		m.bests[c], m.best[c] = nil, noEdge
	}
	m.best[b], m.bests[b] = noEdge, []edge{}
	for i, e := range m.bestTo {
		if e == noEdge {
			continue
		}
		m.bests[b] = append(m.bests[b], e)
		if m.best[b] == noEdge || m.slack(e) < m.slack(m.best[b]) {
			m.best[b] = e
		}
		m.bestTo[i] = noEdge
	}
}

func (m *matcher) keepBest(b int32, e edge) {
	if m.top[e.to] == b {
		e = e.back()
	}
	to := m.top[e.to]
	if to == b || m.role[to] != outer {
		return
	}
	if m.bestTo[to] == noEdge || m.slack(e) < m.slack(m.bestTo[to]) {
		m.bestTo[to] = e
	}
}

// open makes the nodes of a blossom outermost again and gives its number back.
func (m *matcher) open(b int32) {
	for _, c := range m.children[b] {
		m.parent[c] = none
		m.eachVertex(c, func(v int32) { m.top[v] = c })
	}
}

func (m *matcher) recycle(b int32) {
	m.children[b], m.links[b], m.bests[b] = nil, nil, nil
	m.role[b], m.base[b], m.best[b], m.entry[b] = unreached, none, noEdge, noEdge
	m.unused = append(m.unused, b)
}

// dissolve opens the outer blossoms, at the end of a stage, whose dual is zero,
// and those in them likewise.
func (m *matcher) dissolve() {
	for b := int32(m.n); b < int32(2*m.n); b++ {
		if m.base[b] != none && m.parent[b] == none && m.role[b] == outer && m.dual[b] == 0 {
			m.dissolveOne(b)
		}
	}
}

func (m *matcher) dissolveOne(b int32) {
	m.open(b)
	inside := m.children[b]
	m.recycle(b)
	for _, c := range inside {
		if c >= int32(m.n) && m.dual[c] == 0 {
			m.dissolveOne(c)
		}
	}
}

// around walks a blossom's circle from the node at index at to the base, the
// way on which the number of steps is even.
func (m *matcher) around(b int32, at int) (start, step int) {
	if at%2 == 1 {
		return at - len(m.children[b]), 1
	}
	return at, -1
}

// child is the node at an index of a blossom's circle, counted from the end
// where it is negative.
func (m *matcher) child(b int32, i int) int32 {
	if i < 0 {
		i += len(m.children[b])
	}
	return m.children[b][i]
}

// link is the edge of a blossom's circle from the node at index i one step on.
func (m *matcher) link(b int32, i, step int) edge {
	k := len(m.links[b])
	if step > 0 {
		return m.links[b][(i+k)%k]
	}
	return m.links[b][(i-1+k)%k].back()
}

// expand opens an inner blossom whose dual is zero in the midst of a search.
// The nodes on the even way from where it was entered to its base take their
// turns as inner and outer; the others are unreached, unless there is an edge
// that reaches them.
func (m *matcher) expand(b int32) {
	m.open(b)
	in := m.entry[b]
	entered := m.top[in.to]
	j, step := m.around(b, slices.Index(m.children[b], entered))
	for j != 0 {
		next := m.link(b, j, step) // from this inner node to the outer one behind it
		m.role[in.to], m.role[next.to] = unreached, unreached
		m.reach(in, inner)
		j += step
		in = m.link(b, j, step)
		j += step
	}
	base := m.child(b, 0)
	for _, node := range [...]int32{in.to, base} {
		m.role[node], m.entry[node], m.best[node] = inner, in, noEdge
	}
	for j += step; m.child(b, j) != entered; j += step {
		if c := m.child(b, j); m.role[c] != outer {
			m.reachAgain(c)
		}
	}
	m.recycle(b)
}

// reachAgain makes a node of an opened blossom inner where an edge reaches it.
func (m *matcher) reachAgain(c int32) {
	at := int32(none)
	m.eachVertex(c, func(v int32) {
		if at == none && m.role[v] != unreached {
			at = v
		}
	})
	if at == none {
		return
	}
	m.role[at] = unreached
	m.role[m.mate[m.base[c]]] = unreached
	m.reach(m.entry[at], inner)
}
