package proc

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// TrackerStats says how well the trees are known.
type TrackerStats struct {
	Connector bool   // forks are reported by the kernel; else trees are known from scans alone
	Reason    string // why not, when they are not
	Lost      uint64 // events that the kernel dropped, all together
	Rescans   uint64 // scans that made up for lost events
	Roots     int
	Members   int // processes in all trees
}

// Tracker follows the trees of registered roots: it learns of every process
// that descends from them, keeps those that were re-parented to init, and
// forgets those that ended. While no root is registered it costs nothing. It is
// safe for use by several goroutines.
type Tracker struct {
	host   Host
	onExit func(root ID)
	// noConnector keeps the process connector from being used; set by tests.
	noConnector error

	mu       sync.Mutex
	conn     *connector
	why      error // why there is no connector
	trees    map[ID]*tree
	nodes    map[int]*node
	dying    map[*node]bool // leaders that exited and may have left threads
	stale    bool           // events were lost since the last scan
	scanned  time.Time
	lost     uint64 // of connectors that were closed
	rescans  uint64
	gates    gates  // of directories that were frozen
	exits    *exits // of the roots; nil before the first, and where there are no pidfds
	ended    []ID   // roots to tell onExit of
	closed   bool
	scanRoom []Process

	wake    chan struct{}
	done    chan struct{}
	readers sync.WaitGroup
	teller  sync.WaitGroup
}

var errClosed = errors.New("tracker is closed")

// tree is one registered root with its descendants.
type tree struct {
	root     ID
	pidfd    int  // of the root, among the exits; -1 without
	complete bool // every process since the root's start is known
	members  map[int]*node
	outer    *tree // the tree that the root was a member of, if any
}

// node is a process of a tree. Its start is 0 when it ended before it could be
// looked at; it is kept until its exit is reported, as a parent of others.
type node struct {
	id    ID
	tree  *tree
	slurm bool // it runs a program of Slurm
	doubt bool // whoever had its pid when it was looked at may be another, see takeFork
}

// rescanEvery bounds how often lost events are made up for by a scan unasked.
const rescanEvery = 250 * time.Millisecond

// manyDying bounds how many ended processes are kept until the next look.
const manyDying = 256

// NewTracker returns a tracker that watches nothing yet. onExit is told of each
// root that has ended, possibly more than once; it may be nil, and is called from
// one goroutine of the tracker's own, without a lock.
func NewTracker(host Host, onExit func(root ID)) *Tracker {
	t := &Tracker{
		host: host, onExit: onExit,
		trees: map[ID]*tree{}, nodes: map[int]*node{}, dying: map[*node]bool{},
		wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	if onExit != nil {
		t.teller.Add(1)
		go t.tell()
	}
	return t
}

// Close forgets every root and ends the tracker's goroutines.
func (t *Tracker) Close() {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return
	}
	t.closed = true
	conn := t.dropConnector()
	for _, tr := range t.trees {
		closeFile(&tr.pidfd)
	}
	if t.exits != nil {
		t.exits.close()
	}
	t.gates.close()
	t.trees, t.nodes, t.dying = map[ID]*tree{}, map[int]*node{}, map[*node]bool{}
	t.mu.Unlock()
	if conn != nil {
		conn.close()
	}
	close(t.done)
	t.readers.Wait()
	t.teller.Wait()
}

// Watch begins to follow a root. Fresh says that the root has not run any
// program of its own yet (a task before its exec), so that nothing of its tree
// can have been missed; otherwise the host is scanned once for its descendants,
// and those that left the tree before are not known. ErrGone if it has ended.
func (t *Tracker) Watch(root ID, fresh bool) error {
	t.mu.Lock()
	err := t.watch(root, fresh)
	conn := t.idleConnector()
	t.mu.Unlock()
	if conn != nil {
		conn.close()
	}
	if err != nil {
		return fmt.Errorf("watch process %s: %w", root, err)
	}
	return nil
}

func (t *Tracker) watch(root ID, fresh bool) error {
	if t.closed {
		return errClosed
	}
	if t.trees[root] != nil {
		return nil
	}
	t.connect()
	t.drain() // the fork that made it a member of another tree may be queued still
	tr := &tree{root: root, pidfd: t.hearExit(root.PID), complete: fresh && t.conn != nil, members: map[int]*node{}}
	var buf [statSize]byte
	s, err := t.host.statOf(buf[:], root)
	if err == nil && s.dead() {
		err = ErrGone // its exit has been reported already, and will not be again
	}
	if err != nil {
		closeFile(&tr.pidfd)
		return err
	}
	if old := t.nodes[root.PID]; old != nil && old.id == root {
		tr.outer = old.tree
	}
	t.trees[root] = tr
	t.put(root, tr).slurm = t.host.isSlurm(root.PID, s.Comm)
	if fresh {
		t.walk(s, tr)
		return nil
	}
	return t.rescan()
}

// connect subscribes to the process connector when there is none.
func (t *Tracker) connect() {
	if t.conn != nil || len(t.trees) > 0 && t.why != nil {
		return
	}
	if t.noConnector != nil {
		t.why = t.noConnector
		return
	}
	if t.host.procRoot() != defaultProcRoot {
		t.why = errors.New("not this machine's /proc")
		return
	}
	t.conn, t.why = openConnector()
	if t.conn != nil {
		t.readers.Add(1)
		go t.follow(t.conn)
	}
}

// hearExit has the end of a root told as soon as it comes, and returns its pidfd;
// -1 where that cannot be had: then events or scans tell of it, later.
func (t *Tracker) hearExit(pid int) int {
	if t.host.procRoot() != defaultProcRoot {
		return -1
	}
	if t.exits == nil {
		x, err := newExits()
		if err != nil {
			return -1
		}
		t.exits = x
		t.readers.Add(1)
		go t.hear(x)
	}
	pidfd, err := t.exits.add(pid)
	if err != nil {
		return -1
	}
	return pidfd
}

// dropConnector takes the connector out of use. The caller closes it without
// holding the lock, for which its reader may be waiting.
func (t *Tracker) dropConnector() *connector {
	conn := t.conn
	if conn != nil {
		t.lost += conn.lost
	}
	t.conn = nil
	return conn
}

// idleConnector drops the connector when nothing is watched.
func (t *Tracker) idleConnector() *connector {
	if len(t.trees) > 0 {
		return nil
	}
	return t.dropConnector()
}

// Unwatch forgets a root and its tree, which goes back to the tree that it was
// part of, if any. After the last one the tracker stops listening.
func (t *Tracker) Unwatch(root ID) {
	t.mu.Lock()
	if tr := t.trees[root]; tr != nil {
		t.dissolve(tr)
	}
	conn := t.idleConnector()
	t.mu.Unlock()
	if conn != nil {
		conn.close()
	}
}

func (t *Tracker) dissolve(tr *tree) {
	delete(t.trees, tr.root)
	t.gates.forget(tr.root)
	closeFile(&tr.pidfd)
	outer := tr.outer
	if outer != nil && t.trees[outer.root] != outer {
		outer = nil
	}
	for pid, n := range tr.members {
		if outer != nil {
			n.tree, outer.members[pid] = outer, n
			continue
		}
		delete(t.nodes, pid)
		delete(t.dying, n)
	}
}

// put makes a process a member of a tree, in place of whoever had its pid.
func (t *Tracker) put(id ID, tr *tree) *node {
	if old := t.nodes[id.PID]; old != nil {
		delete(old.tree.members, id.PID)
		delete(t.dying, old)
	}
	n := &node{id: id, tree: tr}
	t.nodes[id.PID], tr.members[id.PID] = n, n
	return n
}

// sync brings the trees up to this moment: everything that happened before the
// call is taken in. It says whether it is sure of that.
func (t *Tracker) sync() (settled bool) { return t.syncUpTo(drainLimit) }

// syncUpTo is sync that takes in so many events at most.
func (t *Tracker) syncUpTo(most int) (settled bool) {
	settled = t.drainUpTo(most)
	if t.stale && t.rescan() != nil {
		settled = false
	}
	t.sweep()
	return settled
}

// Members returns the processes of these trees that were alive when last heard
// of, roots included, in no order. A caller that acts on one proves it again.
func (t *Tracker) Members(roots ...ID) []ID {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sync()
	ids, _ := t.collect(nil, roots)
	return ids
}

// MembersOfEach is Members for several sets of roots at one moment. A root that
// is not watched counts for nothing.
func (t *Tracker) MembersOfEach(sets [][]ID) [][]ID {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sync()
	out := make([][]ID, len(sets))
	for i, roots := range sets {
		for _, root := range roots {
			out[i] = t.trees[root].appendTo(out[i])
		}
	}
	return out
}

// collect appends the members of these trees, and says whether no process of
// them can be missing.
func (t *Tracker) collect(dst []ID, roots []ID) (ids []ID, complete bool) {
	complete = t.conn != nil
	for _, root := range roots {
		tr := t.trees[root]
		complete = complete && tr != nil && tr.complete
		if tr == nil {
			dst = append(dst, root)
			continue
		}
		dst = tr.appendTo(dst)
	}
	return dst, complete
}

// certain appends the members of these trees of which is known, whatever events wait,
// that they are.
func (t *Tracker) certain(dst []ID, roots []ID) []ID {
	for _, root := range roots {
		for _, n := range t.trees[root].members {
			if n.id.Start != 0 && !n.doubt {
				dst = append(dst, n.id)
			}
		}
	}
	return dst
}

func (tr *tree) appendTo(dst []ID) []ID {
	if tr == nil {
		return dst
	}
	for _, n := range tr.members {
		if n.id.Start != 0 {
			dst = append(dst, n.id)
		}
	}
	return dst
}

// Owner returns the root in whose tree the process with this pid is, and the
// process's identity. It says false for one that is in no tree.
func (t *Tracker) Owner(pid int) (root, member ID, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sync()
	n := t.nodes[pid]
	if n == nil || n.id.Start == 0 {
		return ID{}, ID{}, false
	}
	return n.tree.root, n.id, true
}

// Stats says how well the trees are known.
func (t *Tracker) Stats() TrackerStats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := TrackerStats{
		Connector: t.conn != nil, Lost: t.lost, Rescans: t.rescans,
		Roots: len(t.trees), Members: len(t.nodes),
	}
	if t.conn != nil {
		s.Lost += t.conn.lost
	} else if t.why != nil {
		s.Reason = t.why.Error()
	}
	return s
}
