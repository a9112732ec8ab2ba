package node

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/cuda"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/proc"
)

// fakeMover answers swaps and restores one after the other; beyond the list
// each succeeds.
type fakeMover struct {
	swaps, restores []error
	asked           []cuda.Tenant
}

func (m *fakeMover) Swap(ctx context.Context, t cuda.Tenant) error {
	m.asked = append(m.asked, t)
	if len(m.swaps) == 0 {
		return t.Stopper.Stop(ctx)
	}
	err := m.swaps[0]
	m.swaps = m.swaps[1:]
	var f *cuda.Error
	if errors.As(err, &f) && f.Stopped && !t.Stopped {
		return errors.Join(err, t.Stopper.Stop(ctx))
	}
	return err
}

func (m *fakeMover) Restore(ctx context.Context, t cuda.Tenant) error {
	if len(m.restores) == 0 {
		if t.Stopped {
			return t.Stopper.Continue(ctx)
		}
		return nil
	}
	err := m.restores[0]
	m.restores = m.restores[1:]
	return err
}

// fakeMoves are Moves in memory.
type fakeMoves struct {
	mu   sync.Mutex
	all  map[model.TenantID]Moved
	full bool
}

func (m *fakeMoves) Put(v Moved) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.full {
		return errors.New("no space left on device")
	}
	m.all[v.Tenant] = v
	return nil
}

func (m *fakeMoves) Drop(id model.TenantID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.all, id)
	return nil
}

func (m *fakeMoves) get(id model.TenantID) (Moved, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.all[id]
	return v, ok
}

type noStops struct{}

func (noStops) Put(Stop) error            { return nil }
func (noStops) Drop(model.TenantID) error { return nil }
func (noStops) Check() error              { return nil }

// fixedGPUs show one GPU with one process on it.
type fixedGPUs struct{ pid int }

func (g fixedGPUs) Report(time.Duration) (model.GPUReport, bool) {
	return model.GPUReport{At: 1, GPUs: []model.GPU{{UUID: "GPU-a", Total: model.Known(16 * model.GiB),
		Procs: model.Known([]model.GPUProc{{PID: g.pid, Memory: model.Known(4 * model.GiB)}, {PID: 1, Memory: model.Known(model.GiB)}})}}}, true
}

// rig is a node with one tenant, a process that sleeps.
type rig struct {
	t     *testing.T
	n     *Node
	mover *fakeMover
	moves *fakeMoves
	id    proc.ID
	e     *entry
	seq   uint64
}

func newRig(t *testing.T) *rig { return newFastRig(t, 1) }

// newFastRig is a rig whose clock is so many times too fast.
func newFastRig(t *testing.T, fast time.Duration) *rig {
	t.Helper()
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, mover: &fakeMover{}, moves: &fakeMoves{all: map[model.TenantID]Moved{}}}
	begin := time.Now()
	r.n = New(Parts{
		GPUs: fixedGPUs{cmd.Process.Pid}, Stops: noStops{}, Mover: r.mover, Moves: r.moves,
		Grant:   func(model.Registration) model.Terms { return model.Terms{Weight: 1} },
		Resolve: func([]string, string, []model.GPU) ([]string, error) { return []string{"GPU-a"}, nil },
		Clock:   func() time.Duration { return fast*time.Since(begin) + time.Second }, Wall: time.Now,
		StopTimeout: 5 * time.Second, Every: time.Second, Stale: time.Minute,
	})
	t.Cleanup(func() {
		r.n.Close()
		r.n.ops.Wait()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	id, err := r.n.Host.Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	r.id = id
	if err := r.n.Register(model.Registration{JobID: 1, StepID: model.StepBatch, Proc: model.ProcID(id)}); err != nil {
		t.Fatal(err)
	}
	r.e = r.n.book.ofRoot(id)
	r.n.Sample(0)
	return r
}

// do carries an action out and returns its outcome.
func (r *rig) do(p model.Primitive) model.Event {
	r.t.Helper()
	r.seq++
	r.n.Do(model.Action{ID: r.seq, Do: p, Tenant: r.e.id}, &model.Tenant{ID: r.e.id})
	r.n.ops.Wait()
	for _, ev := range r.n.Sample(0).Events {
		if ev.Action == r.seq {
			return ev
		}
	}
	r.t.Fatalf("%s had no outcome", p)
	return model.Event{}
}

func (r *rig) stopped() bool { return r.n.Host.Look(r.id) == proc.ConditionStopped }

func (r *rig) want(ev model.Event, kind model.EventKind, stopped, moved bool) {
	r.t.Helper()
	if ev.Kind != kind {
		r.t.Errorf("%s %s: %s, want %s", ev.Do, ev.Kind, ev.Text, kind)
	}
	if r.stopped() != stopped {
		r.t.Errorf("after %s %s its process is stopped: %t", ev.Do, ev.Kind, r.stopped())
	}
	if _, ok := r.moves.get(r.e.id); ok != moved {
		r.t.Errorf("after %s %s it is written down as swapped: %t", ev.Do, ev.Kind, ok)
	}
}

func failed(step cuda.Step, state cuda.State, next cuda.Next, stopped bool, err error) error {
	return &cuda.Error{Op: "swap", Step: step, State: state, Next: next, Stopped: stopped, Err: err}
}

func TestSwapAndRestore(t *testing.T) {
	r := newRig(t)
	r.want(r.do(model.PrimSwap), model.EvDone, true, true)
	want := Moved{Tenant: r.e.id, Proc: model.ProcID(r.id), Memory: 4 * model.GiB}
	if got, _ := r.moves.get(r.e.id); got != want {
		t.Errorf("written down: %+v, want %+v", got, want)
	}
	if p := r.mover.asked[0].Procs; len(p) != 1 || p[0].ID != model.ProcID(r.id) {
		t.Errorf("a stranger's process is moved too: %+v", p)
	}
	r.want(r.do(model.PrimRestore), model.EvDone, false, false)
	r.want(r.do(model.PrimPause), model.EvDone, true, false)
	r.want(r.do(model.PrimSwap), model.EvDone, true, true)
	if !r.mover.asked[1].Stopped {
		t.Error("the mover was not told that the tenant is stopped")
	}
	r.want(r.do(model.PrimResume), model.EvDone, false, false) // of a swap that was given up
}

// TestSwapThatFails: whatever goes wrong, the tenant runs, unless it is swapped
// all the same.
func TestSwapThatFails(t *testing.T) {
	boom := errors.New("CUDA error 999")
	for name, c := range map[string]struct {
		paused   bool
		swap     error
		restores []error
		full     bool
		kind     model.EventKind
		stopped  bool
		moved    bool
	}{
		"refused":                  {swap: failed(cuda.StepCheck, cuda.Running, cuda.NextNothing, false, boom), kind: model.EvFailed},
		"a paused one is refused":  {paused: true, swap: failed(cuda.StepCheck, cuda.Running, cuda.NextNothing, true, boom), kind: model.EvFailed},
		"rolled back":              {swap: failed(cuda.StepLock, cuda.Running, cuda.NextRetry, false, boom), kind: model.EvFailed},
		"cannot be written down":   {full: true, kind: model.EvFailed},
		"left locked, then freed":  {swap: failed(cuda.StepLock, cuda.Locked, cuda.NextRestore, false, boom), kind: model.EvFailed},
		"freed at the second try":  {swap: failed(cuda.StepLock, cuda.Locked, cuda.NextRestore, false, boom), kind: model.EvFailed, restores: []error{failed(cuda.StepUnlock, cuda.Locked, cuda.NextRestore, false, boom)}},
		"swapped, nothing to free": {swap: failed(cuda.StepStop, cuda.Checkpointed, cuda.NextRestore, true, boom), kind: model.EvDone, stopped: true, moved: true, restores: []error{failed(cuda.StepRestore, cuda.Checkpointed, cuda.NextRestore, true, cuda.ErrNoRoom)}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			if c.paused {
				r.want(r.do(model.PrimPause), model.EvDone, true, false)
			}
			if c.swap != nil {
				r.mover.swaps = []error{c.swap}
			}
			r.mover.restores, r.moves.full = c.restores, c.full
			ev := r.do(model.PrimSwap)
			r.want(ev, c.kind, c.stopped, c.moved)
			if ev.Lasting {
				t.Error("one failure is taken for lasting")
			}
		})
	}
}

// TestNoMoreSwaps: a tenant that the driver cannot checkpoint, or whose swaps
// failed three times in a row, is not tried again; host RAM that is short for
// now is no such reason.
func TestNoMoreSwaps(t *testing.T) {
	r := newRig(t)
	short := failed(cuda.StepCheck, cuda.Running, cuda.NextNothing, false, cuda.ErrNoRoom)
	other := failed(cuda.StepLock, cuda.Running, cuda.NextRetry, false, errors.New("device not ready"))
	never := failed(cuda.StepCheckpoint, cuda.Running, cuda.NextRetry, false, cuda.ErrUnsupported)
	for i, c := range []struct {
		err     error
		lasting bool
	}{{short, false}, {short, false}, {short, false}, {short, false}, {other, false}, {other, false}, {nil, false}, {other, false}, {other, false}, {other, true}, {never, true}} {
		if r.mover.swaps = nil; c.err != nil {
			r.mover.swaps = []error{c.err}
		}
		if ev := r.do(model.PrimSwap); ev.Lasting != c.lasting {
			t.Errorf("try %d (%v): lasting %t, want %t", i, c.err, ev.Lasting, c.lasting)
		}
		r.do(model.PrimRestore)
	}
}

// TestNoRoomToRestore: it stays swapped, and is restored later.
func TestNoRoomToRestore(t *testing.T) {
	r := newRig(t)
	r.want(r.do(model.PrimSwap), model.EvDone, true, true)
	r.mover.restores = []error{failed(cuda.StepRestore, cuda.Checkpointed, cuda.NextRestore, true, cuda.ErrNoRoom)}
	r.want(r.do(model.PrimRestore), model.EvFailed, true, true)
	r.want(r.do(model.PrimRestore), model.EvDone, false, false)
}

// TestReleaseOfSwapped: at the end all run; memory comes back where there is
// room, and else stays written down.
func TestReleaseOfSwapped(t *testing.T) {
	for _, room := range []bool{true, false} {
		r := newRig(t)
		r.want(r.do(model.PrimSwap), model.EvDone, true, true)
		n, err := r.n.ReleaseAll(func(model.TenantID) bool { return room })
		if n != 1 || err != nil {
			t.Errorf("released %d: %v", n, err)
		}
		if _, moved := r.moves.get(r.e.id); r.stopped() || moved == room {
			t.Errorf("room %t: stopped %t, written down as swapped %t", room, r.stopped(), moved)
		}
	}
}

// TestContinuedWhileSwapped: one that somebody else continues runs without its
// memory, and asks for it.
func TestContinuedWhileSwapped(t *testing.T) {
	r := newRig(t)
	r.want(r.do(model.PrimSwap), model.EvDone, true, true)
	if _, err := r.n.Host.Resume([]proc.ID{r.id}); err != nil {
		t.Fatal(err)
	}
	r.n.watch()
	evs := r.n.Sample(0).Events
	if len(evs) != 1 || evs[0].Kind != model.EvSignalled {
		t.Errorf("told %+v, want one event signalled", evs)
	}
	r.want(r.do(model.PrimRestore), model.EvDone, false, false)
}

// stuck is a process that the driver keeps locked.
func stuck() error {
	return failed(cuda.StepUnlock, cuda.Locked, cuda.NextRestore, false, errors.New("device not ready"))
}

// TestRescue: a process that cannot be unlocked in time counts as running, is
// not forgotten, and comes back as soon as the driver lets it.
func TestRescue(t *testing.T) {
	r := newFastRig(t, 50)
	r.mover.swaps, r.mover.restores = []error{stuck()}, []error{stuck(), stuck(), stuck()}
	r.want(r.do(model.PrimSwap), model.EvFailed, false, true)
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		r.n.watch()
		r.n.ops.Wait()
		if _, moved := r.moves.get(r.e.id); !moved {
			break
		}
		if time.Now().After(end) {
			t.Fatal("nobody tries to bring it back")
		}
	}
	if len(r.mover.restores) > 0 || r.stopped() {
		t.Errorf("%d failures are left, stopped %t", len(r.mover.restores), r.stopped())
	}
}

// evictions are a Slurm that only counts.
type evictions struct{ asked chan string }

func (s evictions) Evict(_ context.Context, _ model.Registration, why string) error {
	s.asked <- why
	return nil
}

func (evictions) Completing(context.Context, uint32) (bool, error) { return false, nil }

// TestGivenUp: a process that the driver has given up, or keeps for too long, is
// evicted, with the reason.
func TestGivenUp(t *testing.T) {
	for name, err := range map[string]error{
		"at once": failed(cuda.StepCheckpoint, cuda.Failed, cuda.NextEvict, false, errors.New("given up")),
		"later":   stuck(),
	} {
		t.Run(name, func(t *testing.T) {
			r := newFastRig(t, 200)
			slurm := evictions{make(chan string, 10)}
			r.n.Slurm = slurm
			r.mover.swaps = []error{err}
			for range 1000 {
				r.mover.restores = append(r.mover.restores, stuck())
			}
			r.do(model.PrimSwap)
			for end := time.Now().Add(10 * time.Second); len(slurm.asked) == 0; time.Sleep(10 * time.Millisecond) {
				if r.n.watch(); time.Now().After(end) {
					t.Fatal("it is not evicted")
				}
			}
			r.n.ops.Wait()
			if why := <-slurm.asked; !strings.Contains(why, "could not be moved back") {
				t.Errorf("the reason is %q", why)
			}
		})
	}
}
