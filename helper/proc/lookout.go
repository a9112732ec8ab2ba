package proc

import (
	"bytes"
	"errors"

	"golang.org/x/sys/unix"
)

// placeEvery is after how many looks a lookout asks again in which cgroup its
// process is: nobody moves one but root.
const placeEvery = 10

// Lookout looks again and again at one process, for whether somebody stopped or
// froze it. It keeps two files open, so that a look costs two reads: the stat of
// the process, which once open is never another's, and the state of its cgroup
// where that can freeze it (see FreezerOf). The zero value is of no use; it is
// for one goroutine at a time.
type Lookout struct {
	host   Host
	id     ID
	stat   int     // open file, -1 without
	cgroup int     // open file of its state, -1 without
	dir    Freezer // that cgroup
	place  []byte  // /proc/PID/cgroup when the cgroup was looked for, nil: look again
	looks  int     // since then
}

// NewLookout returns a lookout for a process. Its files are opened by the first
// look, and closed by Close.
func (h Host) NewLookout(id ID) *Lookout { return &Lookout{host: h, id: id, stat: -1, cgroup: -1} }

// Close gives the files back. A look after it opens them again.
func (l *Lookout) Close() {
	closeFile(&l.stat)
	closeFile(&l.cgroup)
	l.place = nil
}

func closeFile(fd *int) {
	if *fd >= 0 {
		_ = unix.Close(*fd)
	}
	*fd = -1
}

// Quiet says that nobody has stopped the process or frozen its cgroup. Where it
// says false, or what it looks at cannot be read, Inspect and FreezerState tell
// more. A process that was moved to another cgroup is followed there with the
// tenth look at the latest.
func (l *Lookout) Quiet() bool {
	return l.runs() && l.thawed()
}

// FrozenInside lists the directories inside the process's cgroup that somebody
// froze.
func (l *Lookout) FrozenInside() []string {
	if l.place == nil {
		l.find()
	}
	if l.cgroup < 0 {
		return nil
	}
	return frozenBelow(l.dir)
}

// runs reads the process's stat. In D it may be frozen, or wait for a child
// that is stopped.
func (l *Lookout) runs() bool {
	var buf [statSize]byte
	s, err := l.readStat(buf[:])
	return err == nil && (s.State == 'S' || s.State == 'R' || s.State == 'I')
}

func (l *Lookout) readStat(buf []byte) (Stat, error) {
	if l.stat < 0 {
		fd, err := openFile(l.host.path(l.id.PID, "stat"))
		if err != nil {
			return Stat{}, goneOr(err, l.id.PID, "stat")
		}
		l.stat = fd
	}
	return readStat(l.stat, buf, l.id)
}

// thawed reads the state of the process's cgroup.
func (l *Lookout) thawed() bool {
	if l.looks++; l.place == nil || l.looks >= placeEvery {
		l.find()
	}
	if l.cgroup < 0 {
		return l.place != nil
	}
	var buf [256]byte
	n, err := preadFD(l.cgroup, buf[:])
	if err != nil { // the directory was removed: the process is elsewhere
		l.place = nil
		return false
	}
	if l.dir.Version == 1 {
		return string(bytes.TrimSpace(buf[:n])) == "THAWED"
	}
	return !frozenEvent(buf[:n])
}

// find opens the state of the cgroup that the process is in, unless it is where
// it was.
func (l *Lookout) find() {
	place, err := l.host.readAll(l.id.PID, "cgroup")
	if l.looks = 0; err == nil && l.place != nil && bytes.Equal(place, l.place) {
		return
	}
	closeFile(&l.cgroup)
	l.place = nil
	if err != nil {
		return
	}
	f, err := l.host.FreezerOf(l.id)
	switch {
	case errors.Is(err, ErrNoFreezer):
		l.place = place
	case err == nil && l.open(f) == nil:
		l.place = place
	}
}

func (l *Lookout) open(f Freezer) error {
	d, err := f.openDir()
	if err != nil {
		return err
	}
	defer d.close()
	name := "cgroup.events"
	if f.Version == 1 {
		name = "freezer.state"
	}
	fd, err := d.open(name, unix.O_RDONLY)
	if err != nil {
		return err
	}
	l.cgroup, l.dir = fd, f
	return nil
}
