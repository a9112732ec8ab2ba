package proc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// Holds looks whether frozen directories still hold all of a target and nobody
// else: an error that wraps ErrNotOurs says that one was put in, or has left, since
// they were frozen. Roots that have ended since then are left out.
func (t *Tracker) Holds(target Target, dirs []Freezer) error {
	f := freezing{tracker: t, target: target}
	f.target.Roots = t.watched(target.Roots)
	defer f.close()
	if len(f.target.Roots) == 0 {
		return nil
	}
	err := f.openAll(dirs)
	if err == nil {
		err = f.readOurs()
	}
	if err != nil {
		return fmt.Errorf("look at what is frozen: %w", err)
	}
	return nil
}

// watched are those of the roots whose trees are followed.
func (t *Tracker) watched(roots []ID) []ID {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(roots), func(id ID) bool { return t.trees[id] == nil })
}

// proveOurs proves that what is in the directories is the target, and all of it.
// Where that was read before and nobody was put in since, it looks at what the
// members run and where the roots are; whether another of them has left is for
// Holds to find out.
func (f *freezing) proveOurs() error {
	if still, err := f.stillOurs(); still || err != nil {
		return err
	}
	return f.readOurs()
}

// stillOurs says that nobody was put into the directories since they were read, and
// gives an error for a member that must not be frozen.
func (f *freezing) stillOurs() (bool, error) {
	t := f.tracker
	t.mu.Lock()
	defer t.mu.Unlock()
	settled := t.sync()
	if !settled || !t.gates.closed(f.dirs, f.target.Roots) || !f.rootsInside() {
		return false, nil
	}
	trees, err := f.trees()
	if err != nil {
		return false, err
	}
	f.count = 0
	for tr := range trees {
		for _, n := range tr.members {
			if err := f.refuse(n); err != nil {
				return false, err
			}
		}
		f.count += len(tr.members)
	}
	return true, nil
}

// rootsInside says that the living roots are in the directories.
func (f *freezing) rootsInside() bool {
	for _, root := range f.target.Roots {
		dir, err := f.tracker.host.FreezerOf(root)
		inside := slices.ContainsFunc(f.dirs, func(d *cgroupDir) bool { return err == nil && d.Freezer == dir })
		if !inside && f.tracker.host.runs(root) {
			return false
		}
	}
	return true
}

// readOurs compares what is in the directories with what belongs to the target,
// both ways.
func (f *freezing) readOurs() error {
	t := f.tracker
	t.mu.Lock()
	if t.conn != nil { // else nobody tells who is born inside
		t.gates.shut(f.dirs, f.target.Roots)
	}
	t.mu.Unlock()
	alone, err := f.read()
	if !alone || err != nil {
		t.mu.Lock()
		t.gates.open(f.dirs)
		t.mu.Unlock()
	}
	return err
}

// read is readOurs; alone says that all inside are members of the target's trees.
func (f *freezing) read() (alone bool, err error) {
	inside := f.room[:0]
	for _, d := range f.dirs {
		inside, err = procsBelow(inside, d.Dir)
		if errors.Is(err, os.ErrNotExist) {
			return false, ErrGone
		}
		if err != nil {
			return false, err
		}
	}
	f.room = inside
	slices.Sort(inside)
	inside = slices.Compact(inside)
	f.count = len(inside)
	strangers, err := f.compare(inside)
	if err != nil {
		return false, err
	}
	for _, pid := range strangers {
		if err := f.prove(pid); err != nil {
			return false, err
		}
	}
	return len(strangers) == 0, nil
}

// compare returns the pids inside that are in no tree of the target, or an error
// for a member that must not be frozen or is outside. The pids come sorted.
func (f *freezing) compare(inside []int) (strangers []int, err error) {
	t := f.tracker
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sync()
	trees, err := f.trees()
	if err != nil {
		return nil, err
	}
	found := 0
	for _, pid := range inside {
		n := t.nodes[pid]
		if n == nil || n.id.Start == 0 || !trees[n.tree] {
			strangers = append(strangers, pid)
			continue
		}
		found++
		if err := f.refuse(n); err != nil {
			return nil, err
		}
		if t.conn == nil {
			strangers = append(strangers, pid)
		}
	}
	return strangers, f.elsewhere(trees, inside, found)
}

// trees are those of the target's roots.
func (f *freezing) trees() (map[*tree]bool, error) {
	trees := make(map[*tree]bool, len(f.target.Roots))
	for _, root := range f.target.Roots {
		tr := f.tracker.trees[root]
		if tr == nil {
			return nil, fmt.Errorf("process %s is not watched: %w", root, ErrNotOurs)
		}
		trees[tr] = true
	}
	return trees, nil
}

// refuse is why a member must not be frozen.
func (f *freezing) refuse(n *node) error {
	switch {
	case n.slurm:
		return fmt.Errorf("process %s is Slurm's: %w", n.id, ErrNotOurs)
	case slices.Contains(f.target.Spare, n.id):
		return fmt.Errorf("process %s is to be spared: %w", n.id, ErrNotOurs)
	}
	return nil
}

// elsewhere is an error for a living member that is not among the pids inside, of
// which so many were found to be members.
func (f *freezing) elsewhere(trees map[*tree]bool, inside []int, found int) error {
	for tr := range trees {
		found -= len(tr.members)
	}
	if found == 0 {
		return nil
	}
	for tr := range trees {
		for pid, n := range tr.members {
			if _, ok := slices.BinarySearch(inside, pid); !ok && f.tracker.host.runs(n.id) {
				return fmt.Errorf("process %s of the target is elsewhere: %w", n.id, ErrNotOurs)
			}
		}
	}
	return nil
}

// runs says whether a process may still run code of its own.
func (h Host) runs(id ID) bool {
	var buf [statSize]byte
	s, err := h.statOf(buf[:], id)
	return err == nil && !s.leaving()
}

// prove looks at a process that no tree is known to hold.
func (f *freezing) prove(pid int) error {
	if f.proven[pid] {
		return nil
	}
	h := f.tracker.host
	var buf [statSize]byte
	s, err := h.stat(buf[:], pid)
	if errors.Is(err, ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	switch {
	case s.leaving():
		return nil
	case h.isSlurm(pid, s.Comm):
		return fmt.Errorf("process %s is Slurm's (%q): %w", s.ID(), s.Comm, ErrNotOurs)
	case slices.Contains(f.target.Spare, s.ID()):
		return fmt.Errorf("process %s is to be spared: %w", s.ID(), ErrNotOurs)
	case !f.rootsUser(pid) && !f.isMember(s.ID()):
		return fmt.Errorf("process %s (%q) is another user's: %w", s.ID(), s.Comm, ErrNotOurs)
	}
	if f.proven == nil {
		f.proven = map[int]bool{}
	}
	f.proven[pid] = true
	return nil
}

func (f *freezing) isMember(id ID) bool {
	t := f.tracker
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.nodes[id.PID]
	return n != nil && n.id == id && slices.Contains(f.target.Roots, n.tree.root)
}

func (f *freezing) rootsUser(pid int) bool {
	h := f.tracker.host
	if f.users == nil {
		f.users = h.usersOf(f.target.Roots)
	}
	st, err := h.status(pid)
	return err == nil && f.users[st.UID]
}

// usersOf returns the real users of processes.
func (h Host) usersOf(ids []ID) map[int]bool {
	users := map[int]bool{}
	for _, id := range ids {
		if st, err := h.Status(id); err == nil {
			users[st.UID] = true
		}
	}
	return users
}

// procsBelow appends the pids in a cgroup directory and those below it. It opens
// the list anew each time: on v1 an open one goes on to show what it was.
func procsBelow(dst []int, dir string) ([]int, error) {
	fd, err := openFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return dst, fmt.Errorf("list processes: %w", err)
	}
	dst, err = readNumbers(dst, fd)
	_ = unix.Close(fd)
	if err != nil {
		return dst, fmt.Errorf("list processes: %w", err)
	}
	return procsInside(dst, dir)
}

// procsInside appends the pids in the directories below one.
func procsInside(dst []int, dir string) ([]int, error) {
	if childless(dir) {
		return dst, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return dst, fmt.Errorf("list processes: %w", err)
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		dst, err = procsBelow(dst, filepath.Join(dir, e.Name()))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return dst, err
		}
	}
	return dst, nil
}

// childless says that a directory has none below it: it has no links but the one
// from above and its own.
func childless(dir string) bool {
	var st unix.Stat_t
	return unix.Stat(dir, &st) == nil && st.Nlink == 2
}
