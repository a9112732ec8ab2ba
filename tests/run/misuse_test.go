package run

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/proc"
	"github.com/gimbal-hpc/gimbal/helper/wire"
)

// TestMain lets the test binary ask a daemon as another user.
func TestMain(m *testing.M) {
	if socket := os.Getenv("GIMBAL_TEST_SOCKET"); socket != "" {
		os.Exit(asker(socket))
	}
	hearAgain()
	os.Exit(m.Run())
}

// hearAgain has what these tests start hear the signals that they may have been
// told to ignore, by nohup or as a shell's job in the background.
func hearAgain() {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}

// question is one call of a daemon; a process that it names as 0 is a child of
// the asker's own, as -1 the asker itself, as -2 a grandchild.
type question struct {
	Op    wire.Op
	Run   *model.RunRequest   `json:",omitempty"`
	News  *model.RunNews      `json:",omitempty"`
	Order *model.ControlQuery `json:",omitempty"`
	Slurm *model.Registration `json:",omitempty"`
}

// asker answers each question on standard input with the daemon's answer.
func asker(socket string) int {
	child := exec.Command("sh", "-c", "sleep 1000 & echo $!; wait")
	out, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer func() { _ = child.Process.Kill() }()
	line, _ := bufio.NewReader(out).ReadString('\n')
	grandchild, _ := strconv.Atoi(strings.TrimSpace(line))
	defer func() { _ = syscall.Kill(grandchild, syscall.SIGKILL) }()
	pids := map[int]int{0: child.Process.Pid, -1: os.Getpid(), -2: grandchild}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var q question
		if err := json.Unmarshal(in.Bytes(), &q); err != nil {
			fmt.Println(err)
			return 1
		}
		fmt.Println(ask(socket, q, pids))
	}
	return 0
}

func ask(socket string, q question, pids map[int]int) string {
	c, err := wire.Dial(socket, patience)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = c.Close() }()
	var params any
	switch {
	case q.Run != nil:
		if pid, own := pids[q.Run.Proc.PID]; own {
			id, _ := proc.Host{}.Identify(pid)
			q.Run.Proc = model.ProcID{PID: id.PID, Start: id.Start + q.Run.Proc.Start}
		}
		params = q.Run
	case q.News != nil:
		params = q.News
	case q.Order != nil:
		params = q.Order
	default:
		params = q.Slurm
	}
	var result json.RawMessage
	err = c.Call(context.Background(), q.Op, params, &result)
	var refused *wire.Error
	switch {
	case errors.As(err, &refused):
		return string(refused.Code) + ": " + refused.Message
	case err != nil:
		return err.Error()
	}
	var reply model.RunReply
	if json.Unmarshal(result, &reply) == nil && reply.Job != 0 {
		return "ok " + model.RunLabel(model.RunNumber(reply.Job))
	}
	return "ok"
}

// asks has a user ask, from one process, and returns the answers.
func (h *host) asks(uid int, questions ...question) []string {
	h.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		h.t.Fatal(err)
	}
	self, err := os.Open(exe) // the user need not be able to reach it
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = self.Close() }()
	cmd := exec.Command("/proc/self/fd/3")
	cmd.ExtraFiles, cmd.Dir, cmd.Env = []*os.File{self}, "/", []string{"GIMBAL_TEST_SOCKET=" + h.socket, "PATH=/usr/bin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	var in strings.Builder
	for _, q := range questions {
		text, err := json.Marshal(q)
		if err != nil {
			h.t.Fatal(err)
		}
		in.Write(append(text, '\n'))
	}
	cmd.Stdin = strings.NewReader(in.String())
	out, err := cmd.Output()
	answers := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err != nil || len(answers) != len(questions) {
		h.t.Fatalf("%v: %q", err, out)
	}
	return answers
}

// TestNobodyGainsPower: a user may have his own child packed and nothing else.
func TestNobodyGainsPower(t *testing.T) {
	h := newHost(t, true)
	theirs := h.start(bob, "sleep", "100")
	victim, err := proc.Host{}.Identify(h.command(theirs))
	if err != nil {
		t.Fatal(err)
	}
	run := func(pid int, start uint64) question {
		return question{Op: model.OpRun, Run: &model.RunRequest{Proc: model.ProcID{PID: pid, Start: start}, Choose: "any"}}
	}
	job := model.JobRef{Job: model.RunJob(1), Task: model.NoVal, Offset: model.NoVal, Step: model.NoVal}
	long := run(0, 0)
	long.Run.Options.Memory = strings.Repeat("9", 1000)
	cases := []struct {
		why  string
		q    question
		want string
	}{
		{"another's process", run(victim.PID, victim.Start), "denied: not a child of yours"},
		{"init", run(1, 1), "denied: not a child of yours"},
		{"the caller itself", run(-1, 0), "denied: not a child of yours"},
		{"a grandchild", run(-2, 0), "denied: not a child of yours"},
		{"another start time", run(0, 7), "denied: not a child of yours"},
		{"a monstrous option", long, "bad_request: "},
		{"a choice of nothing", question{Op: model.OpRun, Run: &model.RunRequest{Choose: "best"}}, "bad_request: "},
		{"news of another's command", question{Op: model.OpRunExit, News: &model.RunNews{Job: model.RunJob(1)}}, "denied: "},
		{"a look at another's command", question{Op: model.OpRunSeen, News: &model.RunNews{Job: model.RunJob(1)}}, "denied: "},
		{"news of a job of Slurm's", question{Op: model.OpRunExit, News: &model.RunNews{Job: 12}}, "not_found: "},
		{"an order for another's", question{Op: wire.OpControl, Order: &model.ControlQuery{Job: job, Do: model.PrimPause}}, "denied: "},
		{"a step of Slurm's", question{Op: wire.OpRegister, Slurm: &model.Registration{JobID: 1, Proc: model.ProcID(victim)}}, "denied: "},
		{"his own child", run(0, 0), "ok r2"},
		{"the same again, whose reply was lost", run(0, 0), "ok r2"},
	}
	questions := make([]question, len(cases))
	for i, c := range cases {
		questions[i] = c.q
	}
	for i, got := range h.asks(alice, questions...) {
		if !strings.HasPrefix(got, cases[i].want) {
			t.Errorf("%s: %q, want %q", cases[i].why, got, cases[i].want)
		}
	}
	h.stays(victim.PID, runningStates, 300*time.Millisecond)
	if h.state(bob, "r1") != "RUNNING" {
		t.Errorf("bob's command is %s", h.state(bob, "r1"))
	}
	if text := h.state(alice, "r1"); text != "" {
		t.Errorf("alice sees bob's command: %s", text)
	}
}

// TestBoundPerUser: what is beyond the bound runs, unpacked, and says so.
func TestBoundPerUser(t *testing.T) {
	h := newHost(t, true)
	h.configure(`allow = "yes"`, "allow = \"yes\"\nper_user = 2")
	h.await("the bound", func() bool { return strings.Contains(h.log(), "run.per_user") })
	for range 2 {
		h.start(alice, "sleep", "100")
	}
	h.awaitState(alice, "r2", "RUNNING")
	third := h.start(alice, "echo", "done")
	if code := h.wait(third); code != 0 || !strings.Contains(third.out.String(), "warning: echo runs without Gimbal: 2 commands of yours") ||
		!strings.Contains(third.out.String(), "done") {
		t.Errorf("exit code %d: %s", code, third.out.String())
	}
	other := h.start(bob, "sh", "-c", "echo $GIMBAL_RUN")
	if code := h.wait(other); code != 0 || strings.TrimSpace(other.out.String()) != "r3" {
		t.Errorf("another user: exit code %d: %s", code, other.out.String())
	}
}

// TestForbidden: where run.allow is no, and on a node of Slurm's where it is
// auto, commands run unpacked.
func TestForbidden(t *testing.T) {
	h := newHost(t, true)
	h.configure(`allow = "yes"`, `allow = "no"`)
	h.await("a refusal", func() bool {
		j := h.start(alice, "true")
		return h.wait(j) == 0 && strings.Contains(j.out.String(), "run.allow does not allow it")
	})
}

// TestAnothersProcessInTheTree: what runs as another user below a command is
// not stopped with it: its user could not have stopped it himself.
func TestAnothersProcessInTheTree(t *testing.T) {
	h := newGPUHost(t, true, "")
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		t.Skip("SKIPPED: setpriv is not installed")
	}
	text, err := os.ReadFile(setpriv)
	if err != nil {
		t.Fatal(err)
	}
	elevate := filepath.Join(h.dir, "elevate") // root's, with the set-uid bit
	if err := os.WriteFile(elevate, text, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(elevate, 0o755|os.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	pidfile := h.scratch(alice, "pid")
	command := fmt.Sprintf("%s --reuid 0 sleep 100 & echo $! > %s; exec %s --label one", elevate, pidfile, trainer("one")[1])
	h.start(alice, "sh", "-c", command)
	h.gpu.WaitClients(1)
	pid, own := 0, h.gpu.Show().Clients[0].PID
	h.await("root's process", func() bool {
		text, _ := os.ReadFile(pidfile)
		pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		id, err := proc.Host{}.Identify(pid)
		return err == nil && proc.Host{}.OwnedBy(id, 0)
	})
	h.steer(alice, "pause", "r1", "PAUSED")
	h.awaitProc(own, "stopped", "T")
	h.stays(pid, runningStates, 300*time.Millisecond)
}
