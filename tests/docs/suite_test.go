package docs

import (
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

// selected are the tests that scripts/slurm-suite runs: column, package, tests.
func selected(t *testing.T) [][]string {
	t.Helper()
	_, rest, _ := strings.Cut(suiteFile(t, "scripts/slurm-suite"), "selection() {\n    cat <<'TEXT'\n")
	table, _, _ := strings.Cut(rest, "TEXT\n")
	var out [][]string
	for line := range strings.Lines(table) {
		out = append(out, strings.Fields(line))
	}
	if len(out) < 5 {
		t.Fatalf("only %d lines are selected", len(out))
	}
	return out
}

// TestSuiteSelection: each test that is named is there, so that none drops out
// of the selection by a new name.
func TestSuiteSelection(t *testing.T) {
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for _, row := range selected(t) {
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
	for _, row := range selected(t) {
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
	slurmtest.Need(t)
	if release := suiteRelease(); release != "bookworm" {
		t.Skipf("SKIPPED: the host is %s, whose Slurm would have to be fetched", release)
	}
	log := filepath.Join(t.TempDir(), "log")
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
	if err := os.WriteFile(log, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(top, "scripts", "slurm-suite"), "--check", "--from", log, "bookworm")
	out, err := cmd.CombinedOutput()
	want := "| bookworm | FAILS: TestNodeName, TestOther | passes, skipped: TestHetJob, TestHetBatch | passes | FAILS | skipped | not run |\n"
	if err == nil || !strings.Contains(string(out), want) || !strings.Contains(string(out), "is not what the run gave") {
		t.Errorf("%v: %s\nwant %s", err, out, want)
	}
}

// suiteRelease is the host's Debian release.
func suiteRelease() string {
	text, _ := os.ReadFile("/etc/os-release")
	_, rest, _ := strings.Cut(string(text), "VERSION_CODENAME=")
	name, _, _ := strings.Cut(rest, "\n")
	return name
}
