package sim

import "math"

// MaxTree holds one number for each index and finds the first index whose
// number is at least a bound, in logarithmic time.
type MaxTree struct {
	size int // leaves, a power of two
	n    int // indices in use
	max  []float64
}

// NewMaxTree is a tree over the indices 0 to n-1, each holding minus infinity.
func NewMaxTree(n int) *MaxTree {
	size := 1
	for size < n {
		size *= 2
	}
	t := &MaxTree{size: size, n: n, max: make([]float64, 2*size)}
	for i := range t.max {
		t.max[i] = math.Inf(-1)
	}
	return t
}

// Len is the number of indices.
func (t *MaxTree) Len() int { return t.n }

// At is the number at index i.
func (t *MaxTree) At(i int) float64 { return t.max[t.size+i] }

// Max is the largest number in the tree.
func (t *MaxTree) Max() float64 { return t.max[1] }

// Set stores v at index i.
func (t *MaxTree) Set(i int, v float64) {
	i += t.size
	if t.max[i] == v {
		return
	}
	t.max[i] = v
	for i >>= 1; i > 0; i >>= 1 {
		m := max(t.max[2*i], t.max[2*i+1])
		if t.max[i] == m {
			return
		}
		t.max[i] = m
	}
}

// Fill stores v at every index.
func (t *MaxTree) Fill(v float64) {
	for i := range t.n {
		t.max[t.size+i] = v
	}
	for i := t.size - 1; i > 0; i-- {
		t.max[i] = max(t.max[2*i], t.max[2*i+1])
	}
}

// First is the lowest index not below from whose number is at least v, or -1.
func (t *MaxTree) First(from int, v float64) int {
	if from >= t.n || t.max[1] < v {
		return -1
	}
	i := t.size + from
	for t.max[i] < v {
		for i&1 == 1 { // climb while i is a right child
			i >>= 1
		}
		if i == 0 {
			return -1
		}
		i++ // the next subtree to the right
	}
	for i < t.size {
		i *= 2
		if t.max[i] < v {
			i++
		}
	}
	return i - t.size
}

// Grow makes room for n indices; what is stored stays.
func (t *MaxTree) Grow(n int) {
	if n <= t.size {
		t.n = max(t.n, n)
		return
	}
	g := NewMaxTree(max(n, 2*t.size))
	copy(g.max[g.size:], t.max[t.size:t.size+t.n])
	for i := g.size - 1; i > 0; i-- {
		g.max[i] = max(g.max[2*i], g.max[2*i+1])
	}
	g.n = n
	*t = *g
}
