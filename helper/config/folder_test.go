package config

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestTrustedFolder(t *testing.T) {
	const sticky = fs.ModeSticky
	for _, c := range []struct {
		name         string
		above, state fs.FileMode // 0: not there
		uid          int         // of the folder's owner, 0: the caller
		ok           bool
	}{
		{"as it should be", 0o755, 0o750, 0, true},
		{"to be made", 0o755, 0, 0, true},
		{"below a folder for all", sticky | 0o777, 0o755, 0, true},
		{"of the group too", 0o755, 0o775, 0, false},
		{"of everybody", 0o755, sticky | 0o777, 0, false},
		{"to be replaced by everybody", 0o777, 0o755, 0, false},
		{"to be made by everybody", 0o777, 0, 0, false},
		{"another's", 0o755, 0o755, 4711, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			above := filepath.Join(t.TempDir(), "above")
			dir := filepath.Join(above, "state")
			if c.uid != 0 && os.Geteuid() != 0 {
				t.Skip("SKIPPED: needs root")
			}
			for path, mode := range map[string]fs.FileMode{above: c.above, dir: c.state} {
				if mode == 0 {
					continue
				}
				if err := os.MkdirAll(path, 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(path, mode); err != nil {
					t.Fatal(err)
				}
			}
			if c.uid != 0 {
				if err := os.Chown(dir, c.uid, c.uid); err != nil {
					t.Fatal(err)
				}
			}
			link := filepath.Join(t.TempDir(), "link")
			if err := os.Symlink(dir, link); err != nil {
				t.Fatal(err)
			}
			if err := TrustedFolder(dir); (err == nil) != c.ok {
				t.Errorf("%v", err)
			}
			if err := TrustedFolder(link); c.state != 0 && (err == nil) != c.ok {
				t.Errorf("by a link: %v", err)
			}
		})
	}
	if err := TrustedFolder("/dev/null"); err == nil {
		t.Error("a device is taken for a folder")
	}
}
