package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/journal"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/wire"
)

// noon is now in all scripts.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// at is a moment, in seconds from half past eleven.
func at(sec int) (time.Time, time.Duration) {
	return noon.Add(-30 * time.Minute).Add(time.Duration(sec) * time.Second), time.Duration(1000+sec) * time.Second
}

func tenant(job uint32, name string, uid uint32, registered int) *model.Tenant {
	t := &model.Tenant{ID: model.TenantID(fmt.Sprintf("%d@1", job)), Whole: true, GPUs: []string{"GPU-aa"}}
	t.Reg = model.Registration{JobID: job, StepID: model.StepBatch, ArrayTask: model.NoVal, HetOffset: model.NoVal,
		JobName: name, UID: uid, User: fmt.Sprintf("user%d", uid), Node: "n0"}
	t.Terms = model.Terms{Class: model.Opportunistic, Weight: 1, Memory: model.Known(10 * model.GiB), Declared: model.Known(10 * model.GiB)}
	_, t.Registered = at(registered)
	t.Steps = []model.Step{{ID: model.StepBatch, Tasks: 1, Start: t.Registered}}
	return t
}

// story is what happens on the node: 101 and 102 take turns, 101 ends, 103
// waits for memory.
func story() []model.Record {
	var out []model.Record
	one, two, three := tenant(101, "alpha", 1001, 0), tenant(102, "beta|x", 1002, 60), tenant(103, "gamma", 1001, 1500)
	one.Terms.Placed = "GPU 0, alone; next best GPU 1 beside 5, at about 60 % of its speed alone; Slurm gave GPU 1"
	id := uint64(0)
	add := func(sec int, t *model.Tenant, s model.State, ev *model.Event, do model.Primitive, why string) {
		wall, mono := at(sec)
		r := model.Record{Wall: wall, At: mono, Event: ev}
		if t != nil {
			t.State, t.Since = s, mono
			if why != "" {
				t.Reason = model.Reason{Code: "test", Text: why}
			}
			c := *t
			c.Steps = append([]model.Step(nil), t.Steps...)
			r.Tenant = &c
		}
		if do != "" {
			id++
			r.Action = &model.Action{ID: id, Do: do, Tenant: t.ID, Why: model.Reason{Text: why}}
		}
		out = append(out, r)
	}
	event := func(t *model.Tenant, k model.EventKind) *model.Event {
		return &model.Event{Kind: k, Tenant: t.ID, Action: id}
	}
	add(0, nil, 0, &model.Event{Kind: model.EvStarted}, "", "")
	add(0, one, model.New, &model.Event{Kind: model.EvRegistered, Tenant: one.ID, Reg: &one.Reg}, "", "")
	one.HasRun, one.FirstRan = true, one.Registered
	add(0, one, model.Running, nil, model.PrimRun, "alone on its GPU")
	add(60, two, model.New, &model.Event{Kind: model.EvRegistered, Tenant: two.ID, Reg: &two.Reg}, "", "")
	add(60, two, model.Holding, nil, model.PrimHold, "turn of 101 (timeslice, quantum 30s)")
	add(60, two, model.Held, event(two, model.EvDone), "", "")
	add(90, one, model.Pausing, nil, model.PrimPause, "turn of 102 (timeslice, quantum 30s)")
	add(90, one, model.Paused, &model.Event{Kind: model.EvDone, Tenant: one.ID, Action: id, Took: 25 * time.Millisecond}, "", "")
	two.HasRun, two.FirstRan = true, two.Registered+30*time.Second
	two.Admitted = true
	add(90, two, model.Running, nil, model.PrimResume, "its turn")
	add(120, one, model.Running, nil, model.PrimResume, "its turn")
	one.Steps[0].Ended, one.Steps[0].End = true, one.Registered+10*time.Minute
	one.Steps[0].Status, one.EndedAt = 2<<8, one.Registered+10*time.Minute
	one.Tally = model.Tally{Running: 570 * time.Second, Attained: 560 * time.Second, Paused: 30 * time.Second, Pauses: 1}
	add(600, one, model.Gone, &model.Event{Kind: model.EvTaskExit, Tenant: one.ID, Step: model.StepBatch, Status: 2 << 8}, "", "")
	out[len(out)-1].Tenant.Reason = model.Reason{Code: model.CodeEnded}
	add(1500, three, model.New, &model.Event{Kind: model.EvRegistered, Tenant: three.ID, Reg: &three.Reg}, "", "")
	add(1500, three, model.Holding, nil, model.PrimHold, "needs 10GiB on GPU 0, 4GiB is free")
	add(1500, three, model.Held, event(three, model.EvDone), "", "")
	return out
}

func writeJournal(dir string) error {
	j, err := journal.Open(dir, journal.Options{Now: func() time.Time { return noon.Add(-time.Hour) }})
	if err != nil {
		return err
	}
	for _, r := range story() {
		if err := j.Append(r); err != nil {
			return err
		}
	}
	for minute := 2; minute < 25; minute++ {
		if _, err := j.Load(taken(minute)); err != nil {
			return err
		}
	}
	return j.Close()
}

// taken is what 101, as long as it lives, and 102 took in a minute.
func taken(minute int) model.Load {
	wall, _ := at(60 * minute)
	level := func(mean, most float64) model.Reading[model.Level] {
		return model.Known(model.Level{Mean: mean, Max: most})
	}
	const gib = float64(model.GiB)
	gpu := model.GPULoad{UUID: "GPU-aa", Name: "Model H", Total: model.Known(16 * model.GiB), Used: level(7*gib, 8*gib), Util: level(.7, 1),
		Tenants: []model.TenantLoad{{Tenant: "102@1", Memory: level(6*gib, 7*gib), SM: level(.6, .7)}}}
	if minute < 10 {
		gpu.Used = level(12*gib, 12*gib)
		gpu.Tenants[0].SM = level(.4, .5)
		gpu.Tenants = append(gpu.Tenants, model.TenantLoad{Tenant: "101@1", Memory: level(5*gib, 6*gib), SM: level(.5, .6)})
	}
	return model.Load{From: wall, Length: time.Minute, GPUs: []model.GPULoad{gpu}}
}

// serve answers for the scripts' node on the socket until the test ends. Where
// it is private it hides what user 1001 may not see.
func serve(t *testing.T, socket, dir string, private bool) {
	t.Helper()
	if err := writeJournal(dir); err != nil {
		t.Fatal(err)
	}
	d := fakeDaemon{dir: dir, private: private}
	s, err := wire.Listen(socket, wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, d.handle) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

// fakeDaemon answers as gimbald does.
type fakeDaemon struct {
	dir     string
	private bool
}

func (d fakeDaemon) allow(v *model.View) bool { return !d.private || v.Reg.UID == 1001 }

func (d fakeDaemon) live() ([]model.View, error) {
	r, err := journal.Replay(d.dir, "")
	var out []model.View
	for _, l := range r.Live {
		l.Tenant.Use = map[string]model.Usage{"GPU-aa": {Procs: 1, Memory: model.Known(6 * model.GiB), SM: model.Known(0.5)}}
		l.Tenant.Peak = map[string]model.Bytes{"GPU-aa": 7 * model.GiB}
		_, mono := at(1800)
		v := model.ViewAt(l.Tenant, noon, mono)
		v.PolicyNow = "timeslice"
		out = append(out, v)
	}
	return out, err
}

func gpus() []model.GPU {
	return []model.GPU{{UUID: "GPU-aa", Index: 0, Total: model.Known(16 * model.GiB), Used: model.Known(6 * model.GiB)}}
}

func (d fakeDaemon) handle(_ context.Context, _ wire.Peer, req wire.Request) (any, error) {
	live, err := d.live()
	if err != nil {
		return nil, err
	}
	switch req.Op {
	case wire.OpPing:
		return wire.Pong{}, nil
	case wire.OpStatus:
		return d.status(req, live)
	case model.OpRecords:
		var q model.RecordsQuery
		if err := req.Decode(&q); err != nil {
			return nil, err
		}
		q.Max = 3 // many pages
		r, err := journal.Entries(d.dir, q, live, d.allow)
		r.Node, r.At, r.GPUs = "n0", noon, gpus()
		return r, err
	case model.OpCourse:
		var q model.CourseQuery
		if err := req.Decode(&q); err != nil {
			return nil, err
		}
		return journal.Tell(d.dir, q, live, d.allow)
	case wire.OpDaemon:
		return model.DaemonReply{Version: "1.2.3", PID: 4711, Node: "n0", Started: noon.Add(-26 * time.Hour), Config: "/etc/gimbal/gimbald.toml",
			Loaded: noon, NotApplied: []string{"node.state_dir"}, ReloadError: "gimbald.toml:3: no key is called \"x\"",
			Tenants: len(live), Policies: map[string]string{"GPU-aa": "timeslice"}, Counters: map[string]uint64{"faults": 2}}, nil
	}
	return nil, wire.Errorf(wire.CodeBadRequest, "unknown operation %q", req.Op)
}

func (d fakeDaemon) status(req wire.Request, live []model.View) (any, error) {
	var q model.StatusQuery
	if err := req.Decode(&q); err != nil {
		return nil, err
	}
	r := model.StatusReply{Snapshot: model.Snapshot{Node: "n0", At: noon, GPUs: gpus(), Policies: map[string]string{"GPU-aa": "timeslice"}}}
	q.Limit = 1 // many pages
	var err error
	if r.Ended, _, r.More, err = journal.Page(d.dir, q, 1<<20, d.allow); err != nil || r.More {
		return r, err
	}
	for i := range live {
		v := &live[i]
		switch {
		case d.allow(v) && q.Match(v):
			r.Tenants = append(r.Tenants, *v)
		case !d.allow(v) && len(q.Users)+len(q.Jobs) == 0:
			h := model.View{Hidden: true}
			h.State, h.GPUs, h.Use = v.State, v.GPUs, v.Use
			r.Tenants = append(r.Tenants, h)
		}
	}
	return r, nil
}

// mute listens on the socket, accepts, and never answers.
func mute(t *testing.T, socket string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(socket), 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var open []net.Conn
		for {
			c, err := l.Accept()
			if err != nil {
				for _, c := range open {
					_ = c.Close()
				}
				return
			}
			open = append(open, c)
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-ended
	})
}
