package gpu

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// source is what a Sampler calls; Reader is one.
type source interface {
	Read(now time.Duration) model.GPUReport
	Notes() []string
	Close()
}

// Sampler reads the GPUs at an interval in a goroutine of its own. A call into
// the driver may hang for ever: then the last report only grows older, and
// whoever asks for it never waits.
type Sampler struct {
	src   source
	clock func() time.Duration
	news  chan struct{}
	stop  chan struct{}
	done  chan struct{}
	pace  chan time.Duration

	mu      sync.Mutex
	last    model.GPUReport
	have    bool
	reading bool          // a look is under way
	since   time.Duration // when it, or the sampler, began
	notes   []string
}

// Watch starts to sample. clock is a monotonic clock.
func Watch(r *Reader, interval time.Duration, clock func() time.Duration) *Sampler {
	return watch(r, interval, clock)
}

func watch(src source, interval time.Duration, clock func() time.Duration) *Sampler {
	s := &Sampler{src: src, clock: clock, since: clock(),
		news: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
		pace: make(chan time.Duration, 1)}
	go s.run(interval)
	return s
}

func (s *Sampler) run(interval time.Duration) {
	defer close(s.done)
	defer s.src.Close()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		s.look()
		select {
		case <-s.stop:
			return
		case d := <-s.pace:
			tick.Reset(d)
		case <-tick.C:
		}
		select { // a tick and the end may have come together
		case <-s.stop:
			return
		default:
		}
	}
}

func (s *Sampler) look() {
	now := s.clock()
	s.mu.Lock()
	s.reading, s.since = true, now
	s.mu.Unlock()
	report := s.src.Read(now)
	notes := s.src.Notes()
	s.mu.Lock()
	s.last, s.have, s.reading = report, true, false
	s.notes = append(s.notes, notes...)
	s.notes = s.notes[:min(len(s.notes), maxNotes)]
	s.mu.Unlock()
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// News is sent to when there is a new report.
func (s *Sampler) News() <-chan struct{} { return s.news }

// SetInterval changes the interval; it takes effect with the next look.
func (s *Sampler) SetInterval(d time.Duration) {
	for {
		select {
		case s.pace <- d:
			return
		default:
		}
		select { // nobody has taken the one before: replace it
		case <-s.pace:
		default:
		}
	}
}

// Report is the last report. When that is older than stale, or there is none
// for so long, its GPUs count for nothing and its fault says that the driver
// does not answer. Before the first report, ok is false.
func (s *Sampler) Report(stale time.Duration) (report model.GPUReport, ok bool) {
	now := s.clock()
	s.mu.Lock()
	defer s.mu.Unlock()
	report, ok = s.last, s.have
	if late := now-s.since > stale; late && s.reading {
		return model.GPUReport{At: report.At, Fault: fmt.Sprintf("the driver has not answered for more than %s", stale)}, true
	}
	return report, ok
}

// Age is how old the last report is; before the first, how long it is waited
// for.
func (s *Sampler) Age() time.Duration {
	now := s.clock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.have {
		return now - s.since
	}
	return now - s.last.At
}

// Notes returns what was odd since it was last called (see Reader.Notes).
func (s *Sampler) Notes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.notes
	s.notes = nil
	return n
}

// ErrHung is what Close returns when a call into the driver does not end.
var ErrHung = errors.New("a call into the GPU driver does not return")

// Close ends the sampling and waits, at most for the time given, until the
// look under way has ended.
func (s *Sampler) Close(wait time.Duration) error {
	close(s.stop)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-s.done:
		return nil
	case <-timer.C:
		return ErrHung
	}
}
