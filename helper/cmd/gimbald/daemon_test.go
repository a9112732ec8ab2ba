package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gimbal-hpc/gimbal/helper/config"
	"github.com/gimbal-hpc/gimbal/helper/engine"
	"github.com/gimbal-hpc/gimbal/helper/journal"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/node"
	"github.com/gimbal-hpc/gimbal/helper/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testLog is a logger by a clock that the test moves.
func testLog(t *testing.T) (l *logger, out *bytes.Buffer, now *time.Time) {
	t.Helper()
	out, now = &bytes.Buffer{}, new(time.Time)
	*now = time.Unix(1000, 0)
	l, err := newLogger(out, config.Log{Level: "info", Format: "json"})
	if err != nil {
		t.Fatal(err)
	}
	l.now = func() time.Time { return *now }
	return l, out, now
}

func TestOneCauseIsOneLineAMinute(t *testing.T) {
	l, out, now := testLog(t)
	for range 10000 {
		l.error("engine", "step", errors.New("no space left on device"))
	}
	if n := strings.Count(out.String(), "\n"); n != 1 {
		t.Fatalf("%d lines", n)
	}
	*now = now.Add(logEvery)
	l.error("engine", "step", errors.New("no space left on device"))
	if n := strings.Count(out.String(), "\n"); n != 2 || !strings.Contains(out.String(), `"suppressed":9999`) {
		t.Errorf("%d lines: %s", n, out)
	}
}

func TestManyCausesAreBounded(t *testing.T) {
	l, out, now := testLog(t)
	for i := range 10000 {
		l.error("engine", "step", fmt.Errorf("process %d", i))
	}
	if n := strings.Count(out.String(), "\n"); n == 0 || n >= 200 {
		t.Fatalf("%d lines in a minute", n)
	}
	out.Reset()
	*now = now.Add(logEvery)
	l.warn("guard", "something new")
	if text := out.String(); !strings.Contains(text, "something new") || !strings.Contains(text, fmt.Sprintf(`"suppressed":%d`, 10000-maxCauses)) {
		t.Errorf("said %s", text)
	}
}

func TestRunExitCodes(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Setenv("SLURMD_NODENAME", "")
	several := write("several.toml", "[node]\nstate_dir = \"/var/lib/gimbal/%n\"\n")
	named := write("named.toml", "[node]\nname = \"a b\"\n")
	good, bad := write("good.toml", ""), write("bad.toml", "\n[sample]\nintervall = \"1s\"\n")
	for _, c := range []struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		{[]string{"--version"}, exitOK, "gimbald ", ""},
		{[]string{"--help"}, exitOK, "Usage: gimbald", ""},
		{[]string{"--nonsense"}, exitUsage, "", "nonsense"},
		{[]string{"--chek"}, exitUsage, "", "unknown flag: --chek, did you mean --check?"},
		{[]string{"start"}, exitUsage, "", `"start" is no option`},
		{[]string{"--guard-stall", "soon"}, exitUsage, "", "guard-stall"},
		{[]string{"--guard"}, exitFailed, "", "--guard is for gimbald itself"},
		{[]string{"--check", "-c", good}, exitOK, "[sample]", ""},
		{[]string{"--check", "-c", good + "x"}, exitOK, "[sample]", "good.tomlx is not there: the defaults hold"},
		{[]string{"--check", "-c", bad}, exitFailed, "", "bad.toml:3"},
		{[]string{"-c", bad}, exitFailed, "", "bad.toml:3"},
		{[]string{"--check", "-c", several}, exitFailed, "", "has %n"},
		{[]string{"-c", several}, exitFailed, "", "has %n"},
		{[]string{"--check", "-c", several, "-N", "n7"}, exitOK, `"/var/lib/gimbal/n7"`, ""},
		{[]string{"--check", "-c", several, "--node=../etc"}, exitFailed, "", "is not a node's name"},
		{[]string{"--check", "-c", good, "--node", "a/b"}, exitFailed, "", `"a/b" is not a node's name`},
		{[]string{"-c", good, "--node", "a/b"}, exitFailed, "", `"a/b" is not a node's name`},
		{[]string{"--check", "-c", named}, exitFailed, "", `"a b" is not a node's name`},
	} {
		var stdout, stderr bytes.Buffer
		code := run(c.args, &stdout, &stderr)
		if code != c.code || !strings.Contains(stdout.String(), c.stdout) || !strings.Contains(stderr.String(), c.stderr) {
			t.Errorf("%v: exit %d, want %d\nstdout %s\nstderr %s", c.args, code, c.code, stdout.String(), stderr.String())
		}
		if c.code != exitOK && stdout.Len() > 0 {
			t.Errorf("%v: failed and wrote %s", c.args, stdout.String())
		}
	}
}

// TestAsRoot: a user who starts root's daemon is told to be root, not what is wrong
// with root's folders.
func TestAsRoot(t *testing.T) {
	dir, cause := t.TempDir(), errors.New("folder")
	const somebody = 65534
	for _, c := range []struct {
		uid  int
		dir  string
		want string
	}{
		{0, dir, "folder"},
		{os.Geteuid(), dir, "folder"},
		{somebody, dir, "run as root, not as uid 65534: folder"},
		{somebody, filepath.Join(dir, "none"), "run as root, not as uid 65534: folder"},
		{0, filepath.Join(dir, "none"), "folder"},
	} {
		if err := asRoot(cause, c.uid, c.dir); err.Error() != c.want || !errors.Is(err, cause) {
			t.Errorf("uid %d, %s: %v, want %s", c.uid, c.dir, err, c.want)
		}
	}
}

// TestCheckPrintsWhatItReads: the effective configuration is a configuration,
// and stands for itself.
func TestCheckPrintsWhatItReads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gimbald.toml")
	if err := os.WriteFile(path, []byte("[guard]\nstall = \"7s\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var first, second, warnings bytes.Buffer
	if err := check(path, "", &first, &warnings); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(first.String(), `"7s"`) {
		t.Errorf("what was set is not in it:\n%s", first.String())
	}
	if err := os.WriteFile(path, first.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := check(path, "", &second, &warnings); err != nil {
		t.Fatal(err)
	}
	if first.String() != second.String() {
		t.Errorf("first\n%s\nthen\n%s", first.String(), second.String())
	}
}

func TestOrderOf(t *testing.T) {
	for _, c := range []struct {
		q  model.ControlQuery
		ok bool
	}{
		{model.ControlQuery{Do: model.PrimPause, For: time.Minute}, true},
		{model.ControlQuery{Do: model.PrimResume}, true},
		{model.ControlQuery{Do: model.PrimEvict}, true},
		{model.ControlQuery{Do: "release"}, true},
		{model.ControlQuery{Do: model.PrimNotify, Signal: 10}, true},
		{model.ControlQuery{Do: model.PrimNotify, Signal: 9}, false},
		{model.ControlQuery{Do: model.PrimNotify, Signal: 19}, false},
		{model.ControlQuery{Do: model.PrimNotify}, false},
		{model.ControlQuery{Do: model.PrimNotify, Signal: 65}, false},
		{model.ControlQuery{Do: model.PrimHold}, false},
		{model.ControlQuery{Do: model.PrimSwap}, false},
		{model.ControlQuery{Do: "shutdown"}, false},
		{model.ControlQuery{Do: model.PrimPause, For: -time.Second}, false},
		{model.ControlQuery{Do: model.PrimPause, Why: strings.Repeat("x", maxWhy)}, true},
		{model.ControlQuery{Do: model.PrimPause, Why: strings.Repeat("x", maxWhy+1)}, false},
		{model.ControlQuery{Do: model.PrimPause, For: maxOrder + 1}, false},
	} {
		before := clock()
		o, err := orderOf(c.q, wire.Peer{UID: 7})
		if (err == nil) != c.ok {
			t.Errorf("%+v: %v", c.q, err)
			continue
		}
		if err != nil {
			continue
		}
		if o.UID != 7 || (o.Until != 0) != (c.q.For > 0) || c.q.For > 0 && o.Until < before+c.q.For {
			t.Errorf("%+v: %+v", c.q, o)
		}
	}
}

// TestMayControl: an owner calibrates the own jobs, but not over whoever may
// calibrate all.
func TestMayControl(t *testing.T) {
	const owner, other = 1000, 1001
	tenant := &model.Tenant{ID: "12@1", Reg: model.Registration{UID: owner}}
	for _, c := range []struct {
		name    string
		uid     uint32
		overAll bool
		order   model.Order
		do      model.Primitive
		ok      bool
	}{
		{name: "the owner", uid: owner, do: model.PrimPause, ok: true},
		{name: "another", uid: other, do: model.PrimPause},
		{name: "an operator", uid: other, overAll: true, do: model.PrimPause, ok: true},
		{name: "over the own order", uid: owner, order: model.Order{Do: model.PrimPause, UID: owner}, do: "release", ok: true},
		{name: "over an operator's", uid: owner, order: model.Order{Do: model.PrimPause, UID: other}, do: "release"},
		{name: "over one that has lapsed", uid: owner, order: model.Order{Do: model.PrimPause, UID: other, Until: 1}, do: "release", ok: true},
		{name: "to end it all the same", uid: owner, order: model.Order{Do: model.PrimPause, UID: other}, do: model.PrimEvict, ok: true},
		{name: "an operator over an operator's", uid: owner, overAll: true, order: model.Order{Do: model.PrimPause, UID: other}, do: "release", ok: true},
	} {
		n := model.NewNode()
		if c.order.Do != "" {
			n.Orders[tenant.ID] = c.order
		}
		if err := mayControl(wire.Peer{UID: c.uid}, c.overAll, &engine.Engine{Node: n}, tenant, c.do); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestWhatAnotherUserSees: of another's tenant only what it takes of a GPU.
func TestWhatAnotherUserSees(t *testing.T) {
	v := model.View{Tenant: model.Tenant{ID: "12@1", State: model.Running, GPUs: []string{"GPU-0"},
		Reg:  model.Registration{JobID: 12, UID: 1000, User: "one", Account: "secret", JobName: "secret", Partition: "secret"},
		Use:  map[string]model.Usage{"GPU-0": {Procs: 1, Memory: model.Known(model.GiB)}},
		Peak: map[string]model.Bytes{"GPU-0": 1}, Reason: model.Reason{Text: "turn of secret"},
		Workers: []model.Worker{{Proc: model.ProcID{PID: 4242, Start: 1}}}}}
	own, other, root := sight{uid: 1000}, sight{uid: 2000}, sight{all: true}
	all := &model.StatusQuery{}
	for _, s := range []sight{own, root} {
		if got, ok := s.view(&v, all); !ok || got.Reg.JobName != "secret" {
			t.Errorf("%+v sees %+v", s, got)
		}
	}
	got, ok := other.view(&v, all)
	if !ok || !got.Hidden || got.GPUs[0] != "GPU-0" || got.Use["GPU-0"].Memory.Or(0) != model.GiB {
		t.Errorf("a neighbour sees %+v", got)
	}
	if text := fmt.Sprintf("%+v", got); strings.Contains(text, "secret") || strings.Contains(text, "4242") || strings.Contains(text, "1000") || strings.Contains(text, "12@1") {
		t.Errorf("a neighbour sees %s", text)
	}
	for _, q := range []model.StatusQuery{{Users: []string{"one"}}, {Names: []string{"secret"}}, {Accounts: []string{"secret"}},
		{Partitions: []string{"secret"}}, {Jobs: []model.JobRef{{Job: 12, Task: model.NoVal, Offset: model.NoVal, Step: model.NoVal}}}} {
		if _, ok := other.view(&v, &q); ok {
			t.Errorf("%+v tells a neighbour whose it is", q)
		}
	}
	strays := []model.Stray{{PID: 1, UID: 1000, GPU: "GPU-0"}, {PID: 2, UID: 2000, GPU: "GPU-0"}}
	seen := other.strays(strays)
	if seen[0].PID != 0 || seen[0].UID != 0 || seen[1].PID != 2 || strays[0].PID != 1 {
		t.Errorf("a neighbour sees %+v of %+v", seen, strays)
	}
}

// TestStopsAfterAGuard: a stop that was under way when a guard took over is
// undone, and the next one takes the stop set back, empty.
func TestStopsAfterAGuard(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stopped")
	var told []uint64
	s, err := openStops(path, func(gen uint64) { told = append(told, gen) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.close() })
	ids := []model.ProcID{{PID: 4242, Start: 1}}
	if err := s.Put(node.Stop{Tenant: "1@1", IDs: ids}); err != nil {
		t.Fatal(err)
	}
	over, err := journal.TakeOver(path, told[0], time.Second)
	if err != nil || len(over.Tenants) != 1 {
		t.Fatalf("%v, %v", over, err)
	}
	if err := over.Release(); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(); !errors.Is(err, journal.ErrFenced) {
		t.Errorf("check: %v", err)
	}
	if err := s.Put(node.Stop{Tenant: "1@1", IDs: ids, Begun: true}); !errors.Is(err, journal.ErrFenced) {
		t.Errorf("what the guard continued is written down as stopped: %v", err)
	}
	if err := s.Drop("1@1"); err != nil {
		t.Error(err)
	}
	if err := s.Put(node.Stop{Tenant: "2@1", IDs: ids, Held: true}); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(); err != nil || len(told) != 2 || told[1] <= told[0] {
		t.Errorf("check: %v, told %v", err, told)
	}
	st, err := journal.LoadStopSet(path)
	if err != nil || len(st.Tenants) != 1 || !st.Tenants["2@1"].Held {
		t.Errorf("%+v, %v", st, err)
	}
}
