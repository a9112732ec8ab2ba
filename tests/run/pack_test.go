package run

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/tests/simgpu"
)

// TestHeldUntilThereIsRoom: of two trainers of 60 % of the memory each the
// second is held until the first has ended; both finish.
func TestHeldUntilThereIsRoom(t *testing.T) {
	onGPU(t, "", func(t *testing.T, h *host) {
		args := []string{"--memory=9.6GiB"}
		first := h.start(alice, append(args, h.endless("first", "--memory", "9.6GiB")...)...)
		h.awaitState(alice, "r1", "RUNNING")
		h.gpu.WaitClients(1)
		second := h.start(alice, append(args, trainer("second", "--startup", "0.3", "--memory", "9.6GiB", "--seconds", "1.5")...)...)
		h.awaitState(alice, "r2", "HELD")
		out, err := h.gimbal(alice, "explain", "r2").CombinedOutput()
		if err != nil || !strings.Contains(string(out), "held: needs 9.6GiB on GPU 0") {
			t.Errorf("explain r2: %v\n%s", err, out)
		}
		h.done(first)
		if code := h.wait(second); code != 0 {
			t.Errorf("exit code %d: %s", code, second.out.String())
		}
		for _, e := range h.gpu.Events() {
			if e.Name == "out-of-memory" {
				t.Errorf("%s ran out of memory", e.Label)
			}
		}
		if _, longest := h.gpu.Record().Overlap("first", "second"); longest > 50*time.Millisecond {
			t.Errorf("both computed at once for %s", longest)
		}
	})
}

// TestHeldBeforeItBegins: a command that is held has not begun: its program is
// started when its turn comes.
func TestHeldBeforeItBegins(t *testing.T) {
	onGPU(t, "", func(t *testing.T, h *host) {
		whole := []string{"--memory=16GiB"}
		first := h.start(alice, append(whole, h.endless("first")...)...)
		h.awaitState(alice, "r1", "RUNNING")
		h.gpu.WaitClients(1)
		mark := h.scratch(alice, "begun")
		held := h.start(alice, append(whole, "--", "/bin/sh", "-c", "echo > "+mark)...)
		h.awaitState(alice, "r2", "HELD")
		pid, name := h.child(held)
		if name != "gimbal" || procState(pid) != 'T' {
			t.Errorf("the process of a held command is %s, %c", name, procState(pid))
		}
		if _, err := os.Stat(mark); err == nil {
			t.Error("a held command has begun")
		}
		h.done(first)
		if code := h.wait(held); code != 0 {
			t.Errorf("exit code %d: %s", code, held.out.String())
		}
		if _, err := os.Stat(mark); err != nil {
			t.Errorf("a command that was held: %v", err)
		}
	})
}

// TestHeldEnds: what is sent to a held command ends it as it ends one that has
// begun, and the command goes along with a gimbal run that is killed.
func TestHeldEnds(t *testing.T) {
	onGPU(t, "", func(t *testing.T, h *host) {
		whole := []string{"--memory=16GiB"}
		first := h.start(alice, append(whole, h.endless("first")...)...)
		h.awaitState(alice, "r1", "RUNNING")
		h.gpu.WaitClients(1)
		for i, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGHUP, syscall.SIGKILL} {
			held := h.start(alice, append(whole, "--", "/bin/true")...)
			h.awaitState(alice, fmt.Sprintf("r%d", i+2), "HELD")
			pid, _ := h.child(held)
			_ = held.Process.Signal(sig)
			if code := h.wait(held); code != 128+int(sig) {
				t.Errorf("%v: exit code %d: %s", sig, code, held.out.String())
			}
			h.await("the end of its process", func() bool { return strings.ContainsRune("\x00ZX", rune(procState(pid))) })
		}
		h.done(first)
	})
}

// endless is the command line of a training job that is done once it is told so.
func (h *host) endless(label string, args ...string) []string {
	h.t.Helper()
	return trainer(label, append(args, "--on-term", h.scratch(alice, "term"), "--term-exit", "0")...)
}

// done tells an endless one, and waits for its end.
func (h *host) done(j *job) {
	h.t.Helper()
	_ = j.Process.Signal(syscall.SIGTERM)
	if code := h.wait(j); code != 0 {
		h.t.Errorf("exit code %d: %s", code, j.out.String())
	}
}

// TestTurns: two trainers that fit take turns: at once compute only the kernels
// that were queued when one was paused.
func TestTurns(t *testing.T) {
	onGPU(t, "", func(t *testing.T, h *host) {
		args := []string{"--memory=4GiB"}
		short := []string{"--memory", "4GiB", "--gpu-ms", "4", "--cpu-ms", "1", "--queue", "1"}
		one := h.start(alice, append(args, h.endless("one", short...)...)...)
		two := h.start(alice, append(args, h.endless("two", short...)...)...)
		h.await("eight turns", func() bool { return turns(h.gpu.Record()) >= 8 })
		rec := h.gpu.Record()
		h.done(one)
		h.done(two)
		total, longest := rec.Overlap("one", "two")
		a, b := rec.Busy("one"), rec.Busy("two")
		t.Logf("computed %s and %s, at once %s", a, b, total)
		if longest > 100*time.Millisecond || total > (a+b)/10 {
			t.Errorf("both computed at once for %s, %s in one piece", total, longest)
		}
	})
}

// turns counts how often a GPU went from one to another.
func turns(rec simgpu.Record) (n int) {
	last := ""
	for _, i := range rec {
		if i.Label != last {
			n, last = n+1, i.Label
		}
	}
	return n
}

// TestOwnerSteers: the owner pauses, resumes, notifies and evicts his commands
// as he does his jobs.
func TestOwnerSteers(t *testing.T) {
	onGPU(t, "", func(t *testing.T, h *host) {
		notes := h.scratch(alice, "notes")
		j := h.start(alice, trainer("one", "--notify", "USR1:"+notes, "--on-term", notes, "--term-exit", "3")...)
		h.gpu.WaitClients(1)
		for _, step := range []struct{ do, want string }{{"pause", "PAUSED"}, {"resume", "RUNNING"}, {"release", "RUNNING"}} {
			if out, err := h.order(alice, step.do, "r1"); err != nil {
				t.Fatalf("%s: %v: %s", step.do, err, out)
			}
			h.awaitState(alice, "r1", step.want)
		}
		for range 5 { // a release that follows at once ends the order all the same
			if out, err := h.order(alice, "pause", "r1"); err != nil {
				t.Fatalf("pause: %v: %s", err, out)
			}
			if out, err := h.order(alice, "release", "r1"); err != nil || out != "released r1\n" {
				t.Fatalf("release: %v: %s", err, out)
			}
		}
		h.awaitState(alice, "r1", "RUNNING")
		h.await("no order to be left", func() bool {
			out, err := h.order(alice, "release", "r1")
			return err == nil && out == "r1 has no order that could be ended\n"
		})
		if out, err := h.order(alice, "notify", "r1"); err != nil {
			t.Errorf("notify: %v: %s", err, out)
		}
		if out, err := h.gimbal(alice, "notify", "--signal", "WINCH", "r1").CombinedOutput(); err != nil {
			t.Errorf("notify: %v: %s", err, out)
		}
		h.await("that nobody catches it", func() bool {
			out, err := h.gimbal(alice, "explain", "r1").CombinedOutput()
			return err == nil && strings.Contains(string(out), "nobody heard it: none of its processes catches SIGWINCH") && strings.Count(string(out), "nobody heard") == 1
		})
		h.await("the notice", func() bool { text, _ := os.ReadFile(notes); return len(text) > 0 })
		if out, err := h.order(alice, "evict", "r1"); err != nil {
			t.Errorf("evict: %v: %s", err, out)
		}
		if code := h.wait(j); code != 3 {
			t.Errorf("exit code %d: %s", code, j.out.String())
		}
		out, err := h.gimbal(alice, "status", "-n", "-P", "-j", "r1", "-o", "JobID,State,ExitCode").CombinedOutput()
		if err != nil || strings.TrimSpace(string(out)) != "r1|EVICTED|3:0" {
			t.Errorf("status: %v: %s", err, out)
		}
	})
}
