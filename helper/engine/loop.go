package engine

import (
	"context"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// Loop runs an engine in real time. It owns the node's state: others read it
// only through Ask.
type Loop struct {
	engine *Engine
	clock  func() time.Duration
	wake   <-chan struct{}
	asks   chan func(*Engine)
	beat   func()
	idle   time.Duration
}

// NewLoop makes a loop. clock is the monotonic clock; wake is signalled when
// the source has something new; beat is called once a turn, and at least once
// every idle.
func NewLoop(e *Engine, clock func() time.Duration, wake <-chan struct{}, beat func(), idle time.Duration) *Loop {
	return &Loop{engine: e, clock: clock, wake: wake, asks: make(chan func(*Engine)), beat: beat, idle: idle}
}

// Run turns until the context ends.
func (l *Loop) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case f := <-l.asks:
			f(l.engine)
			continue
		case <-l.wake:
		case <-timer.C:
		}
		l.beat()
		now := l.clock()
		next := l.engine.Step(now)
		timer.Reset(l.pause(now, next))
	}
}

// pause is how long to sleep until the next turn: until next, and never
// longer than idle.
func (l *Loop) pause(now, next time.Duration) time.Duration {
	if next == 0 {
		return l.idle
	}
	return min(max(next-now, time.Millisecond), l.idle)
}

// Ask runs f in the loop's goroutine between two turns and waits for it. It
// fails only when the context ends first.
func (l *Loop) Ask(ctx context.Context, f func(*Engine)) error {
	done := make(chan struct{})
	ask := func(e *Engine) {
		defer close(done)
		f(e)
	}
	select {
	case l.asks <- ask:
	case <-ctx.Done():
		return ctx.Err()
	}
	<-done
	return nil
}

// Snapshot copies what Ask needs to show: the tenants as values, with their
// tallies brought up to now.
func (e *Engine) Snapshot(now time.Duration) []model.Tenant {
	e.Node.Advance(now)
	out := make([]model.Tenant, len(e.Node.Tenants))
	for i, t := range e.Node.Tenants {
		out[i] = t.Clone()
	}
	return out
}
