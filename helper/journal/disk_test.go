package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// tinyDisk mounts a file system of a few pages.
func tinyDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("SKIPPED: a small file system needs root: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

func TestFullDisk(t *testing.T) {
	dir := tinyDisk(t, "64k")
	o := testOptions()
	o.SegmentBytes = 1 << 20
	j := mustOpen(t, dir, o)
	var fault *Fault
	wrote := 0
	for range 500 {
		err := j.Append(at(1, tenant(1, model.Paused), nil, nil))
		if err == nil {
			wrote++
			continue
		}
		if !errors.As(err, &fault) || !errors.Is(err, unix.ENOSPC) {
			t.Fatalf("full disk: %v", err)
		}
		break
	}
	if fault == nil || fault.Repeated {
		t.Fatalf("after %d records: %+v", wrote, fault)
	}
	err := j.Append(at(1, tenant(2, model.Paused), nil, nil))
	if !errors.As(err, &fault) || !fault.Repeated || j.Fault() == "" {
		t.Errorf("the second failure for the same cause: %v, %+v", err, fault)
	}
	r, err := Replay(dir, "boot-a")
	if err != nil || r.Skipped != 0 || int(r.Seq) != wrote {
		t.Errorf("replay on the full disk: %+v, %v; want %d records", r, err, wrote)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT, "size=1m"); err != nil {
		t.Fatal(err)
	}
	appendAll(t, j, at(2, tenant(3, model.Running), nil, nil))
	if j.Fault() != "" {
		t.Errorf("fault %q after a success", j.Fault())
	}
	r, err = Replay(dir, "boot-a")
	if err != nil || r.Skipped != 0 || !strings.Contains(fmt.Sprint(stopped(r)), "3@1") {
		t.Errorf("replay after room was made: %+v, %v", r, err)
	}
}

func TestRotationThatFails(t *testing.T) {
	dir := t.TempDir()
	o := testOptions()
	o.SegmentBytes = 2000
	j := mustOpen(t, dir, o)
	j.records.dir = filepath.Join(dir, "file", "missing")
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	failures := 0
	for i := range 20 {
		if err := j.Append(at(i, tenant(1, model.Paused), nil, nil)); err != nil {
			failures++
		}
	}
	if failures != 1 {
		t.Errorf("%d records were refused or warned of, want one warning: the old file goes on", failures)
	}
	if r, err := Replay(dir, "boot-a"); err != nil || r.Seq != 20 {
		t.Errorf("newest record %d, %v; want 20", r.Seq, err)
	}
}

// Somebody removes the folder under a running daemon: a restart must find what
// lives nevertheless.
func TestFilesThatVanish(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	j := mustOpen(t, dir, testOptions())
	appendAll(t, j, at(1, tenant(1, model.Paused), nil, nil))
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for i := range 2 * lookEvery {
		appendAll(t, j, at(i, tenant(2, model.Running), nil, nil))
	}
	appendAll(t, j, at(500, tenant(3, model.Gone), nil, nil))
	r, err := Replay(dir, "boot-a")
	if err != nil || !stopped(r)["1@1"] || len(r.Live) != 2 {
		t.Errorf("%+v, %v", stopped(r), err)
	}
	if past, err := Ended(dir, model.StatusQuery{}); err != nil || len(past) != 1 {
		t.Errorf("history: %d, %v", len(past), err)
	}
}

func TestClosedFileFails(t *testing.T) {
	j := mustOpen(t, t.TempDir(), testOptions())
	_ = j.Close()
	var fault *Fault
	if err := j.Append(at(1, tenant(1, model.New), nil, nil)); !errors.As(err, &fault) {
		t.Errorf("append to a closed journal: %v", err)
	}
}
