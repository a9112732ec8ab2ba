package cuda

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// The operations, and the steps that each may take.
const cannotStop = "swap that cannot stop"

var wholeWay = map[string][]Step{
	cannotStop:       {StepRestore, StepUnlock},
	"swap":           {StepLock, StepCheckpoint, StepStop, StepRestore, StepUnlock},
	"swap of paused": {StepLock, StepContinue, StepCheckpoint, StepStop, StepRestore, StepUnlock},
	"restore":        {StepContinue, StepRestore, StepUnlock, StepStop},
}

func operations() []string { return []string{"swap", "swap of paused", cannotStop, "restore"} }

func newFake(op string) *fake {
	f := &fake{faults: map[Step]fault{}}
	f.stopped = op == "restore" || op == "swap of paused"
	switch op {
	case "restore":
		f.state = Checkpointed
	case cannotStop:
		f.faults[StepStop] = refuse
	}
	return f
}

func (f *fake) tenant() Tenant {
	p := Proc{ID: model.ProcID{PID: 100, Start: 1}, Memory: model.Known(8 * model.GiB)}
	return Tenant{Procs: []Proc{p}, Stopped: f.now().stopped, Stopper: f}
}

func plenty(int, model.Bytes) error { return nil }

func (f *fake) mover() *Mover { return &Mover{Driver: f, Room: plenty} }

func (f *fake) perform(op string) error {
	if op == "restore" {
		return f.mover().Restore(context.Background(), f.tenant())
	}
	return f.mover().Swap(context.Background(), f.tenant())
}

// ended says in words how an operation ended.
func (c condition) ended(err error) string {
	state := c.state.String()
	if c.gone {
		state = "gone"
	}
	stopped := "runs"
	if c.stopped {
		stopped = "stopped"
	}
	var e *Error
	if !errors.As(err, &e) {
		return fmt.Sprintf("%s, %s, done", state, stopped)
	}
	return fmt.Sprintf("%s, %s, %s", state, stopped, e.Next)
}

// TestEachFaultAtEachStep walks every operation, step and fault, and compares
// where it ends with testdata/sequence.txt.
func TestEachFaultAtEachStep(t *testing.T) {
	want := readTable(t)
	for _, op := range operations() {
		for _, step := range wholeWay[op] {
			for _, x := range stepFaults()[step] {
				name := fmt.Sprintf("%s: %s: %s", op, step, x)
				virtually(t, name, func(t *testing.T) {
					f := newFake(op)
					f.faults[step] = x
					got := f.walk(t, name, op)
					if got != want[name] {
						t.Errorf("%s -> %s, expected %q", name, got, want[name])
					}
				})
				delete(want, name)
			}
		}
	}
	for name := range want {
		t.Errorf("the table has %q, which nothing leads to", name)
	}
}

// virtually runs a subtest in which time passes at once.
func virtually(t *testing.T, name string, body func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, body) })
}

func readTable(t *testing.T) map[string]string {
	t.Helper()
	file, err := os.Open("testdata/sequence.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	table := map[string]string{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if name, end, ok := strings.Cut(lines.Text(), " -> "); ok && !strings.HasPrefix(name, "#") {
			table[name] = end
		}
	}
	return table
}

// TestTwoFaults walks every pair of steps and faults, struck once and for ever,
// against what must hold at every end.
func TestTwoFaults(t *testing.T) {
	n := 0
	for _, op := range operations() {
		for i, a := range wholeWay[op] {
			for _, b := range wholeWay[op][i:] {
				n += walkPair(t, op, a, b)
			}
		}
	}
	t.Logf("%d sequences", n)
}

func walkPair(t *testing.T, op string, a, b Step) (n int) {
	for _, x := range stepFaults()[a] {
		for _, y := range stepFaults()[b] {
			for _, once := range []bool{true, false} {
				name := fmt.Sprintf("%s: %s %s, %s %s, once %v", op, a, x, b, y, once)
				virtually(t, name, func(t *testing.T) {
					f := newFake(op)
					f.faults[a], f.faults[b], f.once = x, y, once
					f.walk(t, name, op)
				})
				n++
			}
		}
	}
	return n
}

// walk performs an operation and checks what must hold whatever went wrong. It
// returns in words how that ended.
func (f *fake) walk(t *testing.T, name, op string) string {
	begin := time.Now()
	err := f.perform(op)
	if took := time.Since(begin); took > 10*time.Minute {
		t.Errorf("%s: took %v", name, took)
	}
	end := f.now()
	end.check(t, name, op, err)
	time.Sleep(time.Minute)
	f.now().checkSettled(t, name, err)
	f.checkWayBack(t, name)
	if len(f.wrong) > 0 {
		t.Errorf("%s: %v", name, f.wrong)
	}
	return end.ended(err)
}

// check compares where an operation ended with what it said.
func (c condition) check(t *testing.T, name, op string, err error) {
	var e *Error
	if err == nil {
		reached := c.state == Checkpointed && c.stopped
		if op == "restore" {
			reached = c.state == Running && !c.stopped
		}
		if !reached || c.gone {
			t.Errorf("%s: done, yet %s", name, c.ended(nil))
		}
		return
	}
	if !errors.As(err, &e) {
		t.Errorf("%s: an error of type %T: %v", name, err, err)
		return
	}
	if e.Stopped != c.stopped || (e.State != c.state && !c.gone) {
		t.Errorf("%s: %s, yet the error says: %v, stopped %v", name, c.ended(err), e, e.Stopped)
	}
	holds := map[Next]bool{
		NextNothing: c.gone,
		NextRetry:   c.state == Running && !c.stopped,
		NextRestore: c.state != Failed && !c.gone,
		NextEvict:   c.state == Failed,
	}
	if !holds[e.Next] {
		t.Errorf("%s: %s", name, c.ended(err))
	}
}

// checkSettled makes sure that nothing late has changed what was reported.
func (c condition) checkSettled(t *testing.T, name string, err error) {
	var e *Error
	if errors.As(err, &e) && e.Next == NextRetry && c.state != Running {
		t.Errorf("%s: reported as running, and %v a minute later", name, c.state)
	}
	if err == nil && c.stopped && c.state != Checkpointed {
		t.Errorf("%s: reported as swapped, and %v a minute later", name, c.state)
	}
}

// checkWayBack makes sure that a restore helps once nothing goes wrong.
func (f *fake) checkWayBack(t *testing.T, name string) {
	if c := f.now(); c.gone || c.state == Failed {
		return
	}
	clear(f.faults)
	err := f.mover().Restore(context.Background(), f.tenant())
	if c := f.now(); err != nil || c.state != Running || c.stopped {
		t.Errorf("%s: restored afterwards: %v, %s", name, err, c.ended(err))
	}
}

func TestSwapAndRestoreWithoutFaults(t *testing.T) {
	for _, op := range operations() {
		virtually(t, op, func(t *testing.T) {
			f := newFake(op)
			if end := f.walk(t, op, op); strings.HasSuffix(end, ", done") == (op == cannotStop) {
				t.Error(end)
			}
		})
	}
}

func TestSwapIsRefusedUntouched(t *testing.T) {
	noRoomOnHost := func(int, model.Bytes) error { return fmt.Errorf("%w on the host", ErrNoRoom) }
	for _, c := range []struct {
		name   string
		spoil  func(m *Mover, t *Tenant, f *fake)
		want   error
		reason string
		next   Next
	}{
		{"two processes", func(_ *Mover, t *Tenant, _ *fake) { t.Procs = append(t.Procs, t.Procs[0]) }, ErrUnsupported, "2 processes", NextNothing},
		{"no process", func(_ *Mover, t *Tenant, _ *fake) { t.Procs = nil }, ErrUnsupported, "0 processes", NextNothing},
		{"MIG", func(_ *Mover, t *Tenant, _ *fake) { t.Procs[0].MIG = true }, ErrUnsupported, "MIG", NextNothing},
		{"unknown size", func(_ *Mover, t *Tenant, _ *fake) { t.Procs[0].Memory = model.Reading[model.Bytes]{} }, ErrUnsupported, "not known", NextNothing},
		{"old driver", func(m *Mover, _ *Tenant, f *fake) { m.Driver = oldDriver{f} }, ErrUnsupported, "older than R570", NextNothing},
		{"host RAM", func(m *Mover, _ *Tenant, _ *fake) { m.Room = noRoomOnHost }, ErrNoRoom, "host", NextNothing},
		{"locked by another", func(_ *Mover, _ *Tenant, f *fake) { f.state = Locked }, ErrUnsupported, "locked already", NextNothing},
		{"failed before", func(_ *Mover, _ *Tenant, f *fake) { f.state = Failed }, nil, "given the process up", NextEvict},
		{"gone", func(_ *Mover, _ *Tenant, f *fake) { f.gone = true }, ErrGone, "ended", NextNothing},
	} {
		f := newFake("swap")
		m, tenant := f.mover(), f.tenant()
		c.spoil(m, &tenant, f)
		state := f.state
		err := m.Swap(context.Background(), tenant)
		var e *Error
		if !errors.As(err, &e) || (c.want != nil && !errors.Is(err, c.want)) || !strings.Contains(err.Error(), c.reason) || e.Next != c.next {
			t.Errorf("%s: %v", c.name, err)
		}
		if f.state != state || f.stopped {
			t.Errorf("%s: touched: %s", c.name, f.now().ended(err))
		}
	}
}

type oldDriver struct{ *fake }

func (oldDriver) Supported(context.Context) Support { return Support{Reason: "driver older than R570"} }

func TestSwapThatIsCancelledGoesBack(t *testing.T) {
	for _, at := range []Step{StepLock, StepCheckpoint} {
		virtually(t, string(at), func(t *testing.T) {
			f := newFake("swap")
			ctx, cancel := context.WithCancel(context.Background())
			m := f.mover()
			m.Driver = cancelling{f, at, cancel}
			err := m.Swap(ctx, f.tenant())
			if !errors.Is(err, context.Canceled) || f.state != Running || f.stopped {
				t.Errorf("cancelled at %s: %v, %s", at, err, f.now().ended(err))
			}
		})
	}
}

// cancelling cancels a context at the end of a step.
type cancelling struct {
	*fake
	at     Step
	cancel context.CancelFunc
}

func (c cancelling) Lock(ctx context.Context, p model.ProcID, timeout time.Duration) error {
	defer c.when(StepLock)
	return c.fake.Lock(ctx, p, timeout)
}

func (c cancelling) Checkpoint(ctx context.Context, p model.ProcID) error {
	defer c.when(StepCheckpoint)
	return c.fake.Checkpoint(ctx, p)
}

func (c cancelling) when(s Step) {
	if s == c.at {
		c.cancel()
	}
}

func TestFirstOfTakesWhatWorks(t *testing.T) {
	ctx, f := context.Background(), newFake("swap")
	d := FirstOf(oldDriver{newFake("restore")}, f)
	if s, err := d.State(ctx, model.ProcID{}); s != Running || err != nil {
		t.Errorf("state by the driver that works: %v, %v", s, err)
	}
	none := FirstOf(oldDriver{f}, oldDriver{f})
	if s := none.Supported(ctx); s.OK || strings.Count(s.Reason, "R570") != 2 {
		t.Errorf("none works: %+v", s)
	}
	calls := []error{d.Lock(ctx, model.ProcID{}, time.Second), d.Checkpoint(ctx, model.ProcID{}),
		d.Restore(ctx, model.ProcID{}), d.Unlock(ctx, model.ProcID{})}
	if slices.ContainsFunc(calls, func(err error) bool { return err != nil }) || f.state != Running {
		t.Errorf("calls through it: %v, then %v", calls, f.state)
	}
}
