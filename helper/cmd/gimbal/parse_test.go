package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

func TestParseWhen(t *testing.T) {
	now := time.Date(2026, 3, 15, 13, 30, 20, 0, time.UTC)
	tests := map[string]string{
		"10:05":               "2026-03-15T10:05:00",
		"10:05:07":            "2026-03-15T10:05:07",
		"1:05PM":              "2026-03-15T13:05:00",
		"12:00am":             "2026-03-15T00:00:00",
		"12:30pm":             "2026-03-15T12:30:00",
		"0301":                "2026-03-01T00:00:00",
		"0401":                "2025-04-01T00:00:00", // sacct looks back
		"030124":              "2024-03-01T00:00:00",
		"0301-10:20":          "2026-03-01T10:20:00",
		"030124-10:20:30":     "2024-03-01T10:20:30",
		"03/01":               "2026-03-01T00:00:00",
		"3/1/24-10:20":        "2024-03-01T10:20:00",
		"03.01.24":            "2024-03-01T00:00:00",
		"03.01-10:20":         "2026-03-01T10:20:00",
		"2024-07-03":          "2024-07-03T00:00:00",
		"2024-07-03T11:40":    "2024-07-03T11:40:00",
		"2024-07-03-11:40":    "2024-07-03T11:40:00",
		"2024-07-03t11:40:05": "2024-07-03T11:40:05",
		"2024-07-03 11:40":    "2024-07-03T11:40:00",
		"today":               "2026-03-15T00:00:00",
		"midnight":            "2026-03-15T00:00:00",
		"Noon":                "2026-03-15T12:00:00",
		"fika":                "2026-03-15T15:00:00",
		"teatime":             "2026-03-15T16:00:00",
		"elevenses":           "2026-03-15T11:00:00",
		"tomorrow":            "2026-03-16T00:00:00",
		"now":                 "2026-03-15T13:30:20",
		"now-20":              "2026-03-15T13:30:00",
		"now-2hours":          "2026-03-15T11:30:20",
		"now+1day":            "2026-03-16T13:30:20",
		"now-1w":              "2026-03-08T13:30:20",
		"now-10min":           "2026-03-15T13:20:20",
		"uts1735689600":       "2025-01-01T00:00:00",
	}
	for in, want := range tests {
		got, err := parseWhen(in, now)
		if err != nil || got.Format("2006-01-02T15:04:05") != want {
			t.Errorf("%q: %v, %v; want %s", in, got, err, want)
		}
	}
	for _, bad := range []string{"", "x", "25:00", "10:60", "13:00pm", "1301", "10:00 10:00", "noon-10:00", "today-0301", "10:00xm", "0301x", "0230-25:00", "2024-02-30", "02/30",
		"2024-1", "24-01-02", "now5", "now-x", "now-5fortnights", "now-99999999999", "10", "1:2:3:4", "03/01/2024/5", "-1:00", "00/10", "uts", "uts-1", "uts99999999999999"} {
		if got, err := parseWhen(bad, now); err == nil {
			t.Errorf("%q was taken for %v", bad, got)
		}
	}
}

// TestWhenAsSacct: what sacct itself takes for a time is taken for the same.
func TestWhenAsSacct(t *testing.T) {
	if _, err := exec.LookPath("sacct"); err != nil {
		t.Skip("SKIPPED: sacct is not installed")
	}
	conf := filepath.Join(t.TempDir(), "slurm.conf")
	if err := os.WriteFile(conf, []byte("ClusterName=x\nSlurmctldHost=localhost\nNodeName=localhost\nPartitionName=p Nodes=localhost\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	said := regexp.MustCompile(`Start time \((.*?)\) requested is after end time`)
	for _, form := range []string{"10:00", "1:05", "01:05:07", "10:00AM", "10:00 AM", "10:00 pm", "12:00am", "12:30 PM", "0:30 PM",
		"1130", "0101", "113023", "010126", "1/1", "01/02", "1/2/24", "11/30-10:00", "11/30-10:00:05", "11/29T10:00", "11/29/25-10:00",
		"11/29/25-10:00 PM", "11.29", "11.29.25", "11.29-10:00", "0301-10:20", "2024-01-02", "2024-01-02T03:04", "2024-01-02T03:04:05",
		"2024-01-02-03:04:05", "2024-01-02 03:04:05", "2024-01-02T03:04PM", "2024-02-29", "2024-01-02T", "today", "midnight", "noon", "fika",
		"teatime", "tomorrow", "uts1700000000", "10:00 11/29", "10:00-11/29", "11/29 10:00", "noon 11/29", "11/29/25-noon", "today-10:00",
		"tomorrow-10:00"} {
		now := time.Now()
		cmd := exec.Command("sacct", "-S", form, "-E", "2001-01-01")
		cmd.Env = append(os.Environ(), "SLURM_CONF="+conf)
		out, _ := cmd.CombinedOutput() // the start is after the end, which it says
		want := said.FindSubmatch(out)
		got, err := parseWhen(form, now)
		if len(want) != 2 || err != nil || got.Format("2006-01-02T15:04:05") != string(want[1]) {
			t.Errorf("%q: %v, %v; sacct: %s", form, got, err, out)
		}
	}
}

func FuzzParseWhen(f *testing.F) {
	for _, s := range []string{"10:05", "0301-10:20", "now-2hours", "2024-07-03T11:40", "03.01.24"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := parseWhen(s, noon)
		if err != nil {
			return
		}
		again, err := parseWhen(got.Format("2006-01-02T15:04:05"), noon)
		if got.Year() < 1 || got.Year() > 9999 {
			return // now+COUNTweeks leads beyond what the form can write
		}
		if err != nil || !again.Equal(got.Truncate(time.Second)) {
			t.Errorf("%q is %v, written out it is %v, %v", s, got, again, err)
		}
	})
}

func refText(refs []model.JobRef) string {
	any := func(n uint32) string {
		if n == model.NoVal {
			return "*"
		}
		return fmt.Sprint(n)
	}
	var out []string
	for _, r := range refs {
		out = append(out, fmt.Sprintf("%d/%s/%s/%s", r.Job, any(r.Task), any(r.Offset), any(r.Step)))
	}
	return strings.Join(out, " ")
}

func TestParseJobs(t *testing.T) {
	tests := map[string]string{
		"12":            "12/*/*/*",
		"12,13":         "12/*/*/* 13/*/*/*",
		"12_3":          "12/3/*/*",
		"12_3.0":        "12/3/*/0",
		"12.batch":      "12/*/*/4294967291",
		"12.Extern":     "12/*/*/4294967292",
		"12+1":          "12/*/1/*",
		"12+1.2":        "12/*/1/2",
		"12_[1-2,5],13": "12/1/*/* 12/2/*/* 12/5/*/* 13/*/*/*",
		"12_[0].0":      "12/0/*/0",
	}
	for in, want := range tests {
		refs, err := parseJobs(in)
		if err != nil || refText(refs) != want {
			t.Errorf("%q: %s, %v; want %s", in, refText(refs), err, want)
		}
	}
	for _, bad := range []string{"x", "0", "12_", "12+", "12_x", "12.", "12.x", "-1", "99999999999", "12_[5-1]", "12_[0-99999]", "12 13", "12_[1", "4294967295"} {
		if refs, err := parseJobs(bad); err == nil && bad != "12_[1" {
			t.Errorf("%q was taken for %s", bad, refText(refs))
		}
	}
}

func FuzzParseJobs(f *testing.F) {
	f.Add("12,12_3.0,12_[1-5,7],12+1.batch")
	f.Fuzz(func(t *testing.T, s string) {
		refs, err := parseJobs(s)
		if err != nil {
			return
		}
		for _, r := range refs {
			if r.Job == 0 {
				t.Errorf("%q names job 0", s)
			}
		}
	})
}

func TestParseStates(t *testing.T) {
	got, err := parseStates("r,Held,CD,sw,stopped,RUNNING")
	if err != nil || strings.Join(got, ",") != "RUNNING,HELD,COMPLETED,SWAPPED,stopped (external),RUNNING" {
		t.Errorf("%v, %v", got, err)
	}
	for _, w := range model.Words() {
		if got, err := parseStates(w); err != nil || got[0] != w {
			t.Errorf("%q: %v, %v", w, got, err)
		}
	}
	// All that sacct takes is taken, long, short and in any case; what no tenant
	// is ever in stays apart.
	for short, long := range map[string]string{"bf": "BOOT_FAIL", "CA": "CANCELLED", "Cd": "COMPLETED", "dl": "DEADLINE", "f": "FAILED", "nf": "NODE_FAIL",
		"oom": "OUT_OF_MEMORY", "pd": "PENDING", "pr": "PREEMPTED", "r": "RUNNING", "rq": "REQUEUED", "rs": "RESIZING", "rv": "REVOKED", "s": "SUSPENDED", "to": "TIMEOUT"} {
		got, err := parseStates(short + "," + strings.ToLower(long))
		if err != nil || len(got) != 2 || got[0] != long || got[1] != long {
			t.Errorf("%s and %s: %v %v", short, long, got, err)
		}
		if here := slices.Contains(model.Words(), long); here == (len(foreignStates(got)) == 2) {
			t.Errorf("%s: %v are Slurm's alone", long, foreignStates(got))
		}
	}
	if _, err := parseStates("RUNNING,banana"); err == nil {
		t.Error("banana is a state")
	}
}

// The default windows are sacct's.
func TestWindow(t *testing.T) {
	day := "2026-03-01T00:00:00"
	now := "2026-03-01T12:00:00"
	epoch := "0001-01-01T00:00:00"
	tests := []struct {
		f          statusFlags
		start, end string
	}{
		{statusFlags{}, day, now},
		{statusFlags{jobs: "1"}, epoch, now},
		{statusFlags{states: "R"}, now, now},
		{statusFlags{states: "R", start: "10:00"}, "2026-03-01T10:00:00", "2026-03-01T10:00:00"},
		{statusFlags{states: "R", end: "10:00"}, "2026-03-01T10:00:00", "2026-03-01T10:00:00"},
		{statusFlags{jobs: "1", states: "R"}, epoch, now},
		{statusFlags{start: "0201", end: "0202"}, "2026-02-01T00:00:00", "2026-02-02T00:00:00"},
	}
	for _, tt := range tests {
		start, end, err := tt.f.window(noon)
		if err != nil || start.Format("2006-01-02T15:04:05") != tt.start || end.Format("2006-01-02T15:04:05") != tt.end {
			t.Errorf("%+v: %v to %v, %v; want %s to %s", tt.f, start, end, err, tt.start, tt.end)
		}
	}
	bad := statusFlags{start: "now", end: "now-1hour"}
	if _, _, err := bad.window(noon); err == nil {
		t.Error("an end before the start was taken")
	}
}
