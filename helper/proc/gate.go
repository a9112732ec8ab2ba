package proc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// gates tell whether somebody put a process into a directory of the v1 freezer
// since it was last read. There one comes in by a fork of one inside, or by a write
// to one of two files, which inotify reports; and the list itself is slow to read,
// for the kernel sorts it each time. On v2 clone3 brings processes in unseen, so
// that its directories have no gate.
type gates struct {
	fd   int // inotify; 0 before the first directory
	each map[int32]*gate
}

// gate is one directory.
type gate struct {
	dir   Freezer
	roots []ID // of the trees that it held when it was last read, and nobody else
	shut  bool // nobody was put in since
}

// gateEvents are writes to the files of a directory, and new ones below it.
const gateEvents = unix.IN_MODIFY | unix.IN_CREATE | unix.IN_ONLYDIR

// shut makes gates of directories that are about to be read. Where there is none
// for one of them, and when inotify's limits are reached, they are read each time.
func (g *gates) shut(dirs []*cgroupDir, roots []ID) {
	for _, d := range dirs {
		if d.Version != 1 || g.watch(d, roots) != nil || !childless(d.Dir) {
			g.open(dirs)
			return
		}
	}
}

func (g *gates) watch(d *cgroupDir, roots []ID) error {
	if g.fd == 0 {
		fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
		if err != nil {
			return fmt.Errorf("watch cgroup %s: %w", d.Dir, err)
		}
		g.fd, g.each = fd, map[int32]*gate{}
	}
	wd, err := unix.InotifyAddWatch(g.fd, fmt.Sprintf("/proc/self/fd/%d", d.fd), gateEvents)
	if err != nil {
		return fmt.Errorf("watch cgroup %s: %w", d.Dir, err)
	}
	g.drain() // what came before is in the list that is to be read
	g.each[int32(wd)] = &gate{dir: d.Freezer, roots: slices.Clone(roots), shut: true}
	return nil
}

// closed says that directories hold the trees of these roots and nobody was put in
// since that was read.
func (g *gates) closed(dirs []*cgroupDir, roots []ID) bool {
	g.drain()
	for _, d := range dirs {
		x := g.of(d.Freezer)
		if x == nil || !x.shut || !slices.Equal(x.roots, roots) {
			return false
		}
	}
	return true
}

// open has directories read again before they are frozen.
func (g *gates) open(dirs []*cgroupDir) {
	for _, d := range dirs {
		if x := g.of(d.Freezer); x != nil {
			x.shut = false
		}
	}
}

func (g *gates) of(dir Freezer) *gate {
	for _, x := range g.each {
		if x.dir == dir {
			return x
		}
	}
	return nil
}

// forget ends the watch over the directories of a root: that they are removed ends
// it on newer kernels only.
func (g *gates) forget(root ID) {
	for wd, x := range g.each {
		if slices.Contains(x.roots, root) {
			_, _ = unix.InotifyRmWatch(g.fd, uint32(wd))
			delete(g.each, wd)
		}
	}
}

func (g *gates) close() {
	if g.fd != 0 {
		_ = unix.Close(g.fd)
	}
	*g = gates{}
}

// drain takes in what happened until now.
func (g *gates) drain() {
	var buf [4096]byte
	for g.fd != 0 {
		n, err := readFD(g.fd, buf[:])
		if err != nil {
			g.doubt(!errors.Is(err, unix.EAGAIN))
			return
		}
		g.take(buf[:n])
	}
}

// take takes in events as inotify(7) has them: the directory's number, what
// happened, a cookie and the length of a name, four bytes each, and the name.
func (g *gates) take(b []byte) {
	for len(b) >= unix.SizeofInotifyEvent {
		wd := int32(binary.NativeEndian.Uint32(b))
		mask, size := binary.NativeEndian.Uint32(b[4:]), binary.NativeEndian.Uint32(b[12:])
		b = b[unix.SizeofInotifyEvent:]
		name := b[:min(int(size), len(b))]
		b = b[len(name):]
		g.doubt(mask&unix.IN_Q_OVERFLOW != 0)
		if x := g.each[wd]; x != nil && (mask&unix.IN_ISDIR != 0 || putsIn(name)) {
			x.shut = false
		}
	}
}

// putsIn says that a write to the file of this name moves processes.
func putsIn(name []byte) bool {
	s := string(bytes.TrimRight(name, "\x00"))
	return s == "cgroup.procs" || s == "tasks"
}

// doubt opens every gate when events were lost.
func (g *gates) doubt(lost bool) {
	for _, x := range g.each {
		x.shut = x.shut && !lost
	}
}
