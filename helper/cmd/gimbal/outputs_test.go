package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOutputsAreApart: no output overwrites an input or another output, by whatever
// path it is named, and standard output takes one of them.
func TestOutputsAreApart(t *testing.T) {
	const policy = "name = \"quick\"\n"
	texts := map[string]string{"trace.csv": simulateTrace, "pairs.csv": simulatePairs, "cost.csv": "model,num_gpu,overhead_s\n*,,1\n", "quick.toml": policy}
	f := files(t, texts)
	dir := filepath.Dir(f["trace.csv"])
	state := filepath.Join(dir, "state")
	if err := writeJournal(state); err != nil {
		t.Fatal(err)
	}
	kept, err := filepath.Glob(filepath.Join(state, "*"))
	if err != nil || len(kept) == 0 {
		t.Fatalf("no journal: %v", err)
	}
	link, hard := filepath.Join(dir, "link"), filepath.Join(dir, "hard")
	if err := os.Symlink(f["trace.csv"], link); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(f["trace.csv"], hard); err != nil {
		t.Fatal(err)
	}
	o, same := filepath.Join(dir, "o"), dir+"/./state/../o"
	simulate := []string{"simulate", "--trace", f["trace.csv"], "--nodes", "1", "--gpus-per-node", "2", "--interference", f["pairs.csv"],
		"--cost", f["cost.csv"], "--policy", "naive," + f["quick.toml"]}
	report := []string{"report", "--offline", "--state-dir", state}
	for _, c := range []struct {
		of   []string
		args []string
		want string
	}{
		{simulate, []string{"--csv", f["trace.csv"]}, "--csv " + f["trace.csv"] + " would overwrite what --trace reads"},
		{simulate, []string{"--html", f["trace.csv"]}, "would overwrite what --trace reads"},
		{simulate, []string{"--html", link}, "would overwrite what --trace reads"},
		{simulate, []string{"--csv", hard}, "would overwrite what --trace reads"},
		{simulate, []string{"--csv", dir + "//state/../trace.csv"}, "would overwrite what --trace reads"},
		{simulate, []string{"--csv", f["pairs.csv"]}, "would overwrite what --interference reads"},
		{simulate, []string{"--csv", f["cost.csv"]}, "would overwrite what --cost reads"},
		{simulate, []string{"--html", f["quick.toml"]}, "would overwrite what --policy reads"},
		{simulate, []string{"--csv", o, "--html", o}, "--csv and --html would both be written to " + o},
		{simulate, []string{"--csv", o, "--html", same}, "--csv and --html would both be written to"},
		{simulate, []string{"--csv", o, "--journal", same}, "--csv and --journal would both be written to"},
		{simulate, []string{"--csv", "-", "--html", "-"}, "--csv and --html would both be on standard output"},
		{simulate, []string{"--csv", "-", "--json"}, "--csv and --json would both be on standard output"},
		{simulate, []string{"--journal", "-"}, "--journal - is no folder"},
		{report, []string{"--html", o, "--svg", same}, "--html and --svg would both be written to"},
		{report, []string{"--html", "-", "--svg", "-"}, "--html and --svg would both be on standard output"},
		{report, []string{"--text", "--svg", "-"}, "--svg and --text would both be on standard output"},
		{report, []string{"--html", kept[0]}, "would overwrite what --state-dir reads"},
	} {
		args := append(append([]string{}, c.of...), c.args...)
		if code, out, errs := try(args...); code != exitUsage || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%v: exit %d, stdout %q, stderr %q; want %q", c.args, code, out, errs, c.want)
		}
	}
	for name, text := range texts {
		if is, err := os.ReadFile(f[name]); err != nil || string(is) != text {
			t.Errorf("%s holds %q, error %v", name, is, err)
		}
	}
	if there(o) {
		t.Errorf("%s was written", o)
	}
	for args, begin := range map[string]string{"--csv -": "policy,", "--html -": "<!doctype html>", "--csv - --html /dev/null": "policy,", "--csv /dev/null --html /dev/null": "  policy "} {
		code, out, errs := try(append(append([]string{}, simulate...), strings.Fields(args)...)...)
		if code != exitOK || !strings.HasPrefix(out, begin) {
			t.Errorf("%s: exit %d, %s, stdout %.80q; want %q", args, code, errs, out, begin)
		}
	}
	if there("-") {
		t.Error("a file was called -")
	}
}

// TestOneAnswer: options that each ask for another answer exclude each other.
func TestOneAnswer(t *testing.T) {
	options := []string{"--self", "--gpus", "--daemon"}
	for i, first := range options {
		for _, second := range options[i+1:] {
			want := first + " and " + second + " ask for two answers"
			if code, out, errs := try("status", second, first); code != exitUsage || out != "" || !strings.Contains(errs, want) {
				t.Errorf("%s %s: exit %d, stdout %q, stderr %q", first, second, code, out, errs)
			}
		}
	}
}
