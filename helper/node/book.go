package node

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/proc"
)

// key names what a registration belongs to: a job's part of this node, or one
// step with an option of its own.
type key struct {
	job  uint32
	step uint32 // model.NoVal for the whole job
}

func keyOf(r model.Registration) key {
	if r.Own {
		return key{r.JobID, r.StepID}
	}
	return key{r.JobID, model.NoVal}
}

// entry is what the node knows of one tenant beyond what the engine does: its
// root processes and what is stopped of it.
type entry struct {
	id      model.TenantID
	key     key
	reg     model.Registration // of the first task
	grant   model.Grant        // its GPUs may change: see granted
	roots   []root
	stepds  map[uint32]proc.ID // by step, while the step has not ended
	joining int                // tasks whose registration is not told yet

	op     sync.Mutex    // one operation on the processes at a time
	grip   grip          // what is stopped by us; under op
	loosed time.Duration // when what was stopped was last continued, 0 never; under op
	// Under op too: what is in host RAM, or may be; how many swaps failed in a
	// row; when to try again to bring it back, and since when that has failed.
	moved      *Moved
	unmoved    int
	rescue     time.Duration
	stuckSince time.Duration
	lookouts   map[proc.ID]*proc.Lookout // by root process, nil for one that has ended; under op
	eyes       *vigil                    // on what is stopped, nil if nothing is; under op
	ended      bool                      // it is out of the book; under op
	setBacks   []time.Duration           // when it was stopped again after somebody continued it; under op

	stilled time.Duration // when it was stopped, or was last seen running all the same; under op
	astray  atomic.Int64  // for how long it ran in all although it was to be stopped

	looks  int  // for a cgroup inside one of its own that somebody froze; under op
	inside bool // there was one

	at    []string // the GPUs that it was seen on, none of them its own; of the look
	atFor int      // for so many looks in a row

	asking    atomic.Int32  // how often it was wanted to be known whether it is ending, while Slurm is asked
	asked     time.Duration // when it last was; of whoever asks
	notEnding atomic.Int64  // when Slurm last said that it is not, 0 never

	mu    sync.Mutex
	want  stopKind // how it is wanted stopped, "" to run: later workers join
	said  saying
	onGPU map[proc.ID]bool // its processes there, as last seen
}

// wants tells whether the tenant is wanted stopped, and how.
func (e *entry) wants() stopKind {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.want
}

func (e *entry) setWant(k stopKind) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.want = k
}

// say changes what was last said of the tenant, and returns what f returns.
func (e *entry) say(f func(*saying) bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return f(&e.said)
}

// root is one task's root process.
type root struct {
	proc.ID
	step uint32
	pty  bool
}

// stopKind tells a tenant that has not started from one that was paused: after
// the daemon's death the first may wait for a new daemon, the second may not.
type stopKind string

const (
	kindHold  stopKind = "hold"
	kindPause stopKind = "pause"
	kindBeat  stopKind = "throttle" // for the rest of a throttle's period
)

// saying is the last state from outside that was turned into an event, so that
// each change is said once.
type saying struct {
	suspended string
	signal    string
}

// book holds the entries. Its lock is never held over a system call that can
// block.
type book struct {
	mu    sync.Mutex
	byID  map[model.TenantID]*entry
	byKey map[key]*entry
}

func newBook() *book {
	return &book{byID: map[model.TenantID]*entry{}, byKey: map[key]*entry{}}
}

// join adds a task to the tenant that it belongs to, or makes that. A job that
// was requeued, or whose id was used again, is a new incarnation,
// which gets the grant; added says that the task is new. Until joined is called
// the tenant cannot be removed: its end must not be told before its beginning.
// Without a grant it returns nil where the tenant would be new.
func (b *book) join(r model.Registration, g *model.Grant, at time.Time) (e *entry, added bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e = b.same(r); e == nil {
		if g == nil {
			return nil, false
		}
		k := keyOf(r)
		e = &entry{id: tenantID(r, k, at), key: k, reg: r, grant: *g, stepds: map[uint32]proc.ID{}}
		b.byID[e.id], b.byKey[k] = e, e
	}
	e.joining++
	return e, e.addRoot(r)
}

// same is the tenant that a task would join, nil if there is none.
func (b *book) same(r model.Registration) *entry {
	if e := b.byKey[keyOf(r)]; e != nil && e.sameRun(r) && e.reg.UID == r.UID {
		return e
	}
	return nil
}

// sameRun tells whether a task belongs to the run of the job that the entry
// stands for. The batch step's Slurm 22.05 does not tell how often a job was
// requeued; but a run has one batch script.
func (e *entry) sameRun(r model.Registration) bool {
	if e.reg.Restart != r.Restart {
		return false
	}
	for _, have := range e.roots {
		if r.StepID == model.StepBatch && have.step == model.StepBatch && have.ID != proc.ID(r.Proc) {
			return false
		}
	}
	return true
}

// joined ends what join began.
func (b *book) joined(e *entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e.joining--
}

func tenantID(r model.Registration, k key, at time.Time) model.TenantID {
	switch {
	case r.Run():
		return model.TenantID(fmt.Sprintf("%s@%d", r.JobLabel(), at.UnixMilli()))
	case k.step == model.NoVal:
		return model.TenantID(fmt.Sprintf("%d@%d", k.job, at.UnixMilli()))
	}
	return model.TenantID(fmt.Sprintf("%d.%d@%d", k.job, k.step, at.UnixMilli()))
}

// put enters a tenant that was known before.
func (b *book) put(e *entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.byID[e.id], b.byKey[e.key] = e, e
}

// addRoot adds a task's root process; it returns false for one that is there.
func (e *entry) addRoot(r model.Registration) bool {
	id := proc.ID(r.Proc)
	for _, have := range e.roots {
		if have.ID == id {
			return false
		}
	}
	e.roots = append(e.roots, root{ID: id, step: r.StepID, pty: r.PTY})
	if r.Stepd.PID > 0 {
		e.stepds[r.StepID] = proc.ID(r.Stepd)
	}
	return true
}

// parent is the job's own tenant that a step with an option of its own belongs
// to, "" if the job is none.
func (b *book) parent(k key) model.TenantID {
	b.mu.Lock()
	defer b.mu.Unlock()
	if k.step == model.NoVal {
		return ""
	}
	if p := b.byKey[key{k.job, model.NoVal}]; p != nil {
		return p.id
	}
	return ""
}

// find returns the tenant of that id, nil if it is gone.
func (b *book) find(id model.TenantID) *entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.byID[id]
}

// ofStep returns the tenant in which a step runs, nil if there is none.
func (b *book) ofStep(s model.StepKey) *entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.byKey[key{s.JobID, s.StepID}]; e != nil {
		return e
	}
	return b.byKey[key{s.JobID, model.NoVal}]
}

// slurmstepds are those of the tenants' steps.
func (b *book) slurmstepds(entries []*entry) map[proc.ID]*entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := map[proc.ID]*entry{}
	for _, e := range entries {
		for _, id := range e.stepds {
			all[id] = e
		}
	}
	return all
}

// addRoot adds a root process that nobody registered; it returns false for one that is
// there.
func (b *book) addRoot(e *entry, r root) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if slices.ContainsFunc(e.roots, func(have root) bool { return have.ID == r.ID }) {
		return false
	}
	e.roots = append(e.roots, r)
	return true
}

// endStep forgets a step's slurmstepd: it has reported the step's end.
func (b *book) endStep(e *entry, step uint32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(e.stepds, step)
}

// remove forgets a tenant that was found to have nothing left when it had so
// many roots; it returns false if that was done before, while a task is joining
// it, and if one has joined since.
func (b *book) remove(e *entry, roots int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.byID[e.id] != e || e.joining > 0 || len(e.roots) != roots {
		return false
	}
	delete(b.byID, e.id)
	if b.byKey[e.key] == e {
		delete(b.byKey, e.key)
	}
	return true
}

// ofRoot returns the tenant of a root process, nil if there is none.
func (b *book) ofRoot(id proc.ID) *entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.byID {
		for _, r := range e.roots {
			if r.ID == id {
				return e
			}
		}
	}
	return nil
}

// all lists the entries in no order, into buf.
func (b *book) all(buf []*entry) []*entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.byID {
		buf = append(buf, e)
	}
	return buf
}

// snapshot copies what of an entry may change under the lock.
func (b *book) snapshot(e *entry) (roots []root, stepds []proc.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range e.stepds {
		stepds = append(stepds, id)
	}
	return append(roots, e.roots...), stepds
}
