package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/failpoint"
	"github.com/gimbal-hpc/gimbal/helper/lockfile"
	"github.com/gimbal-hpc/gimbal/helper/model"
)

// Errors of a stop set.
var (
	// ErrFenced says that somebody else took the set over: a guard that
	// released everything, or a newer daemon. Whatever was stopped under the
	// old generation is to be continued at once.
	ErrFenced = errors.New("the stop set was taken over")
	// ErrHeld says that the lock of the stop set could not be had in time.
	ErrHeld = lockfile.ErrHeld
)

// Stopped is what of one tenant Gimbal keeps stopped, or was about to stop.
type Stopped struct {
	Procs   []model.ProcID
	Cgroups []string // freezer folders
	Held    bool     // it has not started: it may wait a while for a new daemon
}

// StopSet is the file that holds exactly what is stopped by Gimbal. It is
// written before each stop and after each continuation, so that a guard, a new
// daemon or `gimbald --release` can undo every stop whatever happened.
//
// Each opening for writing begins a new generation. The lock beside the file
// is held only for the length of a call, and the generation is compared in
// each: so a guard never waits for a daemon that hangs, and a daemon that comes
// back finds out that it was overruled. The order for a stop is
//
//	Add, stop, confirm, Check
//
// where an error of Add means: do not stop, and one of Check: continue again.
type StopSet struct {
	mu     sync.Mutex
	path   string
	f      *os.File
	lock   *os.File
	gen    uint64
	boot   string
	tail   tail
	set    map[model.TenantID]Stopped
	buf    []byte
	fenced bool
}

// rewriteAt is the size at which the file is written anew without what was
// removed.
const rewriteAt = 256 << 10

// lockWait is how long a call of a StopSet waits for the lock.
const lockWait = 2 * time.Second

// OpenStopSet takes the set at path over: it waits until nobody else is at
// work on it, begins a new generation, and keeps what was still stopped in
// this boot, to be continued and removed by the caller. boot is as in Options.
func OpenStopSet(path, boot string) (*StopSet, error) {
	s, err := openStopSet(path, boot)
	if err != nil {
		return nil, fmt.Errorf("open the stop set %s: %w", path, err)
	}
	return s, nil
}

func openStopSet(path, boot string) (*StopSet, error) {
	boot, err := bootOr(boot)
	if err != nil {
		return nil, err
	}
	lock, err := openLock(path)
	if err != nil {
		return nil, err
	}
	if err := lockfile.Lock(lock, lockWait); err != nil {
		_ = lock.Close()
		return nil, err
	}
	defer lockfile.Unlock(lock)
	old, err := fence(path)
	if err != nil {
		_ = lock.Close()
		return nil, err
	}
	s := &StopSet{path: path, lock: lock, gen: old.Generation + 1, boot: boot, set: map[model.TenantID]Stopped{}}
	if old.Boot == boot {
		s.set = old.Tenants
	}
	if err := s.rewrite(); err != nil {
		_ = lock.Close()
		return nil, err
	}
	return s, nil
}

func bootOr(boot string) (string, error) {
	if boot != "" {
		return boot, nil
	}
	return BootID()
}

// openLock opens the lock beside the set.
func openLock(path string) (*os.File, error) { return lockfile.Open(path + ".lock") }

// Add writes down that these processes and freezer folders of a tenant are
// about to be stopped, beside those already there.
func (s *StopSet) Add(t model.TenantID, ids []model.ProcID, cgroups []string) error {
	return s.add(t, Stopped{Procs: ids, Cgroups: cgroups})
}

// AddHeld is Add for a tenant that is held before its first run.
func (s *StopSet) AddHeld(t model.TenantID, ids []model.ProcID, cgroups []string) error {
	return s.add(t, Stopped{Procs: ids, Cgroups: cgroups, Held: true})
}

func (s *StopSet) add(t model.TenantID, stop Stopped) error {
	return s.change(func() error {
		s.buf = appendAdd(s.buf[:0], t, stop)
		if err := s.tail.write(s.buf); err != nil {
			return err
		}
		failpoint.At("stopset.added")
		s.set[t] = s.set[t].and(stop, stop.Held)
		return nil
	})
}

// and is what a tenant has with more of it, each once: what somebody else
// continued is stopped again and again.
func (e Stopped) and(more Stopped, held bool) Stopped {
	return Stopped{Procs: union(e.Procs, more.Procs), Cgroups: union(e.Cgroups, more.Cgroups), Held: held}
}

func union[T comparable](list, more []T) []T {
	have := make(map[T]bool, len(list))
	for _, x := range list {
		have[x] = true
	}
	for _, x := range more {
		if !have[x] {
			list, have[x] = append(list, x), true
		}
	}
	return list
}

// Remove writes down that nothing of the tenant is stopped any more.
func (s *StopSet) Remove(t model.TenantID) error {
	return s.change(func() error {
		if _, ok := s.set[t]; !ok {
			return nil
		}
		delete(s.set, t)
		if len(s.set) == 0 && s.tail.size < rewriteAt {
			return s.empty()
		}
		s.buf = appendRemove(s.buf[:0], t)
		return s.tail.write(s.buf)
	})
}

// empty cuts the file back to its header.
func (s *StopSet) empty() error {
	if err := s.f.Truncate(headerLen(s.boot)); err != nil {
		return err
	}
	s.tail.size, s.tail.torn = headerLen(s.boot), false
	return nil
}

// Check tells whether this is still the generation in force: nil, or ErrFenced.
func (s *StopSet) Check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.check()
}

func (s *StopSet) check() error {
	if s.fenced {
		return ErrFenced
	}
	gen, err := readGeneration(s.f)
	if err != nil {
		return fmt.Errorf("stop set %s: %w", s.path, err)
	}
	if s.fenced = gen != s.gen; s.fenced {
		return ErrFenced
	}
	return nil
}

// change runs fn under the lock while the generation is still ours.
func (s *StopSet) change(fn func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := lockfile.Lock(s.lock, lockWait); err != nil {
		return fmt.Errorf("stop set %s: %w", s.path, err)
	}
	defer lockfile.Unlock(s.lock)
	if err := s.check(); err != nil {
		return err
	}
	if s.tail.size >= rewriteAt || s.displaced() {
		if err := s.rewrite(); err != nil {
			return fmt.Errorf("rewrite the stop set %s: %w", s.path, err)
		}
	}
	failpoint.At("stopset.locked")
	if err := fn(); err != nil {
		return fmt.Errorf("stop set %s: %w", s.path, err)
	}
	failpoint.At("stopset.changed")
	return nil
}

// displaced tells whether the path no longer leads to our file: somebody
// cleaned the folder, and a guard would find nothing to continue.
func (s *StopSet) displaced() bool { return !sameFile(s.f, s.path) }

// rewrite replaces the file by one that holds the set alone.
func (s *StopSet) rewrite() error {
	buf := appendHeader(nil, s.gen, s.boot)
	for t, e := range s.set {
		buf = appendAdd(buf, t, e)
	}
	if err := writeWhole(s.path, buf); err != nil {
		return err
	}
	failpoint.At("stopset.rewritten")
	f, err := os.OpenFile(s.path, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	if s.f != nil {
		_ = s.f.Close()
	}
	s.f, s.tail = f, tail{f: f, size: int64(len(buf))}
	return nil
}

// Tenants returns a copy of the set.
func (s *StopSet) Tenants() map[model.TenantID]Stopped {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[model.TenantID]Stopped, len(s.set))
	for t, e := range s.set {
		out[t] = Stopped{append([]model.ProcID(nil), e.Procs...), append([]string(nil), e.Cgroups...), e.Held}
	}
	return out
}

// Generation is the number of this opening, to be told to the guard.
func (s *StopSet) Generation() uint64 { return s.gen }

// Close releases the files. What is stopped stays written down.
func (s *StopSet) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.f.Close(), s.lock.Close())
}

// StopState is a reading of a stop set.
type StopState struct {
	Generation uint64
	Boot       string
	Tenants    map[model.TenantID]Stopped
	Skipped    int // lines that could not be read
}

// LoadStopSet reads the set at path without changing it. One that is not there
// is empty.
func LoadStopSet(path string) (StopState, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return StopState{Tenants: map[model.TenantID]Stopped{}}, nil
	}
	if err != nil {
		return StopState{}, fmt.Errorf("read the stop set: %w", err)
	}
	return parseStopSet(b), nil
}

// Takeover is what a guard holds while it continues what is stopped.
type Takeover struct {
	StopState
	Locked bool // false: the lock could not be had in time, and that did not stop us
	lock   *os.File
}

// TakeOver ends the generation gen of the set at path and returns what is to
// be continued: from then on every Add and Check of its owner fails with
// ErrFenced. gen 0 means whichever there is. Where another generation is in
// force (a new daemon was faster) it changes nothing and returns ErrFenced.
//
// It waits for the lock for at most wait and then goes on without: an owner
// that hangs in the middle of a write must not keep its tenants stopped. Nor must
// a disk that cannot be written: an owner that hangs is not told then. The
// entries stay written down until the next OpenStopSet, whose caller finds
// them running: to continue twice is harmless, to forget is not. Release is to
// be called when everything was continued; a new daemon waits for it.
func TakeOver(path string, gen uint64, wait time.Duration) (*Takeover, error) {
	t := &Takeover{}
	if lock, err := openLock(path); err == nil {
		t.lock, t.Locked = lock, lockfile.Lock(lock, wait) == nil
	}
	var err error
	t.StopState, err = fenceIf(path, gen)
	if err != nil && (errors.Is(err, ErrFenced) || t.Tenants == nil) {
		return nil, errors.Join(fmt.Errorf("take over the stop set %s: %w", path, err), t.Release())
	}
	return t, nil
}

// Release ends the takeover.
func (t *Takeover) Release() error {
	if t.lock == nil {
		return nil
	}
	return t.lock.Close()
}

// fence moves the generation of the file at path on, so that whoever has it
// open is fenced, and returns what it held.
func fence(path string) (StopState, error) { return fenceIf(path, 0) }

func fenceIf(path string, gen uint64) (StopState, error) {
	st, err := LoadStopSet(path)
	if err != nil {
		return st, err
	}
	if gen != 0 && st.Generation != gen {
		return st, ErrFenced
	}
	st.Generation++
	if err := writeGeneration(path, st.Generation); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return st, err
	}
	failpoint.At("stopset.fenced")
	return st, nil
}
