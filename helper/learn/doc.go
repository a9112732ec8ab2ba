// Package learn finds out how fast tenants are beside each other: the rate of
// their progress beside one mate over their rate alone, both measured in windows
// in which the set of tenants that compute on their GPUs stays the same. It
// never touches the clock or the system.
//
// A tenant's progress is the counter that its job writes, where there is one, else
// the time that the multiprocessors worked for it. A window beside several mates
// is not used: it does not tell which of them delays the tenant.
//
// What is learnt is kept by job: a user and a job's name. A live tenant's own
// windows come first, then what its job did before.
package learn

import (
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// MaxError is the greatest standard error of a speed that is told; what is less
// certain is not known yet.
const MaxError = 0.05

// leastWindows are needed before a spread means anything.
const leastWindows = 3

// Options say how windows are cut, and how long what they told is kept.
type Options struct {
	Window time.Duration // shortest window that counts; above 0
	Keep   time.Duration // after which a job that was not seen again is forgotten
}

// settle is how long after a change of who computes nothing is measured, and how
// long a window has to stand before it counts: work that was queued still runs,
// and the driver's readings are of a time that is past.
func (o Options) settle() time.Duration { return min(o.Window/2, maxSettle) }

const maxSettle = 2 * time.Second

// Job is what is known again: jobs of one user that are called the same.
type Job struct {
	UID  uint32 `json:"uid"`
	Name string `json:"name"`
}

// maxName bounds the names that are kept.
const maxName = 128

// jobOf is the job that a tenant belongs to. One without a name is known as
// itself alone, and not kept.
func jobOf(t *model.Tenant) (j Job, kept bool) {
	name := strings.ToValidUTF8(t.Reg.JobName, "?")
	for len(name) > maxName {
		_, last := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-last]
	}
	if j = (Job{t.Reg.UID, name}); j.named() {
		return j, true
	}
	return Job{t.Reg.UID, "\x00" + string(t.ID)}, false
}

// Learner holds what was learnt on one node. It is not safe for use by several
// goroutines.
type Learner struct {
	o     Options
	live  map[model.TenantID]*session
	store store
	round uint64
}

// New makes a learner that knows what an earlier one kept.
func New(o Options, kept []Kept) *Learner {
	l := &Learner{o: o, live: map[model.TenantID]*session{}, store: store{}}
	l.store.load(kept)
	return l
}

// SetOptions changes how windows are cut from now on.
func (l *Learner) SetOptions(o Options) { l.o = o }

// Observe takes the node in as it is now. It is to be called after each change,
// and after each look at the driver.
func (l *Learner) Observe(n *model.Node, now time.Duration, wall time.Time) {
	l.round++
	for _, t := range n.Tenants {
		s := l.live[t.ID]
		if s == nil {
			s = newSession(t, now)
			l.live[t.ID] = s
		}
		s.round = l.round
		for _, r := range s.observe(n, t, now, l.o) {
			l.take(s, r, wall)
		}
	}
	if len(l.live) > len(n.Tenants) {
		l.drop()
	}
}

func (l *Learner) drop() {
	for id, s := range l.live {
		if s.round != l.round {
			delete(l.live, id)
		}
	}
}

// take adds a window to what is known of a tenant, and keeps what follows from it.
func (l *Learner) take(s *session, r reading, wall time.Time) {
	s.add(r)
	if !s.kept {
		return
	}
	if r.mate == (Job{}) {
		l.store.alone(s.job, r.by, s.rates(r.by).alone, wall)
	}
	for mate := range s.by[r.by].beside {
		if r.mate == (Job{}) || r.mate == mate {
			l.keepPair(s, mate, wall)
		}
	}
}

func (l *Learner) keepPair(s *session, mate Job, wall time.Time) {
	if x, e := s.speed(mate); known(x, e) && mate.named() {
		l.store.pair(s.job, mate, Speed{Speed: bounded(x), Error: e, Seen: wall.Unix()}, wall)
	}
}

// named tells whether a job has a name by which it is known again.
func (j Job) named() bool { return j.Name != "" && j.Name[0] != 0 }

// Speed is how fast a tenant is beside a mate over its speed alone, above 0 and
// at most 1, NaN while that is not known well enough ([MaxError]).
func (l *Learner) Speed(t, mate *model.Tenant) float64 {
	beside, _ := jobOf(mate)
	x, _ := l.speed(t, beside)
	return x
}

// speed is that beside a job, with its standard error.
func (l *Learner) speed(t *model.Tenant, mate Job) (x, err float64) {
	if s := l.live[t.ID]; s != nil {
		if x, e := s.speed(mate); known(x, e) {
			return bounded(x), e
		}
	}
	job, _ := jobOf(t)
	return l.store.speed(job, mate)
}

// Remaining is the computing time in seconds that a tenant still needs alone, by
// what its job says of its total and by its rate alone; NaN where one of them is
// not known.
func (l *Learner) Remaining(t *model.Tenant, _ time.Duration) float64 {
	p, ok := t.Progress.Get()
	if !ok || !(p.Total > 0) {
		return math.NaN()
	}
	rate := l.rateAlone(t)
	left := max(p.Total-p.Count, 0) / rate
	if !(rate > 0) || math.IsInf(left, 0) {
		return math.NaN()
	}
	return left
}

// rateAlone is the count per second that a tenant does alone, NaN if not known.
func (l *Learner) rateAlone(t *model.Tenant) float64 {
	if s := l.live[t.ID]; s != nil {
		if a := &s.by[byCount].alone; a.certain() {
			return a.mean
		}
	}
	job, _ := jobOf(t)
	return l.store.rate(job)
}

// Demand is the share of time on the multiprocessors that a tenant takes alone, 0
// to 1, as it or its job was seen before; NaN if not known.
func (l *Learner) Demand(t *model.Tenant) float64 {
	if s := l.live[t.ID]; s != nil {
		if a := &s.by[bySM].alone; a.n >= leastWindows {
			return min(a.mean, 1)
		}
	}
	job, _ := jobOf(t)
	return l.store.demand(job)
}

// known tells whether a speed with its standard error is certain enough.
func known(x, e float64) bool { return x > 0 && e <= MaxError && !math.IsInf(x, 0) }

// leastSpeed bounds the speeds that are told from below: nobody is ever known to
// stand still beside another.
const leastSpeed = 0.01

// bounded is a speed as it is told: no mate makes a job faster, what lies above 1
// is noise.
func bounded(x float64) float64 { return min(max(x, leastSpeed), 1) }
