package proc

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// step makes a real directory as Slurm would for a step or task, and moves
// processes into it. It skips where this host has no such hierarchy.
func step(t testing.TB, version int, members ...ID) Freezer {
	t.Helper()
	m := Host{}.mounts()
	mount, below := m.freezer, "uid_0/job_1/step_0"
	if version == 2 {
		mount, below = m.unified, "job_1/step_0/user/task_0"
	}
	if mount == "" || os.Getuid() != 0 {
		t.Skipf("SKIPPED: no writable cgroup v%d freezer", version)
	}
	top := filepath.Join(mount, "slurm_gimbal_test_"+strconv.Itoa(os.Getpid()))
	dir := filepath.Join(top, below)
	t.Cleanup(func() { removeTree(t, top) })
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Skip(err)
	}
	for _, id := range members {
		move(t, id, dir)
	}
	f, err := Host{}.FreezerOf(members[0])
	if err != nil {
		t.Fatal(err)
	}
	if f.Dir != dir || f.Version != version {
		t.Fatalf("found %+v, want %s", f, dir)
	}
	return f
}

func move(t testing.TB, id ID, dir string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(id.PID)), 0); err != nil {
		t.Fatal(err)
	}
}

// removeTree thaws a tree, kills what is in it, and removes it.
func removeTree(t testing.TB, top string) {
	version := 2
	if strings.Contains(top, "/freezer/") {
		version = 1
	}
	eventually(t, "the cgroups to be removed", func() bool {
		_, _ = Host{}.thawAll(Freezer{Dir: top, Version: version})
		pids, _ := procsBelow(nil, top)
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		_ = filepath.WalkDir(top, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				defer func() { _ = unix.Rmdir(path) }()
			}
			return nil
		})
		for range 8 { // from the leaves up
			_ = filepath.WalkDir(top, func(path string, _ os.DirEntry, _ error) error { _ = unix.Rmdir(path); return nil })
		}
		_, err := os.Stat(top)
		return errors.Is(err, os.ErrNotExist)
	})
}

// counter is a process that counts, with a child; both in a directory.
func counter(t *testing.T, version int) (*Tracker, *launched, Freezer) {
	t.Helper()
	tr := tracked(t, Host{}, nil)
	l := launch(t, `sleep 1000 & echo $!; while :; do :; done`)
	watch(t, tr, l.id)
	l.run(t)
	child := l.pid(t)
	return tr, l, step(t, version, l.id, child)
}

func versions(t *testing.T, test func(t *testing.T, version int)) {
	for _, version := range []int{1, 2} {
		t.Run("v"+strconv.Itoa(version), func(t *testing.T) { test(t, version) })
	}
}

// moves says whether a process uses CPU time.
func moves(t *testing.T, id ID) bool {
	t.Helper()
	before, err := Host{}.Ticks(id)
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if now, err := (Host{}).Ticks(id); err == nil && now > before+1 {
			return true
		}
	}
	return false
}

func TestFreezeAndThaw(t *testing.T) {
	versions(t, func(t *testing.T, version int) {
		tr, l, dir := counter(t, version)
		target := Target{Roots: []ID{l.id}}
		f, err := tr.Freeze(context.Background(), target, []Freezer{dir}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if f.Processes != 2 || !slices.Equal(f.Dirs, []Freezer{dir}) {
			t.Errorf("frozen %+v", f)
		}
		if s, err := tr.host.FreezerState(dir); err != nil || !s.Self || !s.Frozen || s.Parent || s.Below != nil {
			t.Errorf("state %+v, %v", s, err)
		}
		if moves(t, l.id) {
			t.Error("it runs")
		}
		r, err := tr.host.Thaw(f.Dirs)
		if err != nil || !slices.Equal(r.Thawed, f.Dirs) || r.Held != nil {
			t.Errorf("thawed %+v, %v", r, err)
		}
		eventually(t, "it to run", func() bool { return moves(t, l.id) })
		if r, err := tr.host.Thaw(f.Dirs); err != nil || !slices.Equal(r.Running, f.Dirs) {
			t.Errorf("thawed again %+v, %v", r, err)
		}
	})
}

func TestFreezeRefuses(t *testing.T) {
	versions(t, func(t *testing.T, version int) {
		tr, l, dir := counter(t, version)
		target := Target{Roots: []ID{l.id}}
		refuse := func(why string, target Target) {
			t.Helper()
			_, err := tr.Freeze(context.Background(), target, []Freezer{dir}, nil)
			if !errors.Is(err, ErrNotOurs) {
				t.Errorf("%s: %v", why, err)
			}
			if s, err := tr.host.FreezerState(dir); err != nil || s.Self || s.Frozen {
				t.Errorf("%s: state %+v, %v", why, s, err)
			}
		}
		refuse("a process to spare", Target{Roots: target.Roots, Spare: target.Roots})
		refuse("a root that is not watched", Target{Roots: []ID{{PID: os.Getpid(), Start: 1}}})

		stranger := launchAs(t, "sleep 1000", asUser(4711))
		move(t, stranger.id, dir.Dir)
		refuse("another user's process", target)
		_ = unix.Kill(stranger.id.PID, unix.SIGKILL)
		eventually(t, "the stranger's end", func() bool { return !Host{}.Alive(stranger.id) })

		stepd := launch(t, "exec "+program(t, "slurmstepd", 0)+" 1000")
		stepd.run(t)
		eventually(t, "the exec", func() bool {
			comm, _ := Host{}.readAll(stepd.id.PID, "comm")
			return string(comm) == "slurmstepd\n"
		})
		move(t, stepd.id, dir.Dir)
		refuse("a slurmstepd", target)
		_ = unix.Kill(stepd.id.PID, unix.SIGKILL)
		eventually(t, "slurmstepd's end", func() bool { return !Host{}.Alive(stepd.id) })

		if f, err := tr.Freeze(context.Background(), target, []Freezer{dir}, nil); err != nil {
			t.Errorf("without them: %v", err)
		} else if _, err := tr.host.Thaw(f.Dirs); err != nil {
			t.Error(err)
		}
		move(t, l.id, filepath.Dir(dir.Dir))
		refuse("a member elsewhere", target)
	})
}

// The tracker keeps the pid of a child that ended before it could be looked at
// until its exit is told: whoever has that pid by then is no member.
func TestFreezeRefusesWhoTookAMembersPid(t *testing.T) {
	needConnector(t)
	versions(t, func(t *testing.T, version int) {
		tr, l, dir := counter(t, version)
		stranger := launchAs(t, "sleep 1000", asUser(4711))
		move(t, stranger.id, dir.Dir)
		tr.mu.Lock()
		tr.put(ID{PID: stranger.id.PID}, tr.trees[l.id])
		tr.mu.Unlock()
		if _, err := tr.Freeze(context.Background(), Target{Roots: []ID{l.id}}, []Freezer{dir}, nil); !errors.Is(err, ErrNotOurs) {
			t.Errorf("error %v", err)
		}
		if s, err := tr.host.FreezerState(dir); err != nil || s.Self || s.Frozen {
			t.Errorf("state %+v, %v", s, err)
		}
	})
}

// A member in a directory below, by itself or with others, is inside; one beside
// it is not, however many there are.
func TestFreezeCountsWhoIsBelow(t *testing.T) {
	versions(t, func(t *testing.T, version int) {
		tr, l, dir := counter(t, version)
		box := filepath.Join(dir.Dir, "box")
		if err := os.Mkdir(box, 0o755); err != nil {
			t.Fatal(err)
		}
		move(t, l.id, box)
		f, err := tr.Freeze(context.Background(), Target{Roots: []ID{l.id}}, []Freezer{dir}, nil)
		if err != nil || f.Processes != 2 {
			t.Fatalf("%d processes, %v", f.Processes, err)
		}
		if _, err := tr.host.Thaw(f.Dirs); err != nil {
			t.Fatal(err)
		}
		orphan := launch(t, "sleep 1000") // the same user's, in place of the member
		move(t, orphan.id, box)
		move(t, l.id, filepath.Dir(dir.Dir))
		if _, err := tr.Freeze(context.Background(), Target{Roots: []ID{l.id}}, []Freezer{dir}, nil); !errors.Is(err, ErrNotOurs) {
			t.Errorf("error %v", err)
		}
	})
}

func TestForeignFreeze(t *testing.T) {
	versions(t, func(t *testing.T, version int) {
		tr, l, dir := counter(t, version)
		target := Target{Roots: []ID{l.id}}
		other := Freezer{Dir: dir.Dir, Version: version}
		write := func(dir string, frozen bool) {
			t.Helper()
			if err := os.WriteFile(filepath.Join(dir, other.file()), []byte(other.value(frozen)), 0); err != nil {
				t.Fatal(err)
			}
		}
		frozen := func() FreezerState {
			var s FreezerState
			eventually(t, "the freeze", func() bool {
				var err error
				s, err = tr.host.FreezerState(dir)
				return err == nil && s.Frozen
			})
			return s
		}
		for _, where := range []string{dir.Dir, filepath.Dir(dir.Dir)} {
			write(where, true)
			if s := frozen(); s.Self == (where != dir.Dir) || s.Parent != (where != dir.Dir) {
				t.Errorf("state %+v, frozen at %s", s, where)
			}
			if _, err := tr.Freeze(context.Background(), target, []Freezer{dir}, nil); !errors.Is(err, ErrFrozen) {
				t.Errorf("freeze: %v", err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			_, err := tr.Pause(ctx, target)
			cancel()
			if !errors.Is(err, ErrFrozen) {
				t.Errorf("pause by signals: %v", err)
			}
			write(where, false)
			eventually(t, "the thaw", func() bool { return state(t, l.id) == 'R' })
		}
		// Ours from before, and the level above frozen by another meanwhile.
		write(dir.Dir, true)
		f, err := tr.Freeze(context.Background(), target, []Freezer{dir}, []Freezer{dir})
		if err != nil {
			t.Fatal(err)
		}
		write(filepath.Dir(dir.Dir), true)
		if r, err := tr.host.Thaw(f.Dirs); err != nil || !slices.Equal(r.Held, f.Dirs) || moves(t, l.id) {
			t.Errorf("thawed %+v, %v", r, err)
		}
		write(filepath.Dir(dir.Dir), false)
		eventually(t, "it to run", func() bool { return moves(t, l.id) })
	})
}

// A directory below that somebody else froze is named, left alone by a thaw, and
// thawed at the job's end.
func TestFrozenBelow(t *testing.T) {
	versions(t, func(t *testing.T, version int) {
		tr, _, dir := counter(t, version)
		below := filepath.Join(dir.Dir, "box")
		if err := os.Mkdir(below, 0o755); err != nil {
			t.Fatal(err)
		}
		other := Freezer{Dir: below, Version: version}
		if err := os.WriteFile(filepath.Join(below, other.file()), []byte(other.value(true)), 0); err != nil {
			t.Fatal(err)
		}
		if s, err := tr.host.FreezerState(dir); err != nil || !slices.Equal(s.Below, []string{below}) || s.Self {
			t.Errorf("state %+v, %v", s, err)
		}
		if _, err := tr.host.Thaw([]Freezer{dir}); err != nil || !asked(other) {
			t.Errorf("thaw went below: %v", err)
		}
		if got, err := tr.host.thawAll(dir); err != nil || !slices.Equal(got, []string{below}) || asked(other) {
			t.Errorf("thawed %v, %v", got, err)
		}
	})
}

// A pause by signals takes in the step's directory: those of the user that no
// tree holds, and nobody else.
func TestPauseOfACgroup(t *testing.T) {
	versions(t, func(t *testing.T, version int) {
		tr, l, dir := counter(t, version)
		orphan, stranger := launch(t, "sleep 1000"), launchAs(t, "sleep 1000", asUser(4711))
		move(t, orphan.id, dir.Dir)
		move(t, stranger.id, dir.Dir)
		p := pause(t, tr, Target{Roots: []ID{l.id}, Cgroups: []string{dir.Dir, dir.Dir + "/gone"}})
		if !slices.Contains(p.Stopped, orphan.id) || state(t, orphan.id) != 'T' || state(t, l.id) != 'T' {
			t.Errorf("paused %+v", p)
		}
		if slices.Contains(p.Stopped, stranger.id) || state(t, stranger.id) == 'T' {
			t.Errorf("stopped a stranger: %+v", p)
		}
		if _, err := tr.host.Resume(p.Stopped); err != nil {
			t.Fatal(err)
		}
	})
}

// A freeze that the kernel never confirms is taken back, lest the job freeze later
// behind everyone's back.
func TestFreezeThatIsNeverConfirmed(t *testing.T) {
	for _, version := range []int{1, 2} {
		f := newFake(t)
		task := f.process(7, 1001, "train", "6:freezer:/slurm/uid_0/job_5/step_0\n0::/slurm/job_5/step_0/user/task_0\n")
		var dir string
		if version == 1 {
			dir = f.dirV1("slurm/uid_0/job_5/step_0", 7)
			f.file(filepath.Join(dir, "freezer.self_freezing"), "1\n") // as it reads while it is FREEZING
		} else {
			dir = f.dirV2("", "slurm/job_5/step_0/user/task_0", 7)
		}
		freezer, err := f.FreezerOf(task)
		if err != nil {
			t.Fatal(err)
		}
		tr := tracked(t, f.Host, nil)
		watch(t, tr, task)
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		_, err = tr.Freeze(ctx, Target{Roots: []ID{task}}, []Freezer{freezer}, []Freezer{freezer})
		cancel()
		if !errors.Is(err, ErrIncomplete) {
			t.Errorf("v%d: %v", version, err)
		}
		want := map[int]string{1: "THAWED", 2: "0"}[version]
		if got := f.text(dir, freezer.file()); got != want {
			t.Errorf("v%d: %s reads %q", version, freezer.file(), got)
		}
	}
}

// One directory of a gang that cannot be frozen takes the others back.
func TestFreezeOfAGangIsAllOrNothing(t *testing.T) {
	f := newFake(t)
	var roots []ID
	var dirs []Freezer
	tr := tracked(t, f.Host, nil)
	for i := range 3 {
		below := "slurm/job_5/step_0/user/task_" + strconv.Itoa(i)
		id := f.process(10+i, 1001, "train", "0::/"+below+"\n")
		dir := f.dirV2("", below, 10+i)
		if i < 2 {
			f.file(filepath.Join(dir, "cgroup.events"), "populated 1\nfrozen 0\n")
		} else {
			f.file(filepath.Join(dir, "cgroup.freeze"), "1\n") // somebody else's
		}
		freezer, err := f.FreezerOf(id)
		if err != nil {
			t.Fatal(err)
		}
		watch(t, tr, id)
		roots, dirs = append(roots, id), append(dirs, freezer)
	}
	_, err := tr.Freeze(context.Background(), Target{Roots: roots}, dirs, nil)
	if !errors.Is(err, ErrFrozen) {
		t.Errorf("error %v", err)
	}
	for i, want := range []string{"0", "0", "1"} {
		if got := f.text(dirs[i].Dir, "cgroup.freeze"); got != want {
			t.Errorf("task %d: %q", i, got)
		}
	}
}
