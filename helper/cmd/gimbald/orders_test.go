package main

import (
	"strings"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/config"
)

// TestOrdersAreBounded: whoever gives orders without end is heard once a second, and
// nobody else is heard less for it; nothing is kept of whoever has been quiet.
func TestOrdersAreBounded(t *testing.T) {
	var o orders
	const loud, quiet = 1000, 1001
	now := time.Hour
	given := func(uid uint32, tries int) (n int) {
		for range tries {
			if o.allow(uid, now) {
				n++
			}
		}
		return n
	}
	if n := given(loud, 1000); n != ordersAtOnce {
		t.Errorf("%d orders at once were taken, want %d", n, ordersAtOnce)
	}
	if n := given(quiet, 3) + given(0, 1000); n != 1003 {
		t.Errorf("of others %d were taken, want all", n)
	}
	now += 10 * orderEvery
	if n := given(loud, 1000); n != 10 {
		t.Errorf("%d were taken after %s, want 10", n, 10*orderEvery)
	}
	now += ordersAtOnce * orderEvery
	if given(quiet, 1); len(o.until) != 1 {
		t.Errorf("%v is kept", o.until)
	}
}

// TestAMessageIsALine: what a user words does not make lines of its own in the log, nor
// speak to the terminal on which it is read.
func TestAMessageIsALine(t *testing.T) {
	var out strings.Builder
	l, err := newLogger(&out, config.Log{Level: "info", Format: "text"})
	if err != nil {
		t.Fatal(err)
	}
	const worded = "why\n2026-11-30T00:00:00Z INF forged\x1b[2J\xff"
	l.info("node", worded)
	l.warn("node", worded)
	if n := strings.Count(out.String(), "\n"); n != 2 || strings.Contains(out.String(), "\x1b") {
		t.Errorf("two messages are %d lines: %q", n, out.String())
	}
}
