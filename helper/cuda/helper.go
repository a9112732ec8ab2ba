package cuda

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// writeLimit bounds how long a request may take to be handed over: a helper
// that does not read is hung.
const writeLimit = time.Second

var errHangs = errors.New("a call hangs in the driver")

// helper is one helper process. Its client's mutex guards what changes.
type helper struct {
	c       *Client
	cmd     *exec.Cmd
	born    time.Time
	pending map[uint64]*pending
	retired bool // takes no new call
	killed  bool
	why     error       // it is ended for; nil: on purpose
	drop    *time.Timer // gives up its calls although it cannot be killed

	writing sync.Mutex
	in      *os.File
}

// pending is a call that has not ended.
type pending struct {
	id      uint64
	reply   chan reply  // closed without one when the helper died
	done    func()      // ends the process's turn
	expires *time.Timer // set once nobody waits for the reply
}

// end ends a call, with a reply or none.
func (p *pending) end(r *reply) {
	if p.expires != nil {
		p.expires.Stop()
	}
	if r != nil {
		p.reply <- *r
	} else {
		close(p.reply)
	}
	p.done()
}

// enter opens a call in the present helper, or in a new one: after the backoff,
// if the last one died.
func (c *Client) enter(ctx context.Context, done func()) (*helper, *pending, error) {
	for {
		c.mu.Lock()
		h, wait, err := c.ready()
		if h != nil {
			p := h.open(done)
			c.mu.Unlock()
			return h, p, nil
		}
		c.mu.Unlock()
		if err != nil {
			return nil, nil, err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, nil, fmt.Errorf("%w: it died, and is started again in %v", ErrHelper, wait.Round(time.Millisecond))
		}
	}
}

// ready returns the present helper, a new one, or how long to wait for one.
func (c *Client) ready() (h *helper, wait time.Duration, err error) {
	switch {
	case c.closed:
		return nil, 0, fmt.Errorf("%w: the client is closed", ErrHelper)
	case c.current != nil:
		return c.current, 0, nil
	case c.stuck >= maxStuck:
		return nil, 0, fmt.Errorf("%w: %d of them hang in the driver and cannot be killed", ErrHelper, c.stuck)
	}
	if wait := time.Until(c.next); wait > 0 {
		return nil, wait, nil
	}
	h, err = c.start()
	if err != nil {
		c.delay(0)
		return nil, 0, fmt.Errorf("%w: start it: %w", ErrHelper, err)
	}
	c.current = h
	return h, 0, nil
}

// delay puts off the next start, longer each time unless the last helper lived
// well.
func (c *Client) delay(lived time.Duration) {
	if lived > goodLife {
		c.backoff = 0
	}
	c.backoff = min(max(2*c.backoff, firstBackoff), lastBackoff)
	c.next = time.Now().Add(c.backoff)
}

func (c *Client) start() (*helper, error) {
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, theirIn.Close(), in.Close())
	}
	h := &helper{c: c, cmd: c.cmd(), in: in, born: time.Now(), pending: map[uint64]*pending{}}
	h.cmd.Stdin, h.cmd.Stdout = theirIn, theirOut
	if h.cmd.SysProcAttr == nil { // a terminal's signals are not for it
		h.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	}
	err = h.cmd.Start()
	_, _ = theirIn.Close(), theirOut.Close()
	if err != nil {
		return nil, errors.Join(err, in.Close(), out.Close())
	}
	c.running.Go(func() { h.read(out) })
	h.inherit()
	return h, nil
}

// inherit tells a new helper what its predecessors have locked. Nobody waits
// for the answers.
func (h *helper) inherit() {
	for p := range h.c.locked {
		h.c.ids++
		if h.write(request{ID: h.c.ids, Op: opMind, ProcID: p}) != nil {
			return // it has died already; its reader sees to that
		}
	}
}

func (h *helper) write(q request) error {
	h.writing.Lock()
	defer h.writing.Unlock()
	line, err := json.Marshal(q)
	if err == nil {
		err = h.in.SetWriteDeadline(time.Now().Add(writeLimit))
	}
	if err == nil {
		_, err = h.in.Write(append(line, '\n'))
	}
	if err != nil {
		return fmt.Errorf("hand over a request: %w", err)
	}
	return nil
}

// open enters a call into the list. done is called when it has ended.
func (h *helper) open(done func()) *pending {
	h.c.ids++
	p := &pending{id: h.c.ids, reply: make(chan reply, 1), done: done}
	h.pending[p.id] = p
	return p
}

// read hands out replies until the helper's output ends, and reaps it.
func (h *helper) read(out *os.File) {
	lines := bufio.NewScanner(out)
	lines.Buffer(make([]byte, maxLine), maxLine)
	var broken error
	for broken == nil && lines.Scan() {
		broken = h.deliver(lines.Bytes())
	}
	_ = out.Close()
	h.kill(errors.Join(errors.New("its output ended"), broken, lines.Err()))
	h.bury(h.cmd.Wait())
}

func (h *helper) deliver(line []byte) error {
	var r reply
	if err := json.Unmarshal(line, &r); err != nil {
		return fmt.Errorf("read a reply: %w", err)
	}
	h.c.mu.Lock()
	p := h.pending[r.ID]
	delete(h.pending, r.ID)
	if p != nil {
		defer p.end(&r)
	}
	h.settle()
	h.c.mu.Unlock()
	return nil
}

// abandon marks a call as given up. If it does not end within the patience, the
// helper is replaced.
func (h *helper) abandon(p *pending) {
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	if h.pending[p.id] == nil {
		return
	}
	p.expires = time.AfterFunc(h.c.patience, func() { h.replace(p) })
	h.settle()
}

// replace lets a helper go whose call hangs.
func (h *helper) replace(p *pending) {
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	if h.pending[p.id] == nil || h.retired {
		return
	}
	h.why = errHangs
	h.c.delay(time.Since(h.born))
	h.leave()
}

// retire keeps new calls from a helper, and ends it once no call is left that
// anybody waits for.
func (h *helper) retire() {
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	h.leave()
}

func (h *helper) leave() {
	h.retired = true
	if h.c.current == h {
		h.c.current = nil
	}
	h.settle()
}

// settle kills a retired helper that nobody waits for.
func (h *helper) settle() {
	if !h.retired {
		return
	}
	for _, p := range h.pending {
		if p.expires == nil {
			return
		}
	}
	h.end()
}

// kill ends a helper at once; why is nil if that is on purpose.
func (h *helper) kill(why error) {
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	if h.killed {
		return
	}
	h.why = why
	if why != nil {
		h.c.delay(time.Since(h.born))
	}
	h.leave()
	h.end()
}

// end kills. The input stays open: the end of it would mean that the daemon has
// died.
func (h *helper) end() {
	if h.killed {
		return
	}
	h.killed = true
	h.c.stuck++
	_ = h.cmd.Process.Kill() // it fails only for one that has ended
	h.drop = time.AfterFunc(h.c.patience, h.forsake)
}

// forsake ends the calls of a helper that was killed.
func (h *helper) forsake() {
	h.c.mu.Lock()
	calls := h.pending
	h.pending = nil
	h.c.mu.Unlock()
	for _, p := range calls {
		p.end(nil)
	}
}

// bury lets go of a helper that has ended.
func (h *helper) bury(exit error) {
	h.c.mu.Lock()
	h.c.stuck--
	h.drop.Stop()
	why := h.why
	h.c.mu.Unlock()
	h.forsake()
	_ = h.in.Close()
	if why != nil && h.c.onDeath != nil {
		h.c.onDeath(h.cmd.Process.Pid, errors.Join(why, exit))
	}
}
