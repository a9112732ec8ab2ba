package progress_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/progress"
)

var step = model.StepKey{JobID: 7, StepID: model.StepBatch}

func folder(t *testing.T) progress.Folder {
	t.Helper()
	return progress.Folder{Dir: filepath.Join(t.TempDir(), "progress"), Clock: func() time.Duration { return time.Hour }}
}

func me() (uid, gid uint32) { return uint32(os.Getuid()), uint32(os.Getgid()) }

func TestParse(t *testing.T) {
	for text, want := range map[string][2]float64{
		"0\n": {0, 0}, "12\n": {12, 0}, "12 100\n": {12, 100}, " 1.5\t3e2 \n": {1.5, 300}, "5\n00\n": {5, 0},
	} {
		if count, total, ok := progress.Parse(text); !ok || count != want[0] || total != want[1] {
			t.Errorf("%q: %v of %v, %t", text, count, total, ok)
		}
	}
	for _, text := range []string{"", "\n", "12", "12 13 14\n", "-1\n", "nan\n", "inf\n", "0x10\n", "1e400\n", "1e17\n",
		"step 12\n", "12 many\n", "1_0\n", "\x00\n", "12/100\n"} {
		if count, total, ok := progress.Parse(text); ok {
			t.Errorf("%q: %v of %v", text, count, total)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"12\n", "12 100\n", "-1\n", "1e9999\n", "nan inf\n", strings.Repeat("9", 64)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		count, total, ok := progress.Parse(text)
		for _, x := range []float64{count, total} {
			if !(x >= 0 && x <= 1<<53) || math.IsNaN(x) || !ok && x != 0 {
				t.Fatalf("%q: %v of %v, %t", text, count, total, ok)
			}
		}
	})
}

// TestFile: a job writes at any time, and what it wrote is read with the time at
// which it did.
func TestFile(t *testing.T) {
	f := folder(t)
	uid, gid := me()
	path, err := f.Make(step, uid, gid)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := f.Read(step, uid); ok {
		t.Error("an empty file tells something")
	}
	if err := os.WriteFile(path, []byte("41 100\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, time.Time{}, time.Now().Add(-10*time.Second)); err != nil {
		t.Fatal(err)
	}
	p, ok := f.Read(step, uid)
	if !ok || p.Count != 41 || p.Total != 100 || (time.Hour-10*time.Second-p.At).Abs() > time.Second {
		t.Errorf("%+v, %t", p, ok)
	}
	if again, err := f.Make(step, uid, gid); err != nil || again != path {
		t.Errorf("made again: %q, %v", again, err)
	}
	if p, ok := f.Read(step, uid); ok {
		t.Errorf("an earlier step's was left: %+v", p)
	}
	st, err := os.Stat(path)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	f.Remove(step)
	if _, ok := f.Read(step, uid); ok {
		t.Error("there after it was removed")
	}
}

// TestNotRead: whatever stands where a file should be, nothing is read and nothing
// waits.
func TestNotRead(t *testing.T) {
	uid, gid := me()
	for name, put := range map[string]func(path string) error{
		"link": func(path string) error {
			target := filepath.Join(filepath.Dir(path), "secret")
			return firstOf(os.WriteFile(target, []byte("1\n"), 0o600), os.Symlink(target, path))
		},
		"pipe":   func(path string) error { return unix.Mkfifo(path, 0o600) },
		"folder": func(path string) error { return os.Mkdir(path, 0o700) },
		"socket": func(path string) error { return unix.Mknod(path, unix.S_IFSOCK|0o600, 0) },
		"large":  func(path string) error { return os.WriteFile(path, []byte("1\n"+strings.Repeat("x", 5000)), 0o600) },
		"torn":   func(path string) error { return os.WriteFile(path, []byte("1"), 0o600) },
		"long":   func(path string) error { return os.WriteFile(path, []byte(strings.Repeat("1", 70)+"\n"), 0o600) },
		"none":   os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			f := folder(t)
			path, err := f.Make(step, uid, gid)
			if err != nil {
				t.Fatal(err)
			}
			if name != "none" {
				f.Remove(step)
			}
			if err := put(path); err != nil {
				t.Fatal(err)
			}
			if p, ok := f.Read(step, uid); ok {
				t.Errorf("read %+v", p)
			}
			if _, err := f.Make(step, uid, gid); err != nil {
				t.Errorf("made again: %v", err)
			}
		})
	}
	f := folder(t)
	path, err := f.Make(step, uid, gid)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if p, ok := f.Read(step, uid+1); ok {
		t.Errorf("another user's was read: %+v", p)
	}
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestOpenFolder: where others may write, no file is made.
func TestOpenFolder(t *testing.T) {
	f := folder(t)
	if err := os.Mkdir(f.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(f.Dir, 0o777); err != nil {
		t.Fatal(err)
	}
	uid, gid := me()
	if _, err := f.Make(step, uid, gid); err == nil {
		t.Error("made in a folder that is open to all")
	}
}

// TestOfAnotherUser needs root: the file is the job's user's.
func TestOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: needs root")
	}
	f := folder(t)
	path, err := f.Make(step, 12345, 54321)
	if err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil || st.Uid != 12345 || st.Gid != 54321 {
		t.Errorf("%d:%d, %v", st.Uid, st.Gid, err)
	}
}

func TestSweep(t *testing.T) {
	f := folder(t)
	uid, gid := me()
	for job := range uint32(4) {
		s := model.StepKey{JobID: job, StepID: 0}
		path, err := f.Make(s, uid, gid)
		if err != nil {
			t.Fatal(err)
		}
		if job > 0 {
			if err := os.Chtimes(path, time.Time{}, time.Now().Add(-time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.WriteFile(filepath.Join(f.Dir, "else"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f.Sweep(func(job uint32) bool { return job == 1 }, time.Minute)
	left, err := os.ReadDir(f.Dir)
	if err != nil || len(left) != 3 || left[0].Name() != "0.0" || left[1].Name() != "1.0" || left[2].Name() != "else" {
		t.Errorf("left %v, %v", left, err)
	}
}
