package wire

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// stale leaves a socket that nobody listens on.
func stale(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	_ = l.Close()
}

func TestListenReplacesStaleSocket(t *testing.T) {
	path := socketPath(t)
	stale(t, path)
	s, err := Listen(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
}

func TestListenLeavesOthersAlone(t *testing.T) {
	for name, tc := range map[string]struct {
		make func(path string) error
		want string
	}{
		"regular file": {func(p string) error { return os.WriteFile(p, []byte("keep"), 0o600) }, "a regular file"},
		"folder":       {func(p string) error { return os.Mkdir(p, 0o700) }, "a folder"},
		"full folder":  {func(p string) error { return os.MkdirAll(p+"/sub", 0o700) }, "a folder"},
		"symlink":      {func(p string) error { return os.Symlink("/nowhere", p) }, "a symbolic link"},
		"FIFO":         {func(p string) error { return unix.Mkfifo(p, 0o600) }, "a FIFO"},
	} {
		t.Run(name, func(t *testing.T) {
			path := socketPath(t)
			if err := tc.make(path); err != nil {
				t.Fatal(err)
			}
			before, err := os.Lstat(path)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Listen(path, Options{})
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("Listen: %v, want one line with %q", err, tc.want)
			}
			after, err := os.Lstat(path)
			if err != nil || !os.SameFile(before, after) || before.Mode() != after.Mode() || before.Size() != after.Size() {
				t.Errorf("the object was touched: %v, %v", after, err)
			}
		})
	}
}

func TestListenLeavesAnothersSocketAlone(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: needs root")
	}
	path := socketPath(t)
	stale(t, path)
	if err := os.Chown(path, 1, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(path, Options{}); err == nil || !strings.Contains(err.Error(), "uid 1") {
		t.Errorf("Listen: %v", err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Error(err)
	}
}

func TestListenRefusesWhenServed(t *testing.T) {
	path := socketPath(t)
	first, err := Listen(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(path, Options{}); !errors.Is(err, ErrInUse) {
		t.Errorf("second Listen: %v", err)
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Errorf("the first is gone: %v", err)
	} else {
		_ = conn.Close()
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Listen(path, Options{})
	if err != nil {
		t.Fatalf("after the first has gone: %v", err)
	}
	_ = again.Close()

	// One that serves without our lock, such as another product.
	other, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	if _, err := Listen(path, Options{}); !errors.Is(err, ErrInUse) {
		t.Errorf("beside a server without the lock: %v", err)
	}
}

// TestListenWaits: a daemon that is just going does not turn the next one away.
func TestListenWaits(t *testing.T) {
	path := socketPath(t)
	first, err := Listen(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(100*time.Millisecond, func() { _ = first.Close() })
	second, err := Listen(path, Options{Wait: 10 * time.Second})
	if err != nil {
		t.Fatalf("although the first has gone: %v", err)
	}
	_ = second.Close()
}

func TestSimultaneousStarts(t *testing.T) {
	path := socketPath(t)
	for round := range 50 {
		if round%2 == 0 {
			stale(t, path)
		}
		var wg sync.WaitGroup
		var won, inUse atomic.Int32
		servers := make([]*Server, 4)
		for i := range servers {
			wg.Go(func() {
				s, err := Listen(path, Options{})
				if err == nil {
					servers[i] = s
					won.Add(1)
				} else if errors.Is(err, ErrInUse) {
					inUse.Add(1)
				} else {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 || inUse.Load() != 3 {
			t.Fatalf("round %d: %d winners, %d in use", round, won.Load(), inUse.Load())
		}
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatalf("round %d: the winner does not serve: %v", round, err)
		}
		_ = conn.Close()
		for _, s := range servers {
			if s != nil {
				_ = s.Close()
			}
		}
	}
}

// TestModeIsNeverWider watches the path while servers come and go.
func TestModeIsNeverWider(t *testing.T) {
	old := unix.Umask(0)
	defer unix.Umask(old)
	path := socketPath(t)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var seen atomic.Int32
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				var st unix.Stat_t
				if unix.Lstat(path, &st) != nil {
					continue
				}
				seen.Add(1)
				if st.Mode&0o777 != 0o600 {
					t.Errorf("mode %o", st.Mode)
					return
				}
				var dir unix.Stat_t
				if unix.Lstat(filepath.Dir(path), &dir) == nil && dir.Mode&0o7777 != 0o755 {
					t.Errorf("folder mode %o", dir.Mode)
					return
				}
			}
		})
	}
	for i := 0; i < 200 || seen.Load() < 10 && i < 20000; i++ {
		s, err := Listen(path, Options{Mode: 0o600})
		if err != nil {
			t.Fatal(err)
		}
		_ = s.Close()
	}
	close(stop)
	wg.Wait()
	if seen.Load() == 0 {
		t.Error("the watcher never saw the socket")
	}
	if _, err := os.Lstat(path + ".new"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the private folder is still there: %v", err)
	}
}

func TestListenAfterCrashInTheMiddle(t *testing.T) {
	path := socketPath(t)
	if err := os.Mkdir(path+".new", 0o700); err != nil {
		t.Fatal(err)
	}
	stale(t, filepath.Join(path+".new", "s"))
	s, err := Listen(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
}

func TestFolderIsChecked(t *testing.T) {
	for _, mode := range []os.FileMode{0o777, 0o775, 0o700, 0o1777} {
		path := socketPath(t)
		dir := filepath.Dir(path)
		if err := unix.Chmod(dir, uint32(mode)); err != nil {
			t.Fatal(err)
		}
		if _, err := Listen(path, Options{}); err == nil || !strings.Contains(err.Error(), "0755") {
			t.Errorf("folder of mode %o: %v", mode, err)
		}
	}
	path := socketPath(t)
	sub := filepath.Join(filepath.Dir(path), "made", "gimbald.sock")
	s, err := Listen(sub, Options{})
	if err != nil {
		t.Fatalf("missing folder: %v", err)
	}
	_ = s.Close()
	if err := os.Chmod(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(sub, Options{}); err == nil || !strings.Contains(err.Error(), "others") {
		t.Errorf("below a folder that all may write to: %v", err)
	}
	if _, err := Listen("/"+strings.Repeat("x", 120), Options{}); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("long path: %v", err)
	}
}

func TestCloseLeavesAStrangersSocket(t *testing.T) {
	path := socketPath(t)
	s, err := Listen(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	stale(t, path)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the stranger's socket: %v", err)
	}
}

func TestShutdownWaitsForHandlers(t *testing.T) {
	path := socketPath(t)
	s, err := Listen(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	entered := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- s.Serve(ctx, func(ctx context.Context, _ Peer, _ Request) (any, error) {
			close(entered)
			<-ctx.Done()
			return "finished", nil
		})
	}()
	idle := dial(t, path)
	busy := dial(t, path)
	go func() {
		<-entered
		cancel()
	}()
	var got string
	if err := busy.Call(context.Background(), OpPing, nil, &got); err != nil || got != "finished" {
		t.Errorf("the request in flight: %q, %v", got, err)
	}
	if err := <-done; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if err := idle.Call(context.Background(), OpPing, nil, nil); !errors.Is(err, ErrUnreachable) {
		t.Errorf("after the end: %v", err)
	}
}

func TestIdleConnectionIsClosed(t *testing.T) {
	path := serve(t, Options{Idle: 20 * time.Millisecond}, echo)
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := conn.Write([]byte(`{"v":1,`)); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read %d, %v: want the end of the connection", n, err)
	}
}
