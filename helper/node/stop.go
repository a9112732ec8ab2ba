package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/proc"
)

// grip is what keeps a tenant stopped: processes by SIGSTOP, or cgroups by the
// freezer.
type grip struct {
	procs   []proc.ID
	frozen  []proc.Freezer
	roots   []proc.ID  // whose trees were in what is frozen
	listen  []listener // who is looked at for signals that wait
	foreign bool       // somebody else's stop kept it from being undone
}

// listener is a process that acts on signals, with those that do not count: they
// waited for it while somebody else kept it stopped, before we stopped the
// tenant. A process that ran takes its signals at once: what waits for it then
// came between its stop and our look.
type listener struct {
	id       proc.ID
	baseline proc.SigSet
}

// maxListeners bounds how many processes of a tenant are looked at for
// signals; root processes come first.
const maxListeners = 32

// maxAsked bounds how many are asked whether they catch a signal.
const maxAsked = 8 * maxListeners

func (g grip) empty() bool { return len(g.procs)+len(g.frozen) == 0 }

// take stops a tenant: by the freezer where it has cgroups of its own, else by
// signals. How that went is told.
func (n *Node) take(e *entry, t proc.Target, tell func(string, ...any)) (grip, error) {
	ctx, cancel := context.WithTimeout(context.Background(), n.StopTimeout)
	defer cancel()
	if dirs := n.freezers(e, t); len(dirs) > 0 {
		done, err := n.Tracker.Freeze(ctx, t, dirs, e.grip.frozen)
		switch {
		case err == nil:
			tell("tenant %s: %d processes frozen in %s", e.id, done.Processes, done.Latency)
			return grip{frozen: done.Dirs, roots: t.Roots}, nil
		case !errors.Is(err, proc.ErrNotOurs) && !errors.Is(err, proc.ErrNoFreezer):
			return grip{}, err
		}
	}
	done, err := n.Tracker.Pause(ctx, t)
	if err != nil {
		return grip{}, err
	}
	tell("tenant %s: %d processes stopped in %s (%d passes)", e.id, len(done.Stopped), done.Latency, done.Passes)
	return grip{procs: done.Stopped}, nil
}

// freezers lists the cgroups that hold the tenant's tasks, nil where one of
// them has none that may be frozen or where a process has to be spared.
func (n *Node) freezers(e *entry, t proc.Target) []proc.Freezer {
	if !n.Freezer || e.reg.Run() || len(t.Spare) > 0 || len(e.grip.procs) > 0 {
		return nil
	}
	var dirs []proc.Freezer
	seen := map[string]bool{}
	for _, r := range t.Roots {
		if !n.Host.Alive(r) {
			continue
		}
		f, err := n.Host.FreezerOf(r)
		if err != nil {
			return nil
		}
		if !seen[f.Dir] {
			seen[f.Dir] = true
			dirs = append(dirs, f)
		}
	}
	return dirs
}

// free continues what a grip holds. What somebody else wants stopped, and what
// could not be continued, stays in the grip that it returns.
func (n *Node) free(g grip) (grip, error) {
	var left grip
	thawed, err := n.Host.Thaw(g.frozen)
	for _, f := range thawed.Foreign {
		left.frozen = append(left.frozen, f.Freezer)
	}
	resumed, err2 := n.Host.Resume(g.procs)
	for _, f := range resumed.Foreign {
		left.procs = append(left.procs, f.ID)
	}
	left.foreign = !left.empty()
	if err != nil {
		left.frozen = without(g.frozen, thawed.Thawed, thawed.Running, thawed.Gone)
	}
	if err2 != nil {
		left.procs = without(g.procs, resumed.Continued, resumed.Running, resumed.Gone)
	}
	return left, errors.Join(err, err2)
}

// without lists those of all that are in none of the others.
func without[T comparable](all []T, others ...[]T) []T {
	have := map[T]bool{}
	for _, x := range slices.Concat(others...) {
		have[x] = true
	}
	var out []T
	for _, x := range all {
		if !have[x] {
			out = append(out, x)
		}
	}
	return out
}

// and is a grip that holds what both do.
func (g grip) and(o grip) grip {
	g.procs = append(g.procs, without(o.procs, g.procs)...)
	g.frozen = append(g.frozen, without(o.frozen, g.frozen)...)
	if g.roots == nil {
		g.roots = o.roots
	}
	return g
}

// giveUp continues all of a tenant that could not be stopped as a whole, and
// what of it was stopped before. What is left in its grip is tried again.
func (n *Node) giveUp(e *entry, g grip) error {
	left, err := n.free(g)
	e.grip = left
	e.setWant("")
	if !left.empty() {
		return err
	}
	return errors.Join(err, n.Stops.Drop(e.id))
}

// loose continues what is held of a tenant, and notes when.
func (n *Node) loose(e *entry) (left grip, err error) {
	if !e.grip.empty() {
		e.loosed = n.Clock()
	}
	e.grip, err = n.free(e.grip)
	return e.grip, err
}

// listeners picks the processes through which a signal may reach a tenant that
// a grip keeps stopped: its root processes, then those that catch one that
// counts.
func (n *Node) listeners(t proc.Target, g grip) []listener {
	var out []listener
	isRoot := map[proc.ID]bool{}
	add := func(id proc.ID) {
		if len(out) == maxListeners {
			return
		}
		l := listener{id: id}
		if !slices.Contains(g.procs, id) && n.Host.Look(id) != proc.ConditionRunning {
			set, err := n.Host.Pending(id)
			if err != nil {
				return
			}
			l.baseline = set
		}
		out = append(out, l)
	}
	for _, r := range t.Roots {
		isRoot[r] = true
		add(r)
	}
	for asked, id := range n.Tracker.Members(t.Roots...) {
		if len(out) >= maxListeners || asked == maxAsked {
			break
		}
		if !isRoot[id] && n.catchesAny(id) {
			add(id)
		}
	}
	return out
}

// catchesAny tells whether a process has a handler for a signal that a person
// or Slurm sends to a job on purpose.
func (n *Node) catchesAny(id proc.ID) bool {
	st, err := n.Host.Status(id)
	return err == nil && st.Caught&proc.Signals(unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2) != 0
}

// FreezerText and ParseFreezer are how a freezer folder stands in a stop set.
func FreezerText(f proc.Freezer) string {
	b, err := json.Marshal(f)
	if err != nil {
		return f.Dir // a folder's name alone says where to look
	}
	return string(b)
}

// ParseFreezer reads what FreezerText wrote.
func ParseFreezer(s string) (proc.Freezer, error) {
	var f proc.Freezer
	if err := json.Unmarshal([]byte(s), &f); err != nil {
		return f, fmt.Errorf("read the freezer folder %q: %w", s, err)
	}
	return f, nil
}
