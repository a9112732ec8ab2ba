package proc

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Reasons not to freeze; signals are the way then.
var (
	// ErrNoFreezer says that a task has no cgroup of its own, or of its step's,
	// that could be frozen.
	ErrNoFreezer = errors.New("no cgroup of the task's own can be frozen")
	// ErrNotOurs says that a directory holds a process that must not be frozen, or
	// does not hold all of the target.
	ErrNotOurs = errors.New("cgroup is not the target's alone")
)

// Freezer is a cgroup directory that holds a task, or all tasks of a step, and
// no slurmstepd.
type Freezer struct {
	Dir     string `json:"dir"`
	Version int    `json:"version"` // 1: freezer controller, 2: cgroup.freeze
	Inode   uint64 `json:"inode"`   // which directory it was: job ids come again
}

// FreezerState is what the kernel says of a directory.
type FreezerState struct {
	Self   bool // asked to freeze by its own file
	Parent bool // frozen, or freezing, by a directory above
	Frozen bool // every process in it and below is frozen
	// Below are directories below that were frozen by their own file: by
	// somebody else, for Gimbal freezes no directory inside another.
	Below []string
}

// FreezerOf finds the directory to freeze for a task, from its own
// /proc/PID/cgroup. The v1 freezer goes before v2, which on a hybrid host does
// not govern; where neither holds a directory of a Slurm step, or only that of
// step extern or interactive, whose shells must run, the error wraps
// ErrNoFreezer. The job's directory, the scope of all jobs and what lies above
// are never returned.
func (h Host) FreezerOf(task ID) (Freezer, error) {
	c, err := h.cgroups(task.PID)
	if err != nil {
		return Freezer{}, fmt.Errorf("find the cgroup of process %s: %w", task, err)
	}
	var buf [statSize]byte
	if _, err := h.statOf(buf[:], task); err != nil {
		return Freezer{}, fmt.Errorf("find the cgroup of process %s: %w", task, err)
	}
	m := h.mounts()
	if m.freezer != "" {
		if below, ok := stepV1(c.Freezer); ok {
			return freezerAt(m.freezer, below, 1)
		}
	}
	if m.unified != "" {
		if below, ok := stepV2(c.Unified); ok {
			return freezerAt(m.unified, below, 2)
		}
	}
	return Freezer{}, fmt.Errorf("process %s: %w", task, ErrNoFreezer)
}

// FreezersOf finds the directories to freeze for several tasks, each once, in the
// order of the tasks. Tasks that ended are left out; when one that lives has none,
// so has the whole: half a tenant is not frozen.
func (h Host) FreezersOf(tasks []ID) ([]Freezer, error) {
	var dirs []Freezer
	for _, task := range tasks {
		f, err := h.FreezerOf(task)
		if errors.Is(err, ErrGone) || err != nil && !h.runs(task) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if !slices.Contains(dirs, f) {
			dirs = append(dirs, f)
		}
	}
	if len(dirs) == 0 {
		return nil, fmt.Errorf("no task lives: %w", ErrNoFreezer)
	}
	return dirs, nil
}

// freezerAt is the directory at a path below a mount point, if it can freeze.
func freezerAt(mount, below string, version int) (Freezer, error) {
	f := Freezer{Dir: filepath.Join(mount, below), Version: version}
	var st unix.Stat_t
	if err := unix.Stat(f.Dir, &st); err != nil {
		return Freezer{}, fmt.Errorf("%s: %w: %w", f.Dir, ErrNoFreezer, err)
	}
	f.Inode = st.Ino
	if !isFile(filepath.Join(f.Dir, f.file())) {
		return Freezer{}, fmt.Errorf("%s: %w: it has no %s", f.Dir, ErrNoFreezer, f.file())
	}
	return f, nil
}

// file is the one that freezes.
func (f Freezer) file() string {
	if f.Version == 1 {
		return "freezer.state"
	}
	return "cgroup.freeze"
}

func (f Freezer) value(frozen bool) string {
	switch {
	case f.Version == 1 && frozen:
		return "FROZEN"
	case f.Version == 1:
		return "THAWED"
	case frozen:
		return "1"
	}
	return "0"
}

// stepV1 returns the part of a v1 path that ends with the task's directory, or
// with the step's where the tasks have none: slurm*/uid_U/job_J/step_S[/task_T].
func stepV1(p string) (string, bool) {
	parts, step, ok := findStep(p)
	if !ok {
		return "", false
	}
	end := step + 1
	if end < len(parts) && strings.HasPrefix(parts[end], "task_") {
		end++
	}
	return path.Join(parts[:end]...), true
}

// stepV2 returns the part of a v2 path that ends with the task's own directory:
// */slurmstepd.scope/job_J/step_S/user/task_T. The levels above are Slurm's: it
// freezes them for a suspend, and slurmstepd is in a branch beside user.
func stepV2(p string) (string, bool) {
	parts, step, ok := findStep(p)
	if !ok || len(parts) < step+3 || parts[step+1] != "user" {
		return "", false
	}
	task := parts[step+2]
	if !strings.HasPrefix(task, "task_") || task == "task_special" {
		return "", false
	}
	return path.Join(parts[:step+3]...), true
}

// findStep finds the step's part of a path. Above it there must be the job's,
// however that is named, and above that one of Slurm's own.
func findStep(p string) (parts []string, step int, ok bool) {
	if path.Clean(p) != p || !strings.HasPrefix(p, "/") {
		return nil, 0, false
	}
	parts = strings.Split(strings.TrimPrefix(p, "/"), "/")
	if slices.Contains(parts, "..") {
		return nil, 0, false
	}
	for i := 2; i < len(parts); i++ {
		switch {
		case !strings.HasPrefix(parts[i], "step_"):
		case slices.ContainsFunc(parts[:i-1], isSlurmLevel):
			return parts, i, parts[i] != "step_extern" && parts[i] != "step_interactive"
		}
	}
	return nil, 0, false
}

// isSlurmLevel says whether a directory is one of Slurm's own: slurm, slurm_NODE,
// slurmstepd.scope, NODE_slurmstepd.scope.
func isSlurmLevel(name string) bool { return strings.Contains(name, "slurm") }

// cgroupDir is an open directory, so that a path that another directory has
// taken meanwhile is not mistaken for it.
type cgroupDir struct {
	Freezer
	fd int
}

// openDir opens exactly this directory: ErrGone if it was removed, or removed and
// made again.
func (f Freezer) openDir() (*cgroupDir, error) {
	fd, err := unix.Open(f.Dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil, ErrGone
	}
	if err != nil {
		return nil, fmt.Errorf("open cgroup %s: %w", f.Dir, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Ino != f.Inode {
		_ = unix.Close(fd)
		return nil, ErrGone
	}
	return &cgroupDir{Freezer: f, fd: fd}, nil
}

func (d *cgroupDir) close() { _ = unix.Close(d.fd) }

// open opens a file of the directory.
func (d *cgroupDir) open(name string, flags int) (int, error) {
	fd, err := unix.Openat(d.fd, name, flags|unix.O_CLOEXEC, 0)
	return fd, d.wrap(err, name)
}

// wrap says which file an error is about; one of a directory that was removed
// becomes ErrGone.
func (d *cgroupDir) wrap(err error, name string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV):
		return ErrGone
	}
	return fmt.Errorf("%s/%s: %w", d.Dir, name, err)
}

// line reads a short file; ErrGone if the directory is gone.
func (d *cgroupDir) line(name string) (string, error) {
	fd, err := d.open(name, unix.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(fd) }()
	var buf [256]byte
	n, err := readFD(fd, buf[:])
	if err != nil {
		return "", d.wrap(err, name)
	}
	return strings.TrimSpace(string(buf[:n])), nil
}

// write asks the directory to freeze or to thaw.
func (d *cgroupDir) write(frozen bool) error {
	fd, err := d.open(d.file(), unix.O_WRONLY)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	_, err = unix.Write(fd, []byte(d.value(frozen)))
	return d.wrap(err, d.file())
}

// state reads what the kernel says, without what lies below.
func (d *cgroupDir) state() (FreezerState, error) {
	if d.Version == 1 {
		return d.stateV1()
	}
	self, err := d.line("cgroup.freeze")
	if err != nil {
		return FreezerState{}, err
	}
	events, err := d.line("cgroup.events")
	if err != nil {
		return FreezerState{}, err
	}
	s := FreezerState{Self: self == "1", Frozen: frozenEvent([]byte(events))}
	s.Parent = s.Frozen && !s.Self
	return s, nil
}

func (d *cgroupDir) stateV1() (FreezerState, error) {
	state, err := d.line("freezer.state")
	if err != nil {
		return FreezerState{}, err
	}
	self, err := d.line("freezer.self_freezing")
	if err != nil {
		return FreezerState{}, err
	}
	parent, err := d.line("freezer.parent_freezing")
	if err != nil {
		return FreezerState{}, err
	}
	return FreezerState{Self: self == "1", Parent: parent == "1", Frozen: state == "FROZEN"}, nil
}

// FreezerState reads the state of a directory from the kernel. ErrGone if it was
// removed.
func (h Host) FreezerState(f Freezer) (FreezerState, error) {
	d, err := f.openDir()
	if err != nil {
		return FreezerState{}, err
	}
	defer d.close()
	s, err := d.state()
	if err != nil {
		return FreezerState{}, err
	}
	s.Parent = s.Parent || h.frozenAbove(f)
	s.Below = frozenBelow(f)
	return s, nil
}

// FrozenInside lists the directories below a task's that somebody froze.
func (h Host) FrozenInside(task ID) []string {
	f, err := h.FreezerOf(task)
	if err != nil {
		return nil
	}
	return frozenBelow(f)
}

// frozenAbove says whether a v2 directory above was frozen by its own file.
func (h Host) frozenAbove(f Freezer) bool {
	if f.Version == 1 {
		return false // the kernel says it of the directory itself
	}
	root := h.mounts().unified
	for dir := filepath.Dir(f.Dir); len(dir) > len(root); dir = filepath.Dir(dir) {
		if asked(Freezer{Dir: dir, Version: f.Version}) {
			return true
		}
	}
	return false
}

// frozenBelow lists the directories below that were frozen by their own file.
func frozenBelow(f Freezer) []string {
	if childless(f.Dir) {
		return nil
	}
	var found []string
	entries, _ := os.ReadDir(f.Dir)
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		child := Freezer{Dir: filepath.Join(f.Dir, e.Name()), Version: f.Version}
		if asked(child) {
			found = append(found, child.Dir)
		}
		found = append(found, frozenBelow(child)...)
	}
	return found
}

// asked says whether a directory was asked to freeze by its own file.
func asked(f Freezer) bool {
	name := "cgroup.freeze"
	if f.Version == 1 {
		name = "freezer.self_freezing"
	}
	text, err := os.ReadFile(filepath.Join(f.Dir, name))
	return err == nil && strings.TrimSpace(string(text)) == "1"
}
