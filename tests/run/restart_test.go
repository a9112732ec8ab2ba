package run

import (
	"syscall"
	"testing"
	"time"
)

// TestDaemonDies: when the daemon is killed, what it had paused runs; the next
// one takes the commands over and learns how they end.
func TestDaemonDies(t *testing.T) {
	onGPU(t, "[guard]\ncheck = \"50ms\"\n", func(t *testing.T, h *host) {
		stop := h.scratch(alice, "stopped")
		j := h.start(alice, trainer("one", "--on-term", stop, "--term-exit", "3")...)
		h.gpu.WaitClients(1)
		pid := h.gpu.Show().Clients[0].PID
		h.steer(alice, "pause", "r1", "PAUSED")
		h.awaitProc(pid, "stopped", "T")
		old := h.daemonPID(alice)
		if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
			t.Fatalf("kill the daemon %d: %v", old, err)
		}
		begin := time.Now()
		h.awaitProc(pid, "continued by the guard", runningStates)
		if took := time.Since(begin); took > 2*time.Second {
			t.Errorf("it ran again after %s", took)
		}
		if h.socket != "" {
			_ = h.daemon.Wait()
			h.startDaemon()
		}
		h.await("another daemon", func() bool { pid := h.daemonPID(alice); return pid != 0 && pid != old })
		h.awaitState(alice, "r1", "PAUSED") // the order stands
		h.awaitProc(pid, "stopped by it", "T")
		h.steer(alice, "release", "r1", "RUNNING")
		_ = j.Process.Signal(syscall.SIGTERM)
		if code := h.wait(j); code != 3 {
			t.Errorf("exit code %d: %s", code, j.out.String())
		}
		h.await("its end in status", func() bool { return h.state(alice, "r1") == "FAILED" })
	})
}
