package node_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/node"
	"github.com/gimbal-hpc/gimbal/helper/proc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds what a test waits for; it only guards against hangs.
const patience = 20 * time.Second

// stage is a node over real processes, with a driver and a stop set that the
// test controls.
type stage struct {
	t     *testing.T
	n     *node.Node
	stops *stopBook
	gpus  *driver
	slurm *slurm
	leave func() // ends Run

	mu   sync.Mutex
	seen []model.Event
	next uint64
}

func newStage(t *testing.T, change ...func(*node.Parts)) *stage {
	t.Helper()
	s := &stage{t: t, stops: &stopBook{}, gpus: &driver{}, slurm: &slurm{}}
	begin := time.Now()
	p := node.Parts{
		GPUs: s.gpus, Stops: s.stops, Slurm: s.slurm,
		Grant:   func(model.Registration) model.Terms { return model.Terms{Weight: 1} },
		Resolve: func(gpus []string, _ string, _ []model.GPU) ([]string, error) { return gpus, nil },
		Clock:   func() time.Duration { return time.Second + time.Since(begin) }, Wall: time.Now,
		StopTimeout: patience, Every: 50 * time.Millisecond, Stale: time.Minute,
	}
	for _, f := range change {
		f(&p)
	}
	s.n = node.New(p)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { s.n.Run(ctx); close(ended) }()
	s.leave = func() { cancel(); <-ended }
	t.Cleanup(func() {
		for _, ev := range s.events() {
			if t.Failed() {
				t.Logf("%v %s %s %s #%d %s", ev.At, ev.Kind, ev.Tenant, ev.Do, ev.Action, ev.Text)
			}
		}
		s.leave()
		if _, err := s.n.ReleaseAll(func(model.TenantID) bool { return false }); err != nil {
			t.Error(err)
		}
		s.n.Close()
	})
	return s
}

// events takes in what is new and returns all that has been seen.
func (s *stage) events() []model.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, s.n.Sample(0).Events...)
	return s.seen
}

// await waits for an event of a kind, after the first skip events.
func (s *stage) await(kind model.EventKind, skip int) model.Event {
	s.t.Helper()
	var found model.Event
	eventually(s.t, fmt.Sprintf("an event %s", kind), func() bool {
		for _, ev := range s.events()[skip:] {
			if ev.Kind == kind {
				found = ev
				return true
			}
		}
		return false
	})
	return found
}

// do carries out an action and waits for its outcome.
func (s *stage) do(p model.Primitive, id model.TenantID) model.Event {
	s.t.Helper()
	action := s.start(p, id)
	var found model.Event
	eventually(s.t, fmt.Sprintf("the outcome of %s", p), func() bool {
		for _, ev := range s.events() {
			if ev.Action == action && (ev.Kind == model.EvDone || ev.Kind == model.EvFailed) {
				found = ev
				return true
			}
		}
		return false
	})
	return found
}

func (s *stage) start(p model.Primitive, id model.TenantID) uint64 {
	s.next++
	s.n.Do(model.Action{ID: s.next, Do: p, Tenant: id}, &model.Tenant{ID: id})
	return s.next
}

func (s *stage) mustDo(p model.Primitive, id model.TenantID) {
	s.t.Helper()
	if ev := s.do(p, id); ev.Kind != model.EvDone {
		s.t.Fatalf("%s: %s", p, ev.Text)
	}
}

// register registers a process as a task of a job and returns the tenant.
func (s *stage) register(job uint32, id proc.ID) model.TenantID {
	s.t.Helper()
	return s.registerAs(model.Registration{JobID: job, Proc: model.ProcID(id)})
}

func (s *stage) registerAs(r model.Registration) model.TenantID {
	s.t.Helper()
	r.GPUs = []string{"GPU-0"}
	if err := s.n.Register(r); err != nil {
		s.t.Fatal(err)
	}
	for _, ev := range s.events() {
		if ev.Kind == model.EvRegistered && ev.Reg.Proc == r.Proc {
			return ev.Tenant
		}
	}
	s.t.Fatal("a registration was not told")
	return ""
}

// driver is what NVML would show.
type driver struct {
	mu     sync.Mutex
	report model.GPUReport
	reads  time.Duration
}

func (d *driver) Report(time.Duration) (model.GPUReport, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reads++
	r := d.report
	r.At = d.reads
	return r, true
}

// looked is how often it was read.
func (d *driver) looked() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.reads
}

func (d *driver) set(r model.GPUReport) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.report = r
}

// slurm notes what it is asked to evict.
type slurm struct {
	mu      sync.Mutex
	evicted []uint32
	answers []string // to whether a job is ending, "no" after the last
	asked   []time.Time
}

func (s *slurm) Completing(context.Context, uint32) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, time.Now())
	answer := "no"
	if len(s.answers) > 0 {
		answer, s.answers = s.answers[0], s.answers[1:]
	}
	if answer == "silence" {
		return false, errors.New("no answer")
	}
	return answer == "yes", nil
}

// say sets the next answer.
func (s *slurm) say(answer string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = append(s.answers, answer)
}

func (s *slurm) Evict(_ context.Context, r model.Registration, _ string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.evicted = append(s.evicted, r.JobID)
	return nil
}

// stopBook is a stop set in memory. It notes processes that were stopped
// before they were written down.
type stopBook struct {
	mu      sync.Mutex
	full    error // of each Put
	fenced  error // of each Check, and of a Put whose stop has begun
	stopped map[model.TenantID][]model.ProcID
	early   []model.ProcID
	puts    int
}

func (b *stopBook) Put(s node.Stop) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.full != nil:
		return b.full
	case s.Begun && b.fenced != nil:
		return b.fenced
	}
	b.puts++
	if b.stopped == nil {
		b.stopped = map[model.TenantID][]model.ProcID{}
	}
	for _, id := range s.IDs {
		if (proc.Host{}).Look(proc.ID(id)) == proc.ConditionStopped {
			b.early = append(b.early, id)
		}
	}
	b.stopped[s.Tenant] = append(b.stopped[s.Tenant], s.IDs...)
	return nil
}

func (b *stopBook) Drop(id model.TenantID) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.stopped, id)
	return nil
}

func (b *stopBook) Check() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fenced
}

func (b *stopBook) fail(full, fenced error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.full, b.fenced = full, fenced
}

func (b *stopBook) of(id model.TenantID) map[model.ProcID]bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := map[model.ProcID]bool{}
	for _, p := range b.stopped[id] {
		out[p] = true
	}
	return out
}

// signaller is the kernel's, until it is told to fail.
type signaller struct {
	mu   sync.Mutex
	fail error
}

func (s *signaller) Open(pid int) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return -1, s.fail
	}
	return unix.PidfdOpen(pid, 0)
}

func (s *signaller) Send(fd int, sig unix.Signal) error {
	return unix.PidfdSendSignal(fd, sig, nil, 0)
}
func (s *signaller) Close(fd int) { _ = unix.Close(fd) }

func (s *signaller) set(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

var errFull = errors.New("no space left on device")
