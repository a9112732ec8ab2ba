package harness

import (
	"bufio"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/wire"
)

// answerer is a daemon in the raw: what it does with each connection is the
// test's matter.
type answerer struct{ daemon }

// yes is the answer that the front understands by itself.
const yes, done = `{"v":1,"result":{"active":true}}`, `{"v":1,"result":null}`

// answers serves a socket. For each request it asks what to write; an empty
// answer hangs up, a nil one says nothing for as long as the test runs.
func answers(t *testing.T, answer func(op string) []byte) *answerer {
	t.Helper()
	d := newAnswerer(t)
	listener, err := net.Listen("unix", d.socket)
	if err != nil {
		t.Fatal(err)
	}
	d.serve(t, listener, answer)
	return d
}

func newAnswerer(t *testing.T) *answerer {
	t.Helper()
	dir, err := os.MkdirTemp("", "harness")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return &answerer{daemon{socket: filepath.Join(dir, "s"), pending: filepath.Join(dir, "pending")}}
}

func (d *answerer) serve(t *testing.T, listener net.Listener, answer func(op string) []byte) {
	var wg sync.WaitGroup
	over := make(chan struct{})
	t.Cleanup(func() { close(over); _ = listener.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer func() { _ = conn.Close() }()
				line, err := bufio.NewReader(conn).ReadString('\n')
				if err != nil {
					return
				}
				op, _, _ := strings.Cut(strings.TrimPrefix(line, `{"v":1,"op":"`), `"`)
				out := answer(op)
				_, _ = conn.Write(out)
				if out == nil {
					<-over
				}
			})
		}
	})
}

// left counts what is in the pending folder, by op.
func (d *answerer) left(t *testing.T) map[wire.Op]int {
	t.Helper()
	pending, bad := wire.ReadPending(d.pending)
	if bad != nil {
		t.Error(bad)
	}
	counts := map[wire.Op]int{}
	for _, p := range pending {
		counts[p.Op]++
	}
	return counts
}

func plainly(op string) []byte {
	if op == "prepare" || op == "register" {
		return []byte(yes + "\n")
	}
	return []byte(done + "\n")
}

// TestYesNeedsNoCore: a daemon that only says yes, as gimbald does nearly
// always, costs no Go runtime and no thread.
func TestYesNeedsNoCore(t *testing.T) {
	d := answers(t, plainly)
	s := plain.script(remote, append(d.args(), "core=/nowhere")...).items().do("show state").do("hook init").do("ropt gimbal-pack")
	out := s.do("hook init_post_opt").do("tasks 3").do("hook exit").do("show state").do("show jobenv").run(t)
	if grep(out, "info: ") != nil {
		t.Errorf("%q", out)
	}
	if threads := grep(out, "Threads"); len(threads) != 2 || threads[0] != threads[1] {
		t.Errorf("threads %q", threads)
	}
	if active, _ := value(out, "GIMBAL_ACTIVE"); active != "1" {
		t.Errorf("GIMBAL_ACTIVE=%q", active)
	}
}

// TestGimbaldsYes: what helper/wire makes of the plainest results is what the
// front takes for yes. If it no longer is, every step pays for the core.
func TestGimbaldsYes(t *testing.T) {
	d := startDaemon(t)
	d.plain = true
	s := plain.script(remote, append(d.args(), "core=/nowhere")...).items().do("hook init").do("ropt gimbal-pack")
	out := s.do("hook init_post_opt").do("tasks 2").do("hook exit").run(t)
	if grep(out, "info: ") != nil {
		t.Errorf("%q", out)
	}
	if got := d.counts(); got != [4]int32{1, 2, 2, 1} {
		t.Errorf("calls %v", got)
	}
}

// TestAnswers of every kind: what becomes of the step, and what is said.
func TestAnswers(t *testing.T) {
	long := strings.Repeat("x", 100<<10)
	for name, tc := range map[string]struct {
		answer []byte
		active bool
		says   string // "": nothing
	}{
		"no":              {[]byte(`{"v":1,"result":{"active":false}}` + "\n"), false, ""},
		"yes, spaced":     {[]byte(`{ "v": 1, "result": { "active": true } }` + "\n"), true, ""},
		"message":         {[]byte(`{"v":1,"result":{"active":true,"message":"60s, not 90s"}}` + "\n"), true, "60s, not 90s"},
		"refusal":         {[]byte(`{"v":1,"error":{"code":"denied","message":"no\nway"}}` + "\n"), false, "prepare: gimbald refuses: no; way"},
		"later version":   {[]byte(`{"v":2,"result":{"active":true}}` + "\n"), false, "gimbald speaks version 2"},
		"junk":            {[]byte("junk\n"), false, "malformed"},
		"empty line":      {[]byte("\n"), false, "malformed"},
		"hangs up":        {[]byte(""), false, "Connection reset"},
		"no end of line":  {[]byte(yes), false, "Connection reset"},
		"too long":        {[]byte(long), false, "Message too long"},
		"long, with end":  {[]byte(long + "\n"), false, "Message too long"},
		"more follows":    {[]byte(yes + "\n" + yes + "\n"), true, ""},
		"NUL":             {[]byte(yes + "\x00{}\n"), true, ""},
		"says nothing":    {nil, false, "timed out"},
		"environment bad": {[]byte(`{"v":1,"result":{"active":true,"env":{"LD_PRELOAD":"x"}}}` + "\n"), true, "may not set"},
	} {
		t.Run(name, func(t *testing.T) {
			d := answers(t, func(string) []byte { return tc.answer })
			s := plain.script(remote, append(d.args(), "timeout=300ms")...).items().do("hook init").do("ropt gimbal-pack")
			out := s.do("hook init_post_opt").do("show jobenv").run(t)
			said := grep(out, "info: gimbal: ")
			if active, _ := value(out, "GIMBAL_ACTIVE"); (active == "1") != tc.active {
				t.Errorf("GIMBAL_ACTIVE=%q", active)
			}
			if (tc.says == "") != (said == nil) || len(said) > 1 || !strings.Contains(strings.Join(said, ""), tc.says) {
				t.Errorf("says %q, want %q", said, tc.says)
			}
		})
	}
}

// TestAnswerInPieces comes byte by byte.
func TestAnswerInPieces(t *testing.T) {
	d := newAnswerer(t)
	listener, err := net.Listen("unix", d.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		for _, b := range []byte(yes + "\n") {
			_, _ = conn.Write([]byte{b})
			time.Sleep(100 * time.Microsecond)
		}
	}()
	s := sanitized.script(remote, append(d.args(), "core=/nowhere")...).items().do("hook init").do("ropt gimbal-pack")
	out := s.do("hook init_post_opt").do("show jobenv").run(t)
	if active, _ := value(out, "GIMBAL_ACTIVE"); active != "1" || grep(out, "info: ") != nil {
		t.Errorf("%q", out)
	}
}

// TestDaemonOfAStranger: who is neither root nor the caller is not believed.
func TestDaemonOfAStranger(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: needs root")
	}
	d := newAnswerer(t)
	open := filepath.Join(filepath.Dir(d.socket), "open")
	if err := errors.Join(os.Mkdir(open, 0o755), os.Chmod(open, 0o777)); err != nil {
		t.Fatal(err)
	}
	d.socket = filepath.Join(open, "s")
	listeners := make(chan net.Listener, 1)
	go func() {
		// The thread keeps its uid, and ends with the goroutine.
		runtime.LockOSThread()
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, 65534, 65534, 65534); errno != 0 {
			t.Error(errno)
		}
		listener, err := net.Listen("unix", d.socket)
		if err != nil {
			t.Error(err)
		}
		listeners <- listener
	}()
	listener := <-listeners
	if t.Failed() {
		return
	}
	d.serve(t, listener, plainly)
	s := plain.script(remote, d.args()...).items().do("hook init").do("ropt gimbal-pack")
	out := s.do("hook init_post_opt").do("tasks 1").do("hook exit").do("show jobenv").run(t)
	if active, _ := value(out, "GIMBAL_ACTIVE"); active != "" || !strings.Contains(strings.Join(out, "\n"), "Permission denied") {
		t.Errorf("%q", out)
	}
	if got := d.left(t); got[wire.OpRegister] != 1 || got[wire.OpTaskExit] != 1 || got[wire.OpStepEnd] != 1 {
		t.Errorf("left %v", got)
	}
}

// TestMuteDaemonCostsTheTimeoutOnce: however many tasks there are.
func TestMuteDaemonCostsTheTimeoutOnce(t *testing.T) {
	d := answers(t, func(string) []byte { return nil })
	const tasks = 64
	begin := time.Now()
	s := plain.script(remote, append(d.args(), "timeout=500ms")...).items().do("hook init").do("ropt gimbal-pack").do("hook init_post_opt")
	out := s.do("tasks %d", tasks).do("hook exit").run(t)
	// One call too many is 400 ms; the rest is the core's start on a busy machine.
	if took := time.Since(begin); took < 450*time.Millisecond || took > 3*time.Second {
		t.Errorf("took %v", took)
	}
	if got := d.left(t); got[wire.OpRegister] != tasks || got[wire.OpTaskExit] != tasks || got[wire.OpStepEnd] != 1 {
		t.Errorf("left %v", got)
	}
	if said := grep(out, "info: "); len(said) != 2 {
		t.Errorf("said %q, want a line for the launch and one for the end", said)
	}
}

// TestSlowDaemonIsBounded: it answers, but each time late.
func TestSlowDaemonIsBounded(t *testing.T) {
	const late = 40 * time.Millisecond
	d := answers(t, func(op string) []byte { time.Sleep(late); return plainly(op) })
	begin := time.Now()
	s := plain.script(remote, append(d.args(), "timeout=500ms")...).items().do("hook init").do("ropt gimbal-pack").do("hook init_post_opt")
	s.do("tasks 64").do("hook exit").run(t)
	if took := time.Since(begin); took < 900*time.Millisecond || took > 3*time.Second {
		t.Errorf("took %v; 129 answers take %v", took, 129*late)
	}
	if got := d.left(t); got[wire.OpRegister] == 0 || got[wire.OpTaskExit] == 0 {
		t.Errorf("left %v", got)
	}
}

// TestDaemonThatComesBack: what ends long after a bad launch is told.
func TestDaemonThatComesBack(t *testing.T) {
	var mu sync.Mutex
	asked := map[string]int{}
	d := answers(t, func(op string) []byte {
		mu.Lock()
		defer mu.Unlock()
		asked[op]++
		if op == "prepare" || op == "register" {
			return []byte{}
		}
		return plainly(op)
	})
	d.step(2).run(t)
	mu.Lock()
	defer mu.Unlock()
	if got := d.left(t); got[wire.OpRegister] != 2 || len(got) != 1 {
		t.Errorf("left %v", got)
	}
	if asked["prepare"] != 1 || asked["register"] != 0 || asked["task_exit"] != 2 || asked["step_end"] != 1 {
		t.Errorf("asked %v", asked)
	}
}

// TestNothingWorks: no daemon and nowhere to leave anything.
func TestNothingWorks(t *testing.T) {
	s := plain.script(remote, "socket=/nowhere/s", "pending=/dev/null", "core="+plain.core).items().do("hook init").do("ropt gimbal-pack")
	out := s.do("hook init_post_opt").do("tasks 2").do("hook exit").run(t)
	said := strings.Join(grep(out, "info: "), "\n")
	for what, times := range map[string]int{"does not answer at /nowhere/s: No such file": 1, "register is lost": 2, "task_exit is lost": 2, "step_end is lost": 1, "/dev/null": 5} {
		if strings.Count(said, what) != times {
			t.Errorf("%q not %d times in\n%s", what, times, said)
		}
	}
	if grep(out, "exit rc 0") == nil {
		t.Errorf("%q", out)
	}
}
