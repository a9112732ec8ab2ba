package lockfile

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

func TestOneAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := Take(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Take(path, 10*time.Millisecond); !errors.Is(err, ErrHeld) {
		t.Errorf("a second one got %v, want ErrHeld", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := Take(path, 0)
	if err != nil {
		t.Fatalf("after the first was closed: %v", err)
	}
	Unlock(second)
	third, err := Take(path, 0)
	if err != nil {
		t.Fatalf("after the second was unlocked: %v", err)
	}
	_ = third.Close()
	_ = second.Close()
}

// TestChildOfTheDead: a process that was killed leaves its locks to the child that
// it was about to start, for a moment.
func TestChildOfTheDead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	dead, err := Take(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command("/bin/cat")
	child.ExtraFiles = []*os.File{dead}
	until, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Wait() }()
	_ = dead.Close()
	if _, err := Take(path, 0); !errors.Is(err, ErrHeld) {
		t.Errorf("while the child has it: %v, want ErrHeld", err)
	}
	time.AfterFunc(50*time.Millisecond, func() { _ = until.Close() })
	f, err := Take(path, 10*time.Second)
	if err != nil {
		t.Fatalf("although the child gave it up: %v", err)
	}
	_ = f.Close()
}

func TestWhatIsNoLockFile(t *testing.T) {
	dir := t.TempDir()
	link, fifo := filepath.Join(dir, "link"), filepath.Join(dir, "fifo")
	if err := os.Symlink(filepath.Join(dir, "elsewhere"), link); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, fifo, dir, filepath.Join(dir, "missing", "lock")} {
		if f, err := Take(path, 0); err == nil {
			t.Errorf("%s was taken", path)
			_ = f.Close()
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "elsewhere")); err == nil {
		t.Error("the file behind the link was made")
	}
}
