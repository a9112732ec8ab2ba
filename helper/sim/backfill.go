package sim

import "slices"

// BackfillDepth is how many waiting tasks are looked at, as with Slurm's
// bf_max_job_test.
const BackfillDepth = 500

// Room is where a Backfill places tasks.
type Room interface {
	// Place starts a task outside the closed nodes. It returns false where it
	// finds no room there.
	Place(t *Task, closed []Share) bool
	// FreeAt is when a node will have room for a task on n of its GPUs, if
	// nothing more starts on it.
	FreeAt(node, n int) float64
	// Full says that there is no room for anything.
	Full() bool
	// Takes is how long a task is expected to hold its place, in seconds.
	Takes(t *Task) float64
}

// Backfill is the order in which Slurm starts jobs: first come, first served,
// and backfill. The first task that finds no room has nodes reserved for when
// they will be free; later ones may go before it if they find room beside
// those, or end before it can start.
type Backfill struct {
	w       *World
	room    Room
	waiting []*Task // in order of arrival

	// What holds until something is freed: how many of the waiting have been
	// tried, what is reserved for the first of them and from when on, and what
	// shapes find no room even beside that.
	tried    int
	reserved []Share
	from     float64
	full     map[shape]bool
}

// shape is what a job asks for; where one of a shape finds no room, none does.
type shape struct{ gpus, nodes int }

// NewBackfill is an empty queue in front of a room.
func NewBackfill(w *World, room Room) *Backfill {
	return &Backfill{w: w, room: room, full: make(map[shape]bool)}
}

// Add puts a task at the end of the queue.
func (b *Backfill) Add(t *Task) { b.waiting = append(b.waiting, t) }

// Freed says that there may be more room than before.
func (b *Backfill) Freed() {
	b.tried, b.reserved = 0, nil
	clear(b.full)
}

// Schedule starts every task that may start.
func (b *Backfill) Schedule() {
	for b.tried == 0 && len(b.waiting) > 0 && b.try(b.waiting[0], true) {
		b.waiting = b.waiting[1:]
	}
	if len(b.waiting) > 0 {
		b.behindFirst()
	}
}

// behindFirst tries those behind the first that were not tried yet.
func (b *Backfill) behindFirst() {
	i := max(b.tried, 1)
	kept := i
	for ; i < min(len(b.waiting), BackfillDepth) && !b.room.Full(); i++ {
		if t := b.waiting[i]; !b.try(t, false) {
			b.waiting[kept] = t
			kept++
		}
	}
	b.tried = kept
	if kept < i {
		b.waiting = slices.Delete(b.waiting, kept, i)
	}
}

// try starts a task where it may; for the first that may not, it reserves.
func (b *Backfill) try(t *Task, first bool) bool {
	s := shape{t.Job.GPUs, t.Job.Nodes}
	if b.full[s] {
		return false
	}
	closed := b.reserved
	if b.w.Now+b.room.Takes(t) <= b.from {
		closed = nil
	}
	switch {
	case b.room.Place(t, closed):
		return true
	case first:
		b.reserve(t.Job)
	case closed == nil:
		b.full[s] = true
	}
	return false
}

// reserve finds the nodes on which a job can start first.
func (b *Backfill) reserve(j *Job) {
	b.reserved, b.from = nil, 0
	for _, n := range j.PerNode(b.w.Cluster.PerNode) {
		best, at := -1, Never
		for node := range b.w.Cluster.Nodes() {
			if holds(b.reserved, node) {
				continue
			}
			if free := b.room.FreeAt(node, n); free < at {
				best, at = node, free
			}
		}
		b.reserved = append(b.reserved, Share{best, n})
		b.from = max(b.from, at)
	}
}
