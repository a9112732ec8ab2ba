package learn

import (
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// lived is for how long a tenant ran in which company.
type lived struct {
	until  time.Duration // up to which it is counted
	free   bool          // since then it runs and has nothing on a GPU: no mate delays it there
	alone  time.Duration
	beside map[Job]time.Duration
}

// count adds the time until now, in the company that it was in since the last
// time. That beside several mates, and that in which somebody was being stopped
// or continued, is of no known speed and left out.
func (l *lived) count(with company, now time.Duration) {
	d := now - l.until
	l.until = now
	switch {
	case l.free || with.steady && with.mates == 0:
		l.alone += d
	case with.steady && with.mates == 1:
		if _, there := l.beside[with.job]; there || len(l.beside) < maxMates {
			l.beside[with.job] += d
		}
	}
}

// Lived is how fast a tenant was since its first run, over its speed alone: the
// time that it ran alone, and that beside each mate at the speed learnt for it,
// over all the time since. The error is one standard error of these speeds, and
// half of the time in which it ran at a speed that is not known; it is at most
// [MaxError], else the speed is not known. It is to be called with the tenant's
// tally counted up to now.
func (l *Learner) Lived(t *model.Tenant, now time.Duration) model.Reading[model.Speed] {
	s := l.live[t.ID]
	if s == nil || !t.HasRun {
		return model.Unknown[model.Speed]()
	}
	if t.State == model.Gone {
		now = t.EndedAt
	}
	s.lived.count(s.with, max(now, s.lived.until))
	low, counted := s.lived.alone.Seconds(), s.lived.alone
	high := low
	for mate, d := range s.lived.beside {
		counted += d
		if x, e := l.speed(t, mate); known(x, e) {
			low += max(x-e, 0) * d.Seconds()
			high += min(x+e, 1) * d.Seconds()
		} else {
			high += d.Seconds()
		}
	}
	high += max(t.Tally.Running-counted, 0).Seconds()
	return between(low, high, (now - t.FirstRan).Seconds())
}

// between is the middle of two amounts of work over the time that they took.
func between(low, high, time float64) model.Reading[model.Speed] {
	s := model.Speed{Mean: (low + high) / 2 / time, Error: (high - low) / 2 / time}
	if !(time > 0) || !(s.Error <= MaxError) {
		return model.Unknown[model.Speed]()
	}
	s.Mean = min(s.Mean, 1)
	return model.Known(s)
}
