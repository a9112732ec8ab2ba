package proc

import (
	"errors"
	"slices"
	"time"
)

// gather is how often queued events are taken in unasked, so that the queue does
// not run over: most are of processes that belong to nobody here, and a wake-up
// costs more than many of them. Whoever asks about a tree takes in what is queued
// first, and the end of a root is told by its pidfd.
const gather = 500 * time.Millisecond

// follow reads events until its connector is dropped.
func (t *Tracker) follow(conn *connector) {
	defer t.readers.Done()
	tick := time.NewTicker(gather)
	defer tick.Stop()
	for {
		select {
		case <-t.done:
			return
		case <-tick.C:
		}
		for more := true; more; {
			var mine bool
			if more, mine = t.takeEvents(conn); !mine {
				return
			}
		}
	}
}

func (t *Tracker) takeEvents(conn *connector) (more, mine bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.conn != conn {
		return false, false
	}
	more = !t.drainUpTo(drainFew)
	if t.stale && time.Since(t.scanned) > rescanEvery {
		_ = t.rescan()
	}
	return more, true
}

// hear takes in the ends of roots until the tracker is closed.
func (t *Tracker) hear(x *exits) {
	defer t.readers.Done()
	var room []int
	for {
		ended, err := x.wait(room[:0])
		if err != nil {
			return
		}
		t.takeEnds(ended)
		room = ended
	}
}

// takeEnds takes in that the processes behind these pidfds have ended, after
// whatever else they did.
func (t *Tracker) takeEnds(pidfds []int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.drain() {
		return // their own events are queued still
	}
	for _, tr := range t.trees {
		if n := t.nodes[tr.root.PID]; n != nil && n.id == tr.root && slices.Contains(pidfds, tr.pidfd) {
			t.takeExit(tr.root.PID)
		}
	}
}

// drain takes in the queued events and says whether none is left.
func (t *Tracker) drain() bool { return t.drainUpTo(drainLimit) }

// drainUpTo is drain for so many events at most.
func (t *Tracker) drainUpTo(most int) bool {
	if t.conn == nil {
		return true
	}
	err := t.conn.drain(most, t.take)
	if len(t.dying) > manyDying {
		t.sweep()
	}
	if errors.Is(err, errLost) {
		t.stale = true
		for _, tr := range t.trees {
			tr.complete = false
		}
	}
	return err == nil || !errors.Is(err, errMore)
}

func (t *Tracker) take(e event) {
	switch e.what {
	case eventFork:
		t.takeFork(e.ppid, e.pid)
	case eventExec:
		t.takeExec(e.pid)
	case eventExit:
		t.takeExit(e.pid)
	}
}

// takeFork adds a child. A child that is gone already still is a parent of
// those whose forks are queued behind. Should its pid be another's by now, that is
// seen by the other's parent, as long as the child's own lives; else it is in doubt
// until its exit, or the other's fork, is taken in.
func (t *Tracker) takeFork(parent, child int) {
	p := t.nodes[parent]
	if p == nil {
		t.dropDoubtful(child)
		return
	}
	id, doubt := ID{PID: child}, false
	var buf [statSize]byte
	if s, err := t.host.stat(buf[:], child); err == nil {
		doubt = s.PPID != parent
		if !doubt || !t.host.Alive(p.id) {
			id = s.ID()
		}
	}
	if old := t.nodes[child]; old != nil && old.id == id {
		return
	}
	n := t.put(id, p.tree)
	n.slurm, n.doubt = p.slurm, doubt
}

// dropDoubtful forgets a process in doubt: the one of its pid is another's.
func (t *Tracker) dropDoubtful(pid int) {
	if n := t.nodes[pid]; n != nil && n.doubt {
		t.forget(n)
	}
}

func (t *Tracker) takeExec(pid int) {
	n := t.nodes[pid]
	if n == nil {
		return
	}
	var buf [statSize]byte
	if s, err := t.host.statOf(buf[:], n.id); err == nil {
		n.slurm = t.host.isSlurm(pid, s.Comm)
	}
}

// takeExit forgets a process that is gone. One that is still on its way out, or
// whose first thread ended before the others, is looked at again later. One that
// lives on had its first thread replaced by another that called exec.
func (t *Tracker) takeExit(pid int) {
	n := t.nodes[pid]
	if n == nil {
		return
	}
	var buf [statSize]byte
	s, err := t.host.statOf(buf[:], n.id)
	switch {
	case err != nil || s.dead():
		t.forget(n)
	case s.Flags&exiting != 0:
		t.dying[n] = true
	default:
		t.dropDoubtful(pid)
	}
}

// sweep looks again at the processes that were on their way out.
func (t *Tracker) sweep() {
	var buf [statSize]byte
	for n := range t.dying {
		s, err := t.host.statOf(buf[:], n.id)
		switch {
		case err != nil || s.dead():
			t.forget(n)
		case s.Flags&exiting == 0:
			delete(t.dying, n)
		}
	}
}

func (t *Tracker) forget(n *node) {
	delete(t.dying, n)
	if t.nodes[n.id.PID] != n {
		return
	}
	delete(t.nodes, n.id.PID)
	delete(n.tree.members, n.id.PID)
	if n.id == n.tree.root {
		t.report(n.id)
	}
}

// report queues the end of a root for onExit.
func (t *Tracker) report(root ID) {
	if t.onExit == nil {
		return
	}
	t.ended = append(t.ended, root)
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

func (t *Tracker) tell() {
	defer t.teller.Done()
	for {
		select {
		case <-t.done:
			return
		case <-t.wake:
		}
		t.mu.Lock()
		ended := t.ended
		t.ended = nil
		t.mu.Unlock()
		for _, root := range ended {
			t.onExit(root)
		}
	}
}
