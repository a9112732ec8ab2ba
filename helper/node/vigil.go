package node

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/proc"
)

// vigil looks again and again at what a grip keeps stopped, through files that
// are kept open.
type vigil struct {
	grip   grip                // what it was made for
	status []*proc.StatusFile  // of its listeners; nil: opened for each look
	frozen []*proc.FreezerFile // of its folders; nil: opened for each look
	due    int                 // how many looks at the rest are owed, times cycle
	next   int                 // of the folders and processes, who is looked at next
	looks  int                 // in all
	news   arrivals
}

// maxKept bounds how many files the vigils of all tenants keep open.
const maxKept = 1024

// cycle is how many looks it takes to have looked at every folder and process that
// is kept stopped. The listeners are looked at each time, since a signal must not
// wait.
const cycle = 8

// maxLooks bounds how many of them one look takes in, which costs a hundredth of a
// processor: with very many processes a round lasts longer than a cycle.
const maxLooks = 256

// round is how many looks it takes to have looked at all.
func (v *vigil) round() int { return max(cycle, (v.all()+maxLooks-1)/maxLooks) }

func (v *vigil) all() int { return len(v.grip.frozen) + len(v.grip.procs) }

// vigil is the tenant's for its grip of now. The caller holds e.op.
func (n *Node) vigil(e *entry) *vigil {
	g := e.grip
	if v := e.eyes; v != nil && slices.Equal(v.grip.procs, g.procs) &&
		slices.Equal(v.grip.frozen, g.frozen) && slices.Equal(v.grip.listen, g.listen) {
		return v
	}
	n.closeVigil(e)
	v := &vigil{grip: g, news: arrivals{since: n.Clock(), counted: -1, owed: true}}
	for _, f := range g.frozen {
		v.frozen = append(v.frozen, keep(n, f.Open))
	}
	for _, l := range g.listen {
		v.status = append(v.status, keep(n, func() (*proc.StatusFile, error) { return n.Host.OpenStatus(l.id) }))
	}
	e.eyes = v
	return v
}

// keep opens a file that is to be kept open; nil where that fails, or there are
// too many.
func keep[F interface{ Close() }](n *Node, open func() (F, error)) (none F) {
	if n.kept.Add(1) <= maxKept {
		if f, err := open(); err == nil {
			return f
		}
	}
	n.kept.Add(-1)
	return none
}

// closeVigil ends the looks at what a tenant's grip held.
func (n *Node) closeVigil(e *entry) {
	v := e.eyes
	if v == nil {
		return
	}
	for _, f := range v.frozen {
		if f != nil {
			f.Close()
			n.kept.Add(-1)
		}
	}
	for _, f := range v.status {
		if f != nil {
			f.Close()
			n.kept.Add(-1)
		}
	}
	e.eyes = nil
}

// look tells whether something that is kept stopped was seen to run, and which
// signals came for the tenant since it was stopped.
func (v *vigil) look(n *Node, e *entry) (runs bool, came proc.SigSet) {
	runs, came = v.listen(n, e)
	came |= v.heard(n, e)
	all := v.all()
	for v.due += min(all, maxLooks*cycle); v.due >= cycle && !runs; v.due -= cycle {
		runs = v.goesOn(n, v.next%all)
		v.next++
	}
	return runs || v.computes(n, e), came
}

// listen is look at the listeners alone.
func (v *vigil) listen(n *Node, e *entry) (runs bool, came proc.SigSet) {
	counted := false
	for i, l := range v.grip.listen {
		st, err := v.read(n, i, l.id)
		if err != nil {
			continue
		}
		if !counted {
			v.news.count(st)
			counted = true
		}
		came |= n.Host.Meaningful(l.id, st, l.baseline, unix.Signal(e.grant.Terms.Signal))
		if !runs && !st.Still() && slices.Contains(v.grip.procs, l.id) {
			runs = n.goesOn(l.id)
		}
	}
	v.news.owed = v.news.owed || !counted || v.looks%hearAnyway == 0
	return runs, came
}

// computes tells, once in a cycle, whether a process that was on a GPU was seen to run:
// where there are very many processes, others may wait longer for their turn.
func (v *vigil) computes(n *Node, e *entry) bool {
	if v.looks%cycle != 1 || v.round() == cycle {
		return false
	}
	for id := range e.placed() {
		if slices.Contains(v.grip.procs, id) && n.goesOn(id) {
			return true
		}
	}
	return false
}

// strayed is an error when what is frozen is not the tenant, or not all of it: Slurm
// and the kernel leave everyone in his place, but root can move them. It is looked
// for at once and then in every cycle.
func (v *vigil) strayed(n *Node) error {
	if v.looks++; v.looks%cycle != 1 || len(v.grip.roots) == 0 {
		return nil
	}
	err := n.Tracker.Holds(proc.Target{Roots: v.grip.roots}, v.grip.frozen)
	if !errors.Is(err, proc.ErrNotOurs) {
		return nil // the next look tells more
	}
	return err
}

// goesOn tells whether one of what a grip keeps stopped, its folders first, was
// seen to run.
func (v *vigil) goesOn(n *Node, i int) bool {
	if i >= len(v.frozen) {
		return n.goesOn(v.grip.procs[i-len(v.frozen)])
	}
	if file := v.frozen[i]; file != nil {
		asked, err := file.Asked()
		return err == nil && !asked
	}
	s, err := n.Host.FreezerState(v.grip.frozen[i])
	return err == nil && !s.Self
}

func (v *vigil) read(n *Node, i int, id proc.ID) (proc.Status, error) {
	if file := v.status[i]; file != nil {
		return file.Read()
	}
	return n.Host.Status(id)
}

// goesOn tells whether a process that we stopped runs. One for which our SIGSTOP
// still waits does not: it sleeps until its vfork child, which is stopped, goes on;
// a SIGCONT would have taken the stop away.
func (n *Node) goesOn(id proc.ID) bool {
	if n.Host.Look(id) != proc.ConditionRunning {
		return false
	}
	waits, err := n.Host.Pending(id)
	return err == nil && !waits.Has(unix.SIGSTOP)
}
