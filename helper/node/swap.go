package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/cuda"
	"github.com/gimbal-hpc/gimbal/helper/failpoint"
	"github.com/gimbal-hpc/gimbal/helper/model"
)

// Mover moves the GPU memory of tenants to host RAM and back, as [cuda.Mover]
// does.
type Mover interface {
	Swap(ctx context.Context, t cuda.Tenant) error
	Restore(ctx context.Context, t cuda.Tenant) error
}

// Moved is a tenant's process whose GPU memory is in host RAM, or may be.
type Moved struct {
	Tenant model.TenantID `json:"tenant"`
	Proc   model.ProcID   `json:"proc"`
	Memory model.Bytes    `json:"memory"`
	InHost bool           `json:"-"` // when adopted: it is known to be in host RAM
}

// Moves keeps on disk whose GPU memory is in host RAM: the driver does not list
// such a process any more. Put is called before the memory moves.
type Moves interface {
	Put(m Moved) error
	Drop(id model.TenantID) error
}

// Bounds of what is done about a swap or a restore that went wrong.
const (
	backLimit   = 10 * time.Second       // to bring a tenant back before the engine is told
	backRest    = 500 * time.Millisecond // between two tries in that time
	rescueEvery = 5 * time.Second        // between two tries after it
	rescueLimit = 2 * time.Minute        // after which the tenant is evicted
	maxUnmoved  = 3                      // swaps in a row that may fail before no more is tried
)

// stopper stops and continues a tenant for its Mover.
type stopper struct {
	n     *Node
	e     *entry
	loose bool // one that cannot be restored stays running
}

func (s stopper) Stop(context.Context) error {
	if s.loose {
		return nil
	}
	return s.n.pause(s.e, kindPause)
}

func (s stopper) Continue(context.Context) error { return s.n.resume(s.e) }

// swapError is why a swap failed, in the words for the tenant's record.
type swapError struct {
	error
	lasting bool // no swap of it can succeed
}

// swap moves a tenant's GPU memory to host RAM and stops the tenant. If that
// fails, the tenant runs.
func (n *Node) swap(e *entry, a model.Action, terms model.Terms) error {
	if n.Mover == nil || n.Moves == nil {
		return errors.Join(errors.New("swapping is off on this node"), n.resume(e))
	}
	procs, err := n.procsOnGPUs(e)
	if err != nil {
		return errors.Join(err, n.resume(e))
	}
	m := Moved{Tenant: e.id}
	if len(procs) == 1 {
		m.Proc, m.Memory = procs[0].ID, procs[0].Memory.Or(0)
		if err := n.Moves.Put(m); err != nil {
			return errors.Join(fmt.Errorf("swap not done, since it could not be written down: %w", err), n.resume(e))
		}
	}
	failpoint.At("swap.intended")
	n.underWay(m.Memory)
	err = n.Mover.Swap(context.Background(), cuda.Tenant{Procs: procs, Stopped: !e.grip.empty(), Stopper: stopper{n: n, e: e}})
	n.underWay(-m.Memory)
	if err == nil {
		e.moved, e.unmoved = &m, 0
		return nil
	}
	return n.swapFailed(e, m, a, terms, err)
}

// swapFailed brings back what a swap that failed has left.
func (n *Node) swapFailed(e *entry, m Moved, a model.Action, terms model.Terms, err error) error {
	f := failureOf(err)
	n.logf("tenant %s: %v", e.id, err)
	switch f.Next {
	case cuda.NextRestore:
		e.moved = &m
		left := n.back(e, false)
		switch {
		case left == nil:
		case f.State == cuda.Checkpointed && failureOf(left).State == cuda.Checkpointed && !e.grip.empty():
			return nil // it is swapped all the same
		default:
			e.rescue, e.stuckSince = n.Clock()+rescueEvery, n.Clock()
		}
	case cuda.NextEvict:
		n.evict(e, model.Action{Do: model.PrimEvict, Tenant: e.id, Why: gaveUp(err)}, terms)
	}
	if e.moved == nil {
		err = errors.Join(err, n.Moves.Drop(e.id), n.resume(e))
	}
	return n.judge(e, f, err)
}

// judge tells whether further swaps of the tenant are worth a try.
func (n *Node) judge(e *entry, f *cuda.Error, err error) error {
	if f.Err != nil {
		err = f.Err
	}
	if errors.Is(err, cuda.ErrNoRoom) {
		return err
	}
	e.unmoved++
	never := errors.Is(err, cuda.ErrUnsupported) && f.Step != cuda.StepCheck
	return swapError{err, never || e.unmoved >= maxUnmoved}
}

func gaveUp(err error) model.Reason {
	return model.Reason{Code: "swap", Text: "its GPU memory could not be moved back: " + err.Error()}
}

// failureOf is what a Mover says of a failure.
func failureOf(err error) *cuda.Error {
	f := &cuda.Error{State: cuda.Unknown, Next: cuda.NextNothing}
	errors.As(err, &f)
	return f
}

// procsOnGPUs lists the tenant's processes on GPUs with their memory, as the
// driver shows them.
func (n *Node) procsOnGPUs(e *entry) ([]cuda.Proc, error) {
	report, ok := n.GPUs.Report(n.Stale)
	if !ok || report.Fault != "" {
		return nil, fmt.Errorf("swap: the driver shows no processes: %s", report.Fault)
	}
	roots, _ := n.book.snapshot(e)
	mine := map[int]model.ProcID{}
	for _, id := range n.Tracker.Members(rootIDs(roots)...) {
		mine[id.PID] = model.ProcID(id)
	}
	var procs []cuda.Proc
	at := map[int]int{}
	for _, g := range report.GPUs {
		list, known := g.Procs.Get()
		if !known && uses(e.gpus(), g.UUID) {
			return nil, fmt.Errorf("swap: the processes on GPU %s are not known", g.UUID)
		}
		for _, p := range list {
			id, ok := mine[p.PID]
			if !ok {
				continue
			}
			i, seen := at[p.PID]
			if !seen {
				i, at[p.PID] = len(procs), len(procs)
				procs = append(procs, cuda.Proc{ID: id, Memory: model.Known(model.Bytes(0))})
			}
			procs[i].Memory, procs[i].MIG = plus(procs[i].Memory, p.Memory), procs[i].MIG || g.MIG
		}
	}
	return procs, nil
}

// letRun lets a stopped tenant run: it is restored first if its memory is in
// host RAM.
func (n *Node) letRun(e *entry, terms model.Terms) error {
	if e.moved == nil {
		return n.resume(e)
	}
	err := n.back(e, false)
	if failureOf(err).Next == cuda.NextEvict {
		n.evict(e, model.Action{Do: model.PrimEvict, Tenant: e.id, Why: gaveUp(err)}, terms)
	}
	return n.short(e, err)
}

// short logs a failure in full and returns it in the words of the driver.
func (n *Node) short(e *entry, err error) error {
	f := failureOf(err)
	if f.Err == nil {
		return err
	}
	n.logf("tenant %s: %v", e.id, err)
	return f.Err
}

// back restores a tenant, trying for a while unless there is no room.
func (n *Node) back(e *entry, loose bool) error {
	for end := n.Clock() + backLimit; ; time.Sleep(backRest) {
		err := n.restore(e, loose)
		if err == nil || errors.Is(err, cuda.ErrNoRoom) || failureOf(err).Next != cuda.NextRestore || n.Clock() > end {
			return err
		}
	}
}

// restore tries once to bring a tenant's memory back and to let it run.
func (n *Node) restore(e *entry, loose bool) error {
	if n.Mover == nil {
		return errors.Join(errors.New("swapping is off on this node"), n.resume(e))
	}
	p := cuda.Proc{ID: e.moved.Proc, Memory: model.Known(e.moved.Memory)}
	err := n.Mover.Restore(context.Background(), cuda.Tenant{
		Procs: []cuda.Proc{p}, Stopped: !e.grip.empty(), Stopper: stopper{n: n, e: e, loose: loose},
	})
	if err != nil && failureOf(err).Next == cuda.NextRestore {
		return err
	}
	failpoint.At("restore.back")
	e.moved, e.rescue = nil, 0
	return errors.Join(err, n.Moves.Drop(e.id))
}

// loosen continues a tenant whose memory stays in host RAM, so that it takes a
// signal at once, and asks for its memory to be brought back.
func (n *Node) loosen(e *entry, signal string) {
	if err := n.resume(e); err != nil && !errors.Is(err, errForeign) {
		n.logf("tenant %s: let it take %s: %v", e.id, signal, err)
	}
	n.push(model.Event{Kind: model.EvSignalled, Tenant: e.id, Text: signal})
}

// tryRescue tries again, beside the loop, to bring back a tenant that could not
// be, and evicts it in the end. The caller holds e.op.
func (n *Node) tryRescue(e *entry) {
	if e.rescue == 0 || n.Clock() < e.rescue {
		return
	}
	e.rescue = n.Clock() + rescueEvery
	n.beside(func() {
		e.op.Lock()
		defer e.op.Unlock()
		if e.moved == nil {
			return
		}
		err := n.restore(e, true)
		if err != nil && n.Clock()-e.stuckSince > rescueLimit {
			e.rescue = 0
			n.evict(e, model.Action{Do: model.PrimEvict, Tenant: e.id, Why: gaveUp(err)}, e.grant.Terms)
		}
	})
}

// underWay counts the memory that is on its way to host RAM.
func (n *Node) underWay(m model.Bytes) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.moving += m
	n.lastMove = n.Clock()
}

// Moving is the memory that is on its way to host RAM and may not be there yet,
// and when something was last swapped, 0 if never.
func (n *Node) Moving() (m model.Bytes, last time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.moving, n.lastMove
}
