package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestForeignHandlersStay: a newer slurmstepd installs its signal handlers in a
// thread of its own, which may be while the core is loaded. What the core
// installs is taken away again, what somebody else installs is not.
func TestForeignHandlersStay(t *testing.T) {
	dir, err := os.MkdirTemp("", "harness")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	stub := filepath.Join(dir, "gimbal_core.so")
	if out, err := exec.Command("gcc", "-shared", "-fPIC", "-o", stub, "testdata/core_stub.c").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	d := startDaemon(t)
	s := plain.script(remote, append(d.args(), "core="+stub)...).items().do("show state").do("hook init").do("ropt gimbal-pack")
	caught := grep(s.do("hook init_post_opt").do("show state").run(t), "SigCgt")
	if len(caught) != 2 || caught[1] != withSignal(t, caught[0], syscall.SIGUSR1) {
		t.Errorf("signals that are caught, before and after: %q, want the second with USR1 and without USR2", caught)
	}
}

// withSignal adds a signal to a line such as "SigCgt:\t0000000000000000".
func withSignal(t *testing.T, line string, sig syscall.Signal) string {
	t.Helper()
	name, hex, _ := strings.Cut(line, "\t")
	set, err := strconv.ParseUint(hex, 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	text := strconv.FormatUint(set|1<<(sig-1), 16)
	return name + "\t" + strings.Repeat("0", 16-len(text)) + text
}
