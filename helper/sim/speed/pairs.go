package speed

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/gimbal-hpc/gimbal/helper/sim/trace"
)

// Pairs is a table of measured pairs: how fast two models train beside each
// other, over their speed alone.
type Pairs struct {
	speeds map[[2]string][2]float64 // names in order
	models map[string]bool
	Notes  []string // what was chosen or left out, for the user to read
}

// Choice says which measurements of a file are meant, where it has several.
type Choice struct {
	GPU   string // such as v100; "" for v100 where the file has it, else the first
	Table string // such as simulation; "" for the first
}

// maxSpeed bounds a measured speed over that alone; what is above is a slip.
const maxSpeed = 10

// ReadFile reads a table of pairs from a file.
func ReadFile(path string, c Choice) (*Pairs, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the table of pairs: %w", err)
	}
	defer f.Close()
	return Read(f, path, c)
}

// Read reads a table of pairs: CSV with the columns
//
//	job_a, job_b    names of models, as the trace has them
//	norm_a, norm_b  their speeds beside each other over those alone
//	status          ok; zero: they cannot run together; no_isolated: not known
//	gpu, table      what was measured, where the file has several
//
// of which status, gpu and table may be missing. Each pair comes once, in
// either order. Two jobs of one model are as fast as each other: their mean.
func Read(r io.Reader, name string, c Choice) (*Pairs, error) {
	t, err := trace.OpenTable(r, name)
	if err != nil {
		return nil, err
	}
	if err := t.Need("job_a", "job_b", "norm_a", "norm_b"); err != nil {
		return nil, err
	}
	sets := &pairSets{name: name, sets: make(map[Choice]*Pairs)}
	for {
		err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if err := sets.row(t); err != nil {
			return nil, err
		}
	}
	return sets.choose(c)
}

// pairSets is the measurements of a file by what was measured.
type pairSets struct {
	name  string
	order []Choice
	sets  map[Choice]*Pairs
}

func (s *pairSets) row(t *trace.Table) error {
	a, b := t.Text("job_a"), t.Text("job_b")
	if a == "" || b == "" {
		return t.Errorf("job_a", "a pair of %q and %q", a, b)
	}
	set := s.set(Choice{GPU: t.Text("gpu"), Table: t.Text("table")})
	key := pairKey(a, b)
	if _, twice := set.speeds[key]; twice {
		return t.Errorf("job_a", "the pair of %q and %q is there twice", a, b)
	}
	var x, y float64
	switch status := t.Text("status"); status {
	case "zero":
	case "no_isolated":
		return nil
	case "", "ok":
		var errA, errB error
		x, errA = t.Number("norm_a", 0, maxSpeed)
		y, errB = t.Number("norm_b", 0, maxSpeed)
		if err := errors.Join(errA, errB); err != nil {
			return err
		}
	default:
		return t.Errorf("status", "%q is none of ok, zero and no_isolated", status)
	}
	if x == 0 || y == 0 { // one that stands still does not run
		x, y = 0, 0
	}
	switch {
	case a == b: // of two jobs of a model neither is the first
		x, y = (x+y)/2, (x+y)/2
	case key[0] != a:
		x, y = y, x
	}
	set.speeds[key] = [2]float64{x, y}
	set.models[a], set.models[b] = true, true
	return nil
}

func (s *pairSets) set(c Choice) *Pairs {
	if s.sets[c] == nil {
		s.sets[c] = &Pairs{speeds: make(map[[2]string][2]float64), models: make(map[string]bool)}
		s.order = append(s.order, c)
	}
	return s.sets[c]
}

// defaultGPU is the GPU that is meant where none is named.
const defaultGPU = "v100"

// choose is the measurements that are meant.
func (s *pairSets) choose(c Choice) (*Pairs, error) {
	if len(s.order) == 0 {
		return nil, fmt.Errorf("%s: the table of pairs has no rows", s.name)
	}
	asked := c
	if c.GPU == "" {
		c.GPU = s.order[0].GPU
		if slices.ContainsFunc(s.order, func(o Choice) bool { return strings.EqualFold(o.GPU, defaultGPU) }) {
			c.GPU = defaultGPU
		}
	}
	for _, o := range s.order {
		if strings.EqualFold(o.GPU, c.GPU) && (c.Table == "" || strings.EqualFold(o.Table, c.Table)) {
			p := s.sets[o]
			if len(s.order) > 1 && (asked.GPU == "" || asked.Table == "") {
				p.Notes = append(p.Notes, fmt.Sprintf("%s: the measurements of table %q on %q are used; it also has %s", s.name, o.Table, o.GPU, s.list(o)))
			}
			return p, nil
		}
	}
	return nil, fmt.Errorf("%s: no measurements of table %q on %q; it has %s", s.name, c.Table, c.GPU, s.list(Choice{}))
}

// list names all sets but one.
func (s *pairSets) list(but Choice) string {
	var names []string
	for _, o := range s.order {
		if o != but {
			names = append(names, fmt.Sprintf("%q on %q", o.Table, o.GPU))
		}
	}
	return strings.Join(names, ", ")
}

func pairKey(a, b string) [2]string {
	if a > b {
		a, b = b, a
	}
	return [2]string{a, b}
}

// Of is the speed of two models beside each other over those alone. Both are
// zero where they cannot run together; ok is false where nothing is known.
func (p *Pairs) Of(a, b string) (x, y float64, ok bool) {
	key := pairKey(a, b)
	s, ok := p.speeds[key]
	if key[0] != a {
		s[0], s[1] = s[1], s[0]
	}
	return s[0], s[1], ok
}

// Knows says whether a model is in the table.
func (p *Pairs) Knows(model string) bool { return p.models[model] }

// Holes counts the pairs of the given models that the table lacks, and names
// one of them.
func (p *Pairs) Holes(models []string) (holes, pairs int, example [2]string) {
	for i, a := range models {
		for _, b := range models[i:] {
			pairs++
			if _, _, ok := p.Of(a, b); !ok {
				if holes == 0 {
					example = [2]string{a, b}
				}
				holes++
			}
		}
	}
	return holes, pairs, example
}
