package proc

import (
	"bytes"
	"fmt"

	"golang.org/x/sys/unix"
)

// Opening a file of /proc or of a cgroup costs more than reading it. What is
// looked at again and again is kept open; an open file is never another
// process's, or another directory's, whatever takes the name.

// StatusFile is /proc/PID/status of one process, kept open.
type StatusFile struct {
	id ID
	fd int
}

// OpenStatus opens the status of exactly this process: ErrGone if it has ended.
// The caller closes it.
func (h Host) OpenStatus(id ID) (*StatusFile, error) {
	fd, err := openFile(h.path(id.PID, "status"))
	if err != nil {
		return nil, goneOr(err, id.PID, "status")
	}
	var buf [statSize]byte
	if _, err := h.statOf(buf[:], id); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return &StatusFile{id: id, fd: fd}, nil
}

// Read reads the status as it is now: ErrGone if the process has ended.
func (f *StatusFile) Read() (Status, error) {
	var buf [statusSize]byte
	n, err := preadFD(f.fd, buf[:])
	if err != nil {
		return Status{}, goneOr(err, f.id.PID, "status")
	}
	s, err := ParseStatus(buf[:n])
	if err != nil {
		return Status{}, fmt.Errorf("process %s: %w", f.id, err)
	}
	return s, nil
}

// Close gives the file back.
func (f *StatusFile) Close() { closeFile(&f.fd) }

// FreezerFile is the file of a directory that says whether it was itself asked to
// freeze, kept open.
type FreezerFile struct {
	dir Freezer
	fd  int
}

// Open opens the file: ErrGone if the directory was removed. The caller closes it.
func (f Freezer) Open() (*FreezerFile, error) {
	d, err := f.openDir()
	if err != nil {
		return nil, err
	}
	defer d.close()
	name := "cgroup.freeze"
	if f.Version == 1 {
		name = "freezer.self_freezing"
	}
	fd, err := d.open(name, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	return &FreezerFile{dir: f, fd: fd}, nil
}

// Asked says whether the directory was asked to freeze by its own file: ErrGone
// if it was removed.
func (f *FreezerFile) Asked() (bool, error) {
	var buf [16]byte
	n, err := preadFD(f.fd, buf[:])
	if err != nil {
		return false, (&cgroupDir{Freezer: f.dir}).wrap(err, "freeze")
	}
	return string(bytes.TrimSpace(buf[:n])) == "1", nil
}

// Close gives the file back.
func (f *FreezerFile) Close() { closeFile(&f.fd) }

// readStat reads an open /proc/PID/stat again: ErrGone if the process has ended,
// or was another from the start.
func readStat(file int, buf []byte, id ID) (Stat, error) {
	n, err := preadFD(file, buf)
	if err != nil {
		return Stat{}, goneOr(err, id.PID, "stat")
	}
	s, err := ParseStat(buf[:n])
	if err != nil {
		return Stat{}, fmt.Errorf("process %s: %w", id, err)
	}
	if s.Start != id.Start {
		return Stat{}, ErrGone
	}
	return s, nil
}

// preadFD reads a file from its beginning.
func preadFD(fd int, buf []byte) (int, error) {
	for {
		n, err := unix.Pread(fd, buf, 0)
		if err != unix.EINTR {
			return n, err
		}
	}
}
