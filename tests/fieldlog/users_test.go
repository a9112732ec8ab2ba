package fieldlog

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/wire"
	"github.com/gimbal-hpc/gimbal/tests/e2e"
)

// The owner of the job, nobody, whom each system knows, and a stranger.
const (
	owner    = 65534
	stranger = 64999
)

// TestMain lets the test binary ask the daemon as another user.
func TestMain(m *testing.M) {
	if socket := os.Getenv("FIELDLOG_SOCKET"); socket != "" {
		os.Exit(ask(socket))
	}
	os.Exit(m.Run())
}

// ask sends each line of standard input on a connection of its own and prints
// what is answered.
func ask(socket string) int {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		answer, err := askOne(socket, in.Text()+"\n")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		fmt.Println(answer)
	}
	return 0
}

func askOne(socket, line string) (string, error) {
	conn, err := net.DialTimeout("unix", socket, patience)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	// The daemon may have answered and gone before it was sent all of it.
	if _, err := conn.Write([]byte(line)); err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
		return "", err
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	return strings.TrimSpace(answer), err
}

// askAs has another user send lines to the daemon and returns the answers.
func (s *site) askAs(t *testing.T, uid int, lines ...string) []string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Open(exe) // the other user need not be able to reach it
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = self.Close() }()
	cmd := exec.Command("/proc/self/fd/3")
	cmd.ExtraFiles, cmd.Dir = []*os.File{self}, "/"
	cmd.Env = []string{"FIELDLOG_SOCKET=" + s.Socket()}
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("as uid %d: %v", uid, err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}

// request renders one request.
func request(t *testing.T, op wire.Op, params any) string {
	t.Helper()
	raw, err := json.Marshal(params)
	if err != nil {
		t.Fatal(err)
	}
	line, err := json.Marshal(wire.Request{V: wire.Version, Op: op, Params: raw})
	if err != nil {
		t.Fatal(err)
	}
	return string(line)
}

// codeOf is the code of an answer's error, "" of a good one.
func codeOf(t *testing.T, answer string) wire.Code {
	t.Helper()
	var r wire.Reply
	if err := json.Unmarshal([]byte(answer), &r); err != nil {
		t.Fatalf("answer %q: %v", answer, err)
	}
	if r.Error == nil {
		return ""
	}
	return r.Error.Code
}

// ownersJob submits a packed job of the owner and waits until it runs.
func (s *site) ownersJob(t *testing.T) int {
	t.Helper()
	job := s.pack(t, "exec "+e2e.Trainer("--memory 512MiB --seconds 300"), fmt.Sprintf("--uid=%d", owner), fmt.Sprintf("--gid=%d", owner), "--job-name=secret-name", "-o", "/dev/null")
	s.WaitTenant(job, patience, "RUNNING")
	e2e.Eventually(t, patience, "the trainer runs", func() bool { return len(s.trainers(job)) == 1 })
	return job
}

// TestStrangersAreDenied is SE-01: whoever is neither root nor the job's owner
// can do nothing to it, whatever the message says; that is logged and counted.
func TestStrangersAreDenied(t *testing.T) {
	s := start(t, e2e.Options{Policies: turns("5s")})
	job := s.ownersJob(t)
	ref := model.JobRef{Job: uint32(job), Task: model.NoVal, Offset: model.NoVal, Step: model.NoVal}
	var lines []string
	for _, do := range []model.Primitive{model.PrimPause, model.PrimResume, model.PrimEvict, model.PrimNotify, "release"} {
		lines = append(lines, request(t, wire.OpControl, model.ControlQuery{Job: ref, Do: do, Signal: int(syscall.SIGUSR1)}))
	}
	claim := s.tenant(t, job).Reg
	claim.UID = stranger
	lines = append(lines, request(t, wire.OpRegister, claim), request(t, wire.OpPrepare, wire.PrepareRequest{}),
		request(t, wire.OpTaskExit, model.TaskExit{}), request(t, wire.OpStepEnd, model.StepKey{JobID: uint32(job)}))
	for i, answer := range s.askAs(t, stranger, lines...) {
		if code := codeOf(t, answer); code != wire.CodeDenied {
			t.Errorf("%s: %s, want it denied", lines[i], answer)
		}
	}
	junk := []string{"", "{}", `{"v":1,"op":"control","uid":0}`, strings.Repeat("x", wire.MaxRequest+10)}
	for i, answer := range s.askAs(t, stranger, junk...) {
		if codeOf(t, answer) == "" {
			t.Errorf("%.40q was taken: %s", junk[i], answer)
		}
	}
	if v := s.tenant(t, job); v.Word() != "RUNNING" || v.Reg.UID != owner {
		t.Errorf("the job is %s and of uid %d", v.Word(), v.Reg.UID)
	}
	s.logged(t, fmt.Sprintf("uid %d", stranger))
	if n := s.refused(t); n < uint64(len(lines)+len(junk)) {
		t.Errorf("%d refusals are counted, there were %d", n, len(lines)+len(junk))
	}
	if answer := s.askAs(t, owner, lines[0])[0]; codeOf(t, answer) != "" {
		t.Errorf("the owner may not pause the own job: %s", answer)
	}
	s.WaitTenant(job, patience, "PAUSED")
	s.wantOwnerBounded(t, job)
	s.cancel(t, job)
	s.wantClean(t)
}

// wantOwnerBounded checks what the owner of a job that he has paused may not do to
// others: have it run before theirs, or undo what was ordered over him.
func (s *site) wantOwnerBounded(t *testing.T, job int) {
	t.Helper()
	order := func(uid int, do model.Primitive) string {
		ref := model.JobRef{Job: uint32(job), Task: model.NoVal, Offset: model.NoVal, Step: model.NoVal}
		return s.askAs(t, uid, request(t, wire.OpControl, model.ControlQuery{Job: ref, Do: do}))[0]
	}
	if answer := order(owner, model.PrimResume); !strings.Contains(answer, "runs when its turn comes") {
		t.Errorf("the owner's resume: %s", answer)
	}
	s.WaitTenant(job, patience, "RUNNING")
	if answer := order(0, model.PrimPause); codeOf(t, answer) != "" {
		t.Errorf("root may not pause: %s", answer)
	}
	s.WaitTenant(job, patience, "PAUSED")
	for _, do := range []model.Primitive{model.PrimResume, "release", model.PrimPause} {
		if answer := order(owner, do); codeOf(t, answer) != wire.CodeDenied {
			t.Errorf("the owner's %s over root's pause: %s", do, answer)
		}
	}
	if answer := order(0, "release"); codeOf(t, answer) != "" {
		t.Errorf("root may not release: %s", answer)
	}
	s.WaitTenant(job, patience, "RUNNING")
}

// refused is how many requests the daemon says it turned away.
func (s *site) refused(t *testing.T) uint64 {
	t.Helper()
	answer, err := askOne(s.Socket(), request(t, wire.OpDaemon, nil)+"\n")
	if err != nil {
		t.Fatal(err)
	}
	var reply struct {
		Result model.DaemonReply `json:"result"`
	}
	if err := json.Unmarshal([]byte(answer), &reply); err != nil {
		t.Fatalf("%s: %v", answer, err)
	}
	return reply.Result.Counters["refused"]
}

// TestNeighboursAreAnonymous is SE-04: with private = true a stranger is told
// that a GPU is used and how much of its memory, and nothing of whose job it
// is, by the daemon itself and not by the command.
func TestNeighboursAreAnonymous(t *testing.T) {
	s := start(t, e2e.Options{})
	s.configure(t, replace(t, "private = false", "private = true"))
	s.logged(t, "now in force: access.private")
	job := s.ownersJob(t)
	view := s.tenant(t, job)
	e2e.Eventually(t, patience, "the job's memory is known", func() bool { return len(s.tenant(t, job).Peak) > 0 })

	all := model.StatusQuery{}
	answers := s.askAs(t, stranger, request(t, wire.OpStatus, all), request(t, model.OpRecords, model.RecordsQuery{}), request(t, wire.OpDaemon, nil),
		request(t, wire.OpStatus, model.StatusQuery{Users: []string{fmt.Sprint(owner)}}))
	pid := fmt.Sprintf(`"pid":%d`, view.Reg.Proc.PID)
	secrets := []string{"secret-name", fmt.Sprintf(`"uid":%d`, owner), pid + ",", pid + "}", string(view.ID), "simgpu-trainer"}
	for _, answer := range answers {
		for _, secret := range secrets {
			if strings.Contains(answer, secret) {
				t.Errorf("a stranger is told %s: %s", secret, answer)
			}
		}
	}
	if !strings.Contains(answers[0], `"hidden":true`) {
		t.Errorf("a stranger does not see that the GPU is used: %s", answers[0])
	}
	if strings.Contains(answers[3], `"hidden":true`) {
		t.Errorf("a stranger learns whose job it is by asking for a user: %s", answers[3])
	}
	if own := s.askAs(t, owner, request(t, wire.OpStatus, all))[0]; !strings.Contains(own, "secret-name") {
		t.Errorf("the owner does not see the own job: %s", own)
	}
	s.wantTable(t, job)
	s.cancel(t, job)
	s.wantClean(t)
}

// wantTable looks at what the command shows a stranger.
func (s *site) wantTable(t *testing.T, job int) {
	t.Helper()
	command := filepath.Join(s.Out, "gimbal")
	if r := s.Run("cp", e2e.Built("gimbal"), command); r.Exit != 0 {
		t.Fatal(r)
	}
	r := s.RunAs(stranger, stranger, command, "status", "--socket", s.Socket(), "-a", "-X", "-n", "-P", "-o", "JobID,User,State,MaxGPUMem")
	if fields := strings.Split(strings.TrimSpace(r.Stdout), "|"); r.Exit != 0 || len(fields) != 4 || fields[0] != "-" || fields[1] != "" || fields[2] != "busy" || fields[3] == "" {
		t.Errorf("gimbal status: %v, want a busy neighbour of job %d without a name", r, job)
	}
}
