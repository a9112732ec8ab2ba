package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestCI: what continuous integration runs fails when anything failed, and tells
// what was not tried from what passed.
func TestCI(t *testing.T) {
	for _, c := range []struct {
		name, tests, bookworm, trixie string // exit statuses
		code                          int
		ran, last                     string
	}{
		{"all pass", "0", "0", "0", 0, "tests bookworm trixie", "trixie"},
		{"the tests fail", "1", "0", "0", 1, "tests trixie", "FAIL: see above"},
		{"the table is another", "0", "1", "0", 1, "tests bookworm trixie", "FAIL: see above"},
		{"trixie fails", "0", "0", "1", 1, "tests bookworm trixie", "FAIL: see above"},
		{"trixie cannot be had", "0", "0", "77", 0, "tests bookworm trixie", "SKIPPED: nothing was tested on the Slurm of trixie, see above"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range map[string]string{
				".ci/run":             suiteFile(t, ".ci/run"),
				"Makefile":            "test:\n\t@echo tests; exit " + c.tests + "\n",
				"scripts/slurm-suite": "#!/bin/bash\necho \"${!#}\"\ncase ${!#} in bookworm) exit " + c.bookworm + ";; *) exit " + c.trixie + ";; esac\n",
			} {
				path := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command(filepath.Join(dir, ".ci", "run"))
			out, _ := cmd.CombinedOutput()
			var ran []string
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			for _, line := range lines {
				if line == "tests" || line == "bookworm" || line == "trixie" {
					ran = append(ran, line)
				}
			}
			if code := cmd.ProcessState.ExitCode(); code != c.code || strings.Join(ran, " ") != c.ran || lines[len(lines)-1] != c.last {
				t.Errorf("exit %d, want %d; ran %q, want %q; the last line is to be %q:\n%s", code, c.code, ran, c.ran, c.last, out)
			}
		})
	}
}

// TestFailures: what a failed test printed stands together, whatever other tests
// printed meanwhile, and nothing of those that passed.
func TestFailures(t *testing.T) {
	const log = `=== RUN   TestA
=== PAUSE TestA
=== RUN   TestB
    b_test.go:1: B was here
--- PASS: TestB (0.00s)
=== CONT  TestA
=== RUN   TestA/one
    a_test.go:1: 1 is not 2
        and more
=== RUN   TestA/two
    a_test.go:2: two is well
=== NAME  TestA/one
    a_test.go:3: nor 3
--- FAIL: TestA (0.00s)
    --- FAIL: TestA/one (0.00s)
    --- PASS: TestA/two (0.00s)
FAIL
FAIL	example.org/a	0.1s
ok  	example.org/b	0.1s
# example.org/c
c.go:1: undefined: x
FAIL	example.org/c [build failed]
FAIL
`
	const want = `--- FAIL: TestA (0.00s)
    --- FAIL: TestA/one (0.00s)
    a_test.go:1: 1 is not 2
        and more
    a_test.go:3: nor 3
FAIL	example.org/a	0.1s
# example.org/c
c.go:1: undefined: x
FAIL	example.org/c [build failed]
`
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := exec.Command(filepath.Join(top, "scripts", "failures"), path).CombinedOutput()
	if err != nil || string(got) != want {
		t.Errorf("%v, got:\n%s\nwant:\n%s", err, got, want)
	}
}
