package gpu

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// slowSource hangs in Read until it is let go.
type slowSource struct {
	gate   chan struct{}
	reads  atomic.Int32
	closed atomic.Bool
}

func (s *slowSource) Read(now time.Duration) model.GPUReport {
	s.reads.Add(1)
	<-s.gate
	return model.GPUReport{At: now}
}
func (s *slowSource) Notes() []string { return []string{"odd"} }
func (s *slowSource) Close()          { s.closed.Store(true) }

// monotonic is a clock that a test may put forward.
type monotonic struct {
	start time.Time
	skip  atomic.Int64
}

func (m *monotonic) now() time.Duration {
	return time.Since(m.start) + time.Duration(m.skip.Load())
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited too long for %s", what)
		}
	}
}

func TestSampler(t *testing.T) {
	defer goleak.VerifyNone(t)
	src := &slowSource{gate: make(chan struct{})}
	clock := &monotonic{start: time.Now()}
	s := watch(src, time.Millisecond, clock.now)
	if _, ok := s.Report(time.Hour); ok {
		t.Error("a report before the first look")
	}
	close(src.gate)
	<-s.News()
	if r, ok := s.Report(time.Hour); !ok || r.Fault != "" {
		t.Errorf("after the first look: %+v, %v", r, ok)
	}
	await(t, "more looks", func() bool { return src.reads.Load() > 3 })
	if n := s.Notes(); len(n) == 0 || len(n) > maxNotes {
		t.Errorf("notes %q", n)
	}
	if err := s.Close(10 * time.Second); err != nil {
		t.Error(err)
	}
	if !src.closed.Load() {
		t.Error("the library was not given back")
	}
}

func TestSamplerInterval(t *testing.T) {
	defer goleak.VerifyNone(t)
	src := &slowSource{gate: make(chan struct{})}
	close(src.gate)
	clock := &monotonic{start: time.Now()}
	s := watch(src, time.Hour, clock.now)
	<-s.News()
	for range 10 {
		s.SetInterval(time.Hour)
	}
	s.SetInterval(time.Millisecond)
	await(t, "looks at the new interval", func() bool { return src.reads.Load() > 5 })
	if err := s.Close(10 * time.Second); err != nil {
		t.Error(err)
	}
}

func TestSamplerOfADriverThatHangs(t *testing.T) {
	defer goleak.VerifyNone(t)
	src := &slowSource{gate: make(chan struct{})}
	clock := &monotonic{start: time.Now()}
	s := watch(src, time.Millisecond, clock.now)
	src.gate <- struct{}{}
	<-s.News()
	await(t, "the next look", func() bool { return src.reads.Load() == 2 })
	clock.skip.Store(int64(time.Minute))
	r, ok := s.Report(5 * time.Second)
	if !ok || !strings.Contains(r.Fault, "not answered for more than 5s") || len(r.GPUs) != 0 {
		t.Errorf("report %+v, %v", r, ok)
	}
	if age := s.Age(); age < 50*time.Second {
		t.Errorf("age %s", age)
	}
	if err := s.Close(time.Millisecond); !errors.Is(err, ErrHung) {
		t.Errorf("close of a hung sampler: %v", err)
	}
	close(src.gate) // the driver comes back: nothing is left behind
}
