package run

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/tests/e2e"
	"github.com/gimbal-hpc/gimbal/tests/simgpu"
)

// terminal is an interactive bash of a user's on a pseudo-terminal.
type terminal struct {
	h      *host
	master *os.File
	shell  *exec.Cmd

	mu  sync.Mutex
	out strings.Builder
}

// openPTY makes a pseudo-terminal.
func openPTY(t *testing.T, uid int) (master, slave *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("SKIPPED: no pseudo-terminal: %v", err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("/dev/pts/%d", n)
	if err := os.Chown(name, uid, -1); err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(name, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fd), "ptmx"), slave
}

// shell starts an interactive bash for a user.
func (h *host) shell(uid int) *terminal {
	h.t.Helper()
	master, slave := openPTY(h.t, uid)
	defer func() { _ = slave.Close() }()
	term := &terminal{h: h, master: master}
	term.shell = exec.Command("bash", "--norc", "--noprofile", "-i")
	term.shell.Env, term.shell.Dir = append(h.env(uid), "TERM=dumb"), "/"
	term.shell.Stdin, term.shell.Stdout, term.shell.Stderr = slave, slave, slave
	term.shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true,
		Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	if err := term.shell.Start(); err != nil {
		h.t.Fatal(err)
	}
	read := make(chan struct{})
	go term.read(read)
	h.t.Cleanup(func() {
		_ = term.shell.Process.Kill()
		_ = term.shell.Wait()
		_ = master.Close()
		<-read
		if h.t.Failed() {
			h.t.Logf("the terminal:\n%s", term.text())
		}
	})
	term.line("stty -echo; enable -n echo; bind 'set enable-bracketed-paste off'")
	term.line("/bin/echo read''y")
	term.expect("ready")
	return term
}

func (x *terminal) read(done chan struct{}) {
	defer close(done)
	buf := make([]byte, 4096)
	for {
		n, err := x.master.Read(buf)
		x.mu.Lock()
		x.out.Write(buf[:n])
		x.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (x *terminal) text() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.out.String()
}

// line types a line, key a key.
func (x *terminal) line(s string) { x.key(s + "\n") }

func (x *terminal) key(s string) {
	x.h.t.Helper()
	if _, err := x.master.WriteString(s); err != nil {
		x.h.t.Fatal(err)
	}
}

// expect waits until a text has come, and forgets all up to it.
func (x *terminal) expect(want string) {
	x.h.t.Helper()
	e2e.Eventually(x.h.t, patience, "the terminal shows "+want, func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		_, rest, ok := strings.Cut(x.out.String(), want)
		if ok {
			x.out.Reset()
			x.out.WriteString(rest)
		}
		return ok
	})
}

// foreground has the shell continue its job, and waits until that has the terminal
// and runs: the shell says its name before, and would take a key itself.
func (x *terminal) foreground() {
	x.h.t.Helper()
	x.line("fg")
	x.expect("gimbal run")
	e2e.Eventually(x.h.t, patience, "the job has the terminal", func() bool { return x.owner() != x.shell.Process.Pid })
	x.h.awaitProc(x.owner(), "continued", runningStates)
}

// owner is the process group that has the terminal.
func (x *terminal) owner() (group int) {
	x.h.t.Helper()
	raw, err := x.master.SyscallConn()
	if err != nil {
		x.h.t.Fatal(err)
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { group, failed = unix.IoctlGetInt(int(fd), unix.TIOCGPGRP) }); err != nil {
		failed = err
	}
	if failed != nil {
		x.h.t.Fatalf("who has the terminal: %v", failed)
	}
	return group
}

// prompt proves that the shell has the terminal.
func (x *terminal) prompt() {
	x.h.t.Helper()
	x.line("/bin/echo at the pro''mpt")
	x.expect("at the prompt")
}

// run types a gimbal run.
func (x *terminal) run(uid int, command ...string) {
	line := "gimbal run "
	if x.h.socket != "" {
		line += "--socket " + x.h.socket + " "
	}
	x.line(line + strings.Join(command, " "))
}

// trainer types a gimbal run of a trainer and returns the trainer's pid.
func (x *terminal) trainer(label string) int {
	x.h.t.Helper()
	x.run(alice, simgpu.Binary("simgpu-trainer")+" --label "+label)
	pid := 0
	x.h.await("trainer "+label, func() bool {
		for _, c := range x.h.gpu.Show().Clients {
			if c.Label == label {
				pid = c.PID
			}
		}
		return pid != 0
	})
	return pid
}

func (h *host) awaitProc(pid int, what string, states string) {
	h.t.Helper()
	h.await(fmt.Sprintf("process %d %s", pid, what), func() bool {
		return strings.IndexByte(states, procState(pid)) >= 0
	})
}

// runs tells whether a process is not stopped for a while.
const runningStates = "RSD"

func (h *host) stays(pid int, states string, d time.Duration) {
	h.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if s := procState(pid); strings.IndexByte(states, s) < 0 {
			h.t.Fatalf("process %d is %c, not one of %s", pid, s, states)
		}
	}
}

// TestTerminalKeys: the command keeps the terminal: it reads from it, and ^C
// and ^\ reach it once, as under env.
func TestTerminalKeys(t *testing.T) {
	h := newHost(t, true)
	x := h.shell(alice)
	x.run(alice, `sh -c 'read a; /bin/echo "got $a"'`)
	x.h.awaitState(alice, "r1", "RUNNING")
	x.line("something typed")
	x.expect("got something typed")
	x.prompt()

	x.run(alice, `bash -c 'trap "/bin/echo interrupted; n=\$((n+1)); ((n<2)) || exit 9" INT; /bin/echo armed; while :; do sleep 0.1; done'`)
	x.expect("armed")
	x.key("\x03")
	x.expect("interrupted")
	time.Sleep(200 * time.Millisecond)
	if strings.Contains(x.text(), "interrupted") {
		t.Error("^C reached the command twice")
	}
	x.key("\x03")
	x.expect("interrupted")
	x.line("/bin/echo code $?")
	x.expect("code 9")

	x.run(alice, "sh -c '/bin/echo armed; exec sleep 100'")
	x.expect("armed")
	x.key("\x1c")
	x.expect("Quit")
	x.line("/bin/echo code $?")
	x.expect("code 131")

	x.run(alice, `bash -c 'trap "/bin/echo resized; exit" WINCH; /bin/echo armed; while :; do sleep 0.1; done'`)
	x.expect("armed")
	if err := unix.IoctlSetWinsize(int(x.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: 132}); err != nil {
		t.Fatal(err)
	}
	x.expect("resized")
	x.prompt()
}

// TestShellStopsAndContinues: ^Z, fg and bg do with a command that runs what
// they do with any.
func TestShellStopsAndContinues(t *testing.T) {
	kinds(t, func(t *testing.T, gimbald bool) {
		h := newHost(t, gimbald)
		x := h.shell(alice)
		x.run(alice, "sh -c '/bin/echo pid $$ is; exec sleep 100'")
		x.expect("pid ")
		h.await("a pid", func() bool { return strings.Contains(x.text(), " is") })
		pid, err := strconv.Atoi(strings.Fields(x.text())[0])
		if err != nil {
			t.Fatal(err)
		}
		x.key("\x1a")
		x.expect("Stopped")
		h.awaitProc(pid, "stopped", "T")
		h.awaitState(alice, "r1", "stopped (external)")
		x.prompt()
		x.line("bg")
		h.awaitProc(pid, "running", runningStates)
		h.awaitState(alice, "r1", "RUNNING")
		x.prompt()
		x.foreground()
		x.key("\x03")
		x.line("/bin/echo code $?")
		x.expect("code 130")

		x.line(`gimbal run ` + h.socketOption() + `sh -c 'read a; /bin/echo "got $a"' &`)
		h.await("word that it waits for input", func() bool { // told before a prompt
			x.line("")
			time.Sleep(100 * time.Millisecond)
			return strings.Contains(x.text(), "Stopped")
		})
		x.foreground()
		x.line("typed late")
		x.expect("got typed late")
	})
}

// TestStoppedByGimbal: while Gimbal has a command stopped, its shell does not
// see that; ^Z gives the prompt back, fg does not let the command run out of
// turn, and its turn does not undo ^Z.
func TestStoppedByGimbal(t *testing.T) {
	onGPU(t, "", func(t *testing.T, h *host) {
		x := h.shell(alice)
		pid := x.trainer("one")
		h.steer(alice, "pause", "r1", "PAUSED")
		time.Sleep(300 * time.Millisecond)
		if strings.Contains(x.text(), "Stopped") {
			t.Fatal("the shell saw the pause")
		}

		x.key("\x1a")
		x.expect("Stopped")
		x.prompt()
		for range 3 { // fg continues it each time, and it is set back
			x.foreground()
			time.Sleep(200 * time.Millisecond)
			h.awaitProc(pid, "stopped again", "T")
			h.stays(pid, "T", 300*time.Millisecond)
			x.key("\x1a")
			x.expect("Stopped")
		}
		h.awaitState(alice, "r1", "PAUSED")

		if out, err := h.order(alice, "release", "r1"); err != nil {
			t.Errorf("release: %v: %s", err, out)
		}
		h.awaitState(alice, "r1", "stopped (external)")
		h.stays(pid, "T", 300*time.Millisecond)
		x.prompt()
		x.line("fg")
		h.awaitProc(pid, "running", runningStates)
		h.awaitState(alice, "r1", "RUNNING")
		x.key("\x03")
		x.line("/bin/echo code $?")
		x.expect("code 130")
	})
}

// steer gives an order and waits for its effect.
func (h *host) steer(uid int, do, name, want string) {
	h.t.Helper()
	if out, err := h.order(uid, do, name); err != nil {
		h.t.Fatalf("%s: %v: %s", do, err, out)
	}
	h.awaitState(uid, name, want)
}

func (h *host) socketOption() string {
	if h.socket == "" {
		return ""
	}
	return "--socket " + h.socket + " "
}
