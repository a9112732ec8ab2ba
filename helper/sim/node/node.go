// Package node replays a trace under a policy as it runs on a node: Slurm
// places jobs on shared GPUs, and on each node the engine of gimbald decides
// who of them computes, with the same policy code, on the simulator's clock.
//
// A node is simulated as gimbald sees it. A job's part of a node is a tenant;
// readings are exact; a pause and a resume together take what the cost model
// says of a turn; memory moves to the host at 12 GiB a second. How fast tenants
// run beside others the policy is told as if it had been learnt; how long they
// still need only where [Options.Remaining] says so. Of tenants that cannot run
// together at all, by the table of pairs, those that came later stand still. A
// throttled tenant goes at its share of its speed, without stops.
//
// # Turns
//
// Jobs run for days and turns are seconds long. Where nothing else changes on
// a node, turns are therefore lengthened: so that the tenant with the least
// left on the node still gets [Options.Turns] of them, and never below the
// policy's own quantum. Limits on how long a tenant may be paused grow with
// the turns. As the end of a tenant comes closer turns become short again, and
// a job that arrives makes them short at once if it is short.
package node

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/engine"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/policy"
	"github.com/gimbal-hpc/gimbal/helper/sim"
)

// instance is one simulated node: the engine's source and actuator.
type instance struct {
	s       *scheduler
	number  int
	engine  *engine.Engine
	decider *policy.Decider
	placer  *policy.Decider // nil where Slurm chooses the GPUs
	gpus    []model.GPU
	tenants []*tenant // in order of arrival
	news    []model.Event
	due     []pending // operations under way, in order of their outcome
	stretch float64   // of turns, over the policy's own
}

// tenant is a task's part of a node.
type tenant struct {
	id   model.TenantID
	task *sim.Task
	gpus []int // numbers on the node
	sm   model.Reading[float64]
	used map[string]model.Usage
}

// pending is an operation whose outcome is to come.
type pending struct {
	at float64
	ev model.Event
}

func newInstance(s *scheduler, number int) *instance {
	n := &instance{s: s, number: number, stretch: 1}
	for i := range s.w.Cluster.PerNode {
		n.gpus = append(n.gpus, model.GPU{
			UUID: uuid(i), Index: i, Minor: i,
			Total: model.Known(s.options.memory()), Reserved: model.Known(model.Bytes(0)), Used: model.Known(model.Bytes(0)),
		})
	}
	n.decider = policy.NewDecider(&policy.Set{Default: s.policy}, n.told())
	n.decider.SetEpoch(epoch())
	if s.options.Place {
		n.placer = newPlacer(n)
	}
	journal := s.options.journal(number)
	meter, _ := journal.(engine.Meter) // where nothing is kept nothing is added up
	n.engine = engine.New(model.NewNode(), engine.Parts{
		Source: n, Actuator: n, Journal: journal, Meter: meter, Decider: n.decider,
		Wall: func() time.Time { return epoch().Add(clock(s.w.Now)) }, Report: s.fail, Smooth: true,
	})
	return n
}

// epoch is the wall clock at the start of the trace. It is not that of Unix: a
// journal takes 0 for a time that is not known.
func epoch() time.Time { return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) }

// clock is a time of the simulation as the engine takes it.
func clock(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

func uuid(i int) string { return "GPU-" + strconv.Itoa(i) }

// firstPID is the process of the trace's first job: 1 is nobody's.
const firstPID = 2

// register tells the engine of a tenant that was launched.
func (n *instance) register(t *sim.Task, gpus []int) {
	id := model.TenantID(strconv.Itoa(t.Index+1) + "@1")
	n.tenants = append(n.tenants, &tenant{
		id: id, task: t, gpus: gpus, sm: share(demand(t.Job)), used: make(map[string]model.Usage, len(gpus)),
	})
	grant := &model.Grant{Whole: true, Terms: n.s.options.terms(t.Job)}
	if len(t.Nodes) > 1 {
		grant.Exempt = "job on several nodes"
	}
	for _, g := range gpus {
		grant.GPUs = append(grant.GPUs, uuid(g))
	}
	reg := n.registration(t)
	n.news = append(n.news, model.Event{Kind: model.EvRegistered, At: clock(n.s.w.Now), Tenant: id, Reg: reg, Grant: grant})
}

// registration is what the plugin would tell of a task.
func (n *instance) registration(t *sim.Task) *model.Registration {
	reg := &model.Registration{
		ArrayTask: model.NoVal, HetOffset: model.NoVal, NNodes: uint32(len(t.Nodes)),
		Proc: model.ProcID{PID: t.Index + firstPID, Start: 1}, User: t.Job.User,
		Account: t.Job.Account, Partition: t.Job.Partition,
	}
	n.s.name(reg, t)
	if t.Job.Limit > 0 {
		reg.EndTime = epoch().Add(clock(n.s.w.Now + t.Job.Limit)).Unix()
	}
	return reg
}

// end tells the engine that a tenant is gone.
func (n *instance) end(t *sim.Task) {
	for i, o := range n.tenants {
		if o.task == t {
			n.tenants = append(n.tenants[:i], n.tenants[i+1:]...)
			n.news = append(n.news, model.Event{Kind: model.EvEnded, At: clock(n.s.w.Now), Tenant: o.id})
			return
		}
	}
}

// model is what a tenant trains, "" where the trace does not tell.
func (n *instance) model(id model.TenantID) string {
	for _, t := range n.tenants {
		if t.id == id {
			return t.task.Job.Model
		}
	}
	return ""
}

// Sample implements [engine.Source].
func (n *instance) Sample(now time.Duration) model.Sample {
	for len(n.due) > 0 && clock(n.due[0].at) <= now {
		n.news = append(n.news, n.due[0].ev)
		n.due = n.due[1:]
	}
	s := model.Sample{Events: n.news, GPUs: &model.GPUReport{At: now, GPUs: n.gpus}}
	n.news = nil
	for _, t := range n.tenants {
		s.Tenants = append(s.Tenants, n.look(t, goesOn(s.Events, t.id)))
	}
	return s
}

// goesOn tells whether one of these outcomes lets a tenant compute.
func goesOn(events []model.Event, id model.TenantID) bool {
	return slices.ContainsFunc(events, func(ev model.Event) bool {
		return ev.Tenant == id && ev.Kind == model.EvDone && (ev.Do == model.PrimResume || ev.Do == model.PrimRestore)
	})
}

// share is a reading of a share, which may be unknown.
func share(x float64) model.Reading[float64] {
	if math.IsNaN(x) {
		return model.Unknown[float64]()
	}
	return model.Known(x)
}

// look is what the driver would show of a tenant, with the outcomes that the engine
// is told in the same sample: the next reading may only come when its turn ends, and
// time without a process on a GPU is not served.
func (n *instance) look(t *tenant, goesOn bool) model.TenantSample {
	m := n.engine.Node.Tenant(t.id)
	s := model.TenantSample{Tenant: t.id, Procs: 1}
	if m == nil || !m.HasRun && !goesOn {
		return s
	}
	s.Busy = goesOn || m.State.Computes()
	sm := model.Known(0.0)
	if s.Busy {
		sm = t.sm
	}
	used, _ := m.Terms.Memory.Get()
	if m.State == model.Swapped {
		used = 0
	}
	for _, g := range t.gpus {
		t.used[uuid(g)] = model.Usage{Procs: 1, Memory: model.Known(used), SM: sm}
	}
	s.Use = t.used
	return s
}

// How fast GPU memory moves to the host's and back, in bytes a second, and how
// long that takes at least, in seconds.
const (
	swapRate  = float64(12 * model.GiB)
	swapLeast = 0.1
)

// Do implements [engine.Actuator].
func (n *instance) Do(a model.Action, t *model.Tenant) {
	ev := model.Event{Kind: model.EvDone, Tenant: a.Tenant, Action: a.ID, Do: a.Do}
	cost := 0.0
	switch a.Do {
	case model.PrimPause, model.PrimResume, model.PrimHold:
		cost = n.s.w.Cost.Pause.At(n.model(a.Tenant), len(t.GPUs)) / 2 // a pause and a resume make a turn
	case model.PrimSwap, model.PrimRestore:
		used, _ := t.Terms.Memory.Get()
		cost = swapLeast + float64(used)/swapRate
	case model.PrimEvict:
		ev.Kind, ev.Text = model.EvFailed, "the simulator evicts nobody"
	default: // run, throttle, notify, warn: nothing comes back
		return
	}
	at := n.s.w.Now + cost
	ev.At, ev.Took = clock(at), clock(cost)
	i := len(n.due)
	for i > 0 && n.due[i-1].at > at {
		i--
	}
	n.due = append(n.due[:i], append([]pending{{at, ev}}, n.due[i:]...)...)
}

// mostSteps bounds how often an engine steps at one moment.
const mostSteps = 1000

// step lets the engine decide until nothing more comes of it at this moment,
// and returns when it wants to be asked again.
func (n *instance) step() float64 {
	now := clock(n.s.w.Now)
	for range mostSteps {
		n.lengthen()
		next := n.engine.Step(now)
		if len(n.due) == 0 {
			return wakeAt(next)
		}
		if at := n.due[0].at; clock(at) > now {
			return min(wakeAt(next), at)
		}
	}
	n.s.fail(fmt.Errorf("node %d: policy %s finds no end at %s", n.number, n.s.policy.Name, now))
	return sim.Never
}

// wakeAt is a time of the engine as the world takes it, not before it.
func wakeAt(next time.Duration) float64 {
	if next == 0 {
		return sim.Never
	}
	at := next.Seconds()
	if clock(at) < next {
		at = math.Nextafter(at, sim.Never)
	}
	return at
}

// lengthen makes turns as long as what is left of the shortest task allows.
func (n *instance) lengthen() {
	left := sim.Never
	for _, t := range n.tenants {
		left = min(left, n.s.w.Remaining(t.task))
	}
	want := left / float64(n.s.options.turns()) / n.s.policy.Share.Quantum.Seconds()
	stretch := 1.0
	if want > 1 && want < math.MaxInt64 {
		stretch = math.Exp2(math.Floor(math.Log2(want))) // few steps: each makes the policy plan anew
	}
	if stretch != n.stretch {
		n.stretch = stretch
		n.decider.SetPolicies(&policy.Set{Default: stretched(n.s.policy, stretch)})
	}
}

// stretched is a policy with longer turns.
func stretched(p *policy.Policy, by float64) *policy.Policy {
	q := *p
	for _, d := range [...]*time.Duration{&q.Share.Quantum, &q.Limits.MaxPause, &q.Limits.Breath} {
		*d = time.Duration(float64(*d) * by)
	}
	return &q
}

// told is what the policy is told beside what the driver shows.
func (n *instance) told() policy.Options {
	o := policy.Options{Swap: true, Speed: n.speed}
	if n.s.options.Remaining {
		o.Remaining = func(t *model.Tenant, _ time.Duration) float64 { return n.s.w.Remaining(n.s.taskOf(t)) }
	}
	return o
}

// speed is what the policy is told of two tenants' speeds.
func (n *instance) speed(t, mate *model.Tenant) float64 {
	a, b := n.s.taskOf(t), n.s.taskOf(mate)
	speed, _ := n.s.pair(a, b)
	return speed
}
