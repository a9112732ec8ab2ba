package report

import (
	"sort"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// Gain compares what a GPU did with one job at a time. Work is counted in the
// time that it takes alone: a job that computed alone did as much work as time
// went by. Beside others it did less, and how much less is not measured; it is
// estimated from its share of the multiprocessors, which holds as far as a
// kernel takes as long beside others as alone:
//
//   - Most: it was not slowed down at all.
//   - Least: alone it would have had the whole GPU, and been so much faster.
//   - Likely: alone it has the share that it was seen with alone, in this time.
type Gain struct {
	Busy   time.Duration                // somebody computed
	Shared time.Duration                // more than one did
	Wait   time.Duration                // somebody was there to compute and nobody did
	Most   time.Duration                // alone, all that was done would have taken at most so long
	Least  model.Reading[time.Duration] // and at least so long; unknown where a share is
	Likely model.Reading[time.Duration] // unknown where somebody was never seen alone
}

// Took is how long it took as it was: with the pauses between turns.
func (g Gain) Took() time.Duration { return g.Busy + g.Wait }

// Over is a time alone over the time that it took.
func (g Gain) Over(alone time.Duration) float64 { return share(alone, g.Took()) }

// part is what a track did in one stretch of the loads.
type part struct{ alone, beside time.Duration }

// gainOf compares a GPU's tracks; loads are those of the time from start on.
func gainOf(l Lane, loads []model.Load, start time.Time) Gain {
	spans := make([]span, len(loads))
	for i := range loads {
		spans[i] = span{loads[i].From.Sub(start), loads[i].From.Add(loads[i].Length).Sub(start)}
	}
	s := sweep{spans: spans, parts: make([][]part, len(l.Tracks)), all: make([]part, len(l.Tracks))}
	for i := range s.parts {
		s.parts[i] = make([]part, len(spans))
	}
	s.run(l.Tracks)
	g := s.gain
	g.Least, g.Likely = model.Known(time.Duration(0)), model.Known(time.Duration(0))
	for i, t := range l.Tracks {
		g.Most += s.all[i].alone + s.all[i].beside
		sh := sharesOf(l.UUID, t.Tenant, loads, s.parts[i])
		g.Least = addWork(g.Least, s.all[i], sh.least, model.Known(1.0))
		g.Likely = addWork(g.Likely, s.all[i], sh.beside, sh.alone)
	}
	return g
}

// addWork adds a track's work, alone and beside others, to a sum.
func addWork(sum model.Reading[time.Duration], p part, beside, alone model.Reading[float64]) model.Reading[time.Duration] {
	d, ok := sum.Get()
	if !ok {
		return sum
	}
	if p.beside == 0 {
		return model.Known(d + p.alone)
	}
	b, ok1 := beside.Get()
	a, ok2 := alone.Get()
	if !ok1 || !ok2 || a <= 0 {
		return model.Unknown[time.Duration]()
	}
	speed := min(b/a, 1)
	return model.Known(d + p.alone + time.Duration(speed*float64(p.beside)))
}

// mostly is the part of a load's stretch for which a track has to have computed
// alone, or beside others, for the share in it to count as that.
const mostly = 0.9

// shares are a track's mean shares of the multiprocessors while it computed.
type shares struct {
	alone, beside model.Reading[float64]
	// least is beside where it is known. Where the track never was beside others
	// for most of a stretch it is what is left of its share if it had the whole
	// GPU for as long as it was alone.
	least model.Reading[float64]
}

func sharesOf(uuid string, id model.TenantID, loads []model.Load, parts []part) shares {
	var alone, beside, rest mean
	for i, p := range parts {
		sm, ok := smOf(&loads[i], uuid, id)
		length := loads[i].Length
		switch {
		case !ok:
		case float64(p.alone) >= mostly*float64(length):
			alone.add(sm, length)
		case float64(p.beside) >= mostly*float64(length):
			beside.add(sm, length)
		case p.beside > 0:
			rest.add(max(sm*length.Seconds()-p.alone.Seconds(), 0)/p.beside.Seconds(), p.beside)
		}
	}
	s := shares{alone.reading(), beside.reading(), beside.reading()}
	if beside.time == 0 {
		s.least = rest.reading()
	}
	return s
}

// mean adds a value up that holds for a time.
type mean struct{ sum, time float64 }

func (m *mean) add(v float64, d time.Duration) {
	m.sum, m.time = m.sum+v*d.Seconds(), m.time+d.Seconds()
}

func (m *mean) reading() model.Reading[float64] {
	if m.time == 0 {
		return model.Unknown[float64]()
	}
	return model.Known(m.sum / m.time)
}

func smOf(l *model.Load, uuid string, id model.TenantID) (float64, bool) {
	for i := range l.GPUs {
		for k := range l.GPUs[i].Tenants {
			if t := &l.GPUs[i].Tenants[k]; l.GPUs[i].UUID == uuid && t.Tenant == id {
				level, ok := t.SM.Get()
				return level.Mean, ok
			}
		}
	}
	return 0, false
}

type span struct{ from, to time.Duration }

// sweep walks through the times at which the number of those that compute
// changes.
type sweep struct {
	spans []span
	parts [][]part // by track and span
	all   []part   // by track
	gain  Gain
	next  int // the first span that has not ended
}

// border is where a track begins or ceases to do something.
type border struct {
	at    time.Duration
	track int
	what  Activity
	by    int // +1 or -1
}

func (s *sweep) run(tracks []Track) {
	var edges []border
	for i, t := range tracks {
		for _, st := range t.Stretches {
			edges = append(edges, border{st.From, i, st.What, 1}, border{st.To, i, st.What, -1})
		}
	}
	sort.SliceStable(edges, func(i, k int) bool { return edges[i].at < edges[k].at })
	computing, there := map[int]int{}, 0
	last := time.Duration(0)
	for _, e := range edges {
		s.add(last, e.at, computing, there)
		last = e.at
		if e.what != Suspended { // who was stopped by somebody else waits for nobody here
			there += e.by
		}
		if e.what == Computing {
			if computing[e.track] += e.by; computing[e.track] == 0 {
				delete(computing, e.track)
			}
		}
	}
}

// add counts a time in which nothing changes.
func (s *sweep) add(from, to time.Duration, computing map[int]int, there int) {
	d := to - from
	switch {
	case d <= 0 || there == 0:
		return
	case len(computing) == 0:
		s.gain.Wait += d
		return
	case len(computing) > 1:
		s.gain.Shared += d
	}
	s.gain.Busy += d
	for track := range computing {
		s.all[track].count(d, len(computing))
	}
	for s.next < len(s.spans) && s.spans[s.next].to <= from {
		s.next++
	}
	for i := s.next; i < len(s.spans) && s.spans[i].from < to; i++ {
		if d := min(to, s.spans[i].to) - max(from, s.spans[i].from); d > 0 {
			for track := range computing {
				s.parts[track][i].count(d, len(computing))
			}
		}
	}
}

func (p *part) count(d time.Duration, computing int) {
	if computing == 1 {
		p.alone += d
	} else {
		p.beside += d
	}
}
