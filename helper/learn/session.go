package learn

import (
	"math"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// What progress is measured by, the best first.
const (
	byCount = iota // the job's own counter
	bySM           // time on the multiprocessors
	kinds
)

// maxMates bounds the mates of whom one tenant is remembered beside.
const maxMates = 32

// rates is what was measured of one tenant by one measure.
type rates struct {
	alone  estimate
	beside map[Job]*estimate
}

// session is one live tenant.
type session struct {
	job     Job
	kept    bool
	round   uint64
	with    company
	since   time.Duration // when with began
	read    time.Duration // of the driver, up to which sm is added up
	sm      float64       // seconds on the multiprocessors
	gaps    uint64        // stretches in which they were not known
	windows [kinds]window
	by      [kinds]rates
	found   []reading
	lived   lived
}

// reading is the rate of one window: alone, or beside a mate.
type reading struct {
	by   int
	mate Job
	rate float64
}

func newSession(t *model.Tenant, now time.Duration) *session {
	s := &session{lived: lived{until: now, beside: map[Job]time.Duration{}}}
	s.job, s.kept = jobOf(t)
	for i := range s.by {
		s.by[i].beside = map[Job]*estimate{}
	}
	return s
}

func (s *session) rates(by int) *rates { return &s.by[by] }

// observe takes in a tenant as it is now, and returns the windows that are over;
// they are valid until the next call.
func (s *session) observe(n *model.Node, t *model.Tenant, now time.Duration, o Options) []reading {
	s.found = s.found[:0]
	s.lived.count(s.with, now)
	s.lived.free = runs(t) && !t.OnGPU
	if c := companyOf(n, t, now, o.settle()); c != s.with {
		s.with, s.since = c, now
		for i := range s.windows {
			s.windows[i].reset()
		}
	}
	s.integrate(n, t)
	if !s.with.steady || s.with.mates > 1 {
		return nil
	}
	from := s.since + o.settle()
	if p, ok := t.Progress.Get(); ok {
		s.windows[byCount].add(point{p.At, p.Count, p.Source}, from, o.Window)
	}
	s.windows[bySM].add(point{s.read, s.sm, s.gaps}, from, o.Window)
	for by := range s.windows {
		s.windows[by].take(now-o.settle(), func(rate float64) {
			s.found = append(s.found, reading{by, s.with.job, rate})
		})
	}
	return s.found
}

// integrate adds up the time on the multiprocessors at each look at the driver.
func (s *session) integrate(n *model.Node, t *model.Tenant) {
	if n.Read == s.read {
		return
	}
	sm, ok := t.SM().Get()
	if !ok || s.read == 0 || n.Read < s.read {
		s.gaps++
	} else {
		s.sm += sm * (n.Read - s.read).Seconds()
	}
	s.read = n.Read
}

// add takes a window in.
func (s *session) add(r reading) {
	k := &s.by[r.by]
	if r.mate == (Job{}) {
		k.alone.add(r.rate)
		return
	}
	e := k.beside[r.mate]
	if e == nil && len(k.beside) == maxMates {
		return
	}
	if e == nil {
		e = &estimate{}
		k.beside[r.mate] = e
	}
	e.add(r.rate)
}

// speed is the tenant's own speed beside a mate, with its standard error, by the
// best measure that knows it.
func (s *session) speed(mate Job) (x, err float64) {
	for by := range s.by {
		if e := s.by[by].beside[mate]; e != nil {
			if x, err := e.over(&s.by[by].alone); known(x, err) {
				return x, err
			}
		}
	}
	return math.NaN(), math.Inf(1)
}
