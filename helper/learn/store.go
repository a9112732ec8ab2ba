package learn

import (
	"cmp"
	"math"
	"slices"
	"time"
	"unicode/utf8"
)

// Bounds of what is kept.
const (
	maxJobs  = 512
	maxPairs = 32
)

// Kept is what is kept of one job.
type Kept struct {
	Job
	Seen  int64   `json:"seen"`            // unix seconds
	Rate  float64 `json:"rate,omitempty"`  // alone, count per second; 0 unknown
	SM    float64 `json:"sm,omitempty"`    // alone, share of time on the multiprocessors; 0 unknown
	Pairs []Pair  `json:"pairs,omitempty"` // sorted by mate
}

// Pair is a job's speed beside a mate.
type Pair struct {
	Mate Job `json:"mate"`
	Speed
}

// Speed is a speed over that alone.
type Speed struct {
	Speed float64 `json:"speed"`
	Error float64 `json:"error"` // standard error
	Seen  int64   `json:"seen"`  // unix seconds
}

type record struct {
	seen  int64
	rate  float64
	sm    float64
	pairs map[Job]Speed
}

type store map[Job]*record

func (s store) of(j Job, wall time.Time) *record {
	r := s[j]
	if r == nil {
		for len(s) >= maxJobs {
			delete(s, oldest(s, func(r *record) int64 { return r.seen }))
		}
		r = &record{pairs: map[Job]Speed{}}
		s[j] = r
	}
	r.seen = wall.Unix()
	return r
}

// oldest is the key of what was seen longest ago.
func oldest[V any](m map[Job]V, seen func(V) int64) (found Job) {
	first := true
	for j, v := range m {
		if first || seen(v) < seen(m[found]) || seen(v) == seen(m[found]) && compare(j, found) < 0 {
			found, first = j, false
		}
	}
	return found
}

func compare(a, b Job) int { return cmp.Or(cmp.Compare(a.UID, b.UID), cmp.Compare(a.Name, b.Name)) }

// alone keeps a job's rate alone: by its count once it is certain, by its time on
// the multiprocessors, which only tells heavy jobs from light ones, once a few
// windows have told it.
func (s store) alone(j Job, by int, e estimate, wall time.Time) {
	switch {
	case by == byCount && e.certain():
		s.of(j, wall).rate = e.mean
	case by == bySM && e.n >= leastWindows:
		s.of(j, wall).sm = min(e.mean, 1)
	}
}

func (s store) pair(j, mate Job, x Speed, wall time.Time) {
	r := s.of(j, wall)
	if _, there := r.pairs[mate]; !there && len(r.pairs) >= maxPairs {
		delete(r.pairs, oldest(r.pairs, func(x Speed) int64 { return x.Seen }))
	}
	r.pairs[mate] = x
}

func (s store) speed(j, mate Job) (x, err float64) {
	if r := s[j]; r != nil {
		if x, ok := r.pairs[mate]; ok {
			return bounded(x.Speed), x.Error
		}
	}
	return math.NaN(), math.Inf(1)
}

func (s store) rate(j Job) float64 {
	if r := s[j]; r != nil && r.rate > 0 {
		return r.rate
	}
	return math.NaN()
}

// demand is the share of time on the multiprocessors that a job takes alone.
func (s store) demand(j Job) float64 {
	if r := s[j]; r != nil && r.sm > 0 {
		return r.sm
	}
	return math.NaN()
}

// plausible tells whether a name can have been kept.
func (j Job) plausible() bool { return j.named() && len(j.Name) <= maxName && utf8.ValidString(j.Name) }

// load takes in what was kept, as far as it is plausible.
func (s store) load(kept []Kept) {
	for _, k := range kept[:min(len(kept), maxJobs)] {
		if !k.plausible() {
			continue
		}
		r := &record{seen: k.Seen, pairs: map[Job]Speed{}}
		if k.Rate > 0 && !math.IsInf(k.Rate, 0) {
			r.rate = k.Rate
		}
		if k.SM > 0 && k.SM <= 1 {
			r.sm = k.SM
		}
		for _, p := range k.Pairs[:min(len(k.Pairs), maxPairs)] {
			if p.Mate.plausible() && known(p.Speed.Speed, p.Error) && p.Error >= 0 && p.Speed.Speed <= 1 {
				r.pairs[p.Mate] = p.Speed
			}
		}
		s[k.Job] = r
	}
}

// Kept lists what is to be kept, after forgetting what was not seen for too long.
// It is the same for the same knowledge.
func (l *Learner) Kept(wall time.Time) []Kept {
	since := wall.Add(-l.o.Keep).Unix()
	var out []Kept
	for j, r := range l.store {
		for mate, x := range r.pairs {
			if x.Seen < since {
				delete(r.pairs, mate)
			}
		}
		if r.seen < since {
			delete(l.store, j)
			continue
		}
		out = append(out, Kept{Job: j, Seen: r.seen, Rate: r.rate, SM: r.sm, Pairs: r.list()})
	}
	slices.SortFunc(out, func(a, b Kept) int { return compare(a.Job, b.Job) })
	return out
}

func (r *record) list() []Pair {
	var out []Pair
	for mate, x := range r.pairs {
		out = append(out, Pair{mate, x})
	}
	slices.SortFunc(out, func(a, b Pair) int { return compare(a.Mate, b.Mate) })
	return out
}
