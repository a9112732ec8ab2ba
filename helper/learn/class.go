package learn

import (
	"cmp"
	"slices"
)

// Class says how well a job shares a GPU with others.
type Class string

// The classes.
const (
	Heavy  Class = "heavy"  // nothing is gained where it shares
	Medium Class = "medium" // between the two
	Light  Class = "light"  // several of its kind share a GPU well
)

// Where the classes part. With a pair's speeds added: that is what the two do
// together, in what one does alone. Else by the share of time on the
// multiprocessors that a job takes alone, where Lucid's labels part, but that four
// light ones fit on a GPU.
const (
	heavyGain, lightGain = 1.1, 1.6
	heavySM, lightSM     = 0.7, 0.25
)

// Classed is a job with its class.
type Classed struct {
	Job
	Class Class
	Seen  int64   // unix seconds
	Gain  float64 // mean of what it did with a mate, in what one does alone; 0 unknown
	SM    float64 // alone, share of time on the multiprocessors; 0 unknown
}

// Classes tells the classes of the jobs that nodes have learnt of, by user and
// name. Of a job that several nodes know, what was seen last counts. Jobs of which
// neither speeds nor demand are known have none.
func Classes(nodes ...[]Kept) []Classed {
	newest := map[Job]Classed{}
	for _, kept := range nodes {
		s := store{}
		s.load(kept)
		for j, r := range s {
			c, ok := s.class(j, r)
			if old, there := newest[j]; ok && (!there || old.Seen < c.Seen) {
				newest[j] = c
			}
		}
	}
	out := make([]Classed, 0, len(newest))
	for _, c := range newest {
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b Classed) int { return compare(a.Job, b.Job) })
	return out
}

func (s store) class(j Job, r *record) (Classed, bool) {
	c := Classed{Job: j, Class: Medium, Seen: r.seen, SM: r.sm, Gain: s.gain(j, r)}
	switch {
	case c.Gain > 0:
		c.Class = classBy(c.Gain, lightGain, heavyGain, Light, Heavy)
	case c.SM > 0:
		c.Class = classBy(c.SM, heavySM, lightSM, Heavy, Light)
	default:
		return c, false
	}
	return c, true
}

// classBy names x by the two ends of its range.
func classBy[T cmp.Ordered](x, high, low T, above, below Class) Class {
	switch {
	case x > high:
		return above
	case x <= low:
		return below
	}
	return Medium
}

// gain is the mean of a job's speed beside a mate and the mate's beside it, 0
// where no pair of both is known.
func (s store) gain(j Job, r *record) float64 {
	sum, n := 0.0, 0
	for mate, own := range r.pairs {
		o := s[mate]
		if o == nil {
			continue
		}
		if theirs, ok := o.pairs[j]; ok {
			sum += own.Speed + theirs.Speed
			n++
		}
	}
	if n == 0 {
		return 0
	}
	return sum / float64(n)
}
