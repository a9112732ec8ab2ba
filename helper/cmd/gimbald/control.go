package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/engine"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/wire"
)

// maxOrder is the longest that a person's order stands.
const maxOrder = 24 * time.Hour

// maxWhy is the most that a person says of an order.
const maxWhy = 500

// control takes an order of a person: for a job's owner, root and operators.
func (d *daemon) control(ctx context.Context, peer wire.Peer, req wire.Request) (any, error) {
	var q model.ControlQuery
	if err := req.Decode(&q); err != nil {
		return nil, err
	}
	if !d.orders.allow(peer.UID, clock()) {
		return nil, wire.Errorf(wire.CodeBusy, "too many orders: one each %s is taken, or %d at once", orderEvery, ordersAtOnce)
	}
	order, err := orderOf(q, peer)
	if err != nil {
		return nil, err
	}
	all, err := d.mayOrderAll(ctx, peer, q)
	if err != nil {
		return nil, err
	}
	var out model.ControlReply
	var denied error
	askErr := d.loop.Ask(ctx, func(e *engine.Engine) {
		for _, t := range e.Node.Tenants {
			if !meant(q.Job, t) {
				continue
			}
			if no := mayControl(peer, all, e, t, order.Do); no != nil {
				out.Denied++
				denied = no
				continue
			}
			if order.Do == "" && !d.ordered(e, t.ID) {
				out.Notes = append(out.Notes, t.Name()+" has no order that could be ended")
				continue
			}
			out.Tenants = append(out.Tenants, t.Name())
			note, failed := d.obey(e, t, order, all)
			if err = failed; err != nil {
				return
			}
			if note != "" {
				out.Notes = append(out.Notes, t.Name()+" "+note)
			}
		}
	})
	switch {
	case errors.Join(askErr, err) != nil:
		return nil, errors.Join(askErr, err)
	case len(out.Tenants) == 0 && out.Denied > 0:
		return nil, denied
	case len(out.Tenants) == 0 && len(out.Notes) == 0:
		return nil, wire.Errorf(wire.CodeNotFound, "no packed job of that number runs on this node")
	}
	return out, nil
}

// meant tells whether a reference means a tenant as a whole.
func meant(ref model.JobRef, t *model.Tenant) bool {
	return ref.Matches(&t.Reg) && (ref.Step == model.NoVal || t.Reg.StepID == ref.Step)
}

// mayOrderAll tells whether the peer may calibrate every job by hand. Slurm is not
// asked about a user who orders what an owner may.
func (d *daemon) mayOrderAll(ctx context.Context, p wire.Peer, q model.ControlQuery) (bool, error) {
	needed := q.Do == model.PrimResume
	err := d.loop.Ask(ctx, func(e *engine.Engine) {
		for _, t := range e.Node.Tenants {
			needed = needed || meant(q.Job, t) && mayControl(p, false, e, t, q.Do) != nil
		}
	})
	return needed && d.operates(ctx, p), err
}

// operates tells whether the peer is root, or an operator of gimbald.toml's or of
// Slurm's.
func (d *daemon) operates(ctx context.Context, p wire.Peer) bool {
	if p.Root() || d.private != "" { // that serves its user alone
		return true
	}
	cfg, name := d.settings(), login(p.UID)
	return cfg.Operator(name) || d.slurm.operator(ctx, name)
}

// obey carries an order out. To pause and to resume are wishes that the policy
// respects until they lapse; to notify and to evict is done at once. The note
// says what else the person is to know. An owner's resume ends a pause, and no
// more: others compute there too.
func (d *daemon) obey(e *engine.Engine, t *model.Tenant, o *model.Order, all bool) (note string, err error) {
	switch o.Do {
	case model.PrimPause:
		note = d.spared(t, o.Until)
	case model.PrimResume:
		if !all {
			if d.ordered(e, t.ID) {
				d.node.Order(t.ID, &model.Order{Do: "", UID: o.UID, Why: o.Why})
			}
			return "runs when its turn comes: root and the operators order who runs before others", nil
		}
	case model.PrimNotify, model.PrimEvict:
		if o.Do == model.PrimNotify && !t.HasRun {
			return "", wire.Errorf(wire.CodeBadRequest, "%s has not started yet: nothing in it catches a signal", t.Name())
		}
		why := model.Reason{Code: "order", Text: strings.TrimSuffix(fmt.Sprintf("ordered by %s: %s", o.By(), o.Why), ": ")}
		return "", e.Act(model.Action{Do: o.Do, Tenant: t.ID, Signal: o.Signal, Why: why}, clock())
	}
	d.node.Order(t.ID, o)
	return note, nil
}

// spared says why a tenant that runs is not paused at once, "" if it may be, and
// where the order lapses before, that it never is.
func (d *daemon) spared(t *model.Tenant, lapses time.Duration) string {
	why, until, ok := d.decider.Spares(t.ID)
	switch {
	case !ok:
		return ""
	case until == 0, lapses != 0 && lapses <= until:
		return "goes on, no pause comes of this order: " + why.Text
	}
	return "goes on for now: " + why.Text
}

func orderOf(q model.ControlQuery, peer wire.Peer) (*model.Order, error) {
	o := &model.Order{UID: peer.UID, User: login(peer.UID), Why: q.Why, Signal: q.Signal}
	switch q.Do {
	case "release":
		return o, nil
	case model.PrimPause, model.PrimResume, model.PrimEvict, model.PrimNotify:
		o.Do = q.Do
	default:
		return nil, wire.Errorf(wire.CodeBadRequest, "cannot %q: pause, resume, evict, notify or release", q.Do)
	}
	if len(q.Why) > maxWhy {
		return nil, wire.Errorf(wire.CodeBadRequest, "why: at most %d bytes", maxWhy)
	}
	if q.Do == model.PrimNotify && !mayNotify(q.Signal) {
		return nil, wire.Errorf(wire.CodeBadRequest, "signal %d: a job is notified by a signal that it can catch and go on", q.Signal)
	}
	if q.For < 0 || q.For > maxOrder {
		return nil, wire.Errorf(wire.CodeBadRequest, "for %s: an order stands for at most %s", q.For, maxOrder)
	}
	if q.For > 0 {
		o.Until = clock() + q.For
	}
	return o, nil
}

// mayNotify tells whether a signal is one to notify a job with: proc.Notify
// would refuse the others.
func mayNotify(signal int) bool {
	switch unix.Signal(signal) {
	case unix.SIGKILL, unix.SIGSTOP, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGCONT:
		return false
	}
	return signal >= 1 && signal <= 64
}

// mayControl says why the peer may not calibrate the tenant by hand, nil if he
// may. A job's owner does not undo what was ordered over him.
func mayControl(p wire.Peer, all bool, e *engine.Engine, t *model.Tenant, do model.Primitive) error {
	if all {
		return nil
	}
	if p.UID != t.Reg.UID {
		return wire.Errorf(wire.CodeDenied, "the job belongs to another user; its owner, root and the operators of gimbald.toml and of Slurm may")
	}
	o := e.Node.Orders[t.ID]
	if stands(e, t.ID) && o.UID != p.UID && do != model.PrimEvict && do != model.PrimNotify {
		return wire.Errorf(wire.CodeDenied, "%s was ordered by %s; root and operators may order otherwise", o.Do, o.By())
	}
	return nil
}

// ordered tells whether a person's order for a tenant is in force, or about to be.
func (d *daemon) ordered(e *engine.Engine, id model.TenantID) bool {
	return stands(e, id) || d.node.Ordered(id)
}

// stands tells whether a person's order for a tenant is in force.
func stands(e *engine.Engine, id model.TenantID) bool {
	o, ordered := e.Node.Orders[id]
	return ordered && (o.Until == 0 || o.Until > clock())
}
