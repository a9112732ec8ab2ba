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
	reply, broken, err := c.exchange(ctx, line, result)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %s at %s: %w", ErrUnreachable, op, c.path, err)
	case reply.Error != nil:
		return reply.Error
	case broken != nil:
		return fmt.Errorf("result of %s: %w", op, broken)
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

// answer is a Reply whose result is decoded with the rest, into what Result points
// to: to go through a long one twice is most of what a look at a node costs.
type answer struct {
	V      int    `json:"v"`
	Error  *Error `json:"error"`
	Text   int    `json:"text"`
	Result any    `json:"result"`
	text   string
}

// exchange writes a line and reads the reply, its result into result. Cancelling ctx
// ends both. A reply that is none is an error; one whose result is not what was
// asked for is broken.
func (c *Client) exchange(ctx context.Context, line []byte, result any) (reply answer, broken, err error) {
	if err := ctx.Err(); err != nil {
		return reply, nil, err
	}
	deadline := time.Now().Add(c.timeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	if err := c.conn.SetDeadline(deadline); err != nil {
		return reply, nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()

	// A server that refuses the connection (busy) answers before it reads:
	// then the write fails, and its answer is still there to be read.
	_, writeErr := c.conn.Write(line)
	got, err := readLine(c.in, MaxReply)
	if err != nil {
		if writeErr != nil {
			err = writeErr
		}
		return reply, nil, err
	}
	if reply.Result = result; result == nil {
		reply.Result = new(json.RawMessage)
	}
	broken = json.Unmarshal(got, &reply)
	if syntax := (*json.SyntaxError)(nil); errors.As(broken, &syntax) {
		return reply, nil, fmt.Errorf("malformed reply: %w", broken)
	}
	if reply.V != Version && reply.Error == nil {
		return reply, nil, fmt.Errorf("reply of protocol version %d, this client speaks %d", reply.V, Version)
	}
	if reply.Text < 0 || reply.Text > MaxReply {
		return reply, nil, fmt.Errorf("a reply with %d bytes of text", reply.Text)
	}
	text := make([]byte, reply.Text)
	if _, err := io.ReadFull(c.in, text); err != nil {
		return reply, nil, fmt.Errorf("the text of the reply: %w", err)
	}
	reply.text = string(text)
	return reply, broken, nil
}
