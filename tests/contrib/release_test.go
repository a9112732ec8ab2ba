package contrib

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// project is a clone with scripts/release, whose tests and packages are made
// of a line each.
type project struct {
	t   *testing.T
	dir string
}

const released = `# Changelog

## [Unreleased]

## [1.2.3] - 2026-03-01

### Added

- Something.

## [1.2.2] - 2026-02-01

- Something else.
`

func newProject(t *testing.T, changelog string) project {
	t.Helper()
	p := project{t, t.TempDir()}
	script, err := os.ReadFile(filepath.Join(top, "scripts", "release"))
	if err != nil {
		t.Fatal(err)
	}
	p.put("scripts/release", string(script))
	p.put("scripts/package", "#!/bin/sh\nmkdir -p build/packages && echo \"$1\" >build/packages/gimbal_$1.deb && echo x >build/packages/gimbal-$1.rpm\n")
	p.put("Makefile", "check:\n\techo tested >>build-log\n")
	p.put(".gitignore", "build/\nbuild-log\n")
	p.put("CHANGELOG.md", changelog)
	p.git("init", "-q")
	p.git("add", "-A")
	p.git("commit", "-qm", "all")
	return p
}

func (p project) put(name, text string) {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		p.t.Fatal(err)
	}
}

func (p project) command(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@localhost", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@localhost")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (p project) git(args ...string) string {
	p.t.Helper()
	out, err := p.command("git", args...)
	if err != nil {
		p.t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return out
}

// built lists what is in build/packages.
func (p project) built() string {
	files, err := filepath.Glob(filepath.Join(p.dir, "build", "packages", "*"))
	if err != nil {
		p.t.Fatal(err)
	}
	for i := range files {
		files[i] = filepath.Base(files[i])
	}
	return strings.Join(files, " ")
}

func TestRelease(t *testing.T) {
	p := newProject(t, released)
	p.put("build/packages/gimbal_1.2.2.deb", "of the last release")
	const all = "SHA256SUMS gimbal-1.2.3.rpm gimbal_1.2.3.deb"
	out, err := p.command("scripts/release", "--dry-run")
	if err != nil || p.built() != all || p.git("tag") != "" || !strings.Contains(out, "nothing is tagged") {
		t.Fatalf("--dry-run: %v, built %q, tags %q\n%s", err, p.built(), p.git("tag"), out)
	}
	out, err = p.command("scripts/release")
	if err != nil || p.built() != all || p.git("tag") != "v1.2.3\n" || !strings.Contains(out, "git push origin v1.2.3") {
		t.Fatalf("%v, built %q, tags %q\n%s", err, p.built(), p.git("tag"), out)
	}
	if out, err := p.command("sh", "-c", "cd build/packages && sha256sum --strict --check SHA256SUMS && test $(wc -l <SHA256SUMS) = 2"); err != nil {
		t.Errorf("SHA256SUMS: %v\n%s", err, out)
	}
	tag := p.git("cat-file", "-p", "v1.2.3")
	if !strings.Contains(tag, "Gimbal 1.2.3\n") || !strings.Contains(tag, "### Added\n\n- Something.\n") || strings.Contains(tag, "else") {
		t.Errorf("the tag says\n%s", tag)
	}
	if out, err := p.command("scripts/release"); err == nil || !strings.Contains(out, "v1.2.3 is tagged already") {
		t.Errorf("a second time: %v\n%s", err, out)
	}
}

// Whatever is missing, it is said, and nothing is tagged.
func TestReleaseRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		changelog string
		change    func(p project)
		args      []string
		want      string
	}{
		"no date":       {"## [Unreleased]\n\n## [1.2.3] - unreleased\n\n- x\n", nil, nil, "1.2.3 has no date, but 'unreleased'"},
		"no version":    {"## [Unreleased]\n", nil, nil, "CHANGELOG.md names no version"},
		"odd version":   {"## [1.2] - 2026-03-01\n- x\n", nil, nil, "is not '## [1.2.3] - 2026-01-31'"},
		"says nothing":  {"## [1.2.3] - 2026-03-01\n\n## [1.2.2] - 2026-02-01\n- x\n", nil, nil, "says nothing of 1.2.3"},
		"unreleased":    {"## [Unreleased]\n- new\n## [1.2.3] - 2026-03-01\n- x\n", nil, nil, "move what is under [Unreleased]"},
		"changes":       {released, func(p project) { p.put("Makefile", "check:\n") }, nil, "not committed:\n M Makefile"},
		"a new file":    {released, func(p project) { p.put("x", "") }, nil, "?? x"},
		"tests fail":    {released, func(p project) { p.put("Makefile", "check:\n\tfalse\n"); p.git("commit", "-qam", "x") }, nil, "the tests failed"},
		"tests litter":  {released, func(p project) { p.put("Makefile", "check:\n\ttouch y\n"); p.git("commit", "-qam", "x") }, nil, "?? y"},
		"packages fail": {released, func(p project) { p.put("scripts/package", "#!/bin/sh\nexit 3\n"); p.git("commit", "-qam", "x") }, nil, ""},
		"usage":         {released, nil, []string{"1.2.3"}, "usage: release [--dry-run]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, c.changelog)
			if c.change != nil {
				c.change(p)
			}
			out, err := p.command("scripts/release", c.args...)
			if err == nil || !strings.Contains(out, c.want) {
				t.Errorf("%v, want %q\n%s", err, c.want, out)
			}
			if tags := p.git("tag"); tags != "" {
				t.Errorf("tagged %s", tags)
			}
		})
	}
}
