// Package match pairs the vertices of a graph so that the pairs weigh the most
// together.
//
// It is Edmonds' algorithm in the primal-dual form of Galil, "Efficient
// algorithms for finding maximum matching in graphs" (ACM Computing Surveys,
// 1986), on integers, in time cubic in the number of vertices. A search grows
// alternating trees from all free vertices at once. Vertices at an even
// distance from a root are outer, those at an odd distance inner; an odd circle
// is shrunk into a blossom, which then is one vertex of the search. Where the
// search is stuck, the duals change by as little as lets it go on.
package match

// none is no vertex, no blossom.
const none = -1

// role is what a vertex or blossom is in the search.
type role int8

const (
	unreached role = iota
	outer
	inner
)

// edge goes from one vertex to another.
type edge struct{ from, to int32 }

var noEdge = edge{none, none}

func (e edge) back() edge { return edge{e.to, e.from} }

// matcher is the state of one matching. Vertices are 0 to n-1, blossoms n to
// 2n-1; "node" below is either of them.
type matcher struct {
	n      int
	weight []int64 // n by n
	mate   []int32 // of each vertex
	// dual is twice the dual of a vertex, and the dual of a blossom.
	dual []int64
	top  []int32 // of each vertex: the outermost node around it

	role  []role
	entry []edge // how a node was reached: from outside to the vertex in it
	best  []edge // the least slack: of an unreached vertex to an outer node, of an outer node to another

	// For blossoms: the node around it, the vertex that is matched outside, the
	// nodes of the circle beginning with the one that holds the base, and the
	// edges from each to the next.
	parent   []int32
	base     []int32
	children [][]int32
	links    [][]edge
	bests    [][]edge // the least slack to each other outer node; nil when not gathered
	unused   []int32  // numbers for new blossoms

	queue  []int32 // outer vertices to look at
	marked []bool  // scratch of commonBase
	bestTo []edge  // scratch of gatherBests
}

// Heaviest pairs n vertices and returns the partner of each, -1 where it has
// none. weight holds n rows of n weights and is symmetrical; only edges with a
// positive weight, below 2^61, are used.
func Heaviest(n int, weight []int64) []int32 {
	m := newMatcher(n, weight)
	for m.stage() {
	}
	return m.mate
}

func newMatcher(n int, weight []int64) *matcher {
	m := &matcher{
		n: n, weight: weight,
		mate: filled[int32](n, none), dual: make([]int64, 2*n), top: make([]int32, n),
		role: make([]role, 2*n), entry: filled(2*n, noEdge), best: filled(2*n, noEdge),
		parent: filled[int32](2*n, none), base: filled[int32](2*n, none),
		children: make([][]int32, 2*n), links: make([][]edge, 2*n), bests: make([][]edge, 2*n),
		marked: make([]bool, 2*n), bestTo: filled(2*n, noEdge),
	}
	heaviest := int64(0)
	for _, w := range weight {
		heaviest = max(heaviest, w)
	}
	for v := range n {
		m.dual[v], m.top[v], m.base[v] = heaviest, int32(v), int32(v)
		m.unused = append(m.unused, int32(2*n-1-v))
	}
	return m
}

func filled[T any](n int, v T) []T {
	s := make([]T, n)
	for i := range s {
		s[i] = v
	}
	return s
}

// slack is how far an edge is from being tight. Only tight edges are matched.
func (m *matcher) slack(e edge) int64 {
	return m.dual[e.from] + m.dual[e.to] - 2*m.weight[int(e.from)*m.n+int(e.to)]
}

// stage looks for one augmenting path and takes it. It returns false where
// there is none: then the matching is the heaviest.
func (m *matcher) stage() bool {
	m.resetSearch()
	for {
		if m.search() {
			m.dissolve()
			return true
		}
		if !m.changeDuals() {
			return false
		}
	}
}

// resetSearch begins with the free vertices as roots.
func (m *matcher) resetSearch() {
	for b := range m.role {
		m.role[b], m.best[b], m.bests[b] = unreached, noEdge, nil
	}
	m.queue = m.queue[:0]
	for v := range int32(m.n) {
		if m.mate[v] == none && m.role[m.top[v]] == unreached {
			m.reach(edge{none, v}, outer)
		}
	}
}

// search follows tight edges from outer vertices. It returns true when it has
// augmented the matching.
func (m *matcher) search() bool {
	for len(m.queue) > 0 {
		v := m.queue[len(m.queue)-1]
		m.queue = m.queue[:len(m.queue)-1]
		if m.scan(v) {
			return true
		}
	}
	return false
}

// scan looks at all edges of an outer vertex.
func (m *matcher) scan(v int32) bool {
	weights, dual := m.weight[int(v)*m.n:][:m.n], m.dual[v]
	for w := range int32(m.n) {
		if weights[w] <= 0 || m.top[v] == m.top[w] {
			continue
		}
		slack := dual + m.dual[w] - 2*weights[w]
		if slack == 0 {
			if m.follow(edge{v, w}) {
				return true
			}
			continue
		}
		m.remember(edge{v, w}, slack)
	}
	return false
}

// follow goes along a tight edge from an outer vertex. It returns true when it
// has augmented the matching.
func (m *matcher) follow(e edge) bool {
	switch m.role[m.top[e.to]] {
	case unreached:
		m.reach(e, inner)
	case outer:
		base := m.commonBase(e)
		if base == none {
			m.augment(e)
			return true
		}
		m.shrink(base, e)
	case inner: // keep how to come in here, for when the blossom opens
		if m.role[e.to] == unreached {
			m.role[e.to], m.entry[e.to] = inner, e
		}
	}
	return false
}

// remember keeps an edge that is not tight where it is the closest to it.
func (m *matcher) remember(e edge, slack int64) {
	at := e.to
	switch {
	case m.role[m.top[e.to]] == outer:
		at = m.top[e.from]
	case m.role[e.to] != unreached:
		return
	}
	if b := m.best[at]; b == noEdge || slack < m.slack(b) {
		m.best[at] = e
	}
}

// reach gives a node its role. Behind an inner node the partner of its base is
// reached too.
func (m *matcher) reach(e edge, r role) {
	b := m.top[e.to]
	for _, node := range [...]int32{e.to, b} {
		m.role[node], m.entry[node], m.best[node] = r, e, noEdge
	}
	if r == outer {
		m.eachVertex(b, func(v int32) { m.queue = append(m.queue, v) })
		return
	}
	base := m.base[b]
	m.reach(edge{base, m.mate[base]}, outer)
}

// eachVertex calls f for every vertex in a node.
func (m *matcher) eachVertex(node int32, f func(int32)) {
	if node < int32(m.n) {
		f(node)
		return
	}
	for _, c := range m.children[node] {
		m.eachVertex(c, f)
	}
}

// commonBase goes back from both ends of an edge between outer nodes and
// returns the base of the first node that both ways meet at, or none.
func (m *matcher) commonBase(e edge) int32 {
	var path []int32
	found := int32(none)
	for v, w := e.from, e.to; v != none || w != none; {
		b := m.top[v]
		if m.marked[b] {
			found = m.base[b]
			break
		}
		m.marked[b] = true
		path = append(path, b)
		if v = m.entry[b].from; v != none { // an inner vertex, or the root
			v = m.entry[m.top[v]].from
		}
		if w != none {
			v, w = w, v
		}
	}
	for _, b := range path {
		m.marked[b] = false
	}
	return found
}
