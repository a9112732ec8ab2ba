// Package lockfile takes locks that exclude other processes.
package lockfile

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ErrHeld says that another process holds the lock.
var ErrHeld = errors.New("another process holds the lock")

// Wait is for how long whoever comes after a process that has died waits for its
// locks: a child that it had just forked holds them too, until its exec.
const Wait = 2 * time.Second

// retry is the time between two tries.
const retry = time.Millisecond

// Take opens the file at path and locks it. It returns [ErrHeld] when the lock cannot
// be had in wait. Closing the file gives it up.
func Take(path string, wait time.Duration) (*os.File, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	if err := Lock(f, wait); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// Open opens the file at path to be locked: a regular one, which is made where it is
// missing and is never removed.
func Open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock file: %w", err)
	}
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		_ = f.Close()
		return nil, fmt.Errorf("lock file %s is no regular file", path)
	}
	return f, nil
}

// Lock locks an open file, or returns [ErrHeld] after wait.
func Lock(f *os.File, wait time.Duration) error {
	for end := time.Now().Add(wait); ; time.Sleep(retry) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
		case !errors.Is(err, unix.EWOULDBLOCK):
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		case !time.Now().Before(end):
			return fmt.Errorf("lock %s: %w", f.Name(), ErrHeld)
		}
	}
}

// Unlock gives up the lock of a file that stays open.
func Unlock(f *os.File) { _ = unix.Flock(int(f.Fd()), unix.LOCK_UN) }
