package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/wire"
)

// world is a daemon, a pending folder and a clock.
type world struct {
	now    time.Time
	takes  time.Duration // each call
	err    error         // of each call
	reply  any
	calls  []string
	within []time.Duration
	last   any
	left   []string
	full   error // of leaving
}

func (w *world) session() *session {
	return newSession(func() time.Time { return w.now }, w.call, w.leave)
}

func (w *world) call(_ string, within time.Duration, op wire.Op, params, result any) error {
	w.calls = append(w.calls, string(op))
	w.within = append(w.within, within)
	w.last = params
	w.now = w.now.Add(min(w.takes, within))
	if w.takes > within {
		return fmt.Errorf("%w: late", wire.ErrUnreachable)
	}
	switch r := result.(type) {
	case *wire.Prepared:
		*r, _ = w.reply.(wire.Prepared)
	case *wire.Registered:
		*r, _ = w.reply.(wire.Registered)
	}
	return w.err
}

func (w *world) leave(_ string, op wire.Op, params any, _ time.Time) error {
	w.last = params
	if w.full != nil {
		return w.full
	}
	w.left = append(w.left, string(op))
	return nil
}

// ask is a request of this very process, so that it has a start time.
func ask() request {
	return request{timeout: time.Second, job: 7, step: 3, pid: os.Getpid(), task: 5, pending: "/p", deadline: "uts1700000000"}
}

func TestCallsThatAreAnswered(t *testing.T) {
	w := &world{now: time.Unix(1000, 0), takes: time.Millisecond, reply: wire.Prepared{Active: true, Message: "not so fast", Env: map[string]string{"B": "2", "A": "1"}}}
	s := w.session()
	if diff := cmp.Diff(outcome{active: true, message: "not so fast", env: []string{"A=1", "B=2"}}, s.prepare(ask()), cmp.AllowUnexported(outcome{})); diff != "" {
		t.Error(diff)
	}
	w.reply = wire.Registered{Active: true}
	if out := s.register(ask()); !out.active || out.left || out.failed || out.message != "" {
		t.Errorf("register: %+v", out)
	}
	reg := w.last.(model.Registration)
	if reg.Options.Deadline != "1700000000" || reg.Proc.PID != os.Getpid() || reg.Proc.Start == 0 || reg.Stepd != reg.Proc || reg.TaskID != 5 || reg.Launched != w.now.Add(-time.Millisecond).UnixNano() {
		t.Errorf("registered %+v", reg)
	}
	r := ask()
	r.status = 256
	if out := s.taskExit(r); out.failed || out.left {
		t.Errorf("exit: %+v", out)
	}
	if got, want := w.last, (model.TaskExit{StepKey: model.StepKey{JobID: 7, StepID: 3}, Proc: reg.Proc, TaskID: 5, Status: 256}); got != want {
		t.Errorf("exit %+v, want %+v", got, want)
	}
	s.stepEnd(ask())
	if w.last != (model.StepKey{JobID: 7, StepID: 3}) || w.left != nil {
		t.Errorf("end %+v, left %v", w.last, w.left)
	}
}

func TestRefusalIsNotLeftForLater(t *testing.T) {
	w := &world{err: wire.Errorf(wire.CodeDenied, "no")}
	for range 2 {
		out := w.session().register(ask())
		if !out.failed || out.left || !strings.Contains(out.message, "no") {
			t.Errorf("%+v", out)
		}
	}
	if len(w.calls) != 2 || w.left != nil {
		t.Errorf("calls %v, left %v", w.calls, w.left)
	}
}

// TestMuteDaemonCostsTheTimeoutOnce: however many tasks there are.
func TestMuteDaemonCostsTheTimeoutOnce(t *testing.T) {
	w := &world{now: time.Unix(1000, 0), takes: time.Hour}
	begin := w.now
	s := w.session()
	s.prepare(ask())
	messages := 0
	for range 64 {
		if out := s.register(ask()); !out.left || out.active {
			t.Fatalf("%+v", out)
		} else if out.message != "" {
			messages++
		}
	}
	for range 64 {
		s.taskExit(ask())
	}
	s.stepEnd(ask())
	if spent := w.now.Sub(begin); spent != time.Second {
		t.Errorf("waited %v in all", spent)
	}
	if len(w.calls) != 2 || len(w.left) != 129 || messages != 0 {
		t.Errorf("%d calls, %d left, %d messages besides prepare's", len(w.calls), len(w.left), messages)
	}
}

// TestSlowDaemonIsBounded: it answers, but each time late.
func TestSlowDaemonIsBounded(t *testing.T) {
	w := &world{now: time.Unix(1000, 0), takes: 100 * time.Millisecond}
	begin := w.now
	s := w.session()
	for range 64 {
		s.register(ask())
	}
	launch := w.now.Sub(begin)
	for range 64 {
		s.taskExit(ask())
	}
	if end := w.now.Sub(begin) - launch; launch > 800*time.Millisecond || end > time.Second {
		t.Errorf("waited %v at the launch, %v at the end", launch, end)
	}
}

// TestDaemonThatComesBack: what ends long after a bad launch is told.
func TestDaemonThatComesBack(t *testing.T) {
	w := &world{now: time.Unix(1000, 0), err: wire.ErrUnreachable}
	s := w.session()
	s.register(ask())
	w.err = nil
	s.register(ask())
	if len(w.calls) != 1 || len(w.left) != 2 {
		t.Fatalf("calls %v, left %v", w.calls, w.left)
	}
	if out := s.taskExit(ask()); out.left || out.failed {
		t.Errorf("exit: %+v", out)
	}
}

func TestNothingWorks(t *testing.T) {
	w := &world{err: wire.ErrUnreachable, full: errors.New("disk full")}
	if out := w.session().register(ask()); !out.failed || !strings.Contains(out.message, "disk full") {
		t.Errorf("%+v", out)
	}
}

func TestTaskThatIsGone(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	w := &world{}
	r := ask()
	r.pid = cmd.Process.Pid
	if out := w.session().register(r); !out.failed || w.calls != nil {
		t.Errorf("%+v, calls %v", out, w.calls)
	}
}

func TestCallDaemonUnreachable(t *testing.T) {
	err := callDaemon(filepath.Join(t.TempDir(), "s"), time.Second, wire.OpPing, nil, nil)
	if !errors.Is(err, wire.ErrUnreachable) {
		t.Error(err)
	}
}
