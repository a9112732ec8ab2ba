package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/failpoint"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/proc"
)

// execLimit is how long a task may take from its registration to its exec
// before a hold is given up.
const execLimit = 20 * time.Second

// maxGrace bounds how long an eviction waits for the job, whatever it asks for.
const maxGrace = 10 * time.Minute

// Do starts an action; how it ended comes back as an event.
func (n *Node) Do(a model.Action, t *model.Tenant) {
	e := n.book.find(a.Tenant)
	if e == nil {
		return
	}
	terms := t.Terms // the tenant itself may only be read until this returns
	switch a.Do {
	case model.PrimHold:
		n.begin(e, a, func() error { return n.hold(e) })
	case model.PrimPause:
		n.begin(e, a, func() error { return n.pause(e, kindOf(a)) })
	case model.PrimResume:
		n.begin(e, a, func() error { return n.letRun(e, terms) })
	case model.PrimSwap:
		n.begin(e, a, func() error { return n.swap(e, a, terms) })
	case model.PrimRestore:
		n.begin(e, a, func() error { return n.letRun(e, terms) })
	case model.PrimNotify:
		n.notify(e, a)
	case model.PrimEvict:
		n.evict(e, a, terms)
	case model.PrimRun, model.PrimWarn, model.PrimThrottle:
		n.logf("job %s: %s: %s", t.Name(), a.Do, a.Why.Text)
	default:
		n.push(model.Event{Kind: model.EvFailed, Tenant: e.id, Action: a.ID, Do: a.Do,
			Text: fmt.Sprintf("this node cannot %s", a.Do)})
	}
}

// kindOf is how a pause is said and kept: one within a throttle's period is as
// any other, but is not worth a line of the log.
func kindOf(a model.Action) stopKind {
	if a.Beat {
		return kindBeat
	}
	return kindPause
}

// begin runs an operation beside the loop. Operations on one tenant wait for
// each other.
func (n *Node) begin(e *entry, a model.Action, op func() error) {
	begin := n.Clock()
	n.beside(func() {
		e.op.Lock()
		defer e.op.Unlock() // after the push: outcomes come in the order of their effects
		failpoint.At("op.begun")
		err := op()
		failpoint.At("op.ended")
		ev := model.Event{Kind: model.EvDone, Tenant: e.id, Action: a.ID, Do: a.Do, Took: n.Clock() - begin}
		if err != nil {
			ev.Kind, ev.Text = model.EvFailed, err.Error()
			var f swapError
			ev.Lasting = errors.As(err, &f) && f.lasting
		}
		n.push(ev)
	})
}

// hold stops a tenant whose tasks may not have begun.
func (n *Node) hold(e *entry) error {
	ctx, cancel := context.WithTimeout(n.life, execLimit)
	defer cancel()
	return n.pauseBegun(ctx, e, kindHold)
}

// pauseBegun waits for each task's exec, then stops them all: stopped before, a
// task could not be cancelled by Slurm under proctrack/linuxproc. The caller holds
// e.op.
func (n *Node) pauseBegun(ctx context.Context, e *entry, kind stopKind) error {
	for {
		roots, _ := n.book.snapshot(e)
		for _, r := range roots {
			if err := n.Tracker.WaitExec(ctx, r.ID); err != nil && !errors.Is(err, proc.ErrGone) {
				return fmt.Errorf("%s: %w", kind, err)
			}
		}
		err := n.pause(e, kind)
		if !errors.Is(err, proc.ErrNotStarted) { // else a task came meanwhile
			return err
		}
		if ctx.Err() != nil {
			return err
		}
	}
}

// pause stops every process of a tenant, and logs it but within a throttle's
// period.
func (n *Node) pause(e *entry, kind stopKind) error {
	tell := n.logf
	if kind == kindBeat {
		tell = func(string, ...any) {}
	}
	err := n.stop(e, kind, tell)
	e.stilled = n.Clock()
	return err
}

// stop stops every process of a tenant. What is about to be stopped is on disk
// first.
func (n *Node) stop(e *entry, kind stopKind, tell func(string, ...any)) error {
	e.setWant(kind) // a task that joins from now on is stopped as well
	target := n.target(e)
	intent := intent{stops: n.Stops, tenant: e.id, held: kind == kindHold}
	target.Before = intent.before
	if err := intent.write(n.freezers(e, target)); err != nil {
		return errors.Join(fmt.Errorf("%s not done, since %w", kind, err), n.giveUp(e, e.grip))
	}
	failpoint.At("pause.intended")
	g, err := n.take(e, target, tell)
	failpoint.At("pause.taken")
	g = g.and(e.grip)
	if err == nil {
		err = n.confirm(e, target, &g)
	}
	if err != nil {
		return errors.Join(err, n.giveUp(e, g))
	}
	e.grip = g
	return nil
}

// intent writes down what is about to be stopped.
type intent struct {
	stops  Stops
	tenant model.TenantID
	held   bool
	begun  bool // some of it was written down, and may be stopped by now
}

// write notes the cgroups that are to be frozen.
func (i *intent) write(dirs []proc.Freezer) error {
	if len(dirs) == 0 {
		return nil
	}
	var texts []string
	for _, f := range dirs {
		texts = append(texts, FreezerText(f))
	}
	return i.put(Stop{Cgroups: texts})
}

// before notes processes that are to be sent SIGSTOP.
func (i *intent) before(ids []proc.ID) error {
	list := make([]model.ProcID, len(ids))
	for k, id := range ids {
		list[k] = model.ProcID(id)
	}
	return i.put(Stop{IDs: list})
}

func (i *intent) put(stop Stop) error {
	stop.Tenant, stop.Held, stop.Begun = i.tenant, i.held, i.begun
	i.begun = true
	if err := i.stops.Put(stop); err != nil {
		return fmt.Errorf("it could not be written down: %w", err)
	}
	return nil
}

// confirm makes sure that no guard has taken over in the meantime; else all of
// it is to be continued.
func (n *Node) confirm(e *entry, target proc.Target, g *grip) error {
	g.listen = n.listeners(target, *g)
	e.say(func(s *saying) bool { *s = saying{}; return true })
	if err := n.Stops.Check(); err != nil {
		return fmt.Errorf("undone: %w", err)
	}
	return nil
}

// target is what belongs to a tenant. The steps inside it that are tenants of
// their own are watched as trees of their own and do not belong to it.
func (n *Node) target(e *entry) proc.Target {
	roots, _ := n.book.snapshot(e)
	t := proc.Target{Mine: e.grip.procs, OnGPU: e.placed()}
	if e.reg.Run() {
		t.Owner = &e.reg.UID
	}
	for _, r := range roots {
		t.Roots = append(t.Roots, r.ID)
		if r.pty {
			t.Spare = append(t.Spare, r.ID)
		}
	}
	return t
}

// resume continues what was stopped of a tenant, but for what somebody else
// wants stopped.
func (n *Node) resume(e *entry) error {
	left, err := n.loose(e)
	if err != nil {
		return err
	}
	failpoint.At("resume.freed")
	if left.foreign {
		n.tellSuspended(e, e.suspender())
		return errForeign
	}
	e.setWant("")
	if err := n.Stops.Drop(e.id); err != nil { // it runs: who continues it once more does no harm
		n.logf("tenant %s runs, but stays among what is stopped: %v", e.id, err)
	}
	return nil
}

// errForeign says that a stop which is not ours forbids a resume.
var errForeign = errors.New("stopped by somebody else")

// joinStop stops a task that came to a tenant that is stopped, as soon as it
// and those that came with it have exec'ed.
func (n *Node) joinStop(e *entry, id proc.ID) {
	if e.wants() == "" {
		return
	}
	n.beside(func() {
		ctx, cancel := context.WithTimeout(n.life, execLimit)
		defer cancel()
		if err := n.Tracker.WaitExec(ctx, id); err != nil {
			return
		}
		failpoint.At("join.execed")
		e.op.Lock()
		defer e.op.Unlock()
		kind := e.wants()
		if kind == "" {
			return
		}
		if err := n.pauseBegun(ctx, e, kind); err != nil {
			err = errors.Join(err, n.giveUp(e, e.grip))
			n.push(model.Event{Kind: model.EvContinued, Tenant: e.id, Text: "a new task could not be stopped: " + err.Error()})
		}
	})
}

// notify sends a signal to the processes of the tenant that catch it.
func (n *Node) notify(e *entry, a model.Action) {
	sig := unix.Signal(a.Signal)
	if sig == 0 || sig == unix.SIGKILL || sig == unix.SIGSTOP {
		return
	}
	roots, _ := n.book.snapshot(e)
	told, err := n.Host.Notify(n.theirs(e, n.Tracker.Members(rootIDs(roots)...)), sig)
	if err != nil {
		n.logf("tenant %s: notify: %v", e.id, err)
	}
	n.logf("tenant %s: %s sent to %d processes, %d do not catch it", e.id, unix.SignalName(sig), len(told.Sent), len(told.Deaf))
	if len(told.Sent) == 0 {
		n.push(model.Event{Kind: model.EvFailed, Tenant: e.id, Action: a.ID, Do: a.Do,
			Text: "none of its processes catches " + unix.SignalName(sig)})
	}
}

func rootIDs(roots []root) []proc.ID {
	ids := make([]proc.ID, len(roots))
	for i, r := range roots {
		ids[i] = r.ID
	}
	return ids
}

// evict ends a tenant kindly: it is continued, told by its own signal, and
// after a grace handed to Slurm, whose own kill does the rest.
func (n *Node) evict(e *entry, a model.Action, terms model.Terms) {
	n.beside(func() {
		if err := n.evictNow(e, a, terms); err != nil {
			n.push(model.Event{Kind: model.EvFailed, Tenant: e.id, Action: a.ID, Do: a.Do, Text: err.Error()})
		}
	})
}

func (n *Node) evictNow(e *entry, a model.Action, terms model.Terms) error {
	e.op.Lock()
	err := n.resume(e) // what is in host RAM stays there: the room is others'
	e.op.Unlock()
	if err != nil {
		return fmt.Errorf("evict: continue it first: %w", err)
	}
	failpoint.At("evict.continued")
	if terms.Signal != 0 {
		n.notify(e, model.Action{Signal: terms.Signal})
		select {
		case <-time.After(min(max(terms.Ahead, n.EvictGrace), maxGrace)):
		case <-n.life.Done():
			return errors.New("evict: given up, since the daemon leaves")
		}
	}
	failpoint.At("evict.told")
	if terms.MPS {
		if err := n.leaveMPS(e); err != nil {
			return fmt.Errorf("evict: over its limit, not killed (mps): %w", err)
		}
	}
	if e.reg.Run() {
		return n.endRun(e)
	}
	if n.Slurm == nil {
		return errors.New("evict: there is no Slurm to ask")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	err = n.Slurm.Evict(ctx, e.reg, a.Why.Text)
	failpoint.At("evict.asked")
	return err
}
