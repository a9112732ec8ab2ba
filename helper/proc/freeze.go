package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/failpoint"
)

// Frozen is what a freeze did.
type Frozen struct {
	Dirs      []Freezer     // frozen by this call (or earlier, see mine): what Thaw is to thaw
	Processes int           // in all of them
	Latency   time.Duration // from the call to the last directory confirmed and proven
}

// Freeze freezes the directories of a target and returns when the kernel says
// that every process in them is frozen. Mine are directories that an earlier
// freeze of ours, not undone, may have left frozen.
//
// Before and after it, every process in the directories must be the target's: a
// member of its trees, or one of the user of its roots, and neither a program of
// Slurm nor one to spare; and every living member must be in one of them. Else
// the error wraps ErrNotOurs. A directory that somebody else froze gives
// ErrFrozen, one that is not frozen before the context ends, PauseLimit at most,
// ErrIncomplete. On any error all that was asked to freeze is thawed again, and
// that is read back.
func (t *Tracker) Freeze(ctx context.Context, target Target, dirs, mine []Freezer) (Frozen, error) {
	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, PauseLimit)
	defer cancel()
	f := freezing{tracker: t, target: target, mine: mine, begin: begin}
	defer f.close()
	err := f.run(ctx, dirs)
	if err != nil {
		return Frozen{}, errors.Join(fmt.Errorf("freeze: %w", err), f.undo())
	}
	return Frozen{Dirs: dirs, Processes: f.count, Latency: time.Since(begin)}, nil
}

// freezing is one freeze under way.
type freezing struct {
	tracker *Tracker
	target  Target
	mine    []Freezer
	begin   time.Time
	dirs    []*cgroupDir
	asked   []*cgroupDir // to be thawed if it goes wrong
	users   map[int]bool // of the roots
	proven  map[int]bool // pids found the target's, beyond its trees
	room    []int        // for the pids in the directories
	count   int
}

func (f *freezing) run(ctx context.Context, dirs []Freezer) error {
	if len(dirs) == 0 {
		return ErrNoFreezer
	}
	for _, dir := range dirs {
		d, err := dir.openDir()
		if err != nil {
			return fmt.Errorf("%s: %w", dir.Dir, err)
		}
		f.dirs = append(f.dirs, d)
	}
	if err := f.proveOurs(); err != nil {
		return err
	}
	for _, d := range f.dirs {
		if err := f.ask(d); err != nil {
			return err
		}
	}
	for _, d := range f.dirs {
		if err := f.confirm(ctx, d); err != nil {
			return err
		}
	}
	return f.proveOurs()
}

func (f *freezing) close() {
	for _, d := range f.dirs {
		d.close()
	}
}

// ask writes to a directory that nobody has frozen, or that we have.
func (f *freezing) ask(d *cgroupDir) error {
	s, err := d.state()
	if err != nil {
		return err
	}
	if s.Parent || s.Self && !slices.Contains(f.mine, d.Freezer) {
		return fmt.Errorf("%s: %w", d.Dir, ErrFrozen)
	}
	f.asked = append(f.asked, d)
	if s.Self {
		return nil
	}
	err = d.write(true)
	failpoint.At("freeze.asked")
	return err
}

// confirm waits until the kernel says that a directory is frozen.
func (f *freezing) confirm(ctx context.Context, d *cgroupDir) error {
	rest := firstRest
	for {
		s, err := d.state()
		if err != nil {
			return err
		}
		if s.Self && s.Frozen {
			failpoint.At("freeze.seen")
			return nil
		}
		if !s.Self {
			return fmt.Errorf("%s was thawed by somebody else: %w", d.Dir, ErrIncomplete)
		}
		if err := ctx.Err(); err != nil {
			return &IncompleteError{Op: "freeze " + d.Dir, Of: f.count, After: time.Since(f.begin), Left: f.left(d), Cause: err}
		}
		if time.Since(f.begin) > eagerFor {
			time.Sleep(rest)
			rest = min(2*rest, longestRest)
		}
	}
}

// left names the processes of a directory that may have kept it from freezing:
// those that sleep where nothing wakes them.
func (f *freezing) left(d *cgroupDir) []LeftOver {
	var left []LeftOver
	pids, _ := procsBelow(nil, d.Dir)
	var buf [statSize]byte
	for _, pid := range pids {
		if s, err := f.tracker.host.stat(buf[:], pid); err == nil && (s.State == 'D' || s.State == 'R') {
			left = append(left, LeftOver{ID: s.ID(), State: s.State, Comm: string(s.Comm)})
		}
	}
	return left
}

// undo thaws whatever was asked to freeze.
func (f *freezing) undo() error {
	var errs []error
	for _, d := range f.asked {
		if err := d.thaw(); err != nil && !errors.Is(err, ErrGone) {
			errs = append(errs, fmt.Errorf("undo the freeze: %w", err))
		}
	}
	return errors.Join(errs...)
}

// proveOurs compares what is in the directories with what belongs to the
// target, both ways.
func (f *freezing) proveOurs() error {
	inside := f.room[:0]
	for _, d := range f.dirs {
		var err error
		inside, err = procsBelow(inside, d.Dir)
		if errors.Is(err, os.ErrNotExist) {
			return ErrGone
		}
		if err != nil {
			return err
		}
	}
	f.room = inside
	slices.Sort(inside)
	inside = slices.Compact(inside)
	f.count = len(inside)
	strangers, err := f.compare(inside)
	if err != nil {
		return err
	}
	for _, pid := range strangers {
		if err := f.prove(pid); err != nil {
			return err
		}
	}
	return nil
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
		return fmt.Errorf("process %s is Slurm's (%s): %w", s.ID(), s.Comm, ErrNotOurs)
	case slices.Contains(f.target.Spare, s.ID()):
		return fmt.Errorf("process %s is to be spared: %w", s.ID(), ErrNotOurs)
	case !f.rootsUser(pid) && !f.isMember(s.ID()):
		return fmt.Errorf("process %s (%s) is another user's: %w", s.ID(), s.Comm, ErrNotOurs)
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
