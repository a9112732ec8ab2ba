package cuda

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"sync"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// The bounds of a Client.
const (
	firstBackoff = 100 * time.Millisecond
	lastBackoff  = 30 * time.Second
	// goodLife is how long a helper has to live for the backoff to start anew.
	goodLife = time.Minute
	// maxStuck is how many killed helpers may linger in the kernel before no
	// further one is started.
	maxStuck = 3
)

// DefaultPatience is how long a call may outlive its context before the helper
// that makes it is replaced.
const DefaultPatience = 5 * time.Second

// Client is the daemon's end of a helper process: a Driver whose calls are made
// there. It starts the helper at the first call, and again, with backoff, when
// it has died.
//
// Calls that change a process are made one after another. One that outlives its
// context marks its process as wedged: later changes of that process wait. When
// the call has not ended after the patience, the helper is replaced: it takes no
// new call and is killed once its other calls have ended.
type Client struct {
	cmd      func() *exec.Cmd
	patience time.Duration
	onDeath  func(pid int, why error) // nil: nobody asks

	mu      sync.Mutex
	current *helper // nil: none
	stuck   int     // helpers that were killed and have not ended
	closed  bool
	backoff time.Duration
	next    time.Time // no helper is started before
	ids     uint64
	turn    map[int]chan struct{} // a change of that pid is under way; closed at its end
	locked  processes             // through this client
	running sync.WaitGroup        // the goroutines of all helpers
}

// Options of a Client. The zero value gives the defaults.
type Options struct {
	Patience time.Duration // DefaultPatience
	// OnDeath is told of each helper that died by itself or was replaced
	// because of a call that hung. It must not call the client.
	OnDeath func(pid int, why error)
}

// Start returns a Client of helper processes that cmd describes; their standard
// input and output are the client's. It starts none yet.
func Start(cmd func() *exec.Cmd, o Options) *Client {
	if o.Patience <= 0 {
		o.Patience = DefaultPatience
	}
	return &Client{cmd: cmd, patience: o.Patience, onDeath: o.OnDeath,
		turn: map[int]chan struct{}{}, locked: processes{}}
}

// Supported tells whether the driver's library has the calls. A driver that
// does not is asked anew, by a fresh helper, the next time.
func (c *Client) Supported(ctx context.Context) Support {
	s := Support{By: "library"}
	r, err := c.call(ctx, request{Op: opSupport})
	switch {
	case r.Refused != "":
		c.Retire()
		s.Reason = r.Refused
	case err != nil:
		s.Reason = err.Error()
	default:
		s.OK, s.Version = true, versionText(r.Version)
	}
	return s
}

// State returns the driver's own view of a process.
func (c *Client) State(ctx context.Context, p model.ProcID) (State, error) {
	r, err := c.call(ctx, request{Op: opState, ProcID: p})
	if err != nil {
		return Unknown, err
	}
	return r.State, nil
}

// Lock keeps a process from making further CUDA calls.
func (c *Client) Lock(ctx context.Context, p model.ProcID, timeout time.Duration) error {
	ms, err := milliseconds(timeout)
	if err != nil {
		return err
	}
	c.note(p, true)
	err = c.change(ctx, request{Op: opLock, ProcID: p, TimeoutMS: ms})
	if err != nil && answered(err) {
		c.note(p, false)
	}
	return err
}

// milliseconds rounds a timeout up. 0 would mean to the driver: wait for ever.
func milliseconds(timeout time.Duration) (uint32, error) {
	ms := (timeout + time.Millisecond - 1) / time.Millisecond
	if ms <= 0 || ms > math.MaxInt32 {
		return 0, fmt.Errorf("lock with a timeout of %v", timeout)
	}
	return uint32(ms), nil
}

// Checkpoint moves the GPU memory of a locked process to host RAM.
func (c *Client) Checkpoint(ctx context.Context, p model.ProcID) error {
	return c.change(ctx, request{Op: opCheckpoint, ProcID: p})
}

// Restore moves it back; the process is locked then.
func (c *Client) Restore(ctx context.Context, p model.ProcID) error {
	return c.change(ctx, request{Op: opRestore, ProcID: p})
}

// Unlock lets a locked process make CUDA calls again.
func (c *Client) Unlock(ctx context.Context, p model.ProcID) error {
	err := c.change(ctx, request{Op: opUnlock, ProcID: p})
	if err == nil || errors.Is(err, ErrGone) {
		c.note(p, false)
	}
	return err
}

// note keeps the list of what is locked, for a helper that takes over.
func (c *Client) note(p model.ProcID, locked bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.locked.set(p, locked)
}

func (c *Client) change(ctx context.Context, q request) error {
	_, err := c.call(ctx, q)
	return err
}

// call makes one call in the helper. Its error is that of the driver, or says
// why there is no answer.
func (c *Client) call(ctx context.Context, q request) (reply, error) {
	done, err := c.takeTurn(ctx, q)
	if err != nil {
		return reply{}, err
	}
	h, p, err := c.enter(ctx, done)
	if err != nil {
		done()
		return reply{}, fmt.Errorf("%s process %d: %w", q.Op, q.PID, err)
	}
	q.ID = p.id
	if err := h.write(q); err != nil {
		h.kill(err)
	}
	select {
	case r, ok := <-p.reply:
		if !ok {
			return reply{}, fmt.Errorf("%s process %d: %w: it died in the middle", q.Op, q.PID, ErrHelper)
		}
		if r.Result.stale() {
			h.retire()
		}
		return r, r.err(q)
	case <-ctx.Done():
		h.abandon(p)
		return reply{}, fmt.Errorf("%s process %d: %w: %w", q.Op, q.PID, ErrTimeout, ctx.Err())
	}
}

// takeTurn waits until no other change of the process is under way. done ends
// the turn; it is called when the call has ended, not when it was given up.
func (c *Client) takeTurn(ctx context.Context, q request) (done func(), err error) {
	if q.Op == opSupport || q.Op == opState {
		return func() {}, nil
	}
	for {
		c.mu.Lock()
		other := c.turn[q.PID]
		if other == nil {
			mine := make(chan struct{})
			c.turn[q.PID] = mine
			c.mu.Unlock()
			return func() { c.endTurn(q.PID, mine) }, nil
		}
		c.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, fmt.Errorf("%s process %d: %w: an earlier call has not ended", q.Op, q.PID, ErrTimeout)
		}
	}
}

func (c *Client) endTurn(pid int, mine chan struct{}) {
	c.mu.Lock()
	delete(c.turn, pid)
	c.mu.Unlock()
	close(mine)
}

// Retire lets the helper go once its calls have ended, so that nothing of ours
// keeps the driver loaded. The next call starts a new one.
func (c *Client) Retire() {
	c.mu.Lock()
	h := c.current
	c.mu.Unlock()
	if h != nil {
		h.retire()
	}
}

// Close ends the helper and waits until it is gone, or the context ends. What
// is locked or in host RAM then stays so.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	h := c.current
	c.mu.Unlock()
	if h != nil {
		h.kill(nil)
	}
	ended := make(chan struct{})
	go func() { c.running.Wait(); close(ended) }()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("end the checkpoint helper: %w", ctx.Err())
	}
}
