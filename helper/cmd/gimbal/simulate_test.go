package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	simulateTrace = `job_id,submit_s,duration_s,gpus,model
1,0,100,2,x
2,10,50,1,y
3,20,50,1,x
`
	simulatePairs = `job_a,job_b,norm_a,norm_b
x,x,0.9,0.9
x,y,1,1
`
)

// files writes texts to a folder and returns their paths.
func files(t *testing.T, texts map[string]string) map[string]string {
	t.Helper()
	dir, paths := t.TempDir(), make(map[string]string)
	for name, text := range texts {
		paths[name] = filepath.Join(dir, name)
		if err := os.WriteFile(paths[name], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return paths
}

func simulateOutput(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = runSimulate(args, world{stdout: &out, stderr: &errs, env: os.Getenv})
	return code, out.String(), errs.String()
}

func TestSimulate(t *testing.T) {
	f := files(t, map[string]string{"trace.csv": simulateTrace, "pairs.csv": simulatePairs})
	jobs := filepath.Join(t.TempDir(), "jobs.csv")
	code, out, errs := simulateOutput("--trace", f["trace.csv"], "--nodes", "1", "--gpus-per-node=2", "--policy", "exclusive,naive",
		"--interference", f["pairs.csv"], "--json", "--csv", jobs)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	if !strings.Contains(errs, `lacks 1 of the 3 pairs of models in the trace, such as "y" with "y"`) {
		t.Errorf("the hole in the table of pairs is not said: %q", errs)
	}
	var got []struct {
		Policy   string
		Jobs     int
		AvgJCT   float64 `json:"avg_jct_s"`
		Makespan float64 `json:"makespan_s"`
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].Policy != "exclusive" || got[0].Jobs != 3 || got[0].Makespan != 150 || got[0].AvgJCT != (100+140+130)/3.0 {
		t.Errorf("results %+v", got)
	}
	text, err := os.ReadFile(jobs)
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(text), "\n"); lines != 1+2*3 {
		t.Errorf("%d lines of jobs:\n%s", lines, text)
	}
}

func TestSimulateTable(t *testing.T) {
	f := files(t, map[string]string{"trace.csv": simulateTrace})
	code, out, errs := simulateOutput("--trace", f["trace.csv"], "--nodes", "1", "--gpus-per-node", "2", "--policy", "all")
	if code != 0 || errs != "" {
		t.Fatalf("exit %d: %s", code, errs)
	}
	for _, want := range []string{"mean JCT", "exclusive", "muri-l", "lucid", "timeslice", "throughput"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	if strings.Contains(out, "\r") {
		t.Errorf("progress is shown where there is no terminal: %q", out)
	}
}

func TestSimulatePolicyFile(t *testing.T) {
	f := files(t, map[string]string{"trace.csv": simulateTrace, "mine.toml": "name = \"mine\"\n[share]\ntogether = 1\n"})
	code, out, errs := simulateOutput("--trace", f["trace.csv"], "--nodes", "1", "--gpus-per-node", "2", "--policy", f["mine.toml"], "--shards", "2")
	if code != 0 || !strings.Contains(out, "mine") {
		t.Errorf("exit %d, stderr %q, stdout:\n%s", code, errs, out)
	}
}

func TestSimulateRefuses(t *testing.T) {
	f := files(t, map[string]string{"trace.csv": simulateTrace, "bad.csv": "job_id,submit_s,duration_s,gpus\n1,0,x,1\n",
		"bad.toml": "name = \"mine\"\nquantum = 5\n"})
	small := []string{"--nodes", "1", "--gpus-per-node", "1"}
	ok := []string{"--nodes", "1", "--gpus-per-node", "2", "--trace", f["trace.csv"]}
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no trace":         {append(small, "--policy", "srtf"), 2, "--trace is missing"},
		"no nodes":         {[]string{"--trace", "x", "--policy", "srtf"}, 2, "--nodes is missing"},
		"no policy":        {ok, 2, "--policy is missing; there are exclusive, srtf"},
		"unknown policy":   {append(ok, "--policy", "best"), 2, `there is no policy "best"; there are exclusive, srtf`},
		"a slip in one":    {append(ok, "--policy", "srft"), 2, `there is no policy "srft", did you mean "srtf"; there are`},
		"without .toml":    {append(ok, "--policy", strings.TrimSuffix(f["bad.toml"], ".toml")), 2, `did you mean "` + f["bad.toml"] + `"`},
		"nothing":          {append(ok, "--policy", "srtf,"), 2, "--policy: a name between two commas, or behind the last, is missing"},
		"slip in a file":   {append(ok, "--policy", strings.Replace(f["bad.toml"], "bad.toml", "bda.toml", 1)), 2, `no such file or directory, did you mean "` + f["bad.toml"] + `"?`},
		"slip in a trace":  {append(small, "--policy", "srtf", "--trace", strings.Replace(f["trace.csv"], "trace.csv", "trac.csv", 1)), 1, `did you mean "` + f["trace.csv"] + `"?`},
		"policy twice":     {append(ok, "--policy", "srtf,srtf"), 2, "srtf is named twice"},
		"no policy file":   {append(ok, "--policy", "nowhere.toml"), 2, "reading a policy: open nowhere.toml"},
		"bad policy file":  {append(ok, "--policy", f["bad.toml"]), 2, "bad.toml:2:"},
		"no shards":        {append(ok, "--policy", "srtf", "--shards", "0"), 2, "--shards must be at least 1"},
		"unknown flag":     {append(ok, "--fast"), 2, "unknown flag: --fast"},
		"argument":         {append(ok, "--policy", "srtf", "more"), 2, `"more" is no option; a job history is given with --trace`},
		"size":             {append(ok, "--policy", "srtf", "--gpu-memory", "32"), 2, `"32" is no size such as 32GiB`},
		"trace is missing": {append(small, "--policy", "srtf", "--trace", "nowhere.csv"), 1, "nowhere.csv"},
		"bad field":        {append(small, "--policy", "srtf", "--trace", f["bad.csv"]), 1, `bad.csv:2:5: duration_s: "x" is not a number`},
		"too large":        {append(small, "--policy", "srtf", "--trace", f["trace.csv"]), 1, "trace.csv:2:9: job 1 asks for 2 GPUs: it does not fit (nodes: 1, GPUs of each: 1)"},
		"cost":             {append(ok, "--policy", "srtf", "--cost", "dear"), 1, "the cost model is none, muri or a file"},
		"pairs":            {append(ok, "--policy", "srtf", "--interference", f["trace.csv"]), 1, `trace.csv:1: column "job_a" is missing`},
		"jobs":             {append(ok, "--policy", "srtf", "--csv", filepath.Join(f["trace.csv"], "x")), 1, "writing the jobs"},
	} {
		code, out, errs := simulateOutput(c.args...)
		if code != c.code || !strings.Contains(errs, c.want) || out != "" {
			t.Errorf("%s: exit %d, stdout %q, stderr %q; want %d and %q", name, code, out, errs, c.code, c.want)
		}
	}
}

func TestSimulateHelp(t *testing.T) {
	code, out, errs := simulateOutput("--help")
	if code != 0 || errs != "" || !strings.Contains(out, "--gpus-per-node") || !strings.Contains(out, "muri-s") {
		t.Errorf("exit %d, stderr %q, help:\n%s", code, errs, out)
	}
}

func TestParseMiB(t *testing.T) {
	for text, want := range map[string]float64{"": 0, "512MiB": 512, "1.5GiB": 1536, "1GB": 1e9 / (1 << 20)} {
		if got, err := parseMiB(text); err != nil || got != want {
			t.Errorf("%q is %v MiB, error %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"5", "GiB", "-1GiB", "NaNGiB", "0MiB"} {
		if got, err := parseMiB(text); err == nil {
			t.Errorf("%q is read as %v MiB", text, got)
		}
	}
}
