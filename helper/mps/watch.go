package mps

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Watch asks a control daemon now and then whether it answers, so that nobody who
// starts a job has to wait for it.
type Watch struct {
	control *Control
	every   time.Duration
	changed func(err error) // told of each change: nil that it answers now

	mu  sync.Mutex
	err error
}

// errUnasked is the state before the first answer.
var errUnasked = errors.New("mps: not asked yet")

// NewWatch makes a watch that does not run yet.
func NewWatch(c *Control, every time.Duration, changed func(error)) *Watch {
	return &Watch{control: c, every: every, changed: changed, err: errUnasked}
}

// Run asks until the context ends.
func (w *Watch) Run(ctx context.Context) {
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	for {
		_, err := w.control.Servers(ctx)
		if ctx.Err() != nil {
			return
		}
		w.note(err)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// note keeps an answer, and tells of one that is other than the last.
func (w *Watch) note(err error) {
	w.mu.Lock()
	before := w.err
	w.err = err
	w.mu.Unlock()
	first := errors.Is(before, errUnasked)
	if first && err == nil || !first && (before == nil) == (err == nil) {
		return
	}
	w.changed(err)
}

// Err is why MPS cannot be used now, nil where it can.
func (w *Watch) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}
