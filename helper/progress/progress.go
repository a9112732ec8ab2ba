// Package progress keeps the small files into which jobs write how far they are.
// A file belongs to the job's user, in a folder that does not: he writes it at
// any time, whatever he likes, and nobody can put something else in its place.
package progress

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// Variable names the file in a job's environment.
const Variable = "GIMBAL_PROGRESS"

// maxFile is the largest file that is read, maxLine what is read of it, maxCount
// the highest number, up to which a float64 counts one by one.
const (
	maxFile  = 4096
	maxLine  = 64
	maxCount = 1 << 53
)

// Folder holds the files of one daemon.
type Folder struct {
	Dir   string
	Clock func() time.Duration // monotonic, as model.Progress has it
}

// Path is the file of a step.
func (f Folder) Path(s model.StepKey) string {
	return filepath.Join(f.Dir, fmt.Sprintf("%d.%d", s.JobID, s.StepID))
}

// Make makes a step's file, empty, for its user alone, in place of what an earlier
// step of that name may have left, and returns its path.
func (f Folder) Make(s model.StepKey, uid, gid uint32) (path string, err error) {
	path = f.Path(s)
	if err := f.prepare(); err != nil {
		return "", fmt.Errorf("progress folder: %w", err)
	}
	f.Remove(s)
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return "", fmt.Errorf("progress file %s: %w", path, err)
	}
	if int(uid) != os.Geteuid() {
		err = unix.Fchown(fd, int(uid), int(gid))
	}
	if err = errors.Join(err, unix.Close(fd)); err != nil {
		f.Remove(s)
		return "", fmt.Errorf("progress file %s of uid %d: %w", path, uid, err)
	}
	return path, nil
}

// prepare makes the folder, which everybody may pass through and nobody else may
// change or list.
func (f Folder) prepare() error {
	if err := f.bounded(); err != nil {
		return err
	}
	if err := os.Mkdir(f.Dir, 0o711); err == nil {
		return os.Chmod(f.Dir, 0o711) // the umask may have taken bits away
	} else if !errors.Is(err, fs.ErrExist) {
		return err
	}
	st, err := os.Lstat(f.Dir)
	if err != nil {
		return err
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); !ok || !st.IsDir() || int(sys.Uid) != os.Geteuid() || st.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s is not a folder that only uid %d may write to", f.Dir, os.Geteuid())
	}
	return nil
}

// run is a file system that users cannot write to, and that the system needs.
const run = "/run"

// bounded refuses a folder through which a user could fill /run: below it, it has
// to be a file system of its own, unless everything there is the user's anyway.
func (f Folder) bounded() error {
	if os.Geteuid() != 0 || !strings.HasPrefix(f.Dir, run+"/") {
		return nil
	}
	var own, all unix.Stat_t
	if err := unix.Stat(run, &all); err != nil {
		return err
	}
	if err := unix.Stat(f.Dir, &own); err != nil || own.Dev == all.Dev {
		return fmt.Errorf("%s is no file system of its own, so that a job could fill %s: mount a small one there, as gimbald(8) tells", f.Dir, run)
	}
	return nil
}

// Remove deletes a step's file, if there is one.
func (f Folder) Remove(s model.StepKey) { _ = os.Remove(f.Path(s)) }

// Sweep deletes the files of jobs that are not live, once they were not written
// for a while.
func (f Folder) Sweep(live func(job uint32) bool, unwritten time.Duration) {
	names, err := os.ReadDir(f.Dir)
	if err != nil {
		return // nobody has had one yet
	}
	for _, e := range names {
		s, ok := parseName(e.Name())
		st, err := e.Info()
		if ok && err == nil && !live(s.JobID) && time.Since(st.ModTime()) > unwritten {
			f.Remove(s)
		}
	}
}

func parseName(name string) (s model.StepKey, ok bool) {
	job, step, _ := strings.Cut(name, ".")
	j, err := strconv.ParseUint(job, 10, 32)
	k, err2 := strconv.ParseUint(step, 10, 32)
	return model.StepKey{JobID: uint32(j), StepID: uint32(k)}, err == nil && err2 == nil
}

// Read reads what a step last wrote; ok is false where that is no progress. It
// waits for nothing that a user can make.
func (f Folder) Read(s model.StepKey, uid uint32) (p model.Progress, ok bool) {
	path := f.Path(s)
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil || st.Size == 0 {
		return p, false // most jobs never write: nothing is opened for them
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return p, false
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Uid != uid || st.Size > maxFile {
		return p, false
	}
	var buf [maxLine]byte
	n, err := unix.Pread(fd, buf[:], 0)
	if err != nil {
		return p, false
	}
	if p.Count, p.Total, ok = Parse(string(buf[:n])); !ok {
		return p, false
	}
	p.Source = uint64(s.StepID)
	p.At = f.Clock() - max(time.Since(time.Unix(st.Mtim.Unix())), 0)
	return p, true
}

// Parse reads the first line: a number, and after it the total where there is one.
// A line without its end is still being written.
func Parse(text string) (count, total float64, ok bool) {
	line, _, whole := strings.Cut(text, "\n")
	words := strings.Fields(line)
	if !whole || len(words) < 1 || len(words) > 2 {
		return 0, 0, false
	}
	if count, ok = number(words[0]); !ok || len(words) == 1 {
		return count, 0, ok
	}
	if total, ok = number(words[1]); !ok {
		return 0, 0, false
	}
	return count, total, true
}

// number reads a plain number: no sign, no infinity, no other base.
func number(word string) (float64, bool) {
	if strings.Trim(word, "0123456789.eE+") != "" {
		return 0, false
	}
	x, err := strconv.ParseFloat(word, 64)
	if err != nil || !(x >= 0 && x <= maxCount) || math.IsInf(x, 0) {
		return 0, false
	}
	return x, true
}
