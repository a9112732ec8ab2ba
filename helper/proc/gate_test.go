package proc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// frozenOnce is a counter whose directory was frozen and thawed: its gate is shut.
func frozenOnce(t *testing.T) (*Tracker, *launched, Freezer) {
	t.Helper()
	needConnector(t)
	tr, l, dir := counter(t, 1)
	freezes(t, tr, l, dir)
	if !shut(tr, l, dir) {
		t.Fatal("the gate is open")
	}
	return tr, l, dir
}

func freezes(t *testing.T, tr *Tracker, l *launched, dir Freezer) {
	t.Helper()
	f, err := tr.Freeze(context.Background(), Target{Roots: []ID{l.id}}, []Freezer{dir}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := tr.host.Thaw(f.Dirs); err != nil || len(r.Thawed) != 1 {
		t.Fatalf("thawed %+v, %v", r, err)
	}
}

func shut(tr *Tracker, l *launched, dir Freezer) bool {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.gates.closed([]*cgroupDir{{Freezer: dir}}, []ID{l.id})
}

func refused(t *testing.T, tr *Tracker, l *launched, dir Freezer) {
	t.Helper()
	if _, err := tr.Freeze(context.Background(), Target{Roots: []ID{l.id}}, []Freezer{dir}, nil); !errors.Is(err, ErrNotOurs) {
		t.Errorf("error %v", err)
	}
	if s, err := tr.host.FreezerState(dir); err != nil || s.Self || s.Frozen {
		t.Errorf("state %+v, %v", s, err)
	}
}

// TestAShutDirectoryIsNotReadAgain: until somebody is put in.
func TestAShutDirectoryIsNotReadAgain(t *testing.T) {
	tr, l, dir := frozenOnce(t)
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	if _, err := unix.InotifyAddWatch(fd, filepath.Join(dir.Dir, "cgroup.procs"), unix.IN_ACCESS); err != nil {
		t.Fatal(err)
	}
	read := func() bool {
		var buf [4096]byte
		n, _ := readFD(fd, buf[:])
		return n > 0
	}
	froze := func(want bool) {
		t.Helper()
		read() // by a thaw
		f, err := tr.Freeze(context.Background(), Target{Roots: []ID{l.id}}, []Freezer{dir}, nil)
		if err != nil || f.Processes < 2 || read() != want {
			t.Errorf("%d processes, %v; read again: %v", f.Processes, err, !want)
		}
		if _, err := tr.host.Thaw(f.Dirs); err != nil {
			t.Fatal(err)
		}
	}
	froze(false)
	orphan := launch(t, "sleep 1000")
	move(t, orphan.id, dir.Dir)
	froze(true)
}

// TestWhoeverIsPutInIsSeen: into the directory or below it, as a process or a
// thread, before the freeze or while it is under way.
func TestWhoeverIsPutInIsSeen(t *testing.T) {
	for _, where := range []string{"cgroup.procs", "tasks", "box/cgroup.procs"} {
		for _, moment := range []string{"before", "during"} {
			t.Run(where+"/"+moment, func(t *testing.T) {
				tr, l, dir := frozenOnce(t)
				stranger := launchAs(t, "sleep 1000", asUser(4711))
				putIn := func() {
					file := filepath.Join(dir.Dir, where)
					if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(file, []byte(strconv.Itoa(stranger.id.PID)), 0); err != nil {
						t.Fatal(err)
					}
				}
				f := freezing{tracker: tr, target: Target{Roots: []ID{l.id}}}
				defer f.close()
				if err := errors.Join(f.openAll([]Freezer{dir}), f.proveOurs()); err != nil {
					t.Fatal(err)
				}
				putIn()
				if moment == "during" {
					if err := f.proveOurs(); !errors.Is(err, ErrNotOurs) {
						t.Errorf("error %v", err)
					}
				}
				refused(t, tr, l, dir)
				_ = unix.Kill(stranger.id.PID, unix.SIGKILL)
				eventually(t, "the stranger's end", func() bool { return !Host{}.Alive(stranger.id) })
				freezes(t, tr, l, dir)
			})
		}
	}
}

// TestWhoIsBornInAShutDirectory: a child is the target's, unless it became one of
// Slurm's programs.
func TestWhoIsBornInAShutDirectory(t *testing.T) {
	needConnector(t)
	tr := tracked(t, Host{}, nil)
	l := launch(t, `echo $$; read go; `+program(t, "slurmstepd", 0)+` 1000 & echo $!; wait`)
	watch(t, tr, l.id)
	l.run(t)
	l.pid(t)
	dir := step(t, 1, l.id)
	freezes(t, tr, l, dir)
	l.run(t)
	child := l.pid(t)
	eventually(t, "the exec", func() bool {
		comm, _ := Host{}.readAll(child.PID, "comm")
		return string(comm) == "slurmstepd\n"
	})
	if !shut(tr, l, dir) {
		t.Error("a fork opened the gate")
	}
	refused(t, tr, l, dir)
}

// TestAGateIsForgottenWithItsRoot: the directory may stay for long.
func TestAGateIsForgottenWithItsRoot(t *testing.T) {
	tr, l, dir := frozenOnce(t)
	marks := func() int {
		text, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", tr.gates.fd))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(text), "inotify wd:")
	}
	if n := marks(); n != 1 {
		t.Errorf("%d watches", n)
	}
	tr.Unwatch(l.id)
	if n := marks(); n != 0 || shut(tr, l, dir) {
		t.Errorf("%d watches", n)
	}
}

// TestHoldsSeesWhoIsElsewhere: who was put in after the freeze, and who has left.
func TestHoldsSeesWhoIsElsewhere(t *testing.T) {
	versions(t, func(t *testing.T, version int) {
		tr, l, dir := counter(t, version)
		target := Target{Roots: []ID{l.id, {PID: l.id.PID, Start: 1}}} // one has ended
		f, err := tr.Freeze(context.Background(), Target{Roots: []ID{l.id}}, []Freezer{dir}, nil)
		if err != nil {
			t.Fatal(err)
		}
		holds := func(what string, want error) {
			t.Helper()
			if err := tr.Holds(target, f.Dirs); !errors.Is(err, want) {
				t.Errorf("%s: %v", what, err)
			}
		}
		holds("frozen", nil)
		stranger := launchAs(t, "sleep 1000", asUser(4711))
		move(t, stranger.id, dir.Dir)
		holds("a stranger", ErrNotOurs)
		move(t, stranger.id, filepath.Dir(dir.Dir))
		holds("without him", nil)
		move(t, l.id, filepath.Dir(dir.Dir))
		holds("one elsewhere", ErrNotOurs)
		tr.Unwatch(l.id)
		holds("nobody's", nil)
		if _, err := tr.host.Thaw(f.Dirs); err != nil {
			t.Error(err)
		}
	})
}

// happened is an event as inotify tells it.
func happened(wd int32, mask uint32, name string) []byte {
	b := binary.NativeEndian.AppendUint32(nil, uint32(wd))
	b = binary.NativeEndian.AppendUint32(b, mask)
	b = binary.NativeEndian.AppendUint32(b, 0)
	b = binary.NativeEndian.AppendUint32(b, uint32(len(name)))
	return append(b, name...)
}

func TestGateEvents(t *testing.T) {
	const modify = unix.IN_MODIFY
	for _, c := range []struct {
		what   string
		events []byte
		shut   [2]bool
	}{
		{"nothing", nil, [2]bool{true, true}},
		{"a freeze", happened(1, modify, "freezer.state\x00\x00\x00"), [2]bool{true, true}},
		{"a process", happened(1, modify, "cgroup.procs\x00\x00\x00\x00"), [2]bool{false, true}},
		{"a thread", happened(2, modify, "tasks\x00\x00\x00"), [2]bool{true, false}},
		{"a directory", happened(2, unix.IN_CREATE|unix.IN_ISDIR, "box\x00"), [2]bool{true, false}},
		{"another's", happened(3, modify, "tasks\x00\x00\x00"), [2]bool{true, true}},
		{"one after another", append(happened(1, modify, "freezer.state\x00\x00\x00"), happened(2, modify, "tasks\x00\x00\x00")...), [2]bool{true, false}},
		{"too many", happened(-1, unix.IN_Q_OVERFLOW, ""), [2]bool{false, false}},
	} {
		g := gates{each: map[int32]*gate{1: {shut: true}, 2: {shut: true}}}
		g.take(c.events)
		if got := [2]bool{g.each[1].shut, g.each[2].shut}; got != c.shut {
			t.Errorf("%s: shut %v, want %v", c.what, got, c.shut)
		}
	}
}

func FuzzGateEvents(f *testing.F) {
	f.Add(happened(1, unix.IN_MODIFY, "tasks\x00"))
	f.Add(happened(1, unix.IN_MODIFY, "cgroup.procs\x00\x00\x00\x00")[:20])
	f.Fuzz(func(_ *testing.T, b []byte) {
		g := gates{each: map[int32]*gate{1: {shut: true}}}
		g.take(b)
	})
}
