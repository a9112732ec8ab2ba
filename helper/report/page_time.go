package report

import "time"

// Axis is the time of a timeline, in seconds from its start, with ticks at
// round times of the clock, or at round lengths where there is no clock.
func (t Timeline) Axis() Axis {
	length := t.Length.Seconds()
	if t.Start.IsZero() {
		unit, name := UnitOf(length / 3)
		return Even(length, unit, func(v float64) string { return shortNumber(v/unit) + " " + name })
	}
	a := Axis{To: length}
	step, form := clockStep(t.Length)
	for at := roundUp(t.Start, step); !at.After(t.Start.Add(t.Length)); at = nextTick(at, step) {
		a.Ticks = append(a.Ticks, Tick{at.Sub(t.Start).Seconds(), at.Format(form)})
	}
	return a
}

// most ticks that an axis of times gets: their texts would meet on a phone.
const mostTicks = 4

// clockStep is the distance of ticks, and how they are written.
func clockStep(length time.Duration) (step time.Duration, form string) {
	const day = 24 * time.Hour
	for _, s := range []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
		time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
		time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, day, 2 * day, 7 * day, 14 * day} {
		if step = s; length < mostTicks*s {
			break
		}
	}
	for length >= mostTicks*step {
		step *= 2
	}
	switch {
	case step < time.Minute:
		return step, "15:04:05"
	case step < 12*time.Hour:
		return step, "15:04"
	}
	return step, "01-02 15h"
}

// roundUp is the first multiple of a step since midnight that is not before t.
func roundUp(t time.Time, step time.Duration) time.Time {
	midnight := time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, t.Location())
	since := t.Sub(midnight)
	return midnight.Add((since + step - 1) / step * step)
}

// nextTick keeps whole days at midnight when the clock is put forward or back.
func nextTick(t time.Time, step time.Duration) time.Time {
	const day = 24 * time.Hour
	if step%day == 0 {
		return t.AddDate(0, 0, int(step/day))
	}
	return t.Add(step)
}

// UnitOf is the largest unit of time, in seconds, that is not above a time.
func UnitOf(seconds float64) (unit float64, name string) {
	unit, name = 1, "s"
	for _, u := range [...]struct {
		seconds float64
		name    string
	}{{60, "min"}, {3600, "h"}, {86400, "d"}} {
		if seconds >= u.seconds {
			unit, name = u.seconds, u.name
		}
	}
	return unit, name
}
