package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gimbal-hpc/gimbal/tests/slurmtest"
)

// suiteFile reads a file of the repository.
func suiteFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// selected are the tests that scripts/slurm-suite runs, by its function of that
// name: column, package, tests.
func selected(t *testing.T, name string) [][]string {
	t.Helper()
	_, rest, _ := strings.Cut(suiteFile(t, "scripts/slurm-suite"), "\n"+name+"() {\n    cat <<'TEXT'\n")
	table, _, _ := strings.Cut(rest, "TEXT\n")
	var out [][]string
	for line := range strings.Lines(table) {
		out = append(out, strings.Fields(line))
	}
	if len(out) == 0 {
		t.Fatalf("%s is empty", name)
	}
	return out
}

// TestSuiteSelection: each test that is named is there, so that none drops out
// of the selection by a new name.
func TestSuiteSelection(t *testing.T) {
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for _, row := range slices.Concat(selected(t, "selection"), selected(t, "long_selection")) {
		files, err := filepath.Glob(filepath.Join(top, row[1], "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, file := range files {
			for _, m := range declared.FindAllStringSubmatch(suiteFile(t, strings.TrimPrefix(file, top+"/")), -1) {
				names = append(names, m[1])
			}
		}
		for want := range strings.SplitSeq(strings.Trim(row[2], "^$()"), "|") {
			if len(names) == 0 || want != "." && !slices.Contains(names, want) {
				t.Errorf("%s has no test %s", row[1], want)
			}
		}
	}
}

// TestSuiteTable: the README's table has a column for each of the selection
// and a line for each suite, as a run wrote it.
func TestSuiteTable(t *testing.T) {
	columns := []string{"Slurm", "Debian"}
	for _, row := range selected(t, "selection") {
		columns = append(columns, strings.ReplaceAll(row[0], "_", " "))
	}
	readme := suiteFile(t, "README.md")
	if head := "| " + strings.Join(columns, " | ") + " |\n"; !strings.Contains(readme, head) {
		t.Errorf("the README has no table with the head %s", head)
	}
	for _, suite := range []string{"bookworm", "trixie", "sid"} {
		line := regexp.MustCompile(`(?m)^\| \d\d\.\d\d \| ` + suite + ` \|.*$`).FindString(readme)
		if strings.Count(line, "|") != len(columns)+1 || strings.Contains(line, "not run") {
			t.Errorf("%s: %q is no whole line; run make test-slurm SUITE=%s", suite, line, suite)
		}
	}
}

// TestSuiteCells reads what go test printed of a run that went wrong.
func TestSuiteCells(t *testing.T) {
	text := `=== RUN   TestX
--- FAIL: TestNodeName (0.00s)
--- FAIL: TestOther (0.00s)
FAIL
FAIL	example.org/gimbal/spank/harness	0.1s
--- PASS: TestArray (0.00s)
    --- FAIL: TestArray/one (0.00s)
--- SKIP: TestHetJob (0.00s)
--- SKIP: TestHetBatch (0.00s)
ok  	example.org/gimbal/tests/plugin	0.1s
--- PASS: TestRealSlurm (0.00s)
--- FAIL: TestOfSomethingElse (0.00s)
ok  	example.org/gimbal/helper/slurm	0.1s
--- PASS: TestShards (0.00s)
FAIL	example.org/gimbal/tests/contrib [build failed]
--- SKIP: TestBatchJob (0.00s)
ok  	example.org/gimbal/tests/slurmtest	0.1s
`
	out, code := checkAgainst(t, text)
	want := "| bookworm | FAILS: TestNodeName, TestOther | passes, skipped: TestHetJob, TestHetBatch | passes | FAILS | skipped | not run |\n"
	if code != 1 || !strings.Contains(out, want) || !strings.Contains(out, "is not what the run gave") {
		t.Errorf("exit %d: %s\nwant %s", code, out, want)
	}
}

// TestSuiteSkips: what this machine could not try is no word against the table,
// but said; a test that fails is, however little was tried.
func TestSuiteSkips(t *testing.T) {
	rows := selected(t, "selection")
	for _, c := range []struct {
		name, first, last string // results of the first and of the last column
		code              int
		says              string
	}{
		{"all pass", "--- PASS: %s\n", "--- PASS: %s\n", 0, ""},
		{"one skipped beside", "--- PASS: %[1]s\n--- SKIP: %[1]s\n", "--- PASS: %s\n", 0, "SKIPPED: slurm-suite bookworm"},
		{"a column skipped", "--- PASS: %s\n", "--- SKIP: %s\n", 0, "SKIPPED: slurm-suite bookworm"},
		{"a column skipped, another fails", "--- SKIP: %s\n", "--- FAIL: %s\n", 1, "is not what the run gave"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log strings.Builder
			for i, row := range rows {
				result := "--- PASS: %s\n"
				if i == 0 {
					result = c.first
				} else if i == len(rows)-1 {
					result = c.last
				}
				name, _, _ := strings.Cut(strings.Trim(row[2], "^$()"), "|")
				fmt.Fprintf(&log, result+"ok  \texample.org/gimbal%s\t0.1s\n", name, strings.TrimPrefix(row[1], "."))
			}
			out, code := checkAgainst(t, log.String())
			if code != c.code || !strings.Contains(out, c.says) || c.says == "" && strings.Contains(out, "SKIPPED") {
				t.Errorf("exit %d, want %d and %q: %s", code, c.code, c.says, out)
			}
		})
	}
}

// TestSuiteLong: what takes minutes passes, fails or is skipped by its exit
// status, and the table is left alone.
func TestSuiteLong(t *testing.T) {
	row := selected(t, "long_selection")[0]
	readme := suiteFile(t, "README.md")
	for result, want := range map[string]int{"PASS": 0, "FAIL": 1, "SKIP": 77} {
		out, code := suiteOn(t, fmt.Sprintf("--- %s: %s\nok  \texample.org/gimbal%s\t0.1s\n",
			result, strings.Trim(row[2], "^$"), strings.TrimPrefix(row[1], ".")), "--long")
		if code != want {
			t.Errorf("%s: exit %d, want %d: %s", result, code, want, out)
		}
	}
	if suiteFile(t, "README.md") != readme {
		t.Error("the README was changed")
	}
}

// checkAgainst compares the table with what go test printed on bookworm, where
// the host is that.
func checkAgainst(t *testing.T, text string) (out string, code int) {
	t.Helper()
	return suiteOn(t, text, "--check")
}

// suiteOn runs scripts/slurm-suite so on what go test printed, on bookworm.
func suiteOn(t *testing.T, text, option string) (out string, code int) {
	t.Helper()
	slurmtest.Need(t)
	if release := suiteRelease(); release != "bookworm" {
		t.Skipf("SKIPPED: the host is %s, whose Slurm would have to be fetched", release)
	}
	log := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(log, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return runSuite(t, nil, option, "--from", log, "bookworm")
}

// runSuite runs scripts/slurm-suite with more in its environment.
func runSuite(t *testing.T, env []string, args ...string) (out string, code int) {
	t.Helper()
	cmd := exec.Command(filepath.Join(top, "scripts", "slurm-suite"), args...)
	cmd.Env = append(os.Environ(), env...)
	text, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

// TestSuiteThatCannotBeHad: neither passed nor failed, and nothing is left.
func TestSuiteThatCannotBeHad(t *testing.T) {
	slurmtest.Need(t)
	if release := suiteRelease(); release == "sid" {
		t.Skip("SKIPPED: the host is sid")
	}
	for name, tools := range map[string]map[string]string{
		"no network":   {"debootstrap": "echo no mirror; exit 1", "unshare": "shift 3; exec \"$@\""},
		"no mounts":    {"debootstrap": "exit 0", "unshare": "echo not permitted; exit 1"},
		"no whole one": {"debootstrap": "exit 0", "unshare": "[ \"$4\" != bash ] && [ \"$4\" != /bin/bash ] || exit 1; shift 3; exec \"$@\""},
	} {
		t.Run(name, func(t *testing.T) {
			dir, cache := t.TempDir(), filepath.Join(t.TempDir(), "cache")
			for tool, script := range tools {
				if err := os.WriteFile(filepath.Join(dir, tool), []byte("#!/bin/bash\n"+script+"\n"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			out, code := runSuite(t, []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "GIMBAL_CACHE=" + cache}, "--check", "sid")
			if code != 77 || !strings.Contains(out, "\nSKIPPED: slurm-suite sid: ") {
				t.Errorf("exit %d, want 77: %s", code, out)
			}
			if _, err := os.Stat(filepath.Join(cache, "sid")); err == nil {
				t.Error("half a root counts as one")
			}
		})
	}
}

// suiteRelease is the host's Debian release.
func suiteRelease() string {
	text, _ := os.ReadFile("/etc/os-release")
	_, rest, _ := strings.Cut(string(text), "VERSION_CODENAME=")
	name, _, _ := strings.Cut(rest, "\n")
	return name
}
