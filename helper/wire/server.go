package wire

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Handler answers requests. It is called from many goroutines at once, and
// decides by peer alone what is allowed. The result is marshalled as JSON; nil
// is fine. An *Error is sent as it is, another error with CodeFailed. ctx ends
// when the server shuts down or the request has run for Options.Handle.
type Handler func(ctx context.Context, peer Peer, req Request) (any, error)

// Options tune a Server. The zero value stands for the defaults given here.
type Options struct {
	Mode         fs.FileMode   // of the socket: 0666, as authority comes from peer credentials
	Idle         time.Duration // how long a connection may wait for a request to be complete: 30 s
	Write        time.Duration // how long a reply may take to be read: 5 s
	Handle       time.Duration // how long a Handler may take: 30 s
	Conns        int           // open connections of all users but root: 256
	ConnsPerUser int           // open connections of one user: 32
	Rate         int           // requests a second of one user, root excepted: 50
	Burst        int           // requests at once of one user, root excepted: 200
	AtOnce       int           // requests of one user that are answered at a time, root excepted: 2
	Wait         time.Duration // for a daemon before this one to be gone: not at all
	// Refused, if set, is told of each connection or request that was turned
	// away before it reached the Handler, or denied by it, from several
	// goroutines.
	Refused func(peer Peer, reason string)
}

func (o Options) withDefaults() Options {
	setDefault(&o.Mode, 0o666)
	setDefault(&o.Idle, 30*time.Second)
	setDefault(&o.Write, 5*time.Second)
	setDefault(&o.Handle, 30*time.Second)
	setDefault(&o.Conns, 256)
	setDefault(&o.ConnsPerUser, 32)
	setDefault(&o.Rate, 50)
	setDefault(&o.Burst, 200)
	setDefault(&o.AtOnce, 2)
	if o.Refused == nil {
		o.Refused = func(Peer, string) {}
	}
	return o
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// Server is a socket that is being listened on. Connections wait in the
// kernel's queue until Serve is called.
type Server struct {
	socket  *socket
	opts    Options
	limits  *limits
	refused atomic.Uint64
	close   func() error
}

// Listen makes the socket appear at path. Its folder must be ours with mode
// 0755 and is created if missing. A stale socket is replaced; of two daemons
// exactly one gets it, the other ErrInUse; anything that is no socket is left
// untouched and is an error that says so.
func Listen(path string, o Options) (*Server, error) {
	o = o.withDefaults()
	s, err := bind(path, o.Mode, o.Wait)
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	return &Server{socket: s, opts: o, limits: newLimits(o), close: sync.OnceValue(s.close)}, nil
}

// Refused returns how many connections and requests were turned away.
func (s *Server) Refused() uint64 { return s.refused.Load() }

// Close stops listening and removes the socket. Serve returns.
func (s *Server) Close() error { return s.close() }

// Serve answers requests until ctx ends or Close is called, then waits for the
// handlers that run and returns nil. Another error is one of accepting. The
// socket is gone afterwards.
func (s *Server) Serve(ctx context.Context, h Handler) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	for {
		conn, err := s.accept(ctx)
		if err != nil {
			return errors.Join(err, s.Close())
		}
		if conn == nil {
			return s.Close()
		}
		wg.Go(func() { s.converse(ctx, conn, h) })
	}
}

// accept waits for a connection; nil means that the listener was closed. Out
// of descriptors or memory it tries again, more and more slowly.
func (s *Server) accept(ctx context.Context) (*net.UnixConn, error) {
	const longest = time.Second
	for wait := time.Millisecond; ; wait = min(2*wait, longest) {
		conn, err := s.socket.listener.AcceptUnix()
		switch {
		case err == nil:
			return conn, nil
		case errors.Is(err, net.ErrClosed):
			return nil, nil
		case !passing(err):
			return nil, fmt.Errorf("accept at %s: %w", s.socket.path, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// converse owns one connection from its start to its end.
func (s *Server) converse(ctx context.Context, conn *net.UnixConn, h Handler) {
	defer func() { _ = conn.Close() }()
	peer, err := peerOf(conn)
	if err != nil {
		s.turnAway(conn, peer, Errorf(CodeDenied, "%v", err))
		return
	}
	if peer.PID == 0 {
		s.turnAway(conn, peer, Errorf(CodeDenied, "the caller is outside the daemon's pid namespace"))
		return
	}
	if !s.limits.connect(peer.UID, time.Now()) {
		s.turnAway(conn, peer, Errorf(CodeBusy, "too many open connections"))
		return
	}
	defer s.limits.disconnect(peer.UID)
	// Wakes a read that waits when the server shuts down. A handler's reply
	// is still written.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	s.answerAll(ctx, conn, peer, h)
}

// answerAll takes one request after another until the peer goes or errs.
func (s *Server) answerAll(ctx context.Context, conn *net.UnixConn, peer Peer, h Handler) {
	in := bufio.NewReader(conn)
	for ctx.Err() == nil {
		if err := conn.SetReadDeadline(time.Now().Add(s.opts.Idle)); err != nil {
			return
		}
		if ctx.Err() != nil { // its wake-up came before our new deadline
			return
		}
		line, err := readLine(in, MaxRequest)
		if errors.Is(err, errLineTooLong) {
			s.turnAway(conn, peer, Errorf(CodeBadRequest, "request longer than %d bytes", MaxRequest))
			return
		}
		if err != nil {
			return
		}
		if !s.send(conn, s.answer(ctx, peer, line, h)) {
			return
		}
	}
}

// answer turns one line into the reply to it.
func (s *Server) answer(ctx context.Context, peer Peer, line []byte, h Handler) Reply {
	if !s.limits.request(peer.UID, time.Now()) {
		s.count(peer, "too many requests")
		return Reply{V: Version, Error: Errorf(CodeBusy, "too many requests: %d a second are served", s.opts.Rate)}
	}
	req, err := decodeRequest(line)
	if err != nil {
		s.count(peer, err.Error())
		return errorReply(err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.Handle)
	defer cancel()
	end, ok := s.limits.begin(ctx, peer.UID)
	if !ok {
		s.count(peer, "too many requests at a time")
		return Reply{V: Version, Error: Errorf(CodeBusy, "too many requests at a time")}
	}
	defer end()
	result, err := safely(ctx, peer, req, h)
	if err != nil {
		reply := errorReply(err)
		if reply.Error.Code == CodeDenied {
			s.count(peer, fmt.Sprintf("%s: %s", req.Op, reply.Error.Message))
		}
		return reply
	}
	text := ""
	if c, ok := result.(Carrier); ok {
		text, result = c.Carry()
	}
	raw, err := json.Marshal(result)
	if err != nil {
		return errorReply(Errorf(CodeInternal, "result of %s: %v", req.Op, err))
	}
	return Reply{V: Version, Result: raw, Text: len(text), text: text}
}

// safely calls the handler; a panic in it costs one reply, not the daemon.
func safely(ctx context.Context, peer Peer, req Request, h Handler) (result any, err error) {
	defer func() {
		if p := recover(); p != nil {
			result, err = nil, Errorf(CodeInternal, "defect in %s: %v", req.Op, p)
		}
	}()
	return h(ctx, peer, req)
}

func errorReply(err error) Reply {
	var e *Error
	if !errors.As(err, &e) {
		e = Errorf(CodeFailed, "%v", err)
	}
	return Reply{V: Version, Error: e}
}

// send writes a reply and reports whether the connection is still good.
func (s *Server) send(conn *net.UnixConn, reply Reply) bool {
	line, err := encodeReply(reply, MaxReply-len(reply.text))
	if errors.Is(err, errLineTooLong) {
		reply = errorReply(Errorf(CodeTooLarge, "the reply is longer than %d bytes: ask for less at once", MaxReply))
		line, err = encodeReply(reply, MaxReply)
	}
	if err != nil {
		return false
	}
	if err := conn.SetWriteDeadline(time.Now().Add(s.opts.Write)); err != nil {
		return false
	}
	if _, err = conn.Write(line); err == nil && reply.text != "" {
		_, err = io.WriteString(conn, reply.text)
	}
	return err == nil
}

// turnAway says why, and counts it; the caller closes the connection.
func (s *Server) turnAway(conn *net.UnixConn, peer Peer, e *Error) {
	s.count(peer, e.Message)
	s.send(conn, Reply{V: Version, Error: e})
	// To close with unread bytes would reset the connection and lose the
	// reply: read a little of what the peer may have sent.
	_ = conn.CloseWrite()
	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	_, _ = io.CopyN(io.Discard, conn, 2*MaxRequest)
}

func (s *Server) count(peer Peer, reason string) {
	s.refused.Add(1)
	s.opts.Refused(peer, reason)
}
