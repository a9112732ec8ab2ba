package contrib

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// filesBelow lists the files below a folder, as they would be below /.
func filesBelow(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all = append(all, strings.TrimPrefix(path, dir))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// inPackages is where the packages have a file that make install puts
// elsewhere.
func inPackages(file string) string {
	switch {
	case strings.HasPrefix(file, "/usr/share/man/"):
		return file + ".gz"
	case file == "/lib/systemd/system/gimbald.service":
		return "/usr" + file
	case file == "/etc/slurm/plugstack.conf.d/gimbal.conf":
		return "/usr/share/gimbal/plugstack.conf.d/gimbal.conf"
	case file == "/usr/share/doc/gimbal/LICENSE":
		return "/usr/share/doc/gimbal/copyright"
	}
	return file
}

// testInstall: make install puts there what the packages hold, and make
// uninstall takes all of it away but the configuration.
func testInstall(t *testing.T, debs ...string) {
	var packaged []string
	for _, deb := range debs {
		for _, file := range contents(t, deb) {
			name := file[strings.LastIndex(file, " ")+1:]
			if !strings.HasSuffix(name, "/") && !strings.HasPrefix(name, "/usr/share/doc/gimbal-slurm-plugin-") {
				packaged = append(packaged, name)
			}
		}
	}
	dir := t.TempDir()
	makes := func(target string) {
		t.Helper()
		output(t, "make", "-C", top, target, "DESTDIR="+dir)
	}
	makes("install")
	var installed []string
	for _, file := range filesBelow(t, dir) {
		installed = append(installed, inPackages(file))
	}
	slices.Sort(packaged)
	slices.Sort(installed)
	if diff := cmp.Diff(packaged, installed); diff != "" {
		t.Errorf("in the packages and by make install (-packages +install)\n%s", diff)
	}
	makes("uninstall")
	if left := filesBelow(t, dir); !slices.Equal(left, []string{"/etc/gimbal/gimbald.toml"}) {
		t.Errorf("uninstalled, and left: %q", left)
	}
}
