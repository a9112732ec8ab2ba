package docs

import (
	"encoding/csv"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gimbal-hpc/gimbal/helper/report"
)

// terms lists what a section of gimbal(1) explains, in its order, with the mark
// around each name.
func terms(t *testing.T, header, mark string) []string {
	t.Helper()
	var all []string
	text := section(t, read(t, "contrib/man/gimbal.1.md"), header)
	for _, m := range regexp.MustCompile(`(?m)^(`+regexp.QuoteMeta(mark)+`[\w*, ]+)\n: \S`).FindAllStringSubmatch(text, -1) {
		for _, name := range strings.Split(m[1], ", ") {
			all = append(all, strings.Trim(name, "*"))
		}
	}
	return all
}

// TestEveryColumnOfStatusIsInItsPage: gimbal(1) explains each, as -e has them.
func TestEveryColumnOfStatusIsInItsPage(t *testing.T) {
	var want []string
	for _, f := range report.Fields() {
		want = append(want, f.Name)
	}
	if d := cmp.Diff(want, terms(t, "### COLUMNS", "**")); d != "" {
		t.Errorf("the columns and the page differ (-columns +page):\n%s", d)
	}
}

// history is the example of gimbal(1), and the command that replays it.
func history(t *testing.T) (jobs string, command []string) {
	t.Helper()
	for _, b := range blocks("gimbal.1.md", section(t, read(t, "contrib/man/gimbal.1.md"), "### HISTORY AS CSV")) {
		if b.lang == "csv" {
			jobs = b.text
		} else if line, ok := strings.CutPrefix(b.text, "gimbal "); ok {
			command = strings.Fields(line)
		}
	}
	if jobs == "" || command == nil {
		t.Fatal("there is no example of a history")
	}
	return jobs, command
}

// replay runs a command of gimbal on jobs.csv, and returns what it said and the
// lines of its out.csv.
func replay(t *testing.T, jobs string, command []string) (said string, out [][]string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "jobs.csv"), []byte(jobs), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(bin, "gimbal"), command...)
	cmd.Dir = dir
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("gimbal %q: %v\n%s", command, err, text)
	}
	file, err := os.Open(filepath.Join(dir, "out.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if out, err = csv.NewReader(file).ReadAll(); err != nil {
		t.Fatal(err)
	}
	return string(text), out
}

// TestHistoryOfTheManual replays the manual's example, and holds the columns of
// what is written to those that the manual explains.
func TestHistoryOfTheManual(t *testing.T) {
	jobs, command := history(t)
	said, out := replay(t, jobs, command)
	if strings.Contains(said, "not known") || len(out) != 1+2*3 {
		t.Errorf("%d lines were written for 3 jobs under 2 policies\n%s", len(out), said)
	}
	if d := cmp.Diff(out[0], terms(t, "### TIMES OF EVERY JOB", "*")); d != "" {
		t.Errorf("the columns of --csv and the page differ (-columns +page):\n%s", d)
	}
}

// TestHistoryColumns: the page explains the columns that a history may have,
// and each one that it explains is known.
func TestHistoryColumns(t *testing.T) {
	_, list, _ := strings.Cut(read(t, "helper/sim/trace/csv.go"), "var knownColumns = ")
	list, _, _ = strings.Cut(list, "\n}")
	var want []string
	for _, m := range regexp.MustCompile(`"(\w+)"`).FindAllStringSubmatch(list, -1) {
		want = append(want, m[1])
	}
	got := terms(t, "### HISTORY AS CSV", "*")
	slices.Sort(want)
	slices.Sort(got)
	if d := cmp.Diff(want, got); d != "" || len(want) < 15 {
		t.Errorf("the reader's columns and the page differ (-reader +page):\n%s", d)
	}
}
