package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/config"
	"github.com/gimbal-hpc/gimbal/helper/journal"
	"github.com/gimbal-hpc/gimbal/helper/wire"
)

// TestOwnDaemonHasEnded: that a user's own daemon has ended as it should is no
// fault; that it was killed, or that one is asked for by name, is.
func TestOwnDaemonHasEnded(t *testing.T) {
	if there(wire.DefaultSocket) || there(defaultState) {
		t.Skip("SKIPPED: gimbald is installed here: no user's own is looked for")
	}
	runtime := t.TempDir()
	if err := os.Chmod(runtime, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", runtime)
	socket := config.PrivateSocket(os.Getenv, os.Getuid())
	state := config.PrivateState(socket)
	if !strings.HasPrefix(state, runtime) {
		t.Fatalf("its journal is in %s", state)
	}
	writeEnded(t, state)
	told := map[string][]string{"status": {"status", "-X", "-n", "-P", "-o", "JobID"}, "timeline": {"timeline", "101"},
		"report": {"report", "--text", "-j", "101"}, "explain": {"explain", "101"}}
	for name, args := range told {
		code, out, errs := try(args...)
		if code != exitOK || !strings.Contains(out, "101") || !strings.Contains(errs, ownEnded) || strings.Contains(errs, "does not answer") {
			t.Errorf("%s: exit %d\n%s%s", name, code, out, errs)
		}
		code, _, errs = try(append(args, "--socket", socket)...)
		if code != exitUnreachable || strings.Contains(errs, ownEnded) {
			t.Errorf("%s of a socket that is named: exit %d\n%s", name, code, errs)
		}
	}
	if code, _, errs := try("pause", "101"); code != exitUnreachable {
		t.Errorf("an order: exit %d: %s", code, errs)
	}
	if err := os.WriteFile(socket, nil, 0o600); err != nil { // nobody listens: it was killed
		t.Fatal(err)
	}
	killed(t, told)
	if err := os.Remove(socket); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(state); err != nil {
		t.Fatal(err)
	}
	if err := writeJournal(state); err != nil { // 102 and 103 have not ended
		t.Fatal(err)
	}
	killed(t, told)
}

// killed asks for what a daemon left that did not end as it should.
func killed(t *testing.T, told map[string][]string) {
	t.Helper()
	for name, args := range told {
		if code, _, errs := try(args...); code != exitUnreachable || !strings.Contains(errs, "does not answer") {
			t.Errorf("%s after it was killed: exit %d\n%s", name, code, errs)
		}
	}
}

// writeEnded writes the journal of a daemon whose only tenant, 101, has ended.
func writeEnded(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	j, err := journal.Open(dir, journal.Options{Now: func() time.Time { return noon.Add(-time.Hour) }})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range story() {
		if r.Tenant != nil && r.Tenant.Reg.JobID != 101 {
			continue
		}
		if err := j.Append(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}
