package match

import (
	"math"
	"slices"
)

// augment matches a tight edge between outer nodes of two trees, and swaps
// matched and unmatched edges on the ways back to both roots.
func (m *matcher) augment(e edge) {
	for _, half := range [...]edge{e, e.back()} {
		at, to := half.from, half.to
		for {
			b := m.top[at]
			m.rebase(b, at)
			m.mate[at] = to
			t := m.entry[b].from
			if t == none {
				break
			}
			in := m.entry[m.top[t]]
			m.rebase(m.top[t], in.to)
			m.mate[in.to] = in.from
			at, to = in.from, in.to
		}
	}
}

// rebase swaps the edges in a node so that v is matched outside of it.
func (m *matcher) rebase(b, v int32) {
	if b < int32(m.n) {
		return
	}
	t := v
	for m.parent[t] != b {
		t = m.parent[t]
	}
	m.rebase(t, v)
	at := slices.Index(m.children[b], t)
	for j, step := m.around(b, at); j != 0; j += 2 * step {
		e := m.link(b, j+step, step)
		m.rebase(m.child(b, j+step), e.from)
		m.rebase(m.child(b, j+2*step), e.to)
		m.mate[e.from], m.mate[e.to] = e.to, e.from
	}
	m.children[b] = slices.Concat(m.children[b][at:], m.children[b][:at])
	m.links[b] = slices.Concat(m.links[b][at:], m.links[b][:at])
	m.base[b] = v
}

// changeDuals changes the duals by as little as makes a further edge tight or
// an inner blossom open. It returns false where the duals of the free vertices
// come to zero first: no path makes the matching heavier.
func (m *matcher) changeDuals() bool {
	delta, last := m.leastChange()
	m.apply(delta)
	if last {
		return false
	}
	n := int32(m.n)
	for v := range n {
		if e := m.best[v]; e != noEdge && m.role[m.top[v]] == unreached && m.slack(e) == 0 {
			m.queue = append(m.queue, e.from)
		}
	}
	for b := range 2 * n {
		if m.outermost(b, outer) && m.best[b] != noEdge && m.slack(m.best[b]) == 0 {
			m.queue = append(m.queue, m.best[b].from)
		}
	}
	for b := n; b < 2*n; b++ {
		if m.outermost(b, inner) && m.dual[b] == 0 {
			m.expand(b)
		}
	}
	return true
}

// outermost says whether a node is in no other and has a role.
func (m *matcher) outermost(b int32, r role) bool {
	return m.base[b] != none && m.parent[b] == none && m.role[b] == r
}

// leastChange is by how much the duals can change, and whether nothing is left
// to do after that.
func (m *matcher) leastChange() (delta int64, last bool) {
	n := int32(m.n)
	delta, last = math.MaxInt64, true
	for v := range n {
		delta = min(delta, m.dual[v])
	}
	shorter := func(d int64) {
		if d < delta {
			delta, last = d, false
		}
	}
	for v := range n {
		if m.role[m.top[v]] == unreached && m.best[v] != noEdge {
			shorter(m.slack(m.best[v]))
		}
	}
	for b := range 2 * n {
		switch {
		case m.outermost(b, outer) && m.best[b] != noEdge:
			shorter(m.slack(m.best[b]) / 2)
		case b >= n && m.outermost(b, inner):
			shorter(m.dual[b])
		}
	}
	return delta, last
}

func (m *matcher) apply(delta int64) {
	for v := range int32(m.n) {
		switch m.role[m.top[v]] {
		case outer:
			m.dual[v] -= delta
		case inner:
			m.dual[v] += delta
		}
	}
	for b := int32(m.n); b < int32(2*m.n); b++ {
		switch {
		case m.outermost(b, outer):
			m.dual[b] += delta
		case m.outermost(b, inner):
			m.dual[b] -= delta
		}
	}
}
