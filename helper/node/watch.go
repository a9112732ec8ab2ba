package node

import (
	"github.com/gimbal-hpc/gimbal/helper/failpoint"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/proc"
)

// watch looks at what is stopped: whether somebody else continued it, and
// whether a signal that is meant for it waits. It returns false when there is
// nothing to watch until another operation has ended.
func (n *Node) watch() (more bool) {
	for _, e := range n.book.all(nil) {
		if !e.op.TryLock() {
			continue // an operation is under way, and its end is told
		}
		n.watchOne(e)
		more = more || !e.grip.empty() || e.rescue != 0
		e.op.Unlock()
	}
	return more
}

func (n *Node) watchOne(e *entry) {
	n.tryRescue(e)
	if e.grip.empty() {
		n.closeVigil(e)
		return
	}
	v := n.vigil(e)
	if err := v.strayed(n); err != nil && e.moved == nil {
		n.logf("tenant %s: %v", e.id, err)
		n.letGo(e, "one of its processes is not where it was frozen, or another's is")
		return
	}
	runs, came := v.look(n, e)
	if runs {
		n.charge(e)
	}
	if runs && n.astray(e) && n.setBack(e) {
		n.ask(e)
		return
	}
	if e.wants() == "" && !e.grip.foreign || runs {
		if e.moved != nil {
			n.loosen(e, "SIGCONT")
			return
		}
		n.letGo(e, continuedByAnother)
		return
	}
	if came != 0 && e.say(func(s *saying) bool { return changed(&s.signal, came.String()) }) {
		if e.moved != nil {
			n.loosen(e, came.String())
			return
		}
		n.push(model.Event{Kind: model.EvSignalled, Tenant: e.id, Text: came.String()})
	}
}

const continuedByAnother = "continued by somebody else"

// letGo continues the rest of a tenant that somebody else has continued, or that
// is not stopped as a whole any more: all of it runs, or none.
func (n *Node) letGo(e *entry, why string) {
	failpoint.At("letgo.begun")
	if _, err := n.loose(e); err != nil {
		n.logf("tenant %s: continue the rest: %v", e.id, err)
	}
	failpoint.At("letgo.freed")
	e.setWant("")
	if err := n.Stops.Drop(e.id); err != nil {
		n.logf("tenant %s: %v", e.id, err)
	}
	e.say(func(s *saying) bool { *s = saying{}; return true })
	n.push(model.Event{Kind: model.EvContinued, Tenant: e.id, Text: why})
	n.ask(e)
}

// lookForeign says once when somebody else has stopped a tenant that we let
// run, and once when that is over.
func (n *Node) lookForeign(e *entry) {
	if !e.op.TryLock() {
		return
	}
	defer e.op.Unlock()
	if !e.grip.empty() && !e.grip.foreign {
		return
	}
	roots, _ := n.book.snapshot(e)
	stopped, alive := "", false
	for _, r := range roots {
		how := n.foreignStop(e, r.ID)
		alive = alive || how != "gone"
		if how == "" {
			stopped = ""
			break
		}
		if how == "slurm" {
			how = e.suspender()
		}
		if how != "gone" {
			stopped = how
		}
	}
	if stopped == "" && n.frozenInside(e, roots) {
		stopped = "frozen"
	}
	n.tellSuspended(e, stopped)
	if stopped == "frozen" || !alive {
		n.thawKilled(e, roots)
	}
}

// insideEvery is after how many looks the cgroups of a tenant are searched again
// for others inside them that somebody froze.
const insideEvery = 10

// frozenInside tells whether somebody froze a cgroup inside one of the tenant's.
// The tasks of a step have one, or such as are alike: the first of each is looked
// at. The caller holds e.op.
func (n *Node) frozenInside(e *entry, roots []root) bool {
	if e.looks++; e.looks%insideEvery != 1 {
		return e.inside
	}
	e.inside = false
	step := model.NoVal
	for _, r := range roots {
		if r.step != step {
			step = r.step
			e.inside = e.inside || len(n.frozenBelow(e, r.ID)) > 0
		}
	}
	return e.inside
}

func (n *Node) frozenBelow(e *entry, id proc.ID) []string {
	l, gone := n.lookout(e, id)
	switch {
	case gone:
		return nil
	case l != nil:
		return l.FrozenInside()
	}
	return n.Host.FrozenInside(id)
}

// thawKilled ends the freeze of processes that wait for nothing but to be killed:
// whoever froze them, the end of the job does not wait for him.
func (n *Node) thawKilled(e *entry, roots []root) {
	dirs, err := n.Host.ThawKilled(n.Tracker.Members(rootIDs(roots)...))
	if err != nil {
		n.logf("tenant %s: thaw what is being killed: %v", e.id, err)
	}
	for _, dir := range dirs {
		n.logf("tenant %s: thawed %s, which somebody else froze: SIGKILL waited there", e.id, dir)
	}
}

func (n *Node) tellSuspended(e *entry, who string) {
	if !e.say(func(s *saying) bool { return changed(&s.suspended, who) }) {
		return
	}
	if who == "" {
		n.push(model.Event{Kind: model.EvUnstopped, Tenant: e.id})
		return
	}
	n.push(model.Event{Kind: model.EvSuspended, Tenant: e.id, Text: who})
}

// changed puts a new value in place and tells whether it is another.
func changed(at *string, to string) bool {
	was := *at
	*at = to
	return was != to
}
