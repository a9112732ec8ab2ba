package proc

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// bellOver returns a bell over a socket, and what sends to that.
func bellOver(t *testing.T) (b *bell, fd int, send func()) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = unix.Close(fds[0]), unix.Close(fds[1]) })
	if b, err = newBell(fds[0]); err != nil {
		t.Fatal(err)
	}
	return b, fds[0], func() {
		if _, err := unix.Write(fds[1], []byte("x")); err != nil {
			t.Error(err)
		}
	}
}

// readable tells whether whoever polls the bell, as the runtime does, is woken.
func (b *bell) readable(t *testing.T) bool {
	t.Helper()
	poll := []unix.PollFd{{Events: unix.POLLIN}}
	if err := b.raw.Control(func(fd uintptr) { poll[0].Fd = int32(fd) }); err != nil {
		t.Fatal(err)
	}
	n, err := unix.Poll(poll, 0)
	if err != nil {
		t.Fatal(err)
	}
	return n > 0
}

func TestBellRingsOncePerWait(t *testing.T) {
	b, fd, send := bellOver(t)
	defer b.close()
	send()
	if b.readable(t) {
		t.Error("it rings before it was set")
	}
	for range 3 { // what is queued stays there
		if err := b.wait(fd); err != nil {
			t.Fatal(err)
		}
		send()
		if b.readable(t) {
			t.Error("it rings again for a message that nobody waits for")
		}
	}
}

func TestBellWakesWhoWaits(t *testing.T) {
	b, fd, send := bellOver(t)
	done := make(chan error)
	wait := func() { done <- b.wait(fd) }
	for range 3 {
		go wait()
		select {
		case err := <-done:
			t.Fatalf("it returned before anything came: %v", err)
		case <-time.After(20 * time.Millisecond):
		}
		send()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		var buf [8]byte
		if _, err := unix.Read(fd, buf[:]); err != nil {
			t.Fatal(err)
		}
	}
	go wait()
	b.close()
	if err := <-done; err == nil {
		t.Error("a bell that was closed has rung")
	}
}
