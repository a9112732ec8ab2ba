package main

import (
	"maps"
	"sync"
	"time"
)

// How often each user but root gives orders: each is written down, beside the history
// of all jobs.
const (
	orderEvery   = time.Second
	ordersAtOnce = 200
)

// orders keeps until when each user's orders of late count.
type orders struct {
	mu    sync.Mutex
	until map[uint32]time.Duration
}

// allow tells whether a user may give one more order, and counts it.
func (o *orders) allow(uid uint32, now time.Duration) bool {
	if uid == 0 {
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	maps.DeleteFunc(o.until, func(_ uint32, until time.Duration) bool { return until <= now })
	next := max(o.until[uid], now) + orderEvery
	if next-now > ordersAtOnce*orderEvery {
		return false
	}
	if o.until == nil {
		o.until = map[uint32]time.Duration{}
	}
	o.until[uid] = next
	return true
}
