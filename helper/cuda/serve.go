package cuda

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"sync"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// maxCalls bounds the calls that are under way at once in a helper process. A
// request beyond it waits, and with it all that come after.
const maxCalls = 64

// orphanLimit is how long a helper whose daemon has died tries to bring what
// was locked back to the GPU.
const orphanLimit = 30 * time.Second

// Serve is the loop of the helper process. It answers requests of a Client
// until in ends; lib is the path or name of the CUDA driver's library. Each
// call has a thread of its own, so one that hangs does not delay the others.
//
// When in ends, the daemon has died. Serve then unlocks every process that was
// locked through it. Where a process's memory is in host RAM, the GPU has room
// and it is not stopped, it is restored first, but only after wait: a new daemon
// knows better what the room is for. It ends 30 seconds after that at the
// latest. A client never ends a helper in this way; it kills it.
func Serve(in io.Reader, out io.Writer, lib string, wait time.Duration) error {
	s := &server{
		load:   sync.OnceValues(func() (*library, error) { return load(lib) }),
		slots:  make(chan struct{}, maxCalls),
		out:    json.NewEncoder(out),
		locked: processes{},
	}
	err := s.read(in)
	s.release(wait, wait+orphanLimit)
	return err
}

type server struct {
	load  func() (*library, error)
	slots chan struct{} // one for each call under way

	write sync.Mutex
	out   *json.Encoder

	mu     sync.Mutex
	locked processes // or about to be
}

func (s *server) read(in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, maxLine), maxLine)
	for lines.Scan() {
		q, err := parseRequest(lines.Bytes())
		if err != nil {
			return err
		}
		s.slots <- struct{}{}
		go s.serve(q)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read requests: %w", err)
	}
	return nil
}

// serve carries out one request. The thread stays locked, and so ends with it:
// what a call that went wrong has left in it is gone too.
func (s *server) serve(q request) {
	runtime.LockOSThread()
	defer func() { <-s.slots }()
	r := s.do(q)
	s.write.Lock()
	defer s.write.Unlock()
	// Nobody to answer: the end of the input says the same.
	_ = s.out.Encode(r)
}

func (s *server) do(q request) reply {
	l, err := s.load()
	if err != nil {
		return reply{ID: q.ID, Refused: err.Error()}
	}
	if q.Op == opSupport {
		return reply{ID: q.ID, Version: l.version}
	}
	if err := verify(q.ProcID); err != nil {
		return outcome(q.ID, err)
	}
	if q.Op == opState {
		state, err := l.state(q.PID)
		r := outcome(q.ID, err)
		r.State = state
		return r
	}
	return outcome(q.ID, s.change(l, q))
}

func (s *server) change(l *library, q request) error {
	switch q.Op {
	case opMind:
		s.note(q.ProcID, true)
		return nil
	case opLock:
		s.note(q.ProcID, true)
		err := l.lock(q.PID, q.TimeoutMS)
		s.note(q.ProcID, err == nil)
		return err
	case opCheckpoint:
		return l.checkpoint(q.PID)
	case opRestore:
		return l.restore(q.PID)
	case opUnlock:
		err := l.unlock(q.PID)
		if err == nil {
			s.note(q.ProcID, false)
		}
		return err
	}
	return resultInvalid
}

// note keeps the list of what has to be released when the daemon dies.
func (s *server) note(p model.ProcID, locked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.locked.set(p, locked)
}

// release waits for the calls under way and then brings every process that is
// not running on the GPU back to it, those in host RAM after wait, all within
// the limit.
func (s *server) release(wait, limit time.Duration) {
	expired := time.After(limit)
	for range maxCalls {
		select {
		case s.slots <- struct{}{}:
		case <-expired:
			return
		}
	}
	l, err := s.load()
	if err != nil {
		return
	}
	var all sync.WaitGroup
	for p := range s.locked {
		all.Go(func() { l.free(p, wait, limit) })
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	select {
	case <-done:
	case <-expired:
	}
}

// free brings a process to the state Running, as soon as that is possible.
func (l *library) free(p model.ProcID, wait, limit time.Duration) {
	const rest = 100 * time.Millisecond
	begin := time.Now()
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(rest) {
		letter, err := look(p)
		if err != nil {
			return
		}
		state, err := l.state(p.PID)
		switch {
		case err == nil && (state == Running || state == Failed):
			return
		case err == nil && state == Checkpointed && letter != 'T' && time.Since(begin) >= wait:
			// Without room it is tried again.
			if l.restore(p.PID) == nil && l.unlock(p.PID) == nil {
				return
			}
		case err == nil && state == Locked && l.unlock(p.PID) == nil:
			return
		}
	}
}
