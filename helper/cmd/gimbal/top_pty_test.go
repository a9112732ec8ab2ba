package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// TestTopChild is gimbal top itself, run by the tests below.
func TestTopChild(t *testing.T) {
	socket := os.Getenv(topChild)
	if socket == "" {
		t.Skip("run by other tests alone")
	}
	os.Exit(run([]string{"top", "--socket", socket, "--delay", "100ms"}, world{os.Stdout, os.Stderr, os.Getenv, time.Now, os.Getuid()}))
}

// pty is a terminal whose other end is the test.
type pty struct {
	t      *testing.T
	master *os.File
	slave  *os.File
	cmd    *exec.Cmd
	mu     sync.Mutex
	seen   bytes.Buffer
	read   chan struct{} // closed when all is read
}

// startTop runs gimbal top on a terminal of 80 by 24.
func startTop(t *testing.T) *pty {
	t.Helper()
	dir := t.TempDir()
	socket := filepath.Join(dir, "run", "g.sock")
	serve(t, socket, filepath.Join(dir, "state"), false)
	p := &pty{t: t, read: make(chan struct{})}
	p.open()
	p.resize(80, 24)
	p.cmd = exec.Command(os.Args[0], "-test.run=^TestTopChild$")
	p.cmd.Env = append(os.Environ(), topChild+"="+socket, "TERM=xterm")
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = p.slave, p.slave, p.slave
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go p.drain()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		_ = p.slave.Close()
		_ = p.master.Close()
		<-p.read
	})
	return p
}

func (p *pty) open() {
	p.t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	p.master = os.NewFile(uintptr(fd), "ptmx")
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		p.t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		p.t.Fatal(err)
	}
	if p.slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		p.t.Fatal(err)
	}
}

func (p *pty) control(f *os.File, call func(fd int) error) {
	p.t.Helper()
	raw, err := f.SyscallConn()
	if err != nil {
		p.t.Fatal(err)
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = call(int(fd)) }); err != nil || inner != nil {
		p.t.Fatal(err, inner)
	}
}

func (p *pty) resize(width, height uint16) {
	p.control(p.slave, func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: width, Row: height})
	})
}

func (p *pty) termios() (out unix.Termios) {
	p.control(p.slave, func(fd int) error {
		v, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		if err == nil {
			out = *v
		}
		return err
	})
	return out
}

func (p *pty) drain() {
	defer close(p.read)
	buf := make([]byte, 4096)
	for {
		n, err := p.master.Read(buf)
		p.mu.Lock()
		p.seen.Write(buf[:n])
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (p *pty) send(text string) {
	p.t.Helper()
	if _, err := p.master.WriteString(text); err != nil {
		p.t.Fatal(err)
	}
}

// await waits until something new is shown, and forgets what was shown before.
func (p *pty) await(what string, ok func(shown string) bool) {
	p.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		p.mu.Lock()
		text := p.seen.String()
		if ok(text) {
			p.seen.Reset()
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
		if time.Now().After(end) {
			p.t.Fatalf("waited too long for %s; shown:\n%q", what, text)
		}
	}
}

func (p *pty) awaitText(want string) {
	p.t.Helper()
	p.await(want, func(s string) bool { return strings.Contains(s, want) })
}

// ended waits for the end and checks that the terminal is as it was.
func (p *pty) ended(before unix.Termios, code int) {
	p.t.Helper()
	p.awaitText(leaveScreen)
	if err := p.cmd.Wait(); p.cmd.ProcessState.ExitCode() != code {
		p.t.Errorf("it ended with %v", err)
	}
	if diff := cmp.Diff(before, p.termios()); diff != "" {
		p.t.Errorf("the terminal was not given back (-before +after):\n%s", diff)
	}
}

func TestTopOnATerminal(t *testing.T) {
	p := startTop(t)
	before := p.termios()
	p.await("the screen", func(s string) bool { return strings.HasPrefix(s, enterScreen) && strings.Contains(s, "102 ") })
	p.send("\x1b[B\r")
	p.awaitText("line ")
	p.send("\x1b")
	p.awaitText("q quit")
	p.send("fnobody\r")
	p.awaitText("f user: nobody")
	p.resize(40, 10)
	p.await("ten lines of 40 columns", func(s string) bool {
		at := strings.LastIndex(s, "\x1b[H")
		if at < 0 || !strings.Contains(s[at:], "\x1b[J") {
			return false
		}
		rows := strings.Split(s[at:], "\r\n")
		return len(rows) == 10 && strings.HasPrefix(rows[0][len("\x1b[H"):], "\x1b[1mgimbal top: n0") && len(rows[0]) < 60
	})
	p.send("q")
	p.ended(before, exitOK)
}

// However it ends, the terminal is given back.
func TestTopGivesTheTerminalBack(t *testing.T) {
	for name, end := range map[string]func(p *pty){
		"ctrl-c":  func(p *pty) { p.send("\x03") },
		"SIGTERM": func(p *pty) { _ = p.cmd.Process.Signal(syscall.SIGTERM) },
		"SIGINT":  func(p *pty) { _ = p.cmd.Process.Signal(syscall.SIGINT) },
		"SIGHUP":  func(p *pty) { _ = p.cmd.Process.Signal(syscall.SIGHUP) },
	} {
		t.Run(name, func(t *testing.T) {
			p := startTop(t)
			before := p.termios()
			p.awaitText("102 ")
			end(p)
			p.ended(before, exitOK)
		})
	}
}
