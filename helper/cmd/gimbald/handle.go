package main

import (
	"context"
	"os"
	"slices"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/engine"
	"github.com/gimbal-hpc/gimbal/helper/failpoint"
	"github.com/gimbal-hpc/gimbal/helper/journal"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/wire"
)

// handle answers one request. Who asks is what the kernel says of the peer.
func (d *daemon) handle(ctx context.Context, peer wire.Peer, req wire.Request) (any, error) {
	switch req.Op {
	case wire.OpPing:
		return wire.Pong{Version: version, PID: os.Getpid(), Started: d.started}, nil
	case wire.OpPrepare, wire.OpRegister, wire.OpTaskExit, wire.OpStepEnd:
		if !peer.Root() {
			return nil, wire.Errorf(wire.CodeDenied, "%s is for root alone", req.Op)
		}
		out, err := d.take(req)
		switch {
		case err != nil && req.Op == wire.OpRegister:
			d.log.warn("register", err.Error())
		case err == nil && req.Op != wire.OpPrepare:
			err = d.writtenDown(ctx)
		}
		return out, err
	case wire.OpStatus:
		return d.status(ctx, peer, req)
	case model.OpRecords:
		return d.records(ctx, peer, req)
	case model.OpRun:
		return d.takeRun(ctx, peer, req)
	case model.OpRunSeen, model.OpRunExit:
		return d.hearRun(peer, req)
	case model.OpCourse:
		return d.course(ctx, peer, req)
	case wire.OpDaemon:
		return d.describe(ctx)
	case wire.OpControl:
		return d.control(ctx, peer, req)
	}
	return nil, wire.Errorf(wire.CodeBadRequest, "unknown operation %q", req.Op)
}

// take takes in what the plugin tells; the folder of pending ones comes the
// same way.
func (d *daemon) take(req wire.Request) (any, error) {
	switch req.Op {
	case wire.OpPrepare:
		var p wire.PrepareRequest
		if err := req.Decode(&p); err != nil {
			return nil, err
		}
		d.makeCounter(&p.Step) // the plugin finds it where it has to be
		return d.prepare(p.Step), nil
	case wire.OpRegister:
		var r model.Registration
		if err := req.Decode(&r); err != nil {
			return nil, err
		}
		r.User = login(r.UID) // whatever the job's environment says
		if err := d.node.Register(r); err != nil {
			return nil, err
		}
		return wire.Registered{Active: true}, nil
	case wire.OpTaskExit:
		var x model.TaskExit
		if err := req.Decode(&x); err != nil {
			return nil, err
		}
		d.node.TaskExit(x)
	case wire.OpStepEnd:
		var s model.StepKey
		if err := req.Decode(&s); err != nil {
			return nil, err
		}
		d.node.StepEnd(s)
		d.progress.Remove(s)
	}
	return nil, nil
}

// writtenDown returns once what was taken in is in the journal: the plugin tells
// it but once, and the next daemon has to know of it.
func (d *daemon) writtenDown(ctx context.Context) error {
	return d.loop.Ask(ctx, func(e *engine.Engine) { e.Step(clock()) })
}

// takePending takes in what was launched while no daemon answered.
func (d *daemon) takePending(ctx context.Context) {
	for {
		list, errs := wire.ReadPending(d.settings().Node.PendingDir)
		for _, err := range errs {
			d.log.warn("pending", err.Error())
		}
		for _, p := range list {
			if _, err := d.take(p.Request()); err != nil {
				d.log.info("pending", "not taken over: "+err.Error())
			}
		}
		if len(list) == 0 || d.writtenDown(ctx) != nil {
			return
		}
		for _, p := range list {
			failpoint.At("pending.taken")
			if err := p.Remove(); err != nil {
				d.log.error("pending", "remove", err)
				return
			}
		}
	}
}

// pendingEvery is how often the folder of pending ones is looked into: a
// plugin leaves one there too when an answer took too long.
const pendingEvery = time.Second

func (d *daemon) watchPending(ctx context.Context) {
	every(ctx, pendingEvery, func() {
		d.takePending(ctx)
		for _, note := range d.sampler.Notes() {
			d.log.warn("gpu", note)
		}
	})
}

// every does something at each tick until the context ends.
func every(ctx context.Context, interval time.Duration, do func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			do()
		}
	}
}

// maxEnded is the most text of ended tenants in one reply.
const maxEnded = 3 << 20

// status shows the tenants that the query selects and the peer may see.
func (d *daemon) status(ctx context.Context, peer wire.Peer, req wire.Request) (any, error) {
	var q model.StatusQuery
	if err := req.Decode(&q); err != nil {
		return nil, err
	}
	snap, err := d.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	sees := d.sight(ctx, peer)
	reply := model.StatusReply{Snapshot: snap}
	reply.Ended, _, reply.More, err = journal.Page(d.settings().Node.StateDir, q, maxEnded, sees.filter())
	if err != nil {
		return nil, err
	}
	live := reply.Tenants
	reply.Tenants = []model.View{}
	if reply.More {
		return reply, nil
	}
	for i := range live {
		if v, ok := sees.view(&live[i], &q); ok {
			reply.Tenants = append(reply.Tenants, v)
		}
	}
	reply.Strays = sees.strays(reply.Strays)
	return reply, nil
}

// snapshot is the node as it stands, with all its live tenants.
func (d *daemon) snapshot(ctx context.Context) (model.Snapshot, error) {
	s := model.Snapshot{Node: d.name, Strays: d.node.Strays()}
	err := d.loop.Ask(ctx, func(e *engine.Engine) {
		now := clock()
		s.At = time.Now()
		s.Degraded = e.Node.Degraded
		s.GPUs = append([]model.GPU(nil), e.Node.GPUs...)
		s.Foreign = e.Node.Foreign
		s.Policies = d.policyNames(s.GPUs)
		tenants := e.Snapshot(now)
		for i := range tenants {
			tenants[i].Speed = d.learner.Lived(&tenants[i], now)
			v := model.ViewAt(&tenants[i], s.At, now)
			d.tellOrder(e.Node, &v, now)
			d.tellWhy(&v)
			if len(v.GPUs) > 0 && s.Policies[v.GPUs[0]] != "" {
				v.PolicyNow = s.Policies[v.GPUs[0]]
			}
			if why := outvoted(&v); why != "" {
				v.Terms.Notes = append(slices.Clone(v.Terms.Notes), why)
			}
			if v.NoSwap != "" {
				v.Terms.Notes = append(slices.Clone(v.Terms.Notes), "its GPU memory is not moved to host RAM: "+v.NoSwap)
			}
			s.Tenants = append(s.Tenants, v)
		}
	})
	return s, err
}

// tellOrder adds a person's order that is in force.
func (d *daemon) tellOrder(n *model.Node, v *model.View, now time.Duration) {
	o, ok := n.Orders[v.ID]
	if !ok || o.Until != 0 && o.Until <= now {
		return
	}
	v.Order = &o
	if o.Until != 0 {
		v.OrderEnds = time.Now().Add(o.Until - now)
	}
}

// tellWhy renews the reason of a tenant: what the journal has is of when its state
// changed. Of one that runs only the words are renewed, which name the policy in
// force, as long as the reason stands, unless it is to be paused. It is for the loop
// alone.
func (d *daemon) tellWhy(v *model.View) {
	why, ok := d.decider.Why(v.ID)
	if !ok || why.Text == "" {
		return
	}
	pausing := v.Order != nil && v.Order.Do == model.PrimPause
	if v.State.Stopped() || v.State.Runs() && (pausing || why.Code == v.Reason.Code) {
		v.Reason = why
	}
}

// policyNames names the policy in force on each GPU. It is for the loop alone.
func (d *daemon) policyNames(gpus []model.GPU) map[string]string {
	out := make(map[string]string, len(gpus))
	for _, g := range gpus {
		out[g.UUID] = d.decider.Ruling(g.UUID).Name
	}
	return out
}

// policyOf names the policy of one GPU.
func (d *daemon) policyOf(gpu string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.policies.For(gpu).Name
}

// course answers what timeline and report ask.
func (d *daemon) course(ctx context.Context, peer wire.Peer, req wire.Request) (any, error) {
	var q model.CourseQuery
	if err := req.Decode(&q); err != nil {
		return nil, err
	}
	snap, err := d.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return journal.Tell(d.settings().Node.StateDir, q, snap.Tenants, d.sight(ctx, peer).allowed)
}

// records answers what explain asks.
func (d *daemon) records(ctx context.Context, peer wire.Peer, req wire.Request) (any, error) {
	var q model.RecordsQuery
	if err := req.Decode(&q); err != nil {
		return nil, err
	}
	const maxEntries = 5000
	if q.Max <= 0 || q.Max > maxEntries {
		q.Max = maxEntries
	}
	snap, err := d.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	reply, err := journal.Entries(d.settings().Node.StateDir, q, snap.Tenants, d.sight(ctx, peer).allowed)
	if err != nil {
		return nil, err
	}
	reply.Node, reply.At, reply.GPUs = snap.Node, snap.At, snap.GPUs
	return reply, nil
}

// describe says how the daemon itself is.
func (d *daemon) describe(ctx context.Context) (any, error) {
	snap, err := d.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return model.DaemonReply{
		Version: version, PID: os.Getpid(), Node: d.name, Started: d.started,
		Config: d.path, Loaded: d.reload.loaded, ReloadError: d.reload.failed, NotApplied: d.reload.restart,
		Degraded: snap.Degraded, Policies: snap.Policies, Tenants: len(snap.Tenants),
		Counters: d.counters(),
	}, nil
}

// counters count since the daemon's start.
func (d *daemon) counters() map[string]uint64 {
	return map[string]uint64{"refused": d.server.Refused(), "faults": d.faults.Load()}
}
