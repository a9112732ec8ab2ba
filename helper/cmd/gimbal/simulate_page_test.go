package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// manyJobs is a trace of n jobs that share GPUs.
func manyJobs(n int) string {
	var b strings.Builder
	b.WriteString("job_id,submit_s,duration_s,gpus,model,user\n")
	for i := range n {
		fmt.Fprintf(&b, "%d,%d,%d,%d,model-<%d>,user\n", 100+i, 60*i, 300+i*7919%9000, 1<<(i%4), i%5)
	}
	return b.String()
}

// simulatedPage is the page of a trace on nodes of eight GPUs.
func simulatedPage(t *testing.T, nodes, policies string) string {
	t.Helper()
	f := files(t, map[string]string{"trace.csv": manyJobs(120)})
	out := filepath.Join(t.TempDir(), "page.html")
	code, _, errs := simulateOutput("--trace", f["trace.csv"], "--nodes", nodes, "--gpus-per-node", "8", "--policy", policies, "--html", out)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestSimulatePage(t *testing.T) {
	page := simulatedPage(t, "2", "exclusive,throughput")
	for _, want := range []string{"trace.csv", "Completion times", "Fairness", "Use of the GPUs over time", "Who ran where", "<td data-name=\"policy\">throughput</td>", "job 100 model-&lt;0&gt;, 1 GPUs"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if m := regexp.MustCompile(`<script|src=|url\(|@import|https?://|NaN|Inf`).FindString(page); m != "" {
		t.Errorf("the page holds %q: it is to need nothing else", m)
	}
}

// TestSimulatePageSize holds that a long run makes no large page.
func TestSimulatePageSize(t *testing.T) {
	f := files(t, map[string]string{"trace.csv": manyJobs(100_000)})
	out := filepath.Join(t.TempDir(), "page.html")
	code, _, errs := simulateOutput("--trace", f["trace.csv"], "--nodes", "200", "--gpus-per-node", "8", "--policy", "exclusive,srtf", "--html", out)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	st, err := os.Stat(out)
	if err != nil || st.Size() > 2<<20 || st.Size() < 10<<10 {
		t.Errorf("the page of 100,000 jobs: %v, %v", st.Size(), err)
	}
}

func TestSimulatePageRefused(t *testing.T) {
	f := files(t, map[string]string{"trace.csv": simulateTrace})
	code, _, errs := simulateOutput("--trace", f["trace.csv"], "--nodes", "1", "--gpus-per-node", "2", "--policy", "srtf", "--html", filepath.Join(f["trace.csv"], "x"))
	if code != 1 || !strings.Contains(errs, "writing the page") {
		t.Errorf("exit %d: %s", code, errs)
	}
}
