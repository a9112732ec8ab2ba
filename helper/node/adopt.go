package node

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/proc"
)

// Adopt takes over a tenant that an earlier daemon knew. held is what of it is
// still held; whatever else was stopped of it has been continued. moved is what
// of it may be in host RAM: a process of which that is not known is brought
// back, one that is there waits until there is room. One that has no process
// left ends at once.
func (n *Node) Adopt(t *model.Tenant, held *Stop, moved *Moved) {
	now := n.Clock()
	e := &entry{id: t.ID, key: keyFromID(t), reg: t.Reg, stepds: map[uint32]proc.ID{}}
	e.grant = model.Grant{Terms: t.Terms, GPUs: t.GPUs, Exempt: t.Exempt, Whole: t.Whole, Parent: t.Parent}
	for _, w := range t.Workers {
		n.adoptWorker(e, t, w)
	}
	state := model.Running
	if held != nil {
		state, e.want = model.Held, kindHold
		for _, text := range held.Cgroups {
			if f, err := ParseFreezer(text); err == nil {
				e.grip.frozen = append(e.grip.frozen, f)
			}
		}
		for _, p := range held.IDs {
			e.grip.procs = append(e.grip.procs, proc.ID(p))
		}
		e.grip.listen = n.listeners(n.target(e), e.grip)
	}
	if moved != nil {
		state, e.moved = model.Restoring, moved
		if moved.InHost {
			state = model.Swapped
		}
	}
	t.Admitted = state != model.Swapped && (t.Admitted || state != model.Held)
	t.Suspended, t.Signalled = "", "" // what is so is seen and told anew
	if t.State != state {
		t.State, t.Since, t.Throttle = state, now, model.Throttle{}
		t.Reason = model.Reason{Code: "adopted", Text: "taken over by a new daemon"}
	}
	n.book.put(e)
	ev := model.Event{Kind: model.EvAdopted, Tenant: t.ID, Adopt: t}
	back := state == model.Restoring
	if back {
		ev.Action = model.AdoptedAction
	}
	n.push(ev)
	if back {
		n.begin(e, model.Action{ID: model.AdoptedAction, Do: model.PrimRestore}, func() error { return n.short(e, n.back(e, true)) })
	}
	n.settle(e)
	n.stir()
}

// adoptWorker takes over what is left of one task. Its slurmstepd may outlive
// it; that of a step that has reported its end is of no account any more.
func (n *Node) adoptWorker(e *entry, t *model.Tenant, w model.Worker) {
	if w.Proc == t.Reg.Proc && w.Stepd.PID == 0 { // a journal of an earlier version has it here only
		w.PTY, w.Stepd = w.PTY || t.Reg.PTY, t.Reg.Stepd
	}
	ended := slices.ContainsFunc(t.Steps, func(s model.Step) bool { return s.ID == w.Step && s.Ended })
	if w.Stepd.PID > 0 && !ended {
		e.stepds[w.Step] = proc.ID(w.Stepd)
	}
	id := proc.ID(w.Proc)
	if err := n.Tracker.Watch(id, false); err != nil {
		return // it is gone
	}
	e.roots = append(e.roots, root{ID: id, step: w.Step, pty: w.PTY})
}

// keyFromID reads a tenant's key out of its id, "JOB@N" or "JOB.STEP@N".
func keyFromID(t *model.Tenant) key {
	name, _, _ := strings.Cut(string(t.ID), "@")
	_, step, ok := strings.Cut(name, ".")
	if !ok {
		return key{t.Reg.JobID, model.NoVal}
	}
	s, err := strconv.ParseUint(step, 10, 32)
	if err != nil {
		return key{t.Reg.JobID, t.Reg.StepID}
	}
	return key{t.Reg.JobID, uint32(s)}
}

// ReleaseAll continues everything that is stopped, at the end of the daemon, and
// restores first what is in host RAM where room says that there is room. It
// returns how many tenants were stopped.
func (n *Node) ReleaseAll(room func(model.TenantID) bool) (int, error) {
	var errs []error
	count := 0
	for _, e := range n.book.all(nil) {
		e.op.Lock()
		if !e.grip.empty() || e.moved != nil {
			count++
			if e.moved != nil && room(e.id) {
				if err := n.restore(e, true); err != nil {
					n.logf("tenant %s: %v", e.id, err)
				}
			}
			if err := n.resume(e); err != nil && !errors.Is(err, errForeign) {
				errs = append(errs, fmt.Errorf("tenant %s: %w", e.id, err))
			}
		}
		e.op.Unlock()
	}
	n.ops.Wait()
	return count, errors.Join(errs...)
}
