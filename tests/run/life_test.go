package run

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestEndsLikeTheCommand: exit codes and signals are the command's, and env's
// where it cannot be run; a daemon makes no difference to that.
func TestEndsLikeTheCommand(t *testing.T) {
	kinds(t, func(t *testing.T, gimbald bool) {
		h := newHost(t, gimbald)
		text := filepath.Join(h.dir, "text")
		h.write("text", "no program")
		h.write("script", "exit 5\n")
		if err := os.Chmod(filepath.Join(h.dir, "script"), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			args []string
			code int
			out  string
		}{
			{[]string{"true"}, 0, ""},
			{[]string{"sh", "-c", "exit 7"}, 7, ""},
			{[]string{"--", "sh", "-c", "kill -TERM $$"}, 128 + 15, ""},
			{[]string{"sh", "-c", "kill -KILL $$"}, 128 + 9, ""},
			{[]string{"sh", "-c", "kill -ABRT $$"}, 128 + 6, ""},
			{[]string{"no-such-command"}, 127, "no-such-command: command not found"},
			{[]string{h.dir + "/none"}, 127, "no such file"},
			{[]string{text}, 126, "permission denied"},
			{[]string{h.dir}, 126, "is a folder"},
			{[]string{h.dir + "/script"}, 5, ""},
			{[]string{}, 2, "which command?"},
			{[]string{"--memory=much", "true"}, 2, "--memory"},
			{[]string{"--gpus=99", "sh", "-c", `test "$CUDA_VISIBLE_DEVICES" = 99`}, 0, "warning: never stopped: GPU unknown"},
			{[]string{"sh", "-c", `test "$GIMBAL_RUN"`}, 0, ""},
			{[]string{"--pack=off", "sh", "-c", `test -z "$GIMBAL_RUN"`}, 0, ""},
			{[]string{"sh", "-c", "exec <&- >&- 2>&-; exit 4"}, 4, ""},
		} {
			j := h.start(alice, c.args...)
			if code := h.wait(j); code != c.code || !strings.Contains(j.out.String(), c.out) || c.out == "" && j.out.String() != "" {
				t.Errorf("%q: exit code %d, want %d\n%s", c.args, code, c.code, j.out.String())
			}
		}
	})
}

// TestNested: inside a command, gimbal run is part of it and says nothing.
func TestNested(t *testing.T) {
	h := newHost(t, true)
	inner := strings.Join(h.gimbal(alice, "run", "sh", "-c", "echo $GIMBAL_RUN").Args[:4], " ")
	j := h.start(alice, "sh", "-c", inner+" sh -c 'echo $GIMBAL_RUN'")
	if code := h.wait(j); code != 0 || j.out.String() != "r1\n" {
		t.Errorf("exit code %d: %s", code, j.out.String())
	}
}

// TestSignalsArePassedOn: what is sent to gimbal run alone reaches its command,
// once.
func TestSignalsArePassedOn(t *testing.T) {
	h := newHost(t, true)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR1} {
		j := h.start(alice, "sh", "-c", fmt.Sprintf("trap 'echo got; n=$((n+1))' %d; echo armed; while [ \"$n\" != 2 ]; do sleep 0.02; done", sig))
		h.await("the trap", func() bool { return strings.Contains(j.out.String(), "armed") })
		for n := range 2 {
			_ = j.Process.Signal(sig)
			h.await(sig.String(), func() bool { return strings.Count(j.out.String(), "got") == n+1 })
		}
		if code := h.wait(j); code != 0 {
			t.Errorf("%s: exit code %d: %s", sig, code, j.out.String())
		}
	}
	killed := h.start(alice, "sleep", "100")
	pid := h.command(killed)
	_ = killed.Process.Kill()
	h.await("the end of what a killed gimbal run ran", func() bool { return procState(pid) == 0 || procState(pid) == 'Z' })
}

// TestNobodyPacks: where there is no daemon and none can be started, the
// command runs, with one warning.
func TestNobodyPacks(t *testing.T) {
	h := newHost(t, false)
	elsewhere := filepath.Join(h.dir, "gimbal") // without a gimbald beside it
	text, err := os.ReadFile(h.gimbal(alice, "run").Path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(elsewhere, text, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, socket := range []string{"", h.dir + "/none.sock"} {
		j := &job{Cmd: h.gimbal(alice, "run", "--socket="+socket, "sh", "-c", "echo ran; exit 6"), done: make(chan struct{})}
		j.Path, j.Stdout, j.Stderr = elsewhere, &j.out, &j.out
		if _, err := os.Stat("/usr/sbin/gimbald"); err == nil && socket == "" {
			continue
		}
		if err := j.Start(); err != nil {
			t.Fatal(err)
		}
		go func() { _ = j.Wait(); close(j.done) }()
		code := h.wait(j)
		if code != 6 || strings.Count(j.out.String(), "warning: sh runs without Gimbal") != 1 || !strings.HasSuffix(j.out.String(), "ran\n") {
			t.Errorf("socket %q: exit code %d: %s", socket, code, j.out.String())
		}
	}
}

// daemonPID is the pid of the daemon that packs a user's commands.
func (h *host) daemonPID(uid int) int {
	out, err := h.gimbal(uid, "status", "--daemon").Output()
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(out), "pid:")
	pid, _ := strconv.Atoi(strings.Fields(rest + " 0")[0])
	return pid
}

// TestOwnDaemonEndsAfterTheLast: a user's own daemon stays for one command
// after the other, and ends a while after the last; what it did can be read.
func TestOwnDaemonEndsAfterTheLast(t *testing.T) {
	h := newHost(t, false)
	h.wait(h.start(alice, "true"))
	first := h.daemonPID(alice)
	h.wait(h.start(alice, "true"))
	if second := h.daemonPID(alice); first == 0 || second != first {
		t.Errorf("daemon %d, then %d", first, second)
	}
	socket := h.runtime[alice] + "/gimbal/gimbald.sock"
	if st, err := os.Stat(socket); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("its socket: %v, %v", st, err)
	}
	h.await("the daemon's end", func() bool { return procState(first) == 0 || procState(first) == 'Z' })
	out, err := h.gimbal(alice, "status", "--offline", "-n", "-P", "-o", "JobID,State").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "r1|COMPLETED\nr2|COMPLETED") {
		t.Errorf("status after its end: %v\n%s", err, out)
	}
	out, err = h.gimbal(alice, "status", "-n", "-P", "-o", "JobID,State").CombinedOutput()
	if err != nil || strings.Contains(string(out), "does not answer") || !strings.Contains(string(out), "has ended with your last command") ||
		!strings.Contains(string(out), "r1|COMPLETED\nr2|COMPLETED") {
		t.Errorf("status without --offline: %v\n%s", err, out)
	}
	j := h.start(alice, "sh", "-c", "echo $GIMBAL_RUN")
	if h.wait(j); strings.TrimSpace(j.out.String()) != "r3" {
		t.Errorf("the next daemon's first command is %s", j.out.String())
	}
}

// TestOwnFolderIsNotAnothers: a runtime folder that another user made is not
// trusted; the command runs unpacked.
func TestOwnFolderIsNotAnothers(t *testing.T) {
	h := newHost(t, false)
	h.env(alice)
	if err := os.Chmod(h.runtime[alice], 0o777); err != nil {
		t.Fatal(err)
	}
	other := fmt.Sprintf("/tmp/gimbal-%d", alice)
	if err := os.Mkdir(other, 0o777); err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(other) })
	j := h.start(alice, "echo", "ran")
	if code := h.wait(j); code != 0 || !strings.Contains(j.out.String(), "is not a folder of uid 61001 alone") || !strings.Contains(j.out.String(), "ran") {
		t.Errorf("exit code %d: %s", code, j.out.String())
	}
}
