package baseline

import "github.com/gimbal-hpc/gimbal/helper/sim"

// queue is waiting tasks in the order of their keys, then of arrival: a heap.
type queue []keyed

func (k keyed) before(o keyed) bool {
	return k.key < o.key || k.key == o.key && k.task.Index < o.task.Index
}

func (q *queue) push(k keyed) {
	*q = append(*q, k)
	h := *q
	for i := len(h) - 1; i > 0; {
		parent := (i - 1) / 2
		if !h[i].before(h[parent]) {
			return
		}
		h[i], h[parent] = h[parent], h[i]
		i = parent
	}
}

func (q *queue) pop() keyed {
	h := *q
	first, last := h[0], len(h)-1
	h[0] = h[last]
	h[last] = keyed{}
	h = h[:last]
	*q = h
	for i := 0; ; {
		c := 2*i + 1
		if c >= last {
			return first
		}
		if c+1 < last && h[c+1].before(h[c]) {
			c++
		}
		if !h[c].before(h[i]) {
			return first
		}
		h[i], h[c] = h[c], h[i]
		i = c
	}
}

// lines keeps waiting tasks apart by what decides whether they find room: where
// the first of a line finds none, none of the line does.
type lines[K comparable] struct {
	byKey map[K]*line
	all   []*line
}

type line struct {
	waiting queue
	stuck   bool // the first has found no room at this moment
}

func newLines[K comparable]() lines[K] { return lines[K]{byKey: make(map[K]*line)} }

func (l *lines[K]) add(k K, key float64, t *sim.Task) {
	at := l.byKey[k]
	if at == nil {
		at = &line{}
		l.byKey[k] = at
		l.all = append(l.all, at)
	}
	at.waiting.push(keyed{key, t})
}

// retry lets every line be tried again.
func (l *lines[K]) retry() {
	for _, at := range l.all {
		at.stuck = false
	}
}

// first is the line whose first task comes before those of all others that are
// not stuck, or nil.
func (l *lines[K]) first() *line {
	var best *line
	for _, at := range l.all {
		if at.stuck || len(at.waiting) == 0 {
			continue
		}
		if best == nil || at.waiting[0].before(best.waiting[0]) {
			best = at
		}
	}
	return best
}
