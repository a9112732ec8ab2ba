package model

import (
	"fmt"
	"time"
)

// Advance brings every tenant's tally up to now. It is called once a turn,
// before anything is applied. A clock that went back moves nothing.
func (n *Node) Advance(now time.Duration) {
	n.last = max(n.last, now)
	for _, t := range n.Tenants {
		t.account(n.last, n.Degraded == "")
	}
}

// Now is the time of the last Advance.
func (n *Node) Now() time.Duration { return n.last }

// Apply takes one event into the state and returns the tenant that it
// changed, nil if none. An event about a tenant or an action that is no longer
// there is no error: it came too late.
func (n *Node) Apply(ev Event, now time.Duration) (*Tenant, error) {
	switch ev.Kind {
	case EvRegistered:
		return n.register(ev, now)
	case EvAdopted:
		return n.adopt(ev, now)
	case EvDegraded:
		n.Degraded = ev.Text
		return nil, nil
	case EvRecovered:
		n.Degraded = ""
		return nil, nil
	}
	t := n.Tenant(ev.Tenant)
	if t == nil {
		return nil, nil
	}
	switch ev.Kind {
	case EvTaskExit:
		t.taskExit(ev)
	case EvStepEnd:
		t.stepEnd(ev.Step, now)
	case EvDone, EvFailed:
		return t, n.outcome(t, ev, now)
	case EvContinued:
		return t, n.continued(t, ev, now)
	case EvAsked:
		t.asked(ev.Text, now)
	case EvSuspended:
		t.Suspended = ev.Text
	case EvUnstopped:
		t.Suspended = ""
	case EvSignalled:
		t.Settle = now + settleAfterSignal
		t.Signalled = ev.Text
	case EvEnded:
		return t, n.end(t, now)
	case EvMoved:
		t.move(ev.Grant)
	case EvCredited:
		t.credit(ev.Took)
	case EvOrder:
		n.order(t, ev)
	default:
		return nil, fmt.Errorf("event of kind %q is not known", ev.Kind)
	}
	return t, nil
}

// How long a tenant is left alone after somebody else continued it, or after
// a signal meant for it arrived: Slurm continues a job before it ends it, and
// the job may be writing its last checkpoint (facts: SIGCONT before SIGTERM).
// Slurm's answer that it is not ending a job makes the first shorter.
const (
	settleAfterContinue = 10 * time.Second
	settleAfterSignal   = 10 * time.Second
)

// register adds a worker, and its tenant and step where they are new.
func (n *Node) register(ev Event, now time.Duration) (*Tenant, error) {
	if ev.Reg == nil || ev.Grant == nil {
		return nil, fmt.Errorf("tenant %s: a registration without its content", ev.Tenant)
	}
	t := n.Tenant(ev.Tenant)
	if t == nil {
		t = n.newTenant(ev, now)
	}
	if t.worker(ev.Reg.Proc) != nil {
		return t, nil // told twice: by the wire and by the folder of pending ones
	}
	t.Workers = append(t.Workers, Worker{
		Proc: ev.Reg.Proc, Stepd: ev.Reg.Stepd, Step: ev.Reg.StepID, Task: ev.Reg.TaskID, PTY: ev.Reg.PTY, Since: now,
	})
	t.Procs = max(t.Procs, len(t.Workers))
	t.LastTask = now
	s := t.step(ev.Reg.StepID)
	if s == nil {
		t.Steps = append(t.Steps, Step{ID: ev.Reg.StepID, Start: now})
		s = &t.Steps[len(t.Steps)-1]
	}
	s.Tasks++
	return t, nil
}

func (n *Node) newTenant(ev Event, now time.Duration) *Tenant {
	t := &Tenant{
		ID: ev.Tenant, Reg: *ev.Reg, Whole: ev.Grant.Whole, Parent: ev.Grant.Parent,
		Terms: ev.Grant.Terms, GPUs: ev.Grant.GPUs, Policy: ev.Grant.Policy, Exempt: ev.Grant.Exempt,
		State: New, Since: now, Registered: now, OnSince: now, BusyAt: now, accounted: now,
		Use: map[string]Usage{}, Peak: map[string]Bytes{},
	}
	t.Service = n.level(t)
	n.insert(t)
	if ev.Grant.Late {
		n.admit(t)
		n.enter(t, Running, Reason{Code: "late", Text: "ran already when it was registered"}, now)
	}
	return t
}

func (n *Node) insert(t *Tenant) {
	n.Tenants = append(n.Tenants, t)
	n.index[t.ID] = t
}

// level is the service at which a newcomer joins its pack: the least of its
// mates', so that it neither owes nor is owed time from before it came
// (start-time fair queueing, Goyal et al. 1996).
func (n *Node) level(t *Tenant) float64 {
	least, found := 0.0, false
	for _, o := range n.Tenants {
		if n.share(o, t) && (!found || o.Service < least) {
			least, found = o.Service, true
		}
	}
	return least
}

// adopt takes over a tenant from the journal of an earlier daemon.
func (n *Node) adopt(ev Event, now time.Duration) (*Tenant, error) {
	if ev.Adopt == nil {
		return nil, fmt.Errorf("tenant %s: adopted without its record", ev.Tenant)
	}
	if n.Tenant(ev.Tenant) != nil {
		return nil, fmt.Errorf("tenant %s: adopted twice", ev.Tenant)
	}
	t := ev.Adopt
	t.Action, t.Retry, t.Failures = ev.Action, 0, 0
	t.accounted = now
	if t.State == Running { // the journal may not have seen how it came to run
		t.Admitted = true
		if !t.HasRun {
			t.HasRun, t.FirstRan = true, now
		}
	}
	if t.Use == nil {
		t.Use = map[string]Usage{}
	}
	if t.Peak == nil {
		t.Peak = map[string]Bytes{}
	}
	n.insert(t)
	return t, nil
}

func (t *Tenant) worker(p ProcID) *Worker {
	for i := range t.Workers {
		if t.Workers[i].Proc == p {
			return &t.Workers[i]
		}
	}
	return nil
}

func (t *Tenant) step(id uint32) *Step {
	for i := range t.Steps {
		if t.Steps[i].ID == id {
			return &t.Steps[i]
		}
	}
	return nil
}

func (t *Tenant) taskExit(ev Event) {
	if w := t.worker(ev.Proc); w != nil {
		w.Exited = true
	}
	if s := t.step(ev.Step); s != nil {
		s.Status = max(s.Status, ev.Status)
	}
}

func (t *Tenant) stepEnd(id uint32, now time.Duration) {
	for i := range t.Workers {
		if t.Workers[i].Step == id {
			t.Workers[i].Exited = true
		}
	}
	if s := t.step(id); s != nil && !s.Ended {
		s.Ended, s.End = true, now
	}
}

// outcome takes in how an action ended. One that the tenant is no longer
// waiting for changes nothing.
func (n *Node) outcome(t *Tenant, ev Event, now time.Duration) error {
	if ev.Action != t.Action || ev.Action == 0 {
		return nil
	}
	t.Action = 0
	if ev.Kind == EvDone {
		t.Failures, t.Retry = 0, 0
		return n.Fire(t, OpDone, Reason{}, now)
	}
	if ev.Lasting {
		t.NoSwap = ev.Text
	}
	t.Failures++
	t.Retry = now + backoff(t.Failures)
	return n.Fire(t, OpFailed, Reason{Code: "failed", Text: ev.Text}, now)
}

// backoff doubles from one second to a minute.
func backoff(failures int) time.Duration {
	return min(time.Second<<min(failures-1, 6), time.Minute)
}

func (n *Node) continued(t *Tenant, ev Event, now time.Duration) error {
	if _, ok := Next(t.State, Continued); !ok {
		return nil
	}
	t.Action, t.Suspended = 0, ""
	t.Settle = now + settleAfterContinue
	n.admit(t)
	return n.Fire(t, Continued, Reason{Code: codeContinued, Text: ev.Text}, now)
}

// asked takes in what Slurm says of a tenant that somebody continued: one that
// is not ending gets no more time from that.
func (t *Tenant) asked(ending string, now time.Duration) {
	switch {
	case ending != "":
		t.Settle = max(t.Settle, now+settleAfterContinue)
	case t.State == Running && t.Reason.Code == codeContinued:
		t.Settle = min(t.Settle, now)
	}
}

const codeContinued = "continued"

func (n *Node) end(t *Tenant, now time.Duration) error {
	for i := range t.Steps {
		t.stepEnd(t.Steps[i].ID, now)
	}
	if err := n.Fire(t, Ended, Reason{Code: "ended"}, now); err != nil {
		return err
	}
	t.EndedAt, t.Procs, t.OnGPU = now, 0, false
	n.remove(t)
	return nil
}

func (n *Node) remove(t *Tenant) {
	delete(n.index, t.ID)
	delete(n.Orders, t.ID)
	for i, o := range n.Tenants {
		if o == t {
			n.Tenants = append(n.Tenants[:i], n.Tenants[i+1:]...)
			return
		}
	}
}

// credit takes in that time was added to the job's limit.
func (t *Tenant) credit(d time.Duration) {
	t.Tally.Credited += d
	if t.Reg.EndTime != 0 {
		t.Reg.EndTime += int64(d / time.Second)
	}
}

func (n *Node) order(t *Tenant, ev Event) {
	if ev.Order == nil || ev.Order.Do == "" {
		delete(n.Orders, t.ID)
		return
	}
	n.Orders[t.ID] = *ev.Order
}

// Look takes in what the driver and /proc showed. Readings that are unknown
// leave what was known before.
func (n *Node) Look(s Sample, now time.Duration) {
	if s.GPUs != nil {
		n.lookGPUs(s, now)
	}
	at := now
	if s.GPUs != nil && s.GPUs.At > 0 {
		at = s.GPUs.At
	}
	for _, ts := range s.Tenants {
		if t := n.Tenant(ts.Tenant); t != nil {
			t.look(ts, at, now)
		}
	}
}

func (n *Node) lookGPUs(s Sample, now time.Duration) {
	if s.GPUs.Fault != "" {
		return
	}
	n.GPUs, n.Foreign, n.Unmanaged, n.Read = s.GPUs.GPUs, s.Foreign, s.Unmanaged, now
	clear(n.gpus)
	for i, g := range n.GPUs {
		n.gpus[g.UUID] = i
	}
}

// look takes in a look that began at a time.
func (t *Tenant) look(s TenantSample, at, now time.Duration) {
	t.Procs = s.Procs
	t.strayed(s.Astray)
	if s.Progress.Known() {
		t.Progress = s.Progress
	}
	if s.Use == nil {
		return
	}
	on := t.onUnread(s.Use)
	for uuid, u := range s.Use {
		if u.Procs > 0 {
			on = true
		}
		if m, ok := u.Memory.Get(); ok && m > t.Peak[uuid] {
			t.Peak[uuid] = m
		}
		t.Use[uuid] = u
	}
	on = on || t.OnGPU && t.unseen(at)
	if on != t.OnGPU {
		t.OnGPU, t.OnSince = on, now
		if on {
			t.BusyAt = now
		}
	}
	if s.Busy {
		t.BusyAt = now
	}
	t.noteOver(now)
}

// strayed charges the tenant for time in which it ran although it was to be
// stopped. total is all there was of it.
func (t *Tenant) strayed(total time.Duration) {
	if more := total - t.astray; more > 0 && t.OnGPU {
		t.serve(more)
	}
	t.astray = total
}

// unseen tells whether the driver does not show the tenant, or did not when a
// look began, although it has not left its GPU: its memory is, or was then, in
// host RAM.
func (t *Tenant) unseen(at time.Duration) bool {
	return t.State == Swapping || t.State == Swapped || t.State == Restoring || t.Tally.Swaps > 0 && at <= t.Since
}

// onUnread tells whether the tenant was last seen on a GPU that this sample
// says nothing of.
func (t *Tenant) onUnread(read map[string]Usage) bool {
	for uuid, u := range t.Use {
		if _, ok := read[uuid]; !ok && u.Procs > 0 {
			return true
		}
	}
	return false
}

// noteOver notes since when the tenant uses more than it declared.
func (t *Tenant) noteOver(now time.Duration) {
	limit, ok := t.Terms.Memory.Get()
	over := false
	for _, u := range t.Use {
		if m, known := u.Memory.Get(); ok && known && m > limit {
			over = true
		}
	}
	switch {
	case !over:
		t.Over = 0
	case t.Over == 0:
		t.Over = now
	}
}
