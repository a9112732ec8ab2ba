package wire

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// ErrUnreachable says that no daemon answered: no socket, a connection
// refused, a time-out, or a connection that ended before the reply. Commands
// exit with 3 on it.
var ErrUnreachable = errors.New("gimbald does not answer")

// Client is one connection to the daemon. Calls from several goroutines take
// turns. After an error that is ErrUnreachable it is of no further use.
type Client struct {
	mu      sync.Mutex
	conn    *net.UnixConn
	in      *bufio.Reader
	path    string
	timeout time.Duration
}

// Dial connects to the socket at path. The timeout bounds the connecting, and
// each Call whose context has no earlier deadline; it must be positive. A
// server that runs neither as root nor as the caller is refused: what it says
// is not to be believed.
func Dial(path string, timeout time.Duration) (*Client, error) {
	conn, err := net.DialTimeout("unix", path, timeout)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	uc := conn.(*net.UnixConn)
	if err := trustServer(uc); err != nil {
		_ = uc.Close()
		return nil, fmt.Errorf("%w: socket %s: %w", ErrUnreachable, path, err)
	}
	return &Client{conn: uc, in: bufio.NewReader(uc), path: path, timeout: timeout}, nil
}

func trustServer(conn *net.UnixConn) error {
	peer, err := peerOf(conn)
	if err != nil {
		return err
	}
	if !peer.Root() && peer.UID != uint32(os.Geteuid()) {
		return fmt.Errorf("served by uid %d, not by root", peer.UID)
	}
	return nil
}

// Call sends one request and decodes its result into result, which may be nil.
// Params may be nil. What the server refused comes back as an *Error; what did
// not reach it or came back broken wraps ErrUnreachable.
func (c *Client) Call(ctx context.Context, op Op, params, result any) error {
	line, err := requestLine(op, params)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	reply, err := c.exchange(ctx, line)
	if err != nil {
		return fmt.Errorf("%w: %s at %s: %w", ErrUnreachable, op, c.path, err)
	}
	if reply.Error != nil {
		return reply.Error
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(reply.Result, result); err != nil {
		return fmt.Errorf("result of %s: %w", op, err)
	}
	if r, ok := result.(Receiver); ok && reply.text != "" {
		r.Receive(reply.text)
	}
	return nil
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }

func requestLine(op Op, params any) ([]byte, error) {
	req := Request{V: Version, Op: op}
	if params != nil {
		raw, err := json.Marshal(params)
		if err != nil {
			return nil, fmt.Errorf("parameters of %s: %w", op, err)
		}
		req.Params = raw
	}
	line, err := encodeLine(req, MaxRequest)
	if err != nil {
		return nil, fmt.Errorf("request %s: %w", op, err)
	}
	return line, nil
}

// exchange writes a line and reads the reply. Cancelling ctx ends both.
func (c *Client) exchange(ctx context.Context, line []byte) (Reply, error) {
	if err := ctx.Err(); err != nil {
		return Reply{}, err
	}
	deadline := time.Now().Add(c.timeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	if err := c.conn.SetDeadline(deadline); err != nil {
		return Reply{}, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()

	// A server that refuses the connection (busy) answers before it reads:
	// then the write fails, and its answer is still there to be read.
	_, writeErr := c.conn.Write(line)
	answer, err := readLine(c.in, MaxReply)
	if err != nil {
		if writeErr != nil {
			err = writeErr
		}
		return Reply{}, err
	}
	var reply Reply
	if err := json.Unmarshal(answer, &reply); err != nil {
		return Reply{}, fmt.Errorf("malformed reply: %w", err)
	}
	if reply.V != Version && reply.Error == nil {
		return Reply{}, fmt.Errorf("reply of protocol version %d, this client speaks %d", reply.V, Version)
	}
	if reply.Text < 0 || reply.Text > MaxReply {
		return Reply{}, fmt.Errorf("a reply with %d bytes of text", reply.Text)
	}
	text := make([]byte, reply.Text)
	if _, err := io.ReadFull(c.in, text); err != nil {
		return Reply{}, fmt.Errorf("the text of the reply: %w", err)
	}
	reply.text = string(text)
	return reply, nil
}
