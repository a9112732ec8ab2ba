package proc

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds what a test waits for; it only guards against hangs.
const patience = 2 * time.Minute

// launched is a shell in a session of its own, with whatever it starts.
type launched struct {
	id    ID
	lines *bufio.Reader
	stdin io.WriteCloser
}

// launch runs a shell script. The script starts only when go_ is called, so that
// it can be watched before it does anything. At the end every process that
// carries the test's mark in its environment is killed.
func launch(t *testing.T, script string) *launched {
	t.Helper()
	return launchAs(t, script, &syscall.SysProcAttr{Setsid: true})
}

func launchAs(t *testing.T, script string, attr *syscall.SysProcAttr) *launched {
	t.Helper()
	mark := "GIMBAL_PROC_TEST=" + t.Name() + "-" + strconv.Itoa(os.Getpid())
	cmd := exec.Command("sh", "-c", "read go; "+script)
	cmd.Env = append(os.Environ(), mark, "PATH=/usr/bin:/bin:"+os.Getenv("PATH"))
	cmd.SysProcAttr = attr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = w, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	t.Cleanup(func() {
		killMarked(t, mark)
		_ = cmd.Process.Kill() // one whose first thread ended shows no environment
		_ = cmd.Wait()
		_ = out.Close()
	})
	id, err := Host{}.Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return &launched{id: id, lines: bufio.NewReader(out), stdin: stdin}
}

func (l *launched) run(t *testing.T) {
	t.Helper()
	if _, err := io.WriteString(l.stdin, "\n"); err != nil {
		t.Fatal(err)
	}
}

// pid reads a line with a pid that the script printed.
func (l *launched) pid(t *testing.T) ID {
	t.Helper()
	line, err := l.lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	id, err := Host{}.Identify(pid)
	if err != nil {
		t.Fatalf("process %d: %v", pid, err)
	}
	return id
}

// marked lists the living processes with this mark in their environment.
func marked(mark string) []int {
	var pids []int
	procs, _ := Host{}.Scan(nil)
	for _, p := range procs {
		env, err := Host{}.readAll(p.PID, "environ")
		if err == nil && slices.Contains(strings.Split(string(env), "\x00"), mark) {
			pids = append(pids, p.PID)
		}
	}
	return pids
}

// killMarked kills until nothing with the mark is left, looked for three times.
func killMarked(t *testing.T, mark string) {
	t.Helper()
	none := 0
	eventually(t, "marked processes to end", func() bool {
		pids := marked(mark)
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		none++
		if len(pids) > 0 {
			none = 0
		}
		return none == 3
	})
}

// eventually polls until a condition holds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %v for %s", patience, what)
		}
	}
}

func state(t *testing.T, id ID) byte {
	t.Helper()
	var buf [statSize]byte
	s, err := Host{}.statOf(buf[:], id)
	if errors.Is(err, ErrGone) {
		return '-'
	}
	if err != nil {
		t.Fatal(err)
	}
	return s.State
}

// tracked is a tracker that is closed at the end.
func tracked(t *testing.T, h Host, onExit func(ID)) *Tracker {
	t.Helper()
	tr := NewTracker(h, onExit)
	t.Cleanup(tr.Close)
	return tr
}

// scanning is a tracker that has no process connector.
func scanning(t *testing.T) *Tracker {
	tr := tracked(t, Host{}, nil)
	tr.noConnector = errors.New("switched off by the test")
	return tr
}

func watch(t *testing.T, tr *Tracker, id ID) {
	t.Helper()
	if err := tr.Watch(id, true); err != nil {
		t.Fatal(err)
	}
}

func pause(t *testing.T, tr *Tracker, target Target) Paused {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p, err := tr.Pause(ctx, target)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// sent is a signal that went out.
type sent struct {
	pid int
	sig unix.Signal
}

// recorder is a Signaller that notes what it is told; with pass it also sends.
type recorder struct {
	pass  bool
	mu    sync.Mutex
	next  int
	pids  map[int]int
	calls []sent
}

func (r *recorder) Open(pid int) (int, error) {
	fd := 1 << 20
	if r.pass {
		var err error
		if fd, err = unix.PidfdOpen(pid, 0); err != nil {
			return -1, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pids == nil {
		r.pids = map[int]int{}
	}
	if !r.pass {
		r.next++
		fd += r.next
	}
	r.pids[fd] = pid
	return fd, nil
}

func (r *recorder) Send(fd int, sig unix.Signal) error {
	r.mu.Lock()
	r.calls = append(r.calls, sent{r.pids[fd], sig})
	r.mu.Unlock()
	if r.pass {
		return unix.PidfdSendSignal(fd, sig, nil, 0)
	}
	return nil
}

func (r *recorder) Close(fd int) {
	if r.pass {
		_ = unix.Close(fd)
	}
}

func (r *recorder) sent() []sent {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls)
}

// need skips where a program is not installed.
func need(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skip("SKIPPED: needs " + name)
	}
}
