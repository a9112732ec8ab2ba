package baseline

// weightUnit is the weight of packs that use all resources. Weights are whole
// numbers so that the matching is exact.
const weightUnit = 1 << 40

// packWeights are the weights of joining two packs, by the groups they are.
type packWeights struct {
	together *together
	number   map[group]int
	groups   []group
	weights  [][]int64 // by the numbers of two groups; 0 is not known yet, -1 too many
}

func newPackWeights(t *together) packWeights {
	return packWeights{together: t, number: make(map[group]int)}
}

// of is the square matrix of the weights of any two packs, for match.Heaviest.
func (p *packWeights) of(packs []*pack) []int64 {
	n := len(packs)
	numbers := make([]int, n)
	for i, pack := range packs {
		numbers[i] = p.numberOf(pack.group)
	}
	matrix := make([]int64, n*n)
	for i := range n {
		for j := range i {
			w := p.weight(numbers[i], numbers[j])
			matrix[i*n+j], matrix[j*n+i] = w, w
		}
	}
	return matrix
}

func (p *packWeights) numberOf(g group) int {
	n, ok := p.number[g]
	if !ok {
		n = len(p.groups)
		p.number[g] = n
		p.groups = append(p.groups, g)
		p.weights = append(p.weights, nil)
	}
	return n
}

func (p *packWeights) weight(a, b int) int64 {
	if a < b {
		a, b = b, a
	}
	if p.weights[a] == nil {
		p.weights[a] = make([]int64, a+1)
	}
	w := &p.weights[a][b]
	if *w == 0 {
		*w = p.compute(p.groups[a], p.groups[b])
	}
	return *w
}

func (p *packWeights) compute(a, b group) int64 {
	if a.size()+b.size() > mostTogether {
		return -1
	}
	return max(1, int64(p.together.used(join(a, b))*weightUnit))
}
