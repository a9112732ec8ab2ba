package cuda

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/tests/simgpu"
)

func TestSupported(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if s := r.c.Supported(r.within(5 * time.Second)); !s.OK || s.Version != "12.9" || s.By != "library" {
		t.Errorf("%+v", s)
	}
	for lib, reason := range map[string]string{
		"libgimbal-is-not-there.so.1": "load the CUDA driver: libgimbal-is-not-there",
		simgpu.NVML(""):               "driver older than R570",
	} {
		c := startClient(t, r.command(r.d, lib), nil)
		s := c.Supported(r.within(5 * time.Second))
		if s.OK || !strings.Contains(s.Reason, reason) {
			t.Errorf("%s: %+v", lib, s)
		}
		_, err := c.State(r.within(5*time.Second), model.ProcID{PID: os.Getpid()})
		if !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: a call: %v", lib, err)
		}
	}
}

func TestDriverThatComesLater(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.d.Stop()
	if s := r.c.Supported(r.within(5 * time.Second)); s.OK || !strings.Contains(s.Reason, "no CUDA-capable device") {
		t.Errorf("without a driver: %+v", s)
	}
	r.d.Restart(simgpu.Options{})
	if s := r.c.Supported(r.within(5 * time.Second)); !s.OK {
		t.Errorf("with one: %+v", s)
	}
}

func TestOnlyTheVeryProcess(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.train("a", model.GiB)
	other := a.id
	other.Start--
	ctx := r.within(5 * time.Second)
	for _, d := range []Driver{r.c, NewCommand(simgpu.Binary("cuda-checkpoint"), r.d.Env())} {
		if err := d.Lock(ctx, other, time.Second); !errors.Is(err, ErrGone) {
			t.Errorf("%T: locked by a pid that is another's: %v", d, err)
		}
		if err := d.Lock(ctx, a.id, 0); err == nil {
			t.Errorf("%T: locked without a timeout", d)
		}
	}
	a.expect(Running)
}

func TestOneThatHangsDoesNotDelayTheOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, b := r.train("a", model.GiB), r.train("b", model.GiB)
	a.freeze()
	hung := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { hung <- r.c.Lock(ctx, a.id, time.Minute) }()
	for range 3 {
		if err := r.c.Lock(r.within(5*time.Second), b.id, time.Second); err != nil {
			t.Fatal(err)
		}
		if err := r.c.Unlock(r.within(5*time.Second), b.id); err != nil {
			t.Fatal(err)
		}
	}
	if _, n := r.newest(); n != 1 {
		t.Errorf("%d helpers", n)
	}
	cancel()
	if err := <-hung; !errors.Is(err, ErrTimeout) || !errors.Is(err, context.Canceled) {
		t.Errorf("the call that hangs: %v", err)
	}
	// The next change of the same process waits for the new helper.
	a.signal(syscall.SIGCONT)
	await(t, "the lock that was left behind", func() bool {
		s, _ := r.c.State(r.within(5*time.Second), a.id)
		return s == Locked
	})
	if err := r.c.Unlock(r.within(5*time.Second), a.id); err != nil {
		t.Error(err)
	}
}

func TestHelperThatHangsIsReplaced(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, b := r.train("a", model.GiB), r.train("b", model.GiB)
	a.freeze()
	if err := r.c.Lock(r.within(50*time.Millisecond), a.id, time.Minute); !errors.Is(err, ErrTimeout) {
		t.Fatalf("the call that hangs: %v", err)
	}
	first, _ := r.newest()
	if err := r.c.Unlock(r.within(5*time.Second), a.id); !errors.Is(err, resultIllegalState) {
		t.Errorf("a change behind one that hangs: %v", err)
	}
	second, n := r.newest()
	if n != 2 || second == first {
		t.Errorf("%d helpers", n)
	}
	await(t, "the first helper to be gone", func() bool { return syscall.Kill(first, 0) != nil })
	b.expect(Running)
	a.signal(syscall.SIGCONT)
}

// TestHelperIsReplacedOnlyWhenIdle lets a call that somebody waits for end
// before the helper with the one that hangs is killed.
func TestHelperIsReplacedOnlyWhenIdle(t *testing.T) {
	t.Parallel()
	r := newRig(t, "--swap-rate", "1GiB")
	a, b := r.train("a", model.GiB), r.train("b", model.GiB)
	if err := r.c.Lock(r.within(5*time.Second), b.id, time.Second); err != nil {
		t.Fatal(err)
	}
	a.freeze()
	long := make(chan error, 1)
	go func() { long <- r.c.Checkpoint(r.within(10*time.Second), b.id) }()
	if err := r.c.Lock(r.within(50*time.Millisecond), a.id, time.Minute); !errors.Is(err, ErrTimeout) {
		t.Fatalf("the call that hangs: %v", err)
	}
	if err := <-long; err != nil {
		t.Errorf("the call that takes long: %v", err)
	}
	b.expect(Checkpointed)
	a.signal(syscall.SIGCONT)
}

func TestHelperDies(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.train("a", model.GiB)
	for n := 1; n <= 3; n++ {
		a.expect(Running)
		pid, seen := r.newest()
		if seen != n {
			t.Errorf("%d helpers, expected %d", seen, n)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		await(t, "its death to be noticed", func() bool { return r.deathCount() == n })
	}
}

func TestHelperThatIsNoHelper(t *testing.T) {
	for name, args := range map[string][]string{
		"missing":  {"/nonexistent/helper"},
		"ends":     {"/bin/false"},
		"silent":   {"/bin/sleep", "60"},
		"garbage":  {"/bin/sh", "-c", "echo garbage; sleep 60"},
		"no reply": {"/bin/sh", "-c", "echo '{\"id\":99999}'; exec sleep 60"},
		"deaf":     {"/bin/sh", "-c", "exec <&- ; exec sleep 60"},
		"endless":  {"/bin/sh", "-c", "exec tr '\\0' x </dev/zero"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var starts atomic.Int32
			c := startClient(t, func() *exec.Cmd { starts.Add(1); return exec.Command(args[0], args[1:]...) }, nil)
			for range 3 {
				ctx, cancel := context.WithTimeout(context.Background(), 250*time.Millisecond)
				if s := c.Supported(ctx); s.OK || s.Reason == "" {
					t.Errorf("%+v", s)
				}
				cancel()
			}
			if n := starts.Load(); n > 5 {
				t.Errorf("%d starts in less than a second", n)
			}
		})
	}
}

// TestDriverIsReplaced lets a helper go that says that its driver does not fit
// any more.
func TestDriverIsReplaced(t *testing.T) {
	const answer = `read l; id=${l#*:}; echo "{\"id\":${id%%,*},\"result\":803}"; exec sleep 60`
	var starts atomic.Int32
	c := startClient(t, func() *exec.Cmd { starts.Add(1); return exec.Command("/bin/sh", "-c", answer) }, nil)
	for n := range int32(3) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		if _, err := c.State(ctx, model.ProcID{PID: 2}); !errors.Is(err, resultMismatch) {
			t.Errorf("call %d: %v", n, err)
		}
		cancel()
		if starts.Load() != n+1 {
			t.Errorf("call %d: %d helpers", n, starts.Load())
		}
	}
}

func TestHelpersThatCannotBeKilledAreBounded(t *testing.T) {
	c := startClient(t, func() *exec.Cmd { t.Error("one more was started"); return exec.Command("/bin/false") }, nil)
	c.stuck = maxStuck
	if s := c.Supported(context.Background()); s.OK || !strings.Contains(s.Reason, "cannot be killed") {
		t.Errorf("%+v", s)
	}
}

func TestRetireLetsTheHelperGo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.train("a", model.GiB)
	if err := r.c.Lock(r.within(5*time.Second), a.id, time.Second); err != nil {
		t.Fatal(err)
	}
	pid, _ := r.newest()
	r.c.Retire()
	await(t, "the helper to be gone", func() bool { return syscall.Kill(pid, 0) != nil })
	a.expect(Locked)
	if n := r.deathCount(); n != 0 {
		t.Errorf("%d helpers died", n)
	}
}

// TestDaemonDies ends a helper's input as a daemon's death does, with what an
// earlier helper has locked or moved.
func TestDaemonDies(t *testing.T) {
	t.Parallel()
	r := newRig(t, "--swap-rate", "40GiB")
	a, b := r.train("a", model.GiB), r.train("b", model.GiB)
	ctx := r.within(10 * time.Second)
	for _, x := range []*trainer{a, b} {
		if err := r.c.Lock(ctx, x.id, time.Second); err != nil {
			t.Fatal(err)
		}
	}
	r.c.Retire()
	if err := r.c.Checkpoint(ctx, b.id); err != nil {
		t.Fatal(err)
	}
	r.c.mu.Lock()
	h := r.c.current
	r.c.mu.Unlock()
	if err := h.in.Close(); err != nil {
		t.Fatal(err)
	}
	a.expectProgress()
	b.expectProgress()
	await(t, "the helper to end by itself", func() bool { return r.deathCount() == 1 })
	a.expect(Running)
	b.expect(Running)
}

func TestClosedClient(t *testing.T) {
	c := Start(func() *exec.Cmd { return exec.Command("/bin/false") }, Options{})
	if err := c.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.State(context.Background(), model.ProcID{PID: 2}); !errors.Is(err, ErrHelper) {
		t.Errorf("a call after the end: %v", err)
	}
}
