package engine_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gimbal-hpc/gimbal/helper/engine"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/policy"
	"github.com/gimbal-hpc/gimbal/policies"
	"github.com/gimbal-hpc/gimbal/tests/draw"
)

// register launches a job, or a step of its own inside one.
func (l *life) register() {
	rt := l.rt
	j := &job{alive: true, tasks: 1}
	num := len(l.jobs) + 1
	j.id = model.TenantID(fmt.Sprintf("%d@1", num))
	for _, i := range rapid.SampledFrom([][]int{{0}, {0}, {1}, {0, 1}, {1, 2}}).Draw(rt, "gpus") {
		j.gpus = append(j.gpus, gpuName(i))
	}
	terms := model.Terms{Class: rapid.SampledFrom([]model.Class{model.Guaranteed, model.Opportunistic}).Draw(rt, "class"),
		Weight: float64(rapid.IntRange(1, 3).Draw(rt, "weight"))}
	j.memory = model.Bytes(rapid.IntRange(1, 70).Draw(rt, "memory")) * gib
	if rapid.IntRange(0, 3).Draw(rt, "declared") > 0 {
		terms.Memory, terms.Declared = model.Known(j.memory), model.Known(j.memory)
		if rapid.IntRange(0, 7).Draw(rt, "too little") == 0 {
			terms.Memory = model.Known(j.memory / 2)
		}
	}
	grant := &model.Grant{Terms: terms, GPUs: j.gpus, Whole: true}
	if rapid.IntRange(0, 9).Draw(rt, "exempt") == 0 {
		grant.Exempt = "job on 2 nodes"
	}
	if old := l.living(); len(old) > 0 && rapid.IntRange(0, 4).Draw(rt, "a step") == 0 {
		if p := rapid.SampledFrom(old).Draw(rt, "of"); p.parent == "" {
			j.parent, grant.Parent, grant.Whole = p.id, p.id, false
			j.gpus, grant.GPUs = p.gpus, p.gpus
		}
	}
	grant.Late = rapid.IntRange(0, 9).Draw(rt, "late") == 0
	j.started = grant.Late
	j.reg = model.Event{Kind: model.EvRegistered, Tenant: j.id, Grant: grant,
		Reg: &model.Registration{JobID: uint32(num), Proc: model.ProcID{PID: num * 100, Start: 1}}}
	l.jobs = append(l.jobs, j)
	l.events = append(l.events, j.reg)
	l.note("new %s gpus=%v memory=%s declared=%s parent=%q exempt=%q late=%t", j.id, j.gpus, j.memory, terms.Memory.Or(-1), j.parent, grant.Exempt, grant.Late)
}

func (l *life) living() []*job {
	var out []*job
	for _, j := range l.jobs {
		if j.alive {
			out = append(out, j)
		}
	}
	return out
}

// happen lets one thing happen.
func (l *life) happen() {
	what := rapid.SampledFrom([]string{"new", "new", "new", "task", "exit", "end", "continued", "suspend", "unsuspend",
		"signal", "degraded", "recovered", "death", "leap", "back", "disk", "order"}).Draw(l.rt, "what")
	switch what {
	case "new":
		if len(l.living()) < 8 {
			l.register()
		}
		return
	case "degraded":
		l.note("degraded")
		l.events = append(l.events, model.Event{Kind: model.EvDegraded, Text: "driver gone"})
		return
	case "recovered":
		l.note("recovered")
		l.events = append(l.events, model.Event{Kind: model.EvRecovered})
		return
	case "death":
		l.die()
		return
	case "leap":
		l.note("the clock leaps an hour")
		l.skew += time.Hour
		return
	case "back":
		l.note("the clock goes back for one turn")
		l.step(-time.Duration(rapid.SampledFrom([]int{1, 60, 3600}).Draw(l.rt, "back")) * time.Second)
		return
	case "disk":
		l.broken = !l.broken
		l.note("the disk is full: %t", l.broken)
		return
	}
	if living := l.living(); len(living) > 0 {
		l.happenTo(rapid.SampledFrom(living).Draw(l.rt, "who"), what)
	}
}

func (l *life) happenTo(j *job, what string) {
	switch what {
	case "task":
		j.tasks++
		reg := *j.reg.Reg
		reg.Proc.PID += j.tasks
		l.events = append(l.events, model.Event{Kind: model.EvRegistered, Tenant: j.id, Reg: &reg, Grant: j.reg.Grant})
	case "exit":
		l.events = append(l.events, model.Event{Kind: model.EvTaskExit, Tenant: j.id, Proc: j.reg.Reg.Proc})
	case "end":
		l.end(j)
	case "continued":
		l.continued(j)
	case "suspend":
		if !j.foreign {
			j.foreign = true
			if !j.stopped && len(j.ops) == 0 {
				l.tell(j, model.EvSuspended, "slurm")
			}
		}
	case "unsuspend":
		if !j.foreign {
			return
		}
		j.foreign = false
		if !j.stopped {
			l.tell(j, model.EvUnstopped, "")
		}
		l.continued(j)
	case "signal":
		if j.stopped && len(j.ops) == 0 {
			l.tell(j, model.EvSignalled, "TERM")
		}
	case "order":
		do := rapid.SampledFrom([]model.Primitive{model.PrimPause, model.PrimResume}).Draw(l.rt, "order")
		l.events = append(l.events, model.Event{Kind: model.EvOrder, Tenant: j.id,
			Order: &model.Order{Do: do, Until: l.now + l.skew + 20*time.Second}})
		l.note("order %s %s", do, j.id)
	}
}

// continued lets somebody else continue a job. A node sees it once no
// operation is under way.
func (l *life) continued(j *job) {
	if j.stopped && len(j.ops) == 0 {
		j.stopped, j.swapped, j.started = false, false, true
		l.tell(j, model.EvContinued, "by somebody else")
	}
}

// die kills the daemon. Its guard continues what is paused and swapped; what
// is held waits for the next daemon, which knows what the journal says.
func (l *life) die() {
	l.note("the daemon dies")
	last := map[model.TenantID]*model.Tenant{}
	for _, r := range l.records {
		if r.Tenant != nil {
			last[r.Tenant.ID] = r.Tenant
		}
	}
	degraded := l.engine.Node.Degraded
	l.events = nil
	l.boot()
	if degraded != "" {
		l.events = append(l.events, model.Event{Kind: model.EvDegraded, Text: degraded})
	}
	for _, j := range l.jobs {
		if !j.alive {
			continue
		}
		for _, o := range j.ops {
			if o.fate != "silent without effect" && o.fate != "fails" && o.a.Do != model.PrimEvict && rapid.Bool().Draw(l.rt, "it had its effect") {
				l.effect(j, o.a.Do)
			}
		}
		j.ops, j.free = nil, l.now
		if !j.held {
			j.stopped, j.swapped = false, false
		}
		t := last[j.id]
		switch {
		case t == nil && !j.taken: // waits in the folder of pending ones
			l.events = append(l.events, j.reg)
			j.stopped = false
		case t == nil: // nobody knows of it any more
			j.alive = false
		default:
			l.adopt(j, t)
		}
	}
}

func (l *life) adopt(j *job, t *model.Tenant) {
	state := model.Running
	if j.stopped {
		state = model.Held
	} else {
		j.started = true
	}
	now := l.engine.Node.Now()
	c := t.Clone()
	if c.State != state {
		c.State, c.Since = state, max(now, l.now+l.skew)
	}
	l.events = append(l.events, model.Event{Kind: model.EvAdopted, Tenant: j.id, Adopt: &c})
	if j.foreign && !j.stopped {
		l.events = append(l.events, model.Event{Kind: model.EvSuspended, Tenant: j.id, Text: "slurm"})
	}
}

// TestLives holds the invariants of a node over random histories, and that
// everything comes to rest when nothing fails any more: while degraded all
// of it runs, and whoever is left over at the end runs.
func TestLives(t *testing.T) {
	shipped := policies.Shipped()
	draw.Check(t, func(rt *rapid.T) {
		name := rapid.SampledFrom([]string{"timeslice", "priority", "swap", "reclaim", "together", "fair", "qos", "throughput", "deadline", "indolent"}).Draw(rt, "policy")
		p, err := policy.Parse(name+".toml", shipped[name])
		if err != nil {
			rt.Fatal(err)
		}
		l := newLife(rt, p, rapid.Bool().Draw(rt, "swap"))
		l.note("policy %s, swap %t", name, l.swap)
		for range rapid.IntRange(1, 25).Draw(rt, "events") {
			l.happen()
			l.run(l.now + time.Duration(rapid.SampledFrom([]int{0, 1, 20, 1000, 11000, 35000, 65000}).Draw(rt, "ms"))*time.Millisecond)
		}
		l.rest()
	})
}

// rest lets everything come to rest.
func (l *life) rest() {
	l.note("nothing fails from now on")
	l.calm, l.calmed, l.broken = true, l.now, false
	for _, j := range l.living() {
		for i := range j.ops {
			j.ops[i].fate = "done"
		}
		l.happenTo(j, "unsuspend")
	}
	l.run(l.now + engine.LongTimeout + 3*time.Minute)
	for _, j := range l.living() { // an operation may have kept a continuation from being seen
		l.events = append(l.events, model.Event{Kind: model.EvUnstopped, Tenant: j.id})
	}
	l.events = append(l.events, model.Event{Kind: model.EvDegraded, Text: "driver gone"})
	l.run(l.now + 3*time.Minute)
	for _, j := range l.living() {
		if t := l.engine.Node.Tenant(j.id); j.stopped || t.State != model.Running {
			l.fail("%s is %s (stopped: %t) although the node is degraded", j.id, t.State, j.stopped)
		}
	}
	l.events = append(l.events, model.Event{Kind: model.EvRecovered})
	for len(l.living()) > 0 {
		l.run(l.now + 3*time.Minute)
		l.mostRun()
		l.end(rapid.SampledFrom(l.living()).Draw(l.rt, "ends"))
	}
	l.run(l.now + time.Second)
	if n := len(l.engine.Node.Tenants); n != 0 {
		l.fail("%d tenants are left of none", n)
	}
}

// mostRun holds that the last one left runs, and that of several one does.
func (l *life) mostRun() {
	for _, j := range l.living() {
		if t := l.engine.Node.Tenant(j.id); !j.stopped && t.State.Runs() {
			return
		}
	}
	l.fail("nobody runs")
}
