package contrib

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// fakeBuild is a build folder with a line in place of each thing built.
func fakeBuild(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"gimbal", "gimbald", "gimbal.so", "gimbal_core.so", "man/gimbal.1"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(name+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// installWith runs make install on a fake build, into the folder returned.
func installWith(t *testing.T, variables ...string) string {
	t.Helper()
	dir := t.TempDir()
	args := append([]string{"-C", top, "-o", "all", "-o", "man", "install", "BUILD=" + fakeBuild(t), "DESTDIR=" + dir}, variables...)
	output(t, "make", args...)
	return dir
}

// TestInstallBelowAPrefix: the unit starts the daemon where it was put, and the
// plugin goes where Slurm looks for it.
func TestInstallBelowAPrefix(t *testing.T) {
	for _, test := range []struct{ variable, daemon string }{
		{"PREFIX=/usr", "/usr/sbin/gimbald"},
		{"PREFIX=/usr/local", "/usr/local/sbin/gimbald"},
		{"SBINDIR=/opt/gimbal/bin", "/opt/gimbal/bin/gimbald"},
	} {
		t.Run(test.variable, func(t *testing.T) {
			dir := installWith(t, test.variable)
			unit, err := os.ReadFile(filepath.Join(dir, "lib/systemd/system/gimbald.service"))
			if err != nil {
				t.Fatal(err)
			}
			started := regexp.MustCompile(`\S+/gimbald\b`).FindAllString(string(unit), -1)
			if want := []string{"ExecStart=" + test.daemon, "ExecStopPost=" + test.daemon}; !slices.Equal(started, want) {
				t.Errorf("the unit has %q, not %q", started, want)
			}
			for _, file := range []string{test.daemon, "/usr/lib/x86_64-linux-gnu/slurm-wlm/gimbal.so", "/usr/lib/x86_64-linux-gnu/slurm-wlm/gimbal_core.so"} {
				if _, err := os.Stat(dir + file); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestInstalledLinks: no page leads to what is not installed beside it.
func TestInstalledLinks(t *testing.T) {
	doc := filepath.Join(installWith(t), "usr/share/doc/gimbal")
	pages, err := filepath.Glob(filepath.Join(doc, "*.md"))
	if err != nil || len(pages) < 5 {
		t.Fatalf("%q, %v", pages, err)
	}
	seen := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\]\(([^)#]+)[^)]*\)`).FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			seen++
			if _, err := os.Stat(filepath.Join(doc, m[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", filepath.Base(page), m[1])
			}
		}
	}
	if seen < 8 {
		t.Errorf("only %d links were found", seen)
	}
}
