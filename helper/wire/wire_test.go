package wire

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// socketPath returns a path in a folder that Listen accepts, short enough for
// a socket.
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "wire")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "gimbald.sock")
}

// serve runs a server until the test ends and returns its socket's path.
func serve(t *testing.T, o Options, h Handler) string {
	t.Helper()
	path := socketPath(t)
	s, err := Listen(path, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, h) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("socket after Serve: %v, want none", err)
		}
	})
	return path
}

func dial(t *testing.T, path string) *Client {
	t.Helper()
	c, err := Dial(path, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// echo answers with what it was asked.
func echo(_ context.Context, _ Peer, req Request) (any, error) { return req, nil }

func TestCallsOnOneConnection(t *testing.T) {
	path := serve(t, Options{}, func(_ context.Context, peer Peer, req Request) (any, error) {
		var reg model.Registration
		if err := req.Decode(&reg); err != nil {
			return nil, err
		}
		if peer.PID != os.Getpid() || peer.UID != uint32(os.Geteuid()) || peer.GID != uint32(os.Getegid()) {
			return nil, Errorf(CodeDenied, "peer %+v", peer)
		}
		return Registered{Active: true, Message: reg.JobName}, nil
	})
	c := dial(t, path)
	for i := range 100 {
		want := model.Registration{JobID: uint32(i), JobName: fmt.Sprintf("name\n%d \"|\u2028é", i)}
		var got Registered
		if err := c.Call(context.Background(), OpRegister, want, &got); err != nil {
			t.Fatal(err)
		}
		if !got.Active || got.Message != want.JobName {
			t.Fatalf("got %+v", got)
		}
	}
}

func TestHandlerErrors(t *testing.T) {
	path := serve(t, Options{}, func(_ context.Context, _ Peer, req Request) (any, error) {
		switch req.Op {
		case "denied":
			return nil, Errorf(CodeDenied, "not yours")
		case "wrapped":
			return nil, fmt.Errorf("trying: %w", Errorf(CodeNotFound, "no such step"))
		case "plain":
			return nil, errors.New("disk full")
		case "panic":
			panic("oops")
		case "huge":
			return strings.Repeat("x", MaxReply), nil
		case "bad":
			return make(chan int), nil
		case "params":
			return nil, req.Decode(&model.StepKey{})
		}
		return nil, nil
	})
	c := dial(t, path)
	for _, tc := range []struct {
		op     Op
		params any
		code   Code
		text   string
	}{
		{"denied", nil, CodeDenied, "not yours"},
		{"wrapped", nil, CodeNotFound, "no such step"},
		{"plain", nil, CodeFailed, "disk full"},
		{"panic", nil, CodeInternal, "oops"},
		{"huge", nil, CodeTooLarge, "longer"},
		{"bad", nil, CodeInternal, "result of bad"},
		{"params", nil, CodeBadRequest, "missing"},
		{"params", map[string]int{"jab": 1}, CodeBadRequest, "jab"},
		{"params", map[string]int{"job": -1}, CodeBadRequest, "job"},
		{"", nil, CodeBadRequest, "no op"},
		{"fine", nil, "", ""},
	} {
		err := c.Call(context.Background(), tc.op, tc.params, nil)
		if tc.code == "" {
			if err != nil {
				t.Errorf("%s: %v", tc.op, err)
			}
			continue
		}
		var e *Error
		if !errors.As(err, &e) || e.Code != tc.code || !strings.Contains(e.Message, tc.text) {
			t.Errorf("%s: got %v, want code %s with %q", tc.op, err, tc.code, tc.text)
		}
		if errors.Is(err, ErrUnreachable) {
			t.Errorf("%s: an answer counts as unreachable", tc.op)
		}
	}
}

// raw sends bytes and returns the lines that come back until the server is done.
func raw(t *testing.T, path, send string) []Reply {
	t.Helper()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := conn.Write([]byte(send)); err != nil {
		t.Logf("write: %v", err)
	}
	_ = conn.(*net.UnixConn).CloseWrite()
	var replies []Reply
	in := bufio.NewScanner(conn)
	in.Buffer(nil, MaxReply)
	for in.Scan() {
		var r Reply
		if err := json.Unmarshal(in.Bytes(), &r); err != nil {
			t.Fatalf("reply %q: %v", in.Text(), err)
		}
		replies = append(replies, r)
	}
	if err := in.Err(); err != nil {
		t.Errorf("reading the replies: %v", err)
	}
	return replies
}

func TestMalformedRequests(t *testing.T) {
	var calls atomic.Int32
	path := serve(t, Options{}, func(context.Context, Peer, Request) (any, error) {
		calls.Add(1)
		return nil, nil
	})
	for name, tc := range map[string]struct {
		send  string
		codes []Code
	}{
		"no JSON":          {"hello\n", []Code{CodeBadRequest}},
		"empty line":       {"\n", []Code{CodeBadRequest}},
		"array":            {"[1]\n", []Code{CodeBadRequest}},
		"two values":       {"{\"v\":1,\"op\":\"ping\"} {}\n", []Code{CodeBadRequest}},
		"unknown field":    {"{\"v\":1,\"op\":\"ping\",\"uid\":0}\n", []Code{CodeBadRequest}},
		"other version":    {"{\"v\":2,\"op\":\"ping\"}\n", []Code{CodeVersion}},
		"no version":       {"{\"op\":\"ping\"}\n", []Code{CodeVersion}},
		"cut off":          {"{\"v\":1,", nil},
		"nothing":          {"", nil},
		"too long":         {strings.Repeat("x", MaxRequest+1), []Code{CodeBadRequest}},
		"goes on after it": {"x\ny\n", []Code{CodeBadRequest, CodeBadRequest}},
	} {
		t.Run(name, func(t *testing.T) {
			replies := raw(t, path, tc.send)
			if len(replies) != len(tc.codes) {
				t.Fatalf("%d replies %v, want %d", len(replies), replies, len(tc.codes))
			}
			for i, r := range replies {
				if r.Error == nil || r.Error.Code != tc.codes[i] || r.V != Version {
					t.Errorf("reply %d: %+v, want %s", i, r.Error, tc.codes[i])
				}
			}
		})
	}
	if n := calls.Load(); n != 0 {
		t.Errorf("the handler was called %d times", n)
	}
	if r := raw(t, path, "{\"v\":1,\"op\":\"ping\"}\n"); len(r) != 1 || r[0].Error != nil {
		t.Errorf("a good request at the end: %v", r)
	}
}

func TestClientUnreachable(t *testing.T) {
	dir := filepath.Dir(socketPath(t))
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "none"), file, dir} {
		if _, err := Dial(path, time.Second); !errors.Is(err, ErrUnreachable) {
			t.Errorf("Dial(%s): %v", path, err)
		}
	}
}

// TestMuteServer connects to one that accepts and says nothing, or half a line.
func TestMuteServer(t *testing.T) {
	for name, says := range map[string]string{"nothing": "", "half a line": "{\"v\":1", "junk": "junk\n"} {
		t.Run(name, func(t *testing.T) {
			path := socketPath(t)
			l, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			var wg sync.WaitGroup
			defer wg.Wait()
			stop := make(chan struct{})
			defer close(stop)
			wg.Go(func() {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				defer func() { _ = conn.Close() }()
				_, _ = conn.Write([]byte(says))
				<-stop
			})
			c, err := Dial(path, 100*time.Millisecond)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			begin := time.Now()
			err = c.Call(context.Background(), OpPing, nil, nil)
			if !errors.Is(err, ErrUnreachable) {
				t.Errorf("got %v", err)
			}
			if d := time.Since(begin); d > 5*time.Second {
				t.Errorf("took %v", d)
			}
		})
	}
}

func TestCallEndsWithItsContext(t *testing.T) {
	release := make(chan struct{})
	path := serve(t, Options{}, func(context.Context, Peer, Request) (any, error) {
		<-release
		return nil, nil
	})
	t.Cleanup(func() { close(release) })
	c := dial(t, path)
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, cancel)
	if err := c.Call(ctx, OpPing, nil, nil); !errors.Is(err, ErrUnreachable) {
		t.Errorf("got %v", err)
	}
}

func TestTooLargeRequest(t *testing.T) {
	c := dial(t, serve(t, Options{}, echo))
	if err := c.Call(context.Background(), OpPing, strings.Repeat("x", MaxRequest), nil); err == nil {
		t.Error("a request over the limit was sent")
	}
	if err := c.Call(context.Background(), OpPing, nil, nil); err != nil {
		t.Errorf("the connection after it: %v", err)
	}
}

// TestServerOfAnotherUserIsRefused: the kernel notes who called listen; a
// thread of this process does so as another user.
func TestServerOfAnotherUserIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: needs root")
	}
	path := socketPath(t)
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), 1002, ^uintptr(0)); errno != 0 {
			done <- errno
			return
		}
		done <- unix.Listen(fd, 1)
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, err := Dial(path, 10*time.Second); !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "1002") {
		t.Errorf("Dial: %v", err)
	}
}
