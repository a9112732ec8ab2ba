package model

import (
	"fmt"
	"time"
)

// Node is the state of one node: what Apply keeps and a policy reads.
type Node struct {
	GPUs      []GPU                     `json:"gpus"`                // in the driver's order
	Foreign   map[string]Reading[Bytes] `json:"foreign"`             // memory that no tenant holds, by GPU
	Unmanaged map[string]Reading[int]   `json:"unmanaged,omitempty"` // processes of jobs of Slurm that are not packed, by GPU; absent: none
	Tenants   []*Tenant                 `json:"tenants"`             // live ones, oldest first
	Degraded  string                    `json:"degraded,omitempty"`  // why nothing may be stopped, "" when all is well
	Orders    map[TenantID]Order        `json:"orders,omitempty"`    // of people, in force
	Read      time.Duration             `json:"read"`                // when the driver was last read with success
	last      time.Duration
	index     map[TenantID]*Tenant
	gpus      map[string]int
}

// NewNode makes the state of a node on which nothing is known yet.
func NewNode() *Node {
	return &Node{
		Foreign: map[string]Reading[Bytes]{},
		Orders:  map[TenantID]Order{},
		index:   map[TenantID]*Tenant{},
		gpus:    map[string]int{},
	}
}

// Tenant finds a live tenant, nil if there is none of that name.
func (n *Node) Tenant(id TenantID) *Tenant { return n.index[id] }

// GPU finds a GPU by UUID, nil if the driver does not show it.
func (n *Node) GPU(uuid string) *GPU {
	i, ok := n.gpus[uuid]
	if !ok {
		return nil
	}
	return &n.GPUs[i]
}

// Pack lists the live tenants that were given the GPU, oldest first, into buf.
func (n *Node) Pack(uuid string, buf []*Tenant) []*Tenant {
	for _, t := range n.Tenants {
		if t.Uses(uuid) {
			buf = append(buf, t)
		}
	}
	return buf
}

// Free is the memory of a GPU that nobody may count on: total − reserved −
// foreign − the claims of the admitted tenants − what the others use all the
// same. A parent's claim covers those of its steps that are tenants of their
// own: together they count as the larger of the two. One whose memory is in
// host RAM claims nothing. It is unknown where a part of it is.
func (n *Node) Free(uuid string) Reading[Bytes] {
	g := n.GPU(uuid)
	if g == nil {
		return Unknown[Bytes]()
	}
	total, ok := g.Total.Get()
	if !ok {
		return Unknown[Bytes]()
	}
	free := total - g.Reserved.Or(0)
	foreign, ok := n.foreign(uuid)
	if !ok {
		return Unknown[Bytes]()
	}
	free -= foreign
	for _, t := range n.Tenants {
		if !t.Uses(uuid) {
			continue
		}
		if !t.Admitted {
			free -= t.Use[uuid].Memory.Or(0)
			continue
		}
		claim, ok := n.residual(t, *g)
		if !ok {
			return Unknown[Bytes]()
		}
		free -= claim
	}
	return Known(free)
}

func (n *Node) foreign(uuid string) (Bytes, bool) {
	r, ok := n.Foreign[uuid]
	if !ok {
		return 0, true
	}
	return r.Get()
}

// residual is what a tenant's claim adds to those of its children.
func (n *Node) residual(t *Tenant, g GPU) (Bytes, bool) {
	claim, ok := t.Claim(g).Get()
	if !ok {
		return 0, false
	}
	for _, c := range n.Tenants {
		if c.Parent != t.ID || !c.Admitted || !c.Uses(g.UUID) {
			continue
		}
		cc, ok := c.Claim(g).Get()
		if !ok {
			return 0, false
		}
		claim -= cc
	}
	if used, ok := t.Use[g.UUID].Memory.Get(); ok && claim < used {
		claim = used
	}
	return max(claim, 0), true
}

// Room is the memory of a GPU that a tenant could claim if it were admitted
// now: what is free, and for a step inside an admitted job what the job's own
// claim holds beyond its other steps.
func (n *Node) Room(t *Tenant, uuid string) Reading[Bytes] {
	free, ok := n.Free(uuid).Get()
	if !ok {
		return Unknown[Bytes]()
	}
	if !t.Admitted && t.Uses(uuid) {
		free += t.Use[uuid].Memory.Or(0)
	}
	p := n.Tenant(t.Parent)
	g := n.GPU(uuid)
	if p == nil || g == nil || !p.Admitted || !p.Uses(uuid) {
		return Known(free)
	}
	rest, ok := n.residual(p, *g)
	if !ok {
		return Unknown[Bytes]()
	}
	if used, ok := p.Use[uuid].Memory.Get(); ok {
		rest = max(rest-used, 0)
	}
	return Known(free + rest)
}

// enter puts a tenant into a state.
func (n *Node) enter(t *Tenant, s State, why Reason, now time.Duration) {
	t.account(now, n.Degraded == "")
	if t.State.Runs() && !s.Runs() {
		t.LastRan = now
	}
	switch s {
	case Throttled:
		if t.State != Throttled {
			t.Tally.Throttles++
		}
	case Held:
		t.Tally.Holds++
	case Paused:
		if t.State == Pausing {
			t.Tally.Pauses++
		}
	case Swapped:
		t.surrender()
	case Running:
		t.Signalled = ""
		if t.State == Restoring {
			t.BusyAt = now
		}
		if !t.HasRun {
			t.HasRun, t.FirstRan = true, now
		}
	}
	if s != Throttled {
		t.Throttle = Throttle{}
	}
	if t.State != s { // another share is no other state
		t.State, t.Since = s, now
	}
	if why.Code != "" {
		t.Reason = why
	}
}

// surrender gives up the claim of a tenant whose memory is in host RAM: it has
// to be admitted again before it is restored.
func (t *Tenant) surrender() {
	t.Admitted, t.PassedOver = false, 0
	if t.State != Swapping {
		return
	}
	t.Tally.Swaps++
	for uuid := range t.Use {
		t.Use[uuid] = Usage{Memory: Known(Bytes(0)), SM: Known(0.0)}
	}
}

// Fire applies a trigger to a tenant; it returns an error, and changes
// nothing, where the lifecycle does not allow it.
func (n *Node) Fire(t *Tenant, trig Trigger, why Reason, now time.Duration) error {
	to, ok := Next(t.State, trig)
	if !ok {
		return fmt.Errorf("tenant %s: %s while %s is not in the lifecycle", t.ID, trig, t.State)
	}
	if to == Running || trig == DoResume || trig == DoRestore {
		n.admit(t)
	}
	n.enter(t, to, why, now)
	return nil
}

// admit lets the tenant's claim stand and counts whom it overtook.
func (n *Node) admit(t *Tenant) {
	if t.Admitted {
		return
	}
	t.Admitted = true
	for _, o := range n.Tenants {
		if o == t {
			break // oldest first: the rest came later
		}
		if !o.Admitted && n.share(o, t) {
			o.PassedOver++
		}
	}
}

func (n *Node) share(a, b *Tenant) bool {
	for _, g := range a.GPUs {
		if b.Uses(g) {
			return true
		}
	}
	return false
}

// account adds the time since the last accounting to the tally of the state
// that the tenant is in. A reading of the driver, if it can be read, holds until
// the next one.
func (t *Tenant) account(now time.Duration, readable bool) {
	from := max(t.Since, t.accounted)
	d := max(now-from, 0)
	t.accounted = now
	switch {
	case t.State == Held || t.State == Holding || t.State == New:
		t.Tally.Held += d
	case t.State == Paused:
		t.Tally.Paused += d
	case t.State == Swapped:
		t.Tally.Swapped += d
	case t.State.Computes():
		t.run(d, readable)
	}
}

// run adds time in which the tenant could compute, under a throttle for its
// share of it. What the multiprocessors did was in that share.
func (t *Tenant) run(d time.Duration, readable bool) {
	all := d
	if t.State == Throttled {
		withheld := time.Duration(float64(d) * (1 - t.Throttle.Share))
		t.Tally.Throttled += d
		t.Tally.Withheld += withheld
		d -= withheld
	}
	t.Tally.Running += d
	if sm, ok := t.SM().Get(); ok && readable {
		t.Tally.SM += min(time.Duration(sm*float64(all)), d)
		t.Tally.Seen += d
	}
	if t.OnGPU {
		t.Tally.Attained += d
		t.serve(d)
	}
}

// serve adds time to the tenant's weighted service.
func (t *Tenant) serve(d time.Duration) { t.Service += d.Seconds() / max(t.Terms.Weight, 1e-6) }

// SM is the tenant's share of time on the multiprocessors by the last readings,
// a mean over its GPUs.
func (t *Tenant) SM() Reading[float64] {
	sum := 0.0
	for _, u := range t.Use {
		x, ok := u.SM.Get()
		if !ok {
			return Unknown[float64]()
		}
		sum += x
	}
	if len(t.Use) == 0 {
		return Unknown[float64]()
	}
	return Known(sum / float64(len(t.Use)))
}
