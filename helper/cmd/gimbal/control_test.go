package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/wire"
)

// overseer takes orders as gimbald does: job 12 is the caller's with two
// tenants, 13 another's, 14 partly so; there is no other.
type overseer struct {
	mu   sync.Mutex
	seen []model.ControlQuery
}

func (o *overseer) handle(_ context.Context, _ wire.Peer, req wire.Request) (any, error) {
	if req.Op == wire.OpPing {
		return wire.Pong{}, nil
	}
	var q model.ControlQuery
	if err := req.Decode(&q); err != nil {
		return nil, err
	}
	o.mu.Lock()
	o.seen = append(o.seen, q)
	o.mu.Unlock()
	switch q.Job.Job {
	case 12:
		return model.ControlReply{Tenants: []string{"12", "12.0"}}, nil
	case 13:
		return nil, wire.Errorf(wire.CodeDenied, "the job belongs to another user; its owner may")
	case 15:
		return model.ControlReply{Tenants: []string{"15"}, Notes: []string{"15 goes on for now"}}, nil
	case 16:
		return model.ControlReply{Notes: []string{"16 has no order that could be ended"}}, nil
	case 14:
		return model.ControlReply{Tenants: []string{"14_1"}, Denied: 2}, nil
	}
	return nil, wire.Errorf(wire.CodeNotFound, "no packed job of that number runs on this node")
}

// listen serves a handler until the test ends.
func listen(t *testing.T, h wire.Handler) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "run", "g.sock")
	s, err := wire.Listen(socket, wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, h) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return socket
}

// try runs gimbal as root at noon.
func try(args ...string) (code int, out, errs string) {
	var o, e bytes.Buffer
	code = run(args, world{stdout: &o, stderr: &e, env: func(string) string { return "" },
		now: func() time.Time { return noon }})
	return code, o.String(), e.String()
}

func TestOrders(t *testing.T) {
	var o overseer
	socket := listen(t, o.handle)
	none := model.NoVal
	for _, c := range []struct {
		args      string
		code      int
		out, errs string
		want      []model.ControlQuery
	}{
		{"pause 12 --for 10m", 0, "pause ordered for 12, 12.0, lapses in 10m\n", "",
			[]model.ControlQuery{{Job: model.JobRef{Job: 12, Task: none, Offset: none, Step: none}, Do: model.PrimPause, For: 10 * time.Minute}}},
		{"pause 15", 0, "pause ordered for 15, until 'gimbal release'\n15 goes on for now\n", "", nil},
		{"resume 12.0 --why urgent", 0, "resume ordered for 12, 12.0, until 'gimbal release'\n", "",
			[]model.ControlQuery{{Job: model.JobRef{Job: 12, Task: none, Offset: none}, Do: model.PrimResume, Why: "urgent"}}},
		{"evict 12_3", 0, "evict ordered for 12, 12.0\n", "",
			[]model.ControlQuery{{Job: model.JobRef{Job: 12, Task: 3, Offset: none, Step: none}, Do: model.PrimEvict}}},
		{"notify 12", 0, "notify ordered for 12, 12.0\n", "",
			[]model.ControlQuery{{Job: model.JobRef{Job: 12, Task: none, Offset: none, Step: none}, Do: model.PrimNotify, Signal: 10}}},
		{"notify --signal HUP 12", 0, "notify ordered for 12, 12.0\n", "",
			[]model.ControlQuery{{Job: model.JobRef{Job: 12, Task: none, Offset: none, Step: none}, Do: model.PrimNotify, Signal: 1}}},
		{"release 12", 0, "released 12, 12.0\n", "",
			[]model.ControlQuery{{Job: model.JobRef{Job: 12, Task: none, Offset: none, Step: none}, Do: "release"}}},
		{"release 16", 0, "16 has no order that could be ended\n", "", nil},
		{"pause 13", 1, "", "gimbal pause: 13: denied: the job belongs to another user; its owner may\n", nil},
		{"pause 14", 0, "pause ordered for 14_1, until 'gimbal release'\n", "gimbal pause: 2 jobs of other users left alone\n", nil},
		{"release 99_1.batch 12", 1, "released 12, 12.0\n", "gimbal release: 99_1.batch: not found: no packed job of that number runs on this node; 'gimbal status' lists those that do\n", nil},
	} {
		o.seen = nil
		code, out, errs := try(append(strings.Fields(c.args), "--socket", socket)...)
		if code != c.code || out != c.out || errs != c.errs {
			t.Errorf("%s: exit %d\n%s%s", c.args, code, out, errs)
		}
		if diff := cmp.Diff(c.want, o.seen); diff != "" && c.want != nil {
			t.Errorf("%s (-want +sent):\n%s", c.args, diff)
		}
	}
}

func TestOrdersThatAreNone(t *testing.T) {
	for args, want := range map[string]string{
		"pause":                                      "which job",
		"pause x":                                    "no job number",
		"pause 12 --for 10":                          "--for",
		"pause 12 --for 25h":                         "24h",
		"pause 12 --for 0s":                          "24h",
		"pause 12 --signal USR1":                     "unknown flag",
		"evict 12 --for 1m":                          "unknown flag",
		"release 12 --why no":                        "unknown flag",
		"notify 12 --signal KILL":                    "process can catch",
		"notify 12 --signal U@5":                     "process can catch",
		"notify 12 --signal HUP@5":                   "process can catch",
		"pause 12 --why " + strings.Repeat("x", 501): "500 bytes",
	} {
		code, out, errs := try(append(strings.Fields(args), "--socket", "/nonexistent")...)
		if code != exitUsage || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d\n%s%s", args, code, out, errs)
		}
	}
}

func TestOrdersWithoutDaemon(t *testing.T) {
	for _, name := range []string{"pause", "resume", "evict", "notify", "release"} {
		socket := filepath.Join(t.TempDir(), "none.sock")
		if code, out, errs := try(name, "12", "--socket", socket); code != exitUnreachable || out != "" || errs == "" {
			t.Errorf("%s: exit %d\n%s%s", name, code, out, errs)
		}
		if code, out, _ := try(name, "--help"); code != exitOK || !strings.Contains(out, "Usage: gimbal "+name) {
			t.Errorf("%s --help: exit %d\n%s", name, code, out)
		}
	}
}
