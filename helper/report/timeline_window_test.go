package report

import (
	"testing"
	"time"
)

// TestCrop: what is left of an hour in which one tenant was there on two GPUs.
func TestCrop(t *testing.T) {
	const m = time.Minute
	for _, c := range []struct {
		name       string
		from, to   time.Duration // 0, 0: nobody was there
		head, tail bool
		want       [2]time.Duration
	}{
		{"both ends", 10 * m, 20 * m, true, true, [2]time.Duration{10 * m, 20 * m}},
		{"the start alone", 10 * m, 20 * m, true, false, [2]time.Duration{10 * m, 60 * m}},
		{"the end alone", 10 * m, 20 * m, false, true, [2]time.Duration{0, 20 * m}},
		{"nothing", 10 * m, 20 * m, false, false, [2]time.Duration{0, 60 * m}},
		{"nobody was there", 0, 0, true, true, [2]time.Duration{0, 60 * m}},
		{"a second", 10 * m, 10*m + time.Second, true, true, [2]time.Duration{10 * m, 11 * m}},
		{"the last second", 60*m - time.Second, 60 * m, true, true, [2]time.Duration{59 * m, 60 * m}},
		{"the last second, the end stands", 60*m - time.Second, 60 * m, true, false, [2]time.Duration{59 * m, 60 * m}},
		{"the first second, the start stands", 0, time.Second, false, true, [2]time.Duration{0, m}},
		{"all of it", 0, 60 * m, true, true, [2]time.Duration{0, 60 * m}},
	} {
		start := time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC)
		line := Timeline{Start: start, Length: time.Hour}
		if c.to > 0 {
			track := Track{Name: "1", Stretches: []Stretch{{From: c.from, To: c.to, What: Computing}}}
			line.Lanes = []Lane{{Tracks: []Track{track}}, {Tracks: []Track{track}}}
		}
		line.Crop(c.head, c.tail)
		if got := [2]time.Duration{line.Start.Sub(start), line.Start.Add(line.Length).Sub(start)}; got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		for _, l := range line.Lanes {
			if s := l.Tracks[0].Stretches[0]; c.want[0]+s.From != c.from || s.To-s.From != c.to-c.from {
				t.Errorf("%s: it was there from %v to %v", c.name, s.From, s.To)
			}
		}
	}
}

// TestHeading: a timeline without a date tells of no time.
func TestHeading(t *testing.T) {
	start := time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC)
	for want, line := range map[string]Timeline{
		"a device": {Title: "a device", Length: time.Minute},
		"node n0, from 2026-03-01T11:00:00 to 2026-03-01T11:01:00": {Title: "node n0", Start: start, Length: time.Minute},
		"from 2026-03-01T11:00:00 to 2026-03-01T11:01:00":          {Start: start, Length: time.Minute},
	} {
		if got := line.Heading(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
