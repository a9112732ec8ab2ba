package wire

import (
	"context"
	"sync"
	"time"
)

// limits counts what each user has open and asks for. Root is not limited by
// it: a big step registers many tasks at once.
type limits struct {
	mu      sync.Mutex
	users   map[uint32]*usage
	total   int // connections of all users but root
	perUser int
	all     int
	rate    float64 // requests a second
	burst   float64
	atOnce  int // requests of one user that are answered at a time
	swept   time.Time
}

// usage is one user's token bucket and open connections.
type usage struct {
	open   int
	tokens float64
	at     time.Time
	turns  chan struct{} // full while as many requests are answered as may be
}

func newLimits(o Options) *limits {
	return &limits{
		users: make(map[uint32]*usage), perUser: o.ConnsPerUser, all: o.Conns,
		rate: float64(o.Rate), burst: float64(o.Burst), atOnce: o.AtOnce,
	}
}

// connect counts a connection in, or reports that there are too many. Each
// success is to be followed by one disconnect.
func (l *limits) connect(uid uint32, now time.Time) bool {
	if uid == 0 {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sweep(now)
	u := l.user(uid, now)
	if u.open >= l.perUser || l.total >= l.all {
		return false
	}
	u.open++
	l.total++
	return true
}

func (l *limits) disconnect(uid uint32) {
	if uid == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users[uid].open--
	l.total--
}

// request takes a token, or reports that the user asks too often.
func (l *limits) request(uid uint32, now time.Time) bool {
	if uid == 0 {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.user(uid, now)
	if u.tokens < 1 {
		return false
	}
	u.tokens--
	return true
}

// begin waits until one more request of a user may be answered: what one asks for
// may take long, and is not to take the node from others. It returns false if the
// context ended before. Each success is to be followed by a call of end.
func (l *limits) begin(ctx context.Context, uid uint32) (end func(), ok bool) {
	if uid == 0 {
		return func() {}, true
	}
	l.mu.Lock()
	turns := l.user(uid, time.Now()).turns
	l.mu.Unlock()
	select {
	case turns <- struct{}{}:
		return func() { <-turns }, true
	case <-ctx.Done():
		return nil, false
	}
}

// user returns the entry of uid with its tokens as of now.
func (l *limits) user(uid uint32, now time.Time) *usage {
	u := l.users[uid]
	if u == nil {
		u = &usage{tokens: l.burst, at: now, turns: make(chan struct{}, l.atOnce)}
		l.users[uid] = u
	}
	if dt := now.Sub(u.at).Seconds(); dt > 0 {
		u.tokens = min(l.burst, u.tokens+dt*l.rate)
		u.at = now
	}
	return u
}

// sweep forgets users without a connection whose bucket is full again, so that
// the map holds no more than who was here in the last minutes.
func (l *limits) sweep(now time.Time) {
	if now.Sub(l.swept) < time.Minute {
		return
	}
	l.swept = now
	full := time.Duration(l.burst / l.rate * float64(time.Second))
	for uid, u := range l.users {
		if u.open == 0 && now.Sub(u.at) > full {
			delete(l.users, uid)
		}
	}
}
