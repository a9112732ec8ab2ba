package proc

import (
	"fmt"
	"time"
)

// Update takes in a scan of the host: it adds descendants that no event told
// of, and forgets processes that are gone. Where there is no process connector
// it is the only way in which trees grow, so it wants to be called with every
// scan; with one it is not needed.
func (t *Tracker) Update(procs []Process) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drain()
	t.adopt(procs)
}

// rescan makes up for events that were lost or never came.
func (t *Tracker) rescan() error {
	t.drain()
	procs, err := t.host.Scan(t.scanRoom)
	t.scanRoom = procs
	if err != nil {
		return fmt.Errorf("rescan: %w", err)
	}
	t.adopt(procs)
	t.stale, t.scanned = false, time.Now()
	t.rescans++
	return nil
}

// adopt adds every process of a scan that provably descends from a member, and
// drops members that have ended.
func (t *Tracker) adopt(procs []Process) {
	now := make(map[int]*Process, len(procs))
	for i := range procs {
		now[procs[i].PID] = &procs[i]
	}
	t.prune(now)
	for added := true; added; { // children stand behind their parents but for pids that wrapped
		added = false
		for i := range procs {
			p := &procs[i]
			if t.nodes[p.PID] != nil || p.PID <= 1 || deadProcess(p) {
				continue
			}
			if parent := t.parentage(p, now); parent != nil {
				t.put(p.ID, parent.tree).slurm = t.host.isSlurm(p.PID, []byte(p.Comm))
				added = true
			}
		}
	}
}

// prune forgets members that the scan does not hold, once they are looked at
// again: they may be younger than the scan.
func (t *Tracker) prune(now map[int]*Process) {
	var buf [statSize]byte
	for pid, n := range t.nodes {
		if p := now[pid]; p != nil && p.ID == n.id && !deadProcess(p) {
			continue
		}
		if s, err := t.host.statOf(buf[:], n.id); err == nil && !s.dead() {
			continue
		}
		if n.id.Start == 0 && t.conn != nil && !t.stale {
			continue // its exit is still to be reported
		}
		t.forget(n)
	}
}

// parentage returns the member from which a process descends: its parent, the
// leader of its session, or the leader of its process group if both belong to
// one user. A session is joined by birth alone; a group by birth or by a
// process of the same session that asked for it. Both keep their number from
// being reused. It returns nil where nothing is proven.
func (t *Tracker) parentage(p *Process, now map[int]*Process) *node {
	for _, pid := range []int{p.PPID, p.Session} {
		if n := t.elder(pid, p, now); n != nil {
			return n
		}
	}
	n := t.elder(p.PGrp, p, now)
	if n == nil || !t.sameUser(n.id.PID, p.PID) {
		return nil
	}
	return n
}

// elder returns the living member with this pid if it is older than p.
func (t *Tracker) elder(pid int, p *Process, now map[int]*Process) *node {
	n := t.nodes[pid]
	if n == nil || n.id.Start == 0 || n.id.Start > p.Start {
		return nil
	}
	if live := now[pid]; live == nil || live.ID != n.id {
		return nil
	}
	return n
}

func (t *Tracker) sameUser(a, b int) bool {
	sa, errA := t.host.status(a)
	sb, errB := t.host.status(b)
	return errA == nil && errB == nil && sa.UID == sb.UID
}

func deadProcess(p *Process) bool {
	return (p.State == 'Z' || p.State == 'X') && p.Threads <= 1
}

// walk adds the descendants of a process that its list of children shows.
func (t *Tracker) walk(s Stat, tr *tree) {
	pids, err := t.host.children(nil, s)
	if err != nil {
		return
	}
	for _, pid := range pids {
		var buf [statSize]byte
		child, err := t.host.stat(buf[:], pid)
		if err != nil || child.PPID != s.PID || child.Start < s.Start || t.nodes[pid] != nil {
			continue
		}
		t.put(child.ID(), tr).slurm = t.host.isSlurm(pid, child.Comm)
		t.walk(child, tr)
	}
}
