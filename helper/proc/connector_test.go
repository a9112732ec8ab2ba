package proc

import (
	"encoding/binary"
	"errors"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// message is what the process connector would send.
func message(what uint32, data ...uint32) []byte {
	b := make([]byte, offsetData+4*max(len(data), 6))
	order := binary.NativeEndian
	order.PutUint32(b[netlinkHeader:], cnIdxProc)
	order.PutUint32(b[netlinkHeader+4:], cnValProc)
	order.PutUint32(b[offsetWhat:], what)
	for i, v := range data {
		order.PutUint32(b[offsetData+4*i:], v)
	}
	return b
}

func TestParseEvent(t *testing.T) {
	for _, c := range []struct {
		name string
		msg  []byte
		want event
		ok   bool
	}{
		{"fork", message(eventFork, 10, 9, 20, 20), event{what: eventFork, ppid: 9, pid: 20}, true},
		{"a thread begins", message(eventFork, 10, 9, 21, 20), event{}, false},
		{"exec", message(eventExec, 20, 20), event{what: eventExec, pid: 20}, true},
		{"exit", message(eventExit, 20, 20), event{what: eventExit, pid: 20}, true},
		{"a thread ends", message(eventExit, 21, 20), event{}, false},
		{"refused", message(eventNone, 1), event{what: eventNone, error: 1}, true},
		{"another kind", message(0x100, 1, 1), event{}, false},
		{"short", message(eventExec, 1, 1)[:offsetData+7], event{}, false},
		{"empty", nil, event{}, false},
	} {
		got, ok := parseEvent(c.msg)
		if ok != c.ok || ok && got != c.want {
			t.Errorf("%s: %+v, %v", c.name, got, ok)
		}
	}
}

// The filter in the kernel lets through what parseEvent understands, and no
// events of threads.
func TestConnectorReportsProcesses(t *testing.T) {
	needConnector(t)
	conn, err := openConnector()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.close()
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	seen := map[uint32]bool{}
	eventually(t, "fork, exec and exit", func() bool {
		err := conn.drain(drainLimit, func(e event) {
			if e.pid == pid {
				seen[e.what] = true
			}
		})
		if err != nil && !errors.Is(err, errLost) && !errors.Is(err, errMore) {
			t.Fatal(err)
		}
		return seen[eventFork] && seen[eventExec] && seen[eventExit]
	})
	_ = cmd.Wait()
}

// Events that do not fit are counted, and a tracker makes up for them by a scan.
func TestTrackerSurvivesLostEvents(t *testing.T) {
	needConnector(t)
	tr := tracked(t, Host{}, nil)
	l := launch(t, `while :; do (sleep 1000 & echo $!); read again; done`)
	watch(t, tr, l.id)
	tr.mu.Lock() // nobody reads now
	err := tr.conn.withFD(func(fd int) error {
		return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 1)
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 30 {
		if err := exec.Command("true").Run(); err != nil {
			t.Fatal(err)
		}
	}
	l.run(t)
	orphan := l.pid(t)
	tr.mu.Unlock()
	if p := pause(t, tr, Target{Roots: []ID{l.id}}); p.Complete || state(t, orphan) != 'T' {
		t.Errorf("orphan is %c after %+v", state(t, orphan), p)
	}
	if s := tr.Stats(); s.Lost == 0 || s.Rescans == 0 {
		t.Errorf("stats %+v", s)
	}
}
