package faults

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/journal"
	"github.com/gimbal-hpc/gimbal/helper/model"
)

// smallDisk is a folder of its own, of a few pages.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "disk")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := unix.Mount("gimbal", dir, "tmpfs", 0, "size=512k,mode=755"); err != nil {
		t.Skipf("SKIPPED: no file system can be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// onDisk is a setting whose state and whose stops lie there.
func onDisk(dir string) setting {
	return setting{state: filepath.Join(dir, "state"), run: filepath.Join(dir, "run")}
}

// newDiskRig is a rig on a small disk.
func newDiskRig(t *testing.T, slurm bool) (r *rig, dir string) {
	t.Helper()
	need(t)
	dir = smallDisk(t)
	for _, d := range []string{"state", "run"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := onDisk(dir)
	s.slurm = slurm
	return newRig(t, s), dir
}

// TestFullDisk: with a disk that is full nothing is stopped, what is stopped can
// be continued, the daemon lives on and its death leaves nothing stopped.
func TestFullDisk(t *testing.T) { underBoth(t, testFullDisk) }

func testFullDisk(t *testing.T, slurm bool) {
	injects(t, 2)
	r, dir := newDiskRig(t, slurm)
	r.start()
	runs, paused, left := r.living(nil), r.living(nil), r.living(nil)
	for _, k := range []*task{paused, left} {
		r.order(k, model.PrimPause)
		r.await(k, model.Paused)
	}
	fill(t, dir)
	r.order(paused, model.PrimResume)
	paused.trains()
	eventually(t, patience, "the log says why nothing is stopped", func() bool {
		r.order(runs, "release") // what is left of the files' last pages is soon used up
		r.order(runs, model.PrimPause)
		return strings.Contains(r.log(), "could not be written down")
	})
	r.order(runs, "release")
	runs.trains()
	r.killed()
	eventually(t, patience, "the guard continues the rest", func() bool { return len(left.stopped()) == 0 })
	left.trains()
	if err := os.Remove(filepath.Join(dir, "ballast")); err != nil {
		t.Fatal(err)
	}
	r.start()
	for _, k := range r.alive() {
		r.order(k, "release")
		r.await(k, model.Running)
		k.finish()
	}
	r.strange.wantUntouched(t)
}

// TestReadOnlyDisk: the daemon and its guard are dead, and nothing can be written
// any more: what was stopped can be continued all the same, and a daemon that
// cannot start says why.
func TestReadOnlyDisk(t *testing.T) { underBoth(t, testReadOnlyDisk) }

func testReadOnlyDisk(t *testing.T, slurm bool) {
	injects(t, 1)
	r, dir := newDiskRig(t, slurm)
	r.start()
	k := r.living(nil)
	r.order(k, model.PrimPause)
	r.await(k, model.Paused)
	r.killedBoth()
	remount(t, dir, unix.MS_RDONLY)
	r.release()
	k.trains()
	r.begin()
	eventually(t, patience, "the daemon gives up", r.gone)
	if !strings.Contains(r.log(), "read-only file system") {
		t.Errorf("it does not say why:\n%s", tail(r.log(), 3))
	}
	remount(t, dir, 0)
	r.start()
	r.order(k, "release")
	r.await(k, model.Running)
	k.finish()
	r.strange.wantUntouched(t)
}

// fill leaves no byte free.
func fill(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "ballast"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for block := make([]byte, 4096); len(block) > 0; {
		if _, err := f.Write(block); err != nil {
			block = block[:len(block)/2]
		}
	}
}

func remount(t *testing.T, dir string, flags uintptr) {
	t.Helper()
	if err := unix.Mount("gimbal", dir, "tmpfs", unix.MS_REMOUNT|flags, "size=512k,mode=755"); err != nil {
		t.Fatal(err)
	}
}

// TestTornFiles: a crash of the machine's own kind, a last line that is half
// there, costs that line alone.
func TestTornFiles(t *testing.T) { underBoth(t, testTornFiles) }

func testTornFiles(t *testing.T, slurm bool) {
	injects(t, 2)
	r := newRig(t, setting{slurm: slurm})
	r.start()
	k := r.living(nil)
	r.order(k, model.PrimPause)
	r.await(k, model.Paused)
	r.killedBoth()
	for _, pattern := range []string{"state/journal-*.jsonl", "run/stopped"} {
		files, err := filepath.Glob(r.path(pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		f, err := os.OpenFile(files[len(files)-1], os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(`+ "9@1" 4711:99 {"seq":99,"tena`); err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
	}
	r.start()
	r.order(k, "release")
	r.await(k, model.Running)
	r.wantWhole()
	r.finishAll()
}

// TestStateOfOthers: into a state folder that others can write to they could write
// whose processes are a tenant's. A daemon does not start on one, and says why.
func TestStateOfOthers(t *testing.T) {
	injects(t, 1)
	t.Parallel()
	r := newRig(t, setting{})
	if err := os.Mkdir(r.path("state"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(r.path("state"), 0o777); err != nil {
		t.Fatal(err)
	}
	r.begin()
	eventually(t, patience, "the daemon gives up", r.gone)
	if !strings.Contains(r.log(), "node.state_dir: folder "+r.path("state")+" may be written to by others") {
		t.Errorf("it does not say why:\n%s", tail(r.log(), 3))
	}
}

// TestAnotherBoot: after a boot the pids that were written down are others'. One
// of them is a process that somebody stopped: it stays stopped, and the tenants
// of before have ended.
func TestAnotherBoot(t *testing.T) {
	injects(t, 1)
	t.Parallel()
	r := newRig(t, setting{})
	r.start()
	k := r.living(nil)
	r.order(k, model.PrimPause)
	r.await(k, model.Paused)
	r.killedBoth()
	r.otherBoot()
	r.start()
	r.wantLost(1)
	if len(k.stopped()) != len(k.pids()) {
		t.Error("a process of another boot's pid was continued")
	}
}

// otherBoot has everything that was written down be of another boot.
func (r *rig) otherBoot() {
	r.t.Helper()
	boot, err := journal.BootID()
	if err != nil {
		r.t.Fatal(err)
	}
	files, _ := filepath.Glob(r.path("state/journal-*.jsonl"))
	for _, file := range append(files, r.path("run/stopped")) {
		text, err := os.ReadFile(file)
		if err != nil {
			r.t.Fatal(err)
		}
		other := strings.ReplaceAll(string(text), boot, strings.Repeat("0", 8)+boot[8:])
		if err := os.WriteFile(file, []byte(other), 0o600); err != nil {
			r.t.Fatal(err)
		}
	}
}
