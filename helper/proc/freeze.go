package proc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

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
// the error wraps ErrNotOurs. A directory of v1 that held the target and nobody
// else at an earlier freeze is not read again unless somebody was put in since:
// that a member was taken out, but for a root, is found by Holds. A directory that
// somebody else froze gives ErrFrozen, one that is not frozen before the context ends,
// or within PauseLimit where it has no end, ErrIncomplete. On any error all that was
// asked to freeze is thawed again, and that is read back.
func (t *Tracker) Freeze(ctx context.Context, target Target, dirs, mine []Freezer) (Frozen, error) {
	begin := time.Now()
	ctx, cancel := limited(ctx)
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
	if err := f.openAll(dirs); err != nil {
		return err
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

func (f *freezing) openAll(dirs []Freezer) error {
	for _, dir := range dirs {
		d, err := dir.openDir()
		if err != nil {
			return fmt.Errorf("%s: %w", dir.Dir, err)
		}
		f.dirs = append(f.dirs, d)
	}
	return nil
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
