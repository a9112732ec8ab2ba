package policy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/policy"
	"github.com/gimbal-hpc/gimbal/policies"
)

// rig plays the engine: it applies news, asks the decider at every change, at
// every second and when it wanted to be asked, and confirms its actions a
// little later.
type rig struct {
	t       testing.TB
	n       *model.Node
	d       *policy.Decider
	now     time.Duration
	tick    time.Duration // time between samples
	latency time.Duration // from an action to its outcome
	swap    time.Duration // the same for a swap or a restore; 0: as the others
	actors  map[model.TenantID]*actor
	due     []outcome
	next    time.Duration
	sampled time.Duration
	id      uint64
	log     []string
	seen    func(r *rig, as []model.Action) // called after each decision
	eager   bool                            // samples, and asks again, as soon as something was done
}

// actor is the process side of a tenant.
type actor struct {
	start    time.Duration // from its first run until it is on the GPU
	memory   model.Bytes   // it uses, once there
	procs    int           // on the GPU, 0: one
	on, idle bool
	manual   bool   // on was set by the script
	stubborn bool   // its pauses fail
	unable   string // why its swaps fail
}

type outcome struct {
	at time.Duration
	ev model.Event
}

func newRig(t testing.TB, p *policy.Policy, gpus ...string) *rig {
	return newRigWith(t, p, policy.Options{}, gpus...)
}

func newRigWith(t testing.TB, p *policy.Policy, o policy.Options, gpus ...string) *rig {
	r := &rig{
		t: t, n: model.NewNode(), tick: time.Second, latency: 10 * time.Millisecond,
		actors: map[model.TenantID]*actor{},
		d:      policy.NewDecider(&policy.Set{Default: p}, o),
	}
	for i, size := range gpus {
		g := model.GPU{UUID: uuid(i), Index: i, Minor: i, Reserved: model.Known(model.Bytes(0))}
		if size != "unknown" {
			g.Total = model.Known(bytesOf(t, size))
		}
		r.n.GPUs = append(r.n.GPUs, g)
	}
	r.n.Look(model.Sample{GPUs: &model.GPUReport{GPUs: r.n.GPUs}, Foreign: map[string]model.Reading[model.Bytes]{},
		Unmanaged: map[string]model.Reading[int]{}}, 0)
	return r
}

func uuid(i int) string { return "GPU-" + strconv.Itoa(i) }

func bytesOf(t testing.TB, s string) model.Bytes {
	t.Helper()
	x, err := strconv.ParseFloat(strings.TrimSuffix(s, "GiB"), 64)
	if err != nil {
		t.Fatalf("size %q: %v", s, err)
	}
	return model.Bytes(x * float64(model.GiB))
}

func shipped(t testing.TB, name string) *policy.Policy {
	t.Helper()
	text := policies.Shipped()[name]
	if text == nil {
		text, _ = os.ReadFile(filepath.Join("testdata", "policies", name+".toml"))
	}
	p, err := policy.Parse(name+".toml", text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// add registers a tenant.
func (r *rig) add(id string, terms model.Terms, gpus []int, exempt, parent string, a actor) {
	job, _ := strconv.ParseUint(id, 10, 32)
	reg := &model.Registration{
		JobID: uint32(job), Proc: model.ProcID{PID: 1000 + int(job), Start: 1}, ArrayTask: model.NoVal, HetOffset: model.NoVal,
	}
	grant := &model.Grant{Terms: terms, Exempt: exempt, Whole: true, Parent: model.TenantID(parent)}
	for _, g := range gpus {
		grant.GPUs = append(grant.GPUs, uuid(g))
	}
	r.actors[model.TenantID(id)] = &a
	r.apply(model.Event{Kind: model.EvRegistered, Tenant: model.TenantID(id), Reg: reg, Grant: grant})
}

func (r *rig) apply(ev model.Event) {
	r.t.Helper()
	if _, err := r.n.Apply(ev, r.now); err != nil {
		r.t.Fatalf("%v: apply %s: %v", r.now, ev.Kind, err)
	}
}

// run lets time pass until a moment, deciding on the way.
func (r *rig) run(until time.Duration) {
	r.t.Helper()
	for range 1 << 20 {
		at := until
		for _, o := range r.due {
			at = min(at, o.at)
		}
		at = min(at, r.sampled+r.tick)
		if r.next > r.now {
			at = min(at, r.next)
		}
		if at >= until {
			r.to(until)
			return
		}
		r.to(at)
		r.decide()
	}
	r.t.Fatal("time does not pass: the decider asks again and again")
}

// to moves the clock and takes in what is due.
func (r *rig) to(at time.Duration) {
	r.t.Helper()
	r.now = at
	r.n.Advance(at)
	var later []outcome
	for _, o := range r.due {
		if o.at > at {
			later = append(later, o)
			continue
		}
		r.apply(o.ev)
	}
	done := len(later) < len(r.due)
	r.due = later
	if at >= r.sampled+r.tick || r.eager && done {
		r.sample()
	}
}

// sample shows the node what the driver and /proc would.
func (r *rig) sample() {
	r.sampled = r.now
	s := model.Sample{}
	for _, t := range r.n.Tenants {
		a := r.actors[t.ID]
		if !a.manual && t.HasRun && r.now >= t.FirstRan+a.start && t.State.Computes() {
			a.on = true
		}
		ts := model.TenantSample{Tenant: t.ID, Procs: 1, Use: map[string]model.Usage{}}
		for _, g := range t.GPUs {
			u := model.Usage{Memory: model.Known(model.Bytes(0))}
			if a.on && t.State != model.Swapped {
				u = model.Usage{Procs: max(a.procs, 1), Memory: model.Known(a.memory)}
			}
			ts.Use[g] = u
		}
		ts.Busy = a.on && !a.idle && t.State.Runs()
		s.Tenants = append(s.Tenants, ts)
	}
	r.n.Look(s, r.now)
}

// decide asks once, and sets what was decided going.
func (r *rig) decide() {
	r.t.Helper()
	as, next := r.d.Decide(r.n, r.now)
	if next != 0 && next <= r.now {
		r.t.Fatalf("%v: wants to be asked again at %v", r.now, next)
	}
	r.next = next
	if r.seen != nil {
		r.seen(r, as)
	}
	for _, a := range as {
		r.log = append(r.log, fmt.Sprintf("%-8s %-7s %-4s %s", r.now.Round(time.Millisecond), a.Do, a.Tenant, a.Why.Text))
		r.start(a)
	}
	if r.eager && len(as) > 0 {
		r.sample()
		r.decide()
	}
}

func (r *rig) start(a model.Action) {
	r.t.Helper()
	t := r.n.Tenant(a.Tenant)
	trigger, ok := a.Do.Trigger()
	if !ok {
		return
	}
	if err := r.n.Fire(t, trigger, a.Why, r.now); err != nil {
		r.t.Fatalf("%v: %s %s: %v", r.now, a.Do, a.Tenant, err)
	}
	t.Throttle = a.Throttle
	if a.Do == model.PrimRun || a.Do == model.PrimThrottle {
		return
	}
	r.id++
	t.Action = r.id
	ev := model.Event{Kind: model.EvDone, Tenant: t.ID, Action: r.id}
	switch {
	case a.Do == model.PrimEvict:
		ev.Kind = model.EvEnded
	case a.Do == model.PrimPause && r.actors[t.ID].stubborn:
		ev.Kind, ev.Text = model.EvFailed, "new processes appear"
	case a.Do == model.PrimSwap && r.actors[t.ID].unable != "":
		ev.Kind, ev.Text, ev.Lasting = model.EvFailed, r.actors[t.ID].unable, true
	}
	took := r.latency
	if a.Do == model.PrimSwap || a.Do == model.PrimRestore {
		took = max(took, r.swap)
	}
	r.due = append(r.due, outcome{r.now + took, ev})
}
