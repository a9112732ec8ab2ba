package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/mattn/go-isatty"
)

// progress shows on a terminal how far a long run is, and nothing elsewhere.
type progress struct {
	w     io.Writer
	begin time.Time
	last  time.Time
	shown bool
}

// progressAfter is how long a run is silent, and how often it then shows.
const progressAfter = 500 * time.Millisecond

func newProgress(stderr io.Writer) *progress {
	f, ok := stderr.(*os.File)
	if !ok || !isatty.IsTerminal(f.Fd()) {
		return &progress{}
	}
	now := time.Now()
	return &progress{w: stderr, begin: now, last: now}
}

// callback is what study.Run calls, or nil where nothing is shown.
func (p *progress) callback() func(float64) {
	if p.w == nil {
		return nil
	}
	return func(share float64) {
		now := time.Now()
		if now.Sub(p.last) < progressAfter || share <= 0 {
			return
		}
		p.last, p.shown = now, true
		left := time.Duration(float64(now.Sub(p.begin)) * (1 - share) / share)
		fmt.Fprintf(p.w, "\r\x1b[K%3.0f %% of the jobs, about %s left", 100*share, left.Round(time.Second))
	}
}

func (p *progress) clear() {
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
