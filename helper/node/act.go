package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/proc"
)

// execLimit is how long a task may take from its registration to its exec
// before a hold is given up.
const execLimit = 20 * time.Second

// Do starts an action; how it ended comes back as an event.
func (n *Node) Do(a model.Action, t *model.Tenant) {
	e := n.book.find(a.Tenant)
	if e == nil {
		return
	}
	switch a.Do {
	case model.PrimHold:
		n.begin(e, a, func() error { return n.hold(e) })
	case model.PrimPause:
		n.begin(e, a, func() error { return n.pause(e, kindPause) })
	case model.PrimResume:
		n.begin(e, a, func() error { return n.resume(e) })
	case model.PrimNotify:
		n.notify(e, a)
	case model.PrimEvict:
		n.evict(e, a, t.Terms)
	case model.PrimRun, model.PrimWarn:
		n.logf("job %s: %s: %s", t.Name(), a.Do, a.Why.Text)
	default:
		n.push(model.Event{Kind: model.EvFailed, Tenant: e.id, Action: a.ID, Do: a.Do,
			Text: fmt.Sprintf("this node cannot %s", a.Do)})
	}
}

// begin runs an operation beside the loop. Operations on one tenant wait for
// each other.
func (n *Node) begin(e *entry, a model.Action, op func() error) {
	n.ops.Add(1)
	begin := n.Clock()
	go func() {
		defer n.ops.Done()
		e.op.Lock()
		err := op()
		e.op.Unlock()
		ev := model.Event{Kind: model.EvDone, Tenant: e.id, Action: a.ID, Do: a.Do, Took: n.Clock() - begin}
		if err != nil {
			ev.Kind, ev.Text = model.EvFailed, err.Error()
		}
		n.push(ev)
	}()
}

// hold waits for each task's exec, then stops it: stopped before, it could
// not be cancelled by Slurm under proctrack/linuxproc.
func (n *Node) hold(e *entry) error {
	ctx, cancel := context.WithTimeout(context.Background(), execLimit)
	defer cancel()
	for {
		roots, _ := n.book.snapshot(e)
		for _, r := range roots {
			if err := n.Tracker.WaitExec(ctx, r.ID); err != nil && !errors.Is(err, proc.ErrGone) {
				return fmt.Errorf("hold: %w", err)
			}
		}
		err := n.pause(e, kindHold)
		if !errors.Is(err, proc.ErrNotStarted) { // else a task came meanwhile
			return err
		}
		if ctx.Err() != nil {
			return err
		}
	}
}

// pause stops every process of a tenant. What is about to be stopped is on
// disk first.
func (n *Node) pause(e *entry, kind stopKind) error {
	target := n.target(e)
	stop := Stop{Tenant: e.id, Held: kind == kindHold, Roots: modelIDs(target.Roots),
		IDs: modelIDs(n.Tracker.Members(target.Roots...))}
	if err := n.Stops.Put(stop); err != nil {
		return fmt.Errorf("%s not done, since it could not be written down: %w", kind, err)
	}
	e.setWant(kind)
	done, err := n.Tracker.Pause(context.Background(), target)
	if err != nil {
		e.setWant("")
		e.stopped = nil
		return errors.Join(err, n.Stops.Drop(e.id))
	}
	e.stopped = done.Stopped
	stop.IDs, stop.Sure = modelIDs(done.Stopped), true
	if err := n.Stops.Put(stop); err != nil {
		n.logf("tenant %s: what was stopped is not on disk in full: %v", e.id, err)
	}
	n.logf("tenant %s: %s of %d processes in %s (%d passes)", e.id, kind, len(done.Stopped), done.Latency, done.Passes)
	return nil
}

// target is what belongs to a tenant. The steps inside it that are tenants of
// their own are watched as trees of their own and do not belong to it.
func (n *Node) target(e *entry) proc.Target {
	roots, _ := n.book.snapshot(e)
	t := proc.Target{Mine: e.stopped}
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
	e.setWant("")
	done, err := n.Host.Resume(e.stopped)
	if err != nil {
		return err
	}
	if len(done.Foreign) > 0 {
		e.stopped = foreignIDs(done.Foreign)
		n.tellSuspended(e, "slurm")
		return fmt.Errorf("%d processes: %w", len(done.Foreign), errForeign)
	}
	e.stopped = nil
	return n.Stops.Drop(e.id)
}

// errForeign says that a stop which is not ours forbids a resume.
var errForeign = errors.New("stopped by somebody else")

func foreignIDs(list []proc.ForeignStop) []proc.ID {
	ids := make([]proc.ID, len(list))
	for i, f := range list {
		ids[i] = f.ID
	}
	return ids
}

func modelIDs(ids []proc.ID) []model.ProcID {
	out := make([]model.ProcID, len(ids))
	for i, id := range ids {
		out[i] = model.ProcID(id)
	}
	return out
}

// joinStop stops a task that came to a tenant that is stopped, as soon as it
// has exec'ed.
func (n *Node) joinStop(e *entry, id proc.ID) {
	if e.wants() == "" {
		return
	}
	n.ops.Add(1)
	go func() {
		defer n.ops.Done()
		ctx, cancel := context.WithTimeout(context.Background(), execLimit)
		defer cancel()
		if err := n.Tracker.WaitExec(ctx, id); err != nil {
			return
		}
		e.op.Lock()
		defer e.op.Unlock()
		if e.wants() == "" {
			return
		}
		if err := n.pause(e, e.wants()); err != nil {
			n.push(model.Event{Kind: model.EvContinued, Tenant: e.id, Text: "a new task could not be stopped: " + err.Error()})
		}
	}()
}

// notify sends a signal to the processes of the tenant that catch it.
func (n *Node) notify(e *entry, a model.Action) {
	sig := unix.Signal(a.Signal)
	if sig == 0 || sig == unix.SIGKILL || sig == unix.SIGSTOP {
		return
	}
	roots, _ := n.book.snapshot(e)
	told, err := n.notifyAll(n.Tracker.Members(rootIDs(roots)...), sig)
	n.logf("tenant %s: %s sent to %d processes (%v)", e.id, unix.SignalName(sig), told, err)
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
	n.ops.Add(1)
	go func() {
		defer n.ops.Done()
		if err := n.evictNow(e, a, terms); err != nil {
			n.push(model.Event{Kind: model.EvFailed, Tenant: e.id, Action: a.ID, Do: a.Do, Text: err.Error()})
		}
	}()
}

func (n *Node) evictNow(e *entry, a model.Action, terms model.Terms) error {
	e.op.Lock()
	err := n.resume(e)
	e.op.Unlock()
	if err != nil {
		return fmt.Errorf("evict: continue it first: %w", err)
	}
	if terms.Signal != 0 {
		n.notify(e, model.Action{Signal: terms.Signal})
		time.Sleep(terms.Ahead)
	}
	if n.Slurm == nil {
		return errors.New("evict: there is no Slurm to ask")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	return n.Slurm.Evict(ctx, e.reg, a.Why.Text)
}
