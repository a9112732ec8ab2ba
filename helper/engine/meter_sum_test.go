package engine

import (
	"testing"
	"time"
)

// TestSumOfUnknown: see sum.level.
func TestSumOfUnknown(t *testing.T) {
	type reading struct {
		v  float64
		ok bool
	}
	for _, c := range []struct {
		seen  []reading
		known bool
		mean  float64
	}{
		{nil, false, 0},
		{[]reading{{0, false}}, false, 0},
		{[]reading{{0, true}}, true, 0},
		{[]reading{{0, true}, {0, false}}, false, 0},
		{[]reading{{0, false}, {0, true}}, false, 0},
		{[]reading{{.5, true}, {0, false}}, true, .5},
		{[]reading{{.5, true}, {0, true}}, true, .25},
	} {
		var s sum
		for _, r := range c.seen {
			s.add(r.v, r.ok, time.Second)
		}
		if l, ok := s.level().Get(); ok != c.known || l.Mean != c.mean {
			t.Errorf("%v is %v, %v; want %v, %v", c.seen, l.Mean, ok, c.mean, c.known)
		}
	}
}
