package sim

// endHeap orders the running tasks by when they end, then by their place in
// the trace. Each task knows its position, so that its end can be moved.
type endHeap []*Task

func (h endHeap) before(i, j int) bool {
	if h[i].End != h[j].End {
		return h[i].End < h[j].End
	}
	return h[i].Index < h[j].Index
}

func (h endHeap) swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].pos, h[j].pos = i, j
}

func (h *endHeap) push(t *Task) {
	t.pos = len(*h)
	*h = append(*h, t)
	h.up(t.pos)
}

func (h *endHeap) remove(t *Task) {
	i, last := t.pos, len(*h)-1
	if i != last {
		h.swap(i, last)
	}
	(*h)[last] = nil
	*h = (*h)[:last]
	if i != last {
		h.fix((*h)[i])
	}
	t.pos = -1
}

// fix moves a task whose end has changed.
func (h endHeap) fix(t *Task) {
	if i := t.pos; !h.down(i) {
		h.up(i)
	}
}

// init restores the order after many ends have changed.
func (h endHeap) init() {
	for i := len(h)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

func (h endHeap) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !h.before(i, parent) {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h endHeap) down(i int) bool {
	start := i
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h.before(child+1, child) {
			child++
		}
		if !h.before(child, i) {
			break
		}
		h.swap(i, child)
		i = child
	}
	return i > start
}
