package proc

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/failpoint"
)

// ForeignFreeze is a directory that was not thawed because somebody else wants
// its processes stopped.
type ForeignFreeze struct {
	Freezer Freezer `json:"freezer"`
	Reason  string  `json:"reason"`
}

// Thawed is what a thaw did. Every directory of its set is in one of the lists.
type Thawed struct {
	Thawed  []Freezer
	Running []Freezer       // found thawed: somebody else did it
	Gone    []Freezer       // removed, or another directory by now
	Foreign []ForeignFreeze // left frozen
	Held    []Freezer       // thawed, but frozen all the same by a directory above
	Latency time.Duration
}

// thawTries bounds how often a thaw is written that does not read back.
const thawTries = 5

// Thaw thaws directories that Freeze froze, and reads back that they are. On v1
// the file is Slurm's own too: its suspend freezes the same directory after it
// has sent SIGTSTP, and where that waits for a process of the directory, it is
// left frozen. Directories below or above are not touched.
func (h Host) Thaw(set []Freezer) (Thawed, error) {
	begin := time.Now()
	var r Thawed
	var errs []error
	for _, f := range set {
		err := h.thawOne(f, &r)
		if errors.Is(err, ErrGone) {
			r.Gone = append(r.Gone, f)
		} else if err != nil {
			errs = append(errs, err)
		}
	}
	r.Latency = time.Since(begin)
	if len(errs) > 0 {
		return r, fmt.Errorf("thaw: %w", errors.Join(errs...))
	}
	return r, nil
}

func (h Host) thawOne(f Freezer, r *Thawed) error {
	d, err := f.openDir()
	if err != nil {
		return err
	}
	defer d.close()
	s, err := d.state()
	if err != nil {
		return err
	}
	if s.Self && f.Version == 1 {
		if reason := h.suspended(f.Dir); reason != "" {
			r.Foreign = append(r.Foreign, ForeignFreeze{Freezer: f, Reason: reason})
			return nil
		}
	}
	if !s.Self {
		r.Running = append(r.Running, f)
		return nil
	}
	if err := d.thaw(); err != nil {
		return err
	}
	failpoint.At("thaw.seen")
	r.Thawed = append(r.Thawed, f)
	if s.Parent || h.frozenAbove(f) {
		r.Held = append(r.Held, f)
	}
	return nil
}

// suspended says why the processes of a directory are to stay frozen: a stop
// signal waits for one of them.
func (h Host) suspended(dir string) string {
	pids, err := procsBelow(nil, dir)
	if err != nil {
		return ""
	}
	for _, pid := range pids {
		st, err := h.status(pid)
		if waits := st.AllPending() & stopSignals &^ st.StaysBlocked(); err == nil && waits != 0 {
			return fmt.Sprintf("%v waits for process %d", waits, pid)
		}
	}
	return ""
}

// thaw writes until the directory's own file says that it is not frozen by it.
func (d *cgroupDir) thaw() error {
	for range thawTries {
		if err := d.write(false); err != nil && !errors.Is(err, unix.EBUSY) {
			return err
		}
		s, err := d.state()
		if err != nil {
			return err
		}
		if !s.Self {
			return nil
		}
		time.Sleep(firstRest)
	}
	return fmt.Errorf("%s does not thaw", d.Dir)
}

// ThawKilled thaws what keeps processes from being killed: where SIGKILL waits for
// one of them in a directory that can freeze it (see FreezerOf), that directory and
// everything below it, whoever froze it. It returns the directories that were
// frozen. On v2 nothing is to be done: SIGKILL ends a frozen process.
func (h Host) ThawKilled(ids []ID) (thawed []string, err error) {
	var errs []error
	for _, id := range ids {
		waits, err := h.Pending(id)
		if err != nil || !waits.Has(unix.SIGKILL) {
			continue
		}
		f, err := h.FreezerOf(id)
		if err != nil {
			continue
		}
		dirs, err := h.thawAll(f)
		thawed = append(thawed, dirs...)
		errs = append(errs, err)
	}
	return thawed, errors.Join(errs...)
}

// thawAll thaws a directory and everything below it, and returns what had been
// frozen.
func (h Host) thawAll(f Freezer) ([]string, error) {
	dirs := frozenBelow(f)
	if asked(f) {
		dirs = append(dirs, f.Dir)
	}
	var errs []error
	for _, dir := range dirs {
		below := Freezer{Dir: dir, Version: f.Version}
		if err := below.thawNow(); err != nil && !errors.Is(err, ErrGone) {
			errs = append(errs, err)
		}
	}
	return dirs, errors.Join(errs...)
}

// thawNow thaws whatever directory is at the path.
func (f Freezer) thawNow() error {
	var st unix.Stat_t
	if err := unix.Stat(f.Dir, &st); err != nil {
		return ErrGone
	}
	f.Inode = st.Ino
	d, err := f.openDir()
	if err != nil {
		return err
	}
	defer d.close()
	return d.thaw()
}
