package report

import (
	"fmt"
	"time"
)

// Heading is the title and the time that is drawn, of one that has a date.
func (t *Timeline) Heading() string {
	if t.Start.IsZero() {
		return t.Title
	}
	loc := t.Start.Location()
	window := fmt.Sprintf("from %s to %s", Clock(t.Start, loc), Clock(t.Start.Add(t.Length), loc))
	if t.Title == "" {
		return window
	}
	return t.Title + ", " + window
}

// leastCropped is the shortest time that Crop leaves.
const leastCropped = time.Minute

// Crop cuts off the time before the first tenant came, where head is true, and that
// after the last one went, where tail is true. Where nobody was there all of it stays.
func (t *Timeline) Crop(head, tail bool) {
	from, to := t.Length, time.Duration(0)
	t.eachStretch(func(s *Stretch) { from, to = min(from, s.From), max(to, s.To) })
	if from >= to {
		return
	}
	if !head {
		from = 0
	}
	if to = max(to, min(from+leastCropped, t.Length)); !tail {
		to = t.Length
	}
	if head {
		from = max(min(from, to-leastCropped), 0)
	}
	t.eachStretch(func(s *Stretch) { s.From, s.To = s.From-from, s.To-from })
	t.Start, t.Length = t.Start.Add(from), to-from
}

// eachStretch visits every stretch once: a tenant on several GPUs has the same ones
// on all of them.
func (t *Timeline) eachStretch(do func(*Stretch)) {
	seen := map[*Stretch]bool{}
	for _, l := range t.Lanes {
		for _, tr := range l.Tracks {
			for i := range tr.Stretches {
				if s := &tr.Stretches[i]; !seen[s] {
					seen[s] = true
					do(s)
				}
			}
		}
	}
}
