package wire

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/lockfile"
)

// ErrInUse says that another daemon already serves the socket.
var ErrInUse = errors.New("another daemon serves it")

// maxPath is the longest path of a socket: sockaddr_un, without its NUL.
const maxPath = 107

// socket is a listener at its final path, and the lock that makes it ours.
type socket struct {
	path     string
	listener *net.UnixListener
	lock     *os.File
	inode    uint64 // of the socket at path, to remove no other on close
}

// bind makes a socket appear at path, already listening and with exactly the
// given permission bits: it is bound in a private folder beside path, and
// moved. A stale socket there is replaced; anything else is left untouched
// and reported. The lock is waited for.
func bind(path string, mode fs.FileMode, wait time.Duration) (*socket, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	private := path + ".new"
	hidden := filepath.Join(private, "s")
	if len(hidden) > maxPath {
		return nil, fmt.Errorf("path is too long for a socket: %d bytes at most", maxPath-len(hidden)+len(path))
	}
	if err := makeFolder(filepath.Dir(path)); err != nil {
		return nil, err
	}
	lock, err := takeLock(path+".lock", wait)
	if err != nil {
		return nil, err
	}
	s := &socket{path: path, lock: lock}
	if err := s.publish(private, hidden, mode); err != nil {
		_ = s.close()
		return nil, err
	}
	return s, nil
}

// publish clears the way, binds and moves. The lock is held.
func (s *socket) publish(private, hidden string, mode fs.FileMode) error {
	if err := clearStale(s.path); err != nil {
		return err
	}
	if err := discard(private, hidden); err != nil {
		return err
	}
	if err := os.Mkdir(private, 0o700); err != nil {
		return err
	}
	defer func() { _ = discard(private, hidden) }()

	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: hidden, Net: "unix"})
	if err != nil {
		return err
	}
	listener.SetUnlinkOnClose(false)
	s.listener = listener
	if err := os.Chmod(hidden, mode.Perm()); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Lstat(hidden, &st); err != nil {
		return &fs.PathError{Op: "lstat", Path: hidden, Err: err}
	}
	// NOREPLACE: what appeared at path meanwhile is nobody's to overwrite.
	err = unix.Renameat2(unix.AT_FDCWD, hidden, unix.AT_FDCWD, s.path, unix.RENAME_NOREPLACE)
	if err != nil {
		return &os.LinkError{Op: "rename", Old: hidden, New: s.path, Err: err}
	}
	s.inode = st.Ino
	return nil
}

// close stops listening, removes the socket if it is still this one, and gives
// up the lock. The lock file stays: to remove it would let two daemons hold
// two different ones.
func (s *socket) close() error {
	var errs []error
	if s.listener != nil {
		if err := s.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	var st unix.Stat_t
	if s.inode != 0 && unix.Lstat(s.path, &st) == nil && st.Ino == s.inode {
		if err := os.Remove(s.path); err != nil {
			errs = append(errs, err)
		}
	}
	errs = append(errs, s.lock.Close())
	return errors.Join(errs...)
}

// takeLock opens and locks path, or returns ErrInUse.
func takeLock(path string, wait time.Duration) (*os.File, error) {
	f, err := lockfile.Take(path, wait)
	if errors.Is(err, lockfile.ErrHeld) {
		return nil, fmt.Errorf("%s is locked: %w", path, ErrInUse)
	}
	return f, err
}

// clearStale removes a socket of ours at path that nobody listens on. Absent
// is fine; whatever else is there stays, with an error that says what it is.
func clearStale(path string) error {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return fmt.Errorf("it is %s, not a socket: left as it is, remove it by hand", kind(st.Mode))
	}
	if st.Uid != uint32(os.Geteuid()) {
		return fmt.Errorf("the socket belongs to uid %d: left as it is", st.Uid)
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		_ = conn.Close()
		return ErrInUse
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("cannot tell whether the socket is in use: %w", err)
	}
	return os.Remove(path)
}

func kind(mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return "a folder"
	case unix.S_IFLNK:
		return "a symbolic link"
	case unix.S_IFIFO:
		return "a FIFO"
	case unix.S_IFREG:
		return "a regular file"
	}
	return "a device"
}

// discard removes what a crash in the middle of publish left: only an empty
// folder, or one with our socket in it.
func discard(private, hidden string) error {
	for _, path := range []string{hidden, private} {
		err := os.Remove(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) {
			return err
		}
	}
	return nil
}

// makeFolder makes sure that dir is there with mode 0755, ours, and that
// nobody but root or us can exchange it or one above it.
func makeFolder(dir string) error {
	err := os.Mkdir(dir, 0o755)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err == nil {
		// The umask may have taken bits away.
		if err := os.Chmod(dir, 0o755); err != nil {
			return err
		}
	}
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return &fs.PathError{Op: "lstat", Path: dir, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return fmt.Errorf("%s is %s, not a folder", dir, kind(st.Mode))
	}
	if perm := st.Mode & 0o7777; perm != 0o755 || st.Uid != uint32(os.Geteuid()) {
		return fmt.Errorf("folder %s has mode %04o and owner %d, must have 0755 and %d", dir, perm, st.Uid, os.Geteuid())
	}
	return checkAbove(filepath.Dir(dir))
}

// checkAbove refuses a folder on the way to the root that others may write to
// without the sticky bit.
func checkAbove(dir string) error {
	for {
		var st unix.Stat_t
		if err := unix.Stat(dir, &st); err != nil {
			return &fs.PathError{Op: "stat", Path: dir, Err: err}
		}
		if st.Uid != 0 && st.Uid != uint32(os.Geteuid()) {
			return fmt.Errorf("folder %s belongs to uid %d", dir, st.Uid)
		}
		if st.Mode&0o022 != 0 && st.Mode&unix.S_ISVTX == 0 {
			return fmt.Errorf("folder %s may be written to by others (mode %04o)", dir, st.Mode&0o7777)
		}
		if dir == "/" {
			return nil
		}
		dir = filepath.Dir(dir)
	}
}
