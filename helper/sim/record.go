package sim

import "slices"

// Stay is a time for which a job held the same GPUs.
type Stay struct {
	Job      int // its place in the trace
	From, To float64
	Nodes    []Share // empty under policies that count GPUs only
}

// Load is how many GPUs have work from a time on.
type Load struct {
	At   float64
	Busy int
}

// History is who ran where, and how busy the cluster was, in order of time.
type History struct {
	Stays []Stay
	Loads []Load
}

// open notes that a task holds its nodes from now on.
func (h *History) open(t *Task, now float64) {
	if h == nil {
		return
	}
	t.stay = len(h.Stays)
	h.Stays = append(h.Stays, Stay{Job: t.Index, From: now, To: Never, Nodes: slices.Clone(t.Nodes)})
}

// close notes that a task holds its nodes no more.
func (h *History) close(t *Task, now float64) {
	if h != nil {
		h.Stays[t.stay].To = now
	}
}

// load notes how busy the cluster is from now on.
func (h *History) load(busy int, now float64) {
	if h == nil || len(h.Loads) > 0 && h.Loads[len(h.Loads)-1].Busy == busy {
		return
	}
	h.Loads = append(h.Loads, Load{now, busy})
}

// Moved tells that a running task has been given other nodes than it had, in
// [Task.Nodes].
func (w *World) Moved(t *Task) {
	if w.history == nil || slices.Equal(w.history.Stays[t.stay].Nodes, t.Nodes) {
		return
	}
	w.history.close(t, w.Now)
	w.history.open(t, w.Now)
}
