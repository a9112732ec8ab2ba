// Package node is one node as the engine sees it: a Source that joins the
// driver, /proc and the plugin's messages into samples, and an Actuator that
// carries actions out on processes. gimbald and gimbal run share it.
package node

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/failpoint"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/proc"
)

// GPUs gives the newest report of the driver. One that is older than stale,
// because the driver does not answer, comes as a fault. ok is false while there
// has been none.
type GPUs interface {
	Report(stale time.Duration) (report model.GPUReport, ok bool)
}

// Stops keeps on disk what is stopped, for whoever has to continue it when
// this process is gone. Put is called with cgroups before they are frozen, and with
// processes before they are sent SIGSTOP, some at a time.
type Stops interface {
	Put(s Stop) error
	Drop(id model.TenantID) error
	Check() error // whether what was stopped is still ours to keep stopped
}

// Stop is what is stopped of one tenant.
type Stop struct {
	Tenant  model.TenantID
	Cgroups []string       // freezer folders
	Held    bool           // it has not started: it may wait for a new daemon
	Roots   []model.ProcID // its tasks
	IDs     []model.ProcID // the processes that were told to stop
	Begun   bool           // the stop is under way: who has taken over since has undone it
}

// Slurm is what the node asks of Slurm.
type Slurm interface {
	Evict(ctx context.Context, reg model.Registration, why string) error
	// Completing tells whether a job is ending, or over.
	Completing(ctx context.Context, job uint32) (bool, error)
}

// MPS ends the outstanding work of processes that are clients of MPS, before they
// may be killed.
type MPS interface {
	Release(ctx context.Context, pids []int) error
}

// Parts are what a node is made of.
type Parts struct {
	Host        proc.Host
	GPUs        GPUs
	Stops       Stops
	Progress    func(s model.StepKey, uid uint32) (model.Progress, bool) // what a step last wrote; nil: none writes
	Mover       Mover                                                    // nil: nothing is swapped
	Moves       Moves                                                    // nil: nothing is swapped
	Slurm       Slurm                                                    // nil: evictions only send signals
	MPS         MPS                                                      // nil: there is none
	Grant       func(model.Registration) model.Terms
	Policy      func(gpu string) string // name of a GPU's policy
	Resolve     func(gpus []string, visible string, known []model.GPU) ([]string, error)
	Clock       func() time.Duration // monotonic
	Wall        func() time.Time
	Freezer     bool          // pause by the cgroup freezer where a tenant has cgroups of its own
	StopTimeout time.Duration // for a stop to be confirmed
	EvictGrace  time.Duration // between the job's own signal and its end, where the job asks for none
	Every       time.Duration // between two looks at /proc and the driver
	Stale       time.Duration // after which a report of the driver counts as none
	Log         func(format string, args ...any)
}

// Node is the engine's Source and Actuator.
type Node struct {
	Parts
	Tracker *proc.Tracker
	book    *book
	wake    chan struct{}
	ops     group
	stirred chan struct{}   // an operation has ended: something may be stopped now
	life    context.Context // of what waits for a job; it ends with Run
	end     context.CancelFunc
	begun   time.Duration

	lookouts atomic.Int64 // of all tenants
	kept     atomic.Int64 // files of all vigils

	mu       sync.Mutex
	events   []model.Event
	look     model.Sample
	strays   []model.Stray
	moving   model.Bytes   // on its way to host RAM
	lastMove time.Duration // when something was last swapped

	// Of the looking goroutine alone.
	scan     []proc.Process
	lastAt   time.Duration
	degraded string
	owner    map[int]owned
}

// group counts operations under way. Unlike a sync.WaitGroup it may be added to
// while it is waited for: a tenant may end at any time.
type group struct {
	mu   sync.Mutex
	n    int
	none chan struct{} // closed when n is 0 again; nil while nobody waits
}

// Add counts operations that begin.
func (g *group) Add(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.n += n
}

// Done counts one that has ended.
func (g *group) Done() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n--; g.n == 0 && g.none != nil {
		close(g.none)
		g.none = nil
	}
}

// Wait returns when none is under way.
func (g *group) Wait() {
	g.mu.Lock()
	if g.n == 0 {
		g.mu.Unlock()
		return
	}
	if g.none == nil {
		g.none = make(chan struct{})
	}
	none := g.none
	g.mu.Unlock()
	<-none
}

// New makes a node. Run has to be called for it to look around, and Close when
// it is no longer needed.
func New(p Parts) *Node {
	n := &Node{Parts: p, book: newBook(), wake: make(chan struct{}, 1), stirred: make(chan struct{}, 1), owner: map[int]owned{}, begun: p.Clock()}
	n.life, n.end = context.WithCancel(context.Background())
	n.Tracker = proc.NewTracker(p.Host, n.onExit)
	return n
}

// Close ends the node's watch over processes, and closes what it kept open.
func (n *Node) Close() {
	n.end()
	n.Tracker.Close()
	for _, e := range n.book.all(nil) {
		if e.op.TryLock() { // else an operation hangs, whose files go with the daemon
			n.closeLookouts(e)
			e.op.Unlock()
		}
	}
}

// beside runs an operation beside the loops. What it stopped is watched from
// its end on.
func (n *Node) beside(op func()) {
	n.ops.Add(1)
	go func() {
		defer n.ops.Done()
		defer n.stir()
		op()
	}()
}

// stir has what is stopped watched.
func (n *Node) stir() {
	select {
	case n.stirred <- struct{}{}:
	default:
	}
}

// Wake is signalled when Sample has something new.
func (n *Node) Wake() <-chan struct{} { return n.wake }

// Sample hands over what is new.
func (n *Node) Sample(time.Duration) model.Sample {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.look
	s.Events = n.events
	n.look, n.events = model.Sample{}, nil
	return s
}

// push adds events and wakes the engine.
func (n *Node) push(evs ...model.Event) {
	now := n.Clock()
	n.mu.Lock()
	for i := range evs {
		evs[i].At = now
	}
	n.events = append(n.events, evs...)
	n.mu.Unlock()
	n.poke()
}

func (n *Node) poke() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// watchEvery is how often stopped tenants are looked at for signals that wait
// for them and for others who continued them: within 200 ms a signal that is
// meant for one is to have continued it.
const watchEvery = 150 * time.Millisecond

// Run looks at /proc and the driver until the context ends, then waits for
// the operations that are under way.
func (n *Node) Run(ctx context.Context) {
	look := time.NewTicker(n.Every)
	defer look.Stop()
	watch := time.NewTimer(0)
	defer watch.Stop()
	watching := true // the timer runs
	n.Look()
	for {
		select {
		case <-ctx.Done():
			n.end()
			n.ops.Wait()
			return
		case <-look.C:
			n.Look()
		case <-n.stirred:
			if !watching {
				watching = true
				watch.Reset(n.watchEvery())
			}
		case <-watch.C:
			if watching = n.watch(); watching {
				watch.Reset(n.watchEvery())
			}
		}
	}
}

func (n *Node) watchEvery() time.Duration { return min(watchEvery, n.Every) }

// logf logs where there is a log.
func (n *Node) logf(format string, args ...any) {
	if n.Log != nil {
		n.Log(format, args...)
	}
}

// Strays lists processes on the GPUs that belong to no tenant, as last seen.
func (n *Node) Strays() []model.Stray {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]model.Stray(nil), n.strays...)
}

// Register takes in a task that was launched. It returns as soon as the task
// is followed; what becomes of it the engine decides.
func (n *Node) Register(r model.Registration) error {
	id := proc.ID(r.Proc)
	if id.PID <= 1 || id.Start == 0 {
		return fmt.Errorf("register %s: %s names no process", r.StepLabel(r.StepID), id)
	}
	fresh := r.Run() || n.unstarted(id) // a command waits for the reply
	if err := n.Tracker.Watch(id, fresh); err != nil {
		return fmt.Errorf("register %s, task %d: %w", r.StepLabel(r.StepID), r.TaskID, err)
	}
	failpoint.At("register.watched")
	e, added := n.book.join(r, nil, n.Wall())
	if e == nil {
		g := n.makeGrant(r, keyOf(r))
		g.Late = !fresh && !n.unstarted(id)
		e, added = n.book.join(r, &g, n.Wall())
	}
	defer n.book.joined(e)
	if !added {
		return nil
	}
	grant := e.granted()
	n.push(model.Event{Kind: model.EvRegistered, Tenant: e.id, Reg: &r, Grant: &grant})
	n.joinStop(e, id)
	return nil
}

// unstarted tells whether a task is still slurmstepd's: its program has not
// begun.
func (n *Node) unstarted(id proc.ID) bool {
	done, err := n.Host.Executed(id)
	return err == nil && !done
}

func (n *Node) makeGrant(r model.Registration, k key) model.Grant {
	g := model.Grant{Terms: n.Grant(r), Whole: k.step == model.NoVal, Parent: n.book.parent(k)}
	report, _ := n.GPUs.Report(n.Stale)
	gpus, err := n.resolve(r, report.GPUs)
	g.GPUs = gpus
	switch {
	case r.NNodes > 1:
		g.Exempt = fmt.Sprintf("job on %d nodes", r.NNodes)
	case err != nil:
		g.Exempt = "GPU unknown: " + err.Error()
		g.GPUs = nil
	case len(gpus) == 0:
		g.Exempt = "no GPU"
	}
	g.Terms.Notes = append(g.Terms.Notes, tooLarge(&g, report.GPUs)...)
	if len(g.GPUs) > 0 && n.Policy != nil {
		g.Policy = n.Policy(g.GPUs[0])
	}
	return g
}

// resolve finds the GPUs of a task: those that were chosen for it, else those that
// Slurm gave.
func (n *Node) resolve(r model.Registration, known []model.GPU) ([]string, error) {
	if r.Placed != "" {
		return n.Resolve([]string{r.Placed}, "", known)
	}
	return n.Resolve(r.GPUs, r.Visible, known)
}

// tooLarge says for the first of a tenant's GPUs that its claim can never fit on.
func tooLarge(g *model.Grant, known []model.GPU) []string {
	claim, ok := g.Terms.Memory.Get()
	for _, gpu := range known {
		total, told := gpu.Total.Get()
		if room := total - gpu.Reserved.Or(0); ok && told && claim > room && slices.Contains(g.GPUs, gpu.UUID) {
			return []string{fmt.Sprintf("its claim of %s can never fit: GPU %d has %s for tenants; it may run alone, and fails if it needs more", claim, gpu.Index, room)}
		}
	}
	return nil
}

// TaskExit takes in that a task's root process ended.
func (n *Node) TaskExit(x model.TaskExit) {
	if e := n.book.ofStep(x.StepKey); e != nil {
		n.push(model.Event{Kind: model.EvTaskExit, Tenant: e.id, Step: x.StepID, Proc: x.Proc, Status: x.Status})
	}
}

// StepEnd takes in that a step ended on this node.
func (n *Node) StepEnd(s model.StepKey) {
	e := n.book.ofStep(s)
	if e == nil {
		return
	}
	n.book.endStep(e, s.StepID)
	n.push(model.Event{Kind: model.EvStepEnd, Tenant: e.id, Step: s.StepID})
	n.settle(e)
	n.endOrphans(e)
}

// Credited tells the engine that time was added to the limit of a tenant's job.
func (n *Node) Credited(id model.TenantID, d time.Duration) {
	n.push(model.Event{Kind: model.EvCredited, Tenant: id, Took: d, Text: fmt.Sprintf("%s added to the job's time limit", d)})
}

// Ordered tells whether a person's order for a tenant is on its way to the engine.
func (n *Node) Ordered(id model.TenantID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.ContainsFunc(n.events, func(ev model.Event) bool { return ev.Kind == model.EvOrder && ev.Tenant == id })
}

// Order hands a person's order to the engine; nil ends the one in force.
func (n *Node) Order(id model.TenantID, o *model.Order) {
	n.push(model.Event{Kind: model.EvOrder, Tenant: id, Order: o})
}
