package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// offline runs a command on a journal and returns what it prints.
func offline(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	w := world{&out, &errs, func(string) string { return "" }, func() time.Time { return time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC) }, 0}
	if code := run(args, w); code != exitOK {
		t.Fatalf("%v: exit %d: %s", args, code, errs.String())
	}
	return out.String()
}

func TestSimulateJournal(t *testing.T) {
	trace := "job_id,submit_s,duration_s,gpus,model,user,account,partition\n700,0,1000,1,resnet,ann,vision,gpu\n701,10,1000,1,gpt,bob,text,gpu\n702,20,1000,1,bert,eve,text,gpu\n"
	f := files(t, map[string]string{"trace.csv": trace})
	dir := filepath.Join(t.TempDir(), "journal")
	args := []string{"--trace", f["trace.csv"], "--nodes", "1", "--gpus-per-node", "1", "--policy", "srtf,timeslice", "--journal", dir}
	code, _, errs := simulateOutput(args...)
	if code != 0 || !strings.Contains(errs, "no journal is written of srtf") || !strings.Contains(errs, "the journal is in "+dir) {
		t.Fatalf("exit %d: %s", code, errs)
	}
	story := offline(t, "explain", "--offline", "--state-dir", dir, "--last", "0", "701")
	for _, want := range []string{"701 gpt, user bob", "launched", "paused", "resumed", "ended"} {
		if !strings.Contains(strings.ToLower(story), want) {
			t.Errorf("the story lacks %q:\n%s", want, story)
		}
	}
	if got := offline(t, "status", "--offline", "--state-dir", dir, "-n", "-P", "-X", "-j", "700", "-o", "Account,Partition"); got != "vision|gpu\n" {
		t.Errorf("account and partition of the job: %q", got)
	}
	for _, args := range [][]string{{"700", "701", "702"}, nil, {"-S", "2000-01-01", "-E", "2000-01-02"}} {
		line := offline(t, append([]string{"timeline", "--offline", "--state-dir", dir, "--ascii"}, args...)...)
		for _, want := range []string{"700 resnet", "701 gpt", "702 bert", "#", "."} {
			if !strings.Contains(line, want) {
				t.Errorf("timeline %v lacks %q:\n%s", args, want, line)
			}
		}
	}
	if code, _, errs := simulateOutput(args...); code != 1 || !strings.Contains(errs, "is not empty") {
		t.Errorf("a second run into the same folder: exit %d: %s", code, errs)
	}
}

func TestSimulateJournalFolders(t *testing.T) {
	f := files(t, map[string]string{"trace.csv": "job_id,submit_s,duration_s,gpus,model\na,0,100,2,\nb,1,100,1,gpt\n"})
	dir := filepath.Join(t.TempDir(), "journal")
	code, _, errs := simulateOutput("--trace", f["trace.csv"], "--nodes", "2", "--gpus-per-node", "1", "--policy", "timeslice,throughput", "--journal", dir)
	if code != 0 || !strings.Contains(errs, "POLICY/nodeN") || !strings.Contains(errs, "by its place in the trace") {
		t.Fatalf("exit %d: %s", code, errs)
	}
	for _, sub := range []string{"timeslice/node0", "timeslice/node1", "throughput/node0", "throughput/node1"} {
		if _, err := os.Stat(filepath.Join(dir, sub)); err != nil {
			t.Error(err)
		}
	}
	state := filepath.Join(dir, "timeslice/node0")
	if got := offline(t, "status", "--offline", "--state-dir", state, "-S", "2000-01-01", "-n", "-P", "-X", "-o", "JobID,JobName"); got != "1|a\n2|gpt\n" {
		t.Errorf("the names of jobs whose ids are no numbers: %q", got)
	}
	if story := offline(t, "explain", "--offline", "--state-dir", state, "1"); !strings.Contains(story, "launched") {
		t.Errorf("the story of the first job:\n%s", story)
	}
}
