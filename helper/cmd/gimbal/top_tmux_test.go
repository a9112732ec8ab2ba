package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// In tmux, too, the screen is drawn, takes keys, and is given back.
func TestTopInTmux(t *testing.T) {
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("SKIPPED: tmux is not installed")
	}
	dir := t.TempDir()
	socket := filepath.Join(dir, "run", "g.sock")
	serve(t, socket, filepath.Join(dir, "state"), false)
	tmux := func(args ...string) (string, error) {
		cmd := exec.Command("tmux", append([]string{"-S", filepath.Join(dir, "tmux"), "-f", "/dev/null"}, args...)...)
		cmd.Env = append(os.Environ(), "TERM=xterm-256color", "LC_ALL=C.UTF-8", topChild+"="+socket)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = tmux("kill-server") })
	if out, err := tmux("new-session", "-d", "-x", "80", "-y", "24", "echo before; '"+self+"' -test.run='^TestTopChild$'; echo after; sleep 60"); err != nil {
		t.Fatalf("tmux: %v: %s", err, out)
	}
	await := func(what string, ok func(pane string) bool) {
		t.Helper()
		pane := ""
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			if pane, err = tmux("capture-pane", "-p"); err == nil && ok(pane) {
				return
			}
		}
		t.Fatalf("waited too long for %s: %v\n%s", what, err, pane)
	}
	has := func(want string) func(string) bool {
		return func(pane string) bool { return strings.Contains(pane, want) }
	}
	press := func(keys ...string) {
		t.Helper()
		if out, err := tmux(append([]string{"send-keys"}, keys...)...); err != nil {
			t.Fatalf("send-keys: %v: %s", err, out)
		}
	}
	await("the screen", func(p string) bool {
		return strings.HasPrefix(p, "gimbal top: n0") && has("\n  102 ")(p) && !has("before")(p)
	})
	press("s")
	await("another order", has("s sort: state"))
	press("Down", "Enter")
	await("a history", has("arrows scroll  q back"))
	press("q")
	await("the list", has("s sort: state"))
	press("q")
	await("the screen of before", func(p string) bool { return strings.HasPrefix(p, "before\nafter\n") })
}
