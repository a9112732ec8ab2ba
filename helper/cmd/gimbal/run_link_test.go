package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWhyAnOwnDaemonDoesNotStart: a mistake in its configuration is named, and
// its log.
func TestWhyAnOwnDaemonDoesNotStart(t *testing.T) {
	l := &link{own: filepath.Join(t.TempDir(), "gimbald.sock"), failed: make(chan error, 1)}
	log := ownLog(l.own)
	if got := l.reason(errors.New("dial")).Error(); got != "dial (see "+log+")" {
		t.Error(got)
	}
	text := strings.Repeat("an old line\n", 1000) + "gimbald: gimbald.toml:3: unknown key \x1b[31m\n"
	if err := os.WriteFile(log, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	l.failed <- errors.New(lastLine(log))
	got := l.reason(errors.New("dial")).Error()
	if !strings.HasPrefix(got, "a daemon of your own does not start: gimbald.toml:3: unknown key") || strings.Contains(got, "\x1b") || !strings.HasSuffix(got, "(see "+log+")") {
		t.Errorf("%q", got)
	}
	if got := (&link{}).reason(errors.New("dial")).Error(); got != "dial" {
		t.Error(got)
	}
}
