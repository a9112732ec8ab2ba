package main

import (
	"strings"
	"testing"
)

// TestNoWindow: a time in which nothing can have been is refused by every command that
// takes one.
func TestNoWindow(t *testing.T) {
	dir := t.TempDir()
	if err := writeJournal(dir); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{"-S tomorrow", "-S noon -E midnight", "-S now+1hour", "-E 1999-01-01 -S 2000-01-01"} {
		for _, of := range []string{"status", "timeline", "report"} {
			line := append([]string{of, "--offline", "--state-dir", dir}, strings.Fields(args)...)
			code, out, errs := try(line...)
			if code != exitUsage || out != "" || !strings.Contains(errs, "is before the start") && !strings.Contains(errs, "tomorrow") {
				t.Errorf("%v: exit %d, stdout %.200q, stderr %q", line, code, out, errs)
			}
		}
	}
	for args, want := range map[string]string{
		"-S now":                "there is no time to report: it begins and ends at 2026-03-01T12:00:00",
		"-S 11:57":              "there is no time to report: the end is before the start, 2026-03-01T11:57:00", // what is on disk ends before
		"-S 11:30 -E 11:30":     "it begins and ends at 2026-03-01T11:30:00",
		"-j 101 -S 11:58":       "the end is before the start",
		"-j 101 -E 2026-02-01":  "the end is before the start",
		"-S 11:00 -E 11:55:00 ": "",
		"-j 101":                "",
	} {
		code, _, errs := try(append([]string{"report", "--offline", "--text", "--state-dir", dir}, strings.Fields(args)...)...)
		if want == "" && code != exitOK || want != "" && (code != exitUsage || !strings.Contains(errs, want)) {
			t.Errorf("%s: exit %d, stderr %q; want %q", args, code, errs, want)
		}
	}
}
