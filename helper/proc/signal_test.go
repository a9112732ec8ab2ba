package proc

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// many starts children that sleep, more than are looked at in one batch.
const many = `i=0; while [ $i -lt 150 ]; do sleep 1000 & i=$((i+1)); done; echo $$; wait`

func manyOf(t *testing.T, h Host) (*Tracker, *launched) {
	t.Helper()
	tr := tracked(t, h, nil)
	l := launch(t, many)
	watch(t, tr, l.id)
	l.run(t)
	l.pid(t)
	return tr, l
}

// counting is a Signaller that notes the most files that were open at a signal.
type counting struct {
	pidfds
	t    *testing.T
	most int
	sent atomic.Int64
	fail int64 // which stop fails, 0: none
}

var errRefused = errors.New("refused by the test")

func (c *counting) Send(fd int, sig unix.Signal) error {
	c.most = max(c.most, openFiles(c.t))
	if n := c.sent.Add(1); sig == unix.SIGSTOP && n == c.fail {
		return errRefused
	}
	return c.pidfds.Send(fd, sig)
}

// However many processes there are, few files are open at once, and none is left
// open, whether or not the pause succeeds.
func TestPauseOfManyKeepsFewFilesOpen(t *testing.T) {
	for name, fail := range map[string]int64{"succeeds": 0, "fails": openAtOnce + openAtOnce/2} {
		t.Run(name, func(t *testing.T) {
			count := &counting{t: t}
			tr, l := manyOf(t, Host{Signals: count})
			before := openFiles(t)
			count.fail = fail
			p, err := tr.Pause(context.Background(), Target{Roots: []ID{l.id}})
			if fail == 0 && (err != nil || len(p.Stopped) != 151) || fail != 0 && !errors.Is(err, errRefused) {
				t.Fatalf("%d stopped, %v", len(p.Stopped), err)
			}
			const others = 8 // of the tracker's goroutines, and to read a status
			if count.most > before+2*openAtOnce+others {
				t.Errorf("%d files open, %d before", count.most, before)
			}
			if _, err := tr.host.Resume(p.Stopped); err != nil {
				t.Fatal(err)
			}
			if after := openFiles(t); after != before {
				t.Errorf("%d files open, %d before", after, before)
			}
			for _, id := range tr.Members(l.id) {
				if state(t, id) == 'T' {
					t.Errorf("process %s is stopped", id)
				}
			}
		})
	}
}

// What was opened to prove a process tells of that process alone.
func TestProvenIsNeverAnother(t *testing.T) {
	l := launch(t, "exec sleep 1000")
	l.run(t)
	var buf [statSize]byte
	who, err := Host{}.prove(buf[:], l.id)
	if err != nil {
		t.Fatal(err)
	}
	defer who.close()
	if s, err := readStat(who.file, buf[:], l.id); err != nil || s.ID() != l.id {
		t.Errorf("alive: %+v, %v", s, err)
	}
	other := ID{PID: l.id.PID, Start: l.id.Start - 1}
	if _, err := (Host{}).prove(buf[:], other); !errors.Is(err, ErrGone) {
		t.Errorf("proven as another: %v", err)
	}
	_ = unix.Kill(l.id.PID, unix.SIGKILL)
	var st unix.WaitStatus
	if _, err := unix.Wait4(l.id.PID, &st, 0, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := readStat(who.file, buf[:], l.id); !errors.Is(err, ErrGone) {
		t.Errorf("ended: %v", err)
	}
	if err := who.send(unix.SIGCONT); !errors.Is(err, ErrGone) {
		t.Errorf("signal to one that ended: %v", err)
	}
}

// Who is sent a stop was announced before, once, and nobody is who could not be:
// what was stopped until then runs again.
func TestPauseOfManyIsAnnounced(t *testing.T) {
	for name, batches := range map[string]int{"whole": 1000, "in part": 1, "not at all": 0} {
		t.Run(name, func(t *testing.T) {
			rec := &recorder{pass: true}
			tr, l := manyOf(t, Host{Signals: rec})
			told := map[int]int{}
			before := func(ids []ID) error {
				if batches--; batches < 0 {
					return errRefused
				}
				for _, id := range ids {
					told[id.PID]++
					if state(t, id) == 'T' {
						t.Errorf("process %s was stopped before", id)
					}
				}
				return nil
			}
			p, err := tr.Pause(context.Background(), Target{Roots: []ID{l.id}, Before: before})
			if (err == nil) != (batches > 0) || err != nil && !errors.Is(err, errRefused) {
				t.Errorf("%d stopped, %v", len(p.Stopped), err)
			}
			for _, s := range rec.sent() {
				if told[s.pid] != 1 {
					t.Errorf("%v to process %d, announced %d times", s.sig, s.pid, told[s.pid])
				}
			}
			if _, err := tr.host.Resume(p.Stopped); err != nil {
				t.Fatal(err)
			}
			for _, id := range tr.Members(l.id) {
				if state(t, id) == 'T' {
					t.Errorf("process %s is stopped", id)
				}
			}
		})
	}
}

// A process that does not come to stop at once is looked at until it does.
func TestPauseOfManyWaitsForTheLast(t *testing.T) {
	slow := &deafTo{recorder: recorder{pass: true}, times: 1}
	tr, l := manyOf(t, Host{Signals: slow})
	slow.mu.Lock()
	slow.pid = l.id.PID // the stop is lost: told again after a while
	slow.mu.Unlock()
	begin := time.Now()
	p := pause(t, tr, Target{Roots: []ID{l.id}})
	if len(p.Stopped) != 151 || state(t, l.id) != 'T' || time.Since(begin) < againAfter {
		t.Errorf("%d stopped, the root is %c", len(p.Stopped), state(t, l.id))
	}
	if _, err := tr.host.Resume(p.Stopped); err != nil {
		t.Fatal(err)
	}
}
