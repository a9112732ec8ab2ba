package slurm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

// fake makes a client whose commands are shell scripts. Each call is written
// to a file, one argument in brackets after the other.
func fake(t *testing.T, opts Options, scripts map[string]string) (c *Client, calls func() []string) {
	t.Helper()
	opts.Bin = t.TempDir()
	if opts.Gap == 0 {
		opts.Gap = time.Millisecond
	}
	log := filepath.Join(t.TempDir(), "calls")
	for name, body := range scripts {
		text := "#!/bin/sh\n{ printf '%s' " + name + "; for a; do printf ' [%s]' \"$a\"; done; echo; } >>" + log + "\n" + body + "\n"
		if err := os.WriteFile(filepath.Join(opts.Bin, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return New(opts), func() []string {
		b, err := os.ReadFile(log)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSpace(string(b)), "\n")
	}
}

func TestWhatIsCalled(t *testing.T) {
	ctx := t.Context()
	for name, tc := range map[string]struct {
		do   func(c *Client) error
		want []string
	}{
		"requeue": {func(c *Client) error { return c.Requeue(ctx, 7) }, []string{"scontrol [requeue] [7]"}},
		"cancel": {func(c *Client) error { return c.Cancel(ctx, 7, "too much memory") },
			[]string{"scontrol [update] [JobId=7] [AdminComment=too much memory]", "scancel [7]"}},
		"comment": {func(c *Client) error { return c.SetComment(ctx, 7, "a|b\nc\x00d\"e'f") }, []string{"scontrol [update] [JobId=7] [Comment=a b c d e f]"}},
		"credit": {func(c *Client) error {
			got, err := c.Credit(ctx, 7, 150*time.Second)
			if got != 2*time.Minute {
				t.Errorf("credited %s", got)
			}
			return err
		}, []string{"scontrol [update] [JobId=7] [TimeLimit+=2]"}},
		"credit of less than a minute": {func(c *Client) error {
			got, err := c.Credit(ctx, 7, 59*time.Second)
			if got != 0 {
				t.Errorf("credited %s", got)
			}
			return err
		}, []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			c, calls := fake(t, Options{}, map[string]string{"scontrol": "", "scancel": ""})
			if err := tc.do(c); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, calls()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestOverlap: what the command printed comes back, even where it failed, and
// nothing of the caller's own step or packing goes along.
func TestOverlap(t *testing.T) {
	t.Setenv("SLURM_NTASKS", "32")
	t.Setenv("GIMBAL_PACK", "1")
	t.Setenv("GIMBAL_MEMORY", "9GiB")
	c, calls := fake(t, Options{Timeout: 500 * time.Millisecond}, map[string]string{
		"srun": `env | grep -E 'SLURM_NTASKS|GIMBAL'; case "$*" in *hang*) exec sleep 60;; *fail*) echo "srun: error: no" >&2; exit 3;; esac`})
	out, err := c.Overlap(t.Context(), 7, "n3", "/bin/cmd", "an arg")
	if err != nil || out != "GIMBAL_PACK=off\n" {
		t.Errorf("%q, %v", out, err)
	}
	if got := calls()[0]; !strings.Contains(got, "[--jobid=7]") || !strings.Contains(got, "[--nodelist=n3]") ||
		!strings.Contains(got, "[--overlap]") || !strings.HasSuffix(got, " [/bin/cmd] [an arg]") {
		t.Errorf("called %s", got)
	}
	out, err = c.Overlap(t.Context(), 7, "n3", "fail")
	if out != "GIMBAL_PACK=off\n" || err == nil || !strings.Contains(err.Error(), "srun: error: no") {
		t.Errorf("a command that fails: %q, %v", out, err)
	}
	start := time.Now()
	if _, err = c.Overlap(t.Context(), 7, "n3", "hang"); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 20*time.Second {
		t.Errorf("a node that hangs: %v after %s", err, time.Since(start))
	}
}

func TestCancelThoughTheCommentFails(t *testing.T) {
	c, calls := fake(t, Options{}, map[string]string{"scontrol": "exit 1", "scancel": ""})
	err := c.Cancel(t.Context(), 7, "why")
	if err == nil || !strings.Contains(err.Error(), "was cancelled") {
		t.Errorf("error %v", err)
	}
	if got := calls(); !slices.Contains(got, "scancel [7]") {
		t.Errorf("calls %q", got)
	}
}

func TestCommentIsBounded(t *testing.T) {
	for _, in := range []string{strings.Repeat("x", 5000), strings.Repeat("ä", 5000), strings.Repeat("\xff", 5000)} {
		if got := clean(in); len(got) > maxComment || strings.ContainsRune(got, '\uFFFD') {
			t.Errorf("%d bytes, %.20q", len(got), got)
		}
	}
}

func TestJob(t *testing.T) {
	end := time.Date(2026, 11, 29, 15, 45, 44, 0, time.UTC)
	for name, tc := range map[string]struct {
		script string
		want   Job
		err    string
	}{
		"running":      {"echo '7|RUNNING|2026-11-29T15:45:44|5:00|n[0-1]|None'", Job{7, "RUNNING", "", "n[0-1]", end, 5 * time.Minute}, ""},
		"of an array":  {"echo '9|RUNNING|N/A|5:00|n0|None'; echo '7|PENDING|N/A|1-02:03:04||Resources'", Job{ID: 7, State: "PENDING", Reason: "Resources", TimeLimit: 26*time.Hour + 3*time.Minute + 4*time.Second}, ""},
		"unlimited":    {"echo '7|COMPLETING|N/A|UNLIMITED|n0|None'", Job{ID: 7, State: "COMPLETING", Nodes: "n0"}, ""},
		"odd reason":   {"echo '7|PENDING|N/A|2:00:00||a|b|RUNNING'", Job{ID: 7, State: "PENDING", Reason: "a|b|RUNNING", TimeLimit: 2 * time.Hour}, ""},
		"none":         {"true", Job{}, "job 7: no such job in Slurm"},
		"unknown":      {"echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1", Job{}, "no such job in Slurm"},
		"short":        {"echo '7|RUNNING'", Job{}, "has 2 fields, not 6"},
		"no id":        {"echo 'x|RUNNING|N/A|5:00|n0|None'", Job{}, `"x" is not a job id`},
		"no state":     {"echo '7|running!|N/A|5:00|n0|None'", Job{}, `"running!" is not a job's state`},
		"no time":      {"echo '7|RUNNING|soon|5:00|n0|None'", Job{}, `"soon" is not a time`},
		"no limit":     {"echo '7|RUNNING|N/A|5|n0|None'", Job{}, `"5" is not a time limit`},
		"controller":   {"echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1", Job{}, "Unable to contact slurm controller"},
		"on stdout":    {"echo 'Node n0 not found'; exit 1", Job{}, "exit status 1: Node n0 not found"},
		"long stdout":  {"yes bad | head -c 2000000; exit 1", Job{}, "exit status 1: bad"},
		"silent":       {"exit 3", Job{}, "exit status 3"},
		"too long":     {"yes | head -c 2000000", Job{}, "printed more than 1048576 bytes"},
		"long errors":  {"yes bad | head -c 2000000 >&2; exit 1", Job{}, "bad"},
		"no such tool": {"", Job{}, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			scripts := map[string]string{"squeue": tc.script}
			if tc.script == "" {
				scripts = nil
			}
			c, _ := fake(t, Options{}, scripts)
			got, err := c.Job(t.Context(), 7)
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Fatalf("error %v, want %q", err, tc.err)
			}
			if err != nil && len(err.Error()) > 500 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
			if err == nil && got != tc.want {
				t.Errorf("%+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestCompleting(t *testing.T) {
	for script, want := range map[string]bool{
		"echo '7|RUNNING|N/A|5:00|n0|None'":    false,
		"echo '7|SUSPENDED|N/A|5:00|n0|None'":  false,
		"echo '7|COMPLETING|N/A|5:00|n0|None'": true,
		"echo '7|CANCELLED|N/A|5:00|n0|None'":  true,
		"true":                                 true,
	} {
		c, _ := fake(t, Options{}, map[string]string{"squeue": script})
		if got, err := c.Completing(t.Context(), 7); err != nil || got != want {
			t.Errorf("%s: %v, %v", script, got, err)
		}
	}
	c, _ := fake(t, Options{}, map[string]string{"squeue": "exit 1"})
	if got, err := c.Completing(t.Context(), 7); err == nil || got {
		t.Errorf("a controller that does not answer: %v, %v", got, err)
	}
}

func TestPrivateData(t *testing.T) {
	for value, want := range map[string][]string{
		"none": nil, "jobs,usage": {"jobs", "usage"}, "Jobs, Nodes": {"jobs", "nodes"}, "(null)": nil,
	} {
		c, _ := fake(t, Options{}, map[string]string{"scontrol": fmt.Sprintf("echo 'Foo = jobs'; echo 'PrivateData             = %s'", value)})
		if got, err := c.PrivateData(t.Context()); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v", value, got, err)
		}
	}
	c, _ := fake(t, Options{}, map[string]string{"scontrol": "echo nothing"})
	if _, err := c.PrivateData(t.Context()); err == nil {
		t.Error("no error where Slurm does not tell")
	}
}

func TestNodeName(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	short, _, _ := strings.Cut(host, ".")
	for script, want := range map[string]string{"echo n17": "n17", "echo n1 n2": short, "true": short, "exit 1": short} {
		t.Setenv("SLURMD_NODENAME", "")
		c, _ := fake(t, Options{}, map[string]string{"scontrol": script})
		got, err := c.NodeName(t.Context())
		if got != want || (err != nil) != (script == "exit 1") {
			t.Errorf("%s: %q, %v; want %q", script, got, err, want)
		}
	}
	t.Setenv("SLURMD_NODENAME", "n9")
	if got, err := New(Options{}).NodeName(t.Context()); got != "n9" || err != nil {
		t.Errorf("told by slurmd: %q, %v", got, err)
	}
}

func TestCallsAreBoundedInTime(t *testing.T) {
	defer goleak.VerifyNone(t)
	c, _ := fake(t, Options{Timeout: 50 * time.Millisecond}, map[string]string{"scontrol": "exec sleep 60"})
	start := time.Now()
	err := c.Requeue(t.Context(), 7)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("took %s", took)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Requeue(ctx, 7); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := c.call(t.Context(), "scontrol"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call after one that was cut off: %v", err)
	}
}

func TestCallsAreBoundedInRate(t *testing.T) {
	const gap = 30 * time.Millisecond
	c, calls := fake(t, Options{Gap: gap}, map[string]string{"scontrol": ""})
	start := time.Now()
	done := make(chan error)
	for range 4 {
		go func() { done <- c.Requeue(t.Context(), 7) }()
	}
	for range 4 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if took := time.Since(start); took < 3*gap {
		t.Errorf("four calls took %s", took)
	}
	if n := len(calls()); n != 4 {
		t.Errorf("%d calls", n)
	}
}

func TestEnvironment(t *testing.T) {
	base := []string{"PATH=/bin", "SLURM_CONF=/old", "SQUEUE_FORMAT=x", "SRUN_EXPORT_ENV=NONE", "SLURM_JOB_ID=1", "TZ=CET", "LANG=de", "HOME=/root", "SLURMD_NODENAME=n0"}
	got := environment(base, "/new")
	want := []string{"PATH=/bin", "HOME=/root", "SLURMD_NODENAME=n0", "LC_ALL=C", "TZ=UTC", "SLURM_TIME_FORMAT=standard", "SLURM_CONF=/new"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got := environment(base, ""); !slices.Contains(got, "SLURM_CONF=/old") {
		t.Errorf("without a conf of its own: %q", got)
	}
}

func FuzzParseJob(f *testing.F) {
	f.Add("7|RUNNING|2026-11-29T15:45:44|1-02:03:04|n[0-1]|None")
	f.Add("7|PENDING|N/A|UNLIMITED||a|b")
	f.Fuzz(func(t *testing.T, row string) {
		j, err := parseJob(row)
		if err == nil && (!isWord(j.State) || j.TimeLimit < 0) {
			t.Errorf("%q → %+v", row, j)
		}
	})
}
