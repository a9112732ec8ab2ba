package proc

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// storm is eight shells that fork all the time, for as long as the test lives.
type storm struct {
	*launched
	mark string
	over string // the file that ends it
}

func launchStorm(t *testing.T, tr *Tracker) *storm {
	t.Helper()
	const shells = 8
	s := &storm{mark: "GIMBAL_PROC_TEST=" + t.Name() + "-" + strconv.Itoa(os.Getpid()), over: filepath.Join(t.TempDir(), "over")}
	s.launched = launch(t, `echo $$; for i in 1 2 3 4 5 6 7 8; do (while kill -0 `+strconv.Itoa(os.Getpid())+
		` && [ ! -e `+s.over+` ]; do (:); done) & done; wait`)
	watch(t, tr, s.id)
	s.run(t)
	s.pid(t)
	eventually(t, "the storm", func() bool { return len(tr.Members(s.id)) > shells })
	return s
}

// each calls a function with every living process of the storm.
func (s *storm) each(t *testing.T, do func(pid int, state byte)) {
	t.Helper()
	for _, pid := range marked(s.mark) {
		if id, err := (Host{}).Identify(pid); err == nil {
			do(pid, state(t, id))
		}
	}
}

func (s *storm) end(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(s.over, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the storm to be over", func() bool { return state(t, s.id) == 'Z' })
}

// A storm that does not grow is paused whole, again and again.
func TestPauseOfAForkStorm(t *testing.T) {
	needConnector(t)
	tr := tracked(t, Host{}, nil)
	s := launchStorm(t, tr)
	for range 5 {
		p := pause(t, tr, Target{Roots: []ID{s.id}})
		t.Logf("%d processes in %v, %d passes", len(p.Stopped), p.Latency, p.Passes)
		s.each(t, func(pid int, state byte) {
			if state != 'T' && state != 'Z' && state != '-' {
				t.Errorf("process %d is %c after the pause", pid, state)
			}
		})
		if _, err := tr.host.Resume(p.Stopped); err != nil {
			t.Fatal(err)
		}
	}
	s.end(t)
}

// A pause that has no time is taken back whole, and says why.
func TestPauseOfAForkStormThatIsTakenBack(t *testing.T) {
	needConnector(t)
	tr := tracked(t, Host{}, nil)
	s := launchStorm(t, tr)
	for range 5 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Nanosecond)
		_, err := tr.Pause(ctx, Target{Roots: []ID{s.id}})
		cancel()
		var inc *IncompleteError
		if !errors.As(err, &inc) || !errors.Is(err, context.DeadlineExceeded) || inc.Of == 0 {
			t.Fatalf("error %v", err)
		}
		s.each(t, func(pid int, state byte) {
			if state == 'T' {
				t.Errorf("process %d is stopped after a pause that was undone", pid)
			}
		})
	}
	s.end(t)
}

// Whoever gives a pause more time than usual gets it.
func TestPauseTakesTheTimeThatItIsGiven(t *testing.T) {
	l := launch(t, `exec sleep 1000`)
	deaf := &deafTo{recorder: recorder{pass: true}, pid: l.id.PID, times: int(PauseLimit/againAfter) + 10}
	tr := tracked(t, Host{Signals: deaf}, nil)
	watch(t, tr, l.id)
	l.run(t)
	if p := pause(t, tr, Target{Roots: []ID{l.id}}); p.Latency < PauseLimit {
		t.Errorf("it took %v", p.Latency)
	}
}

// Who may have taken the pid of a member is not stopped before the events that wait
// tell whether he has.
func TestNobodyInDoubtIsStoppedAtOnce(t *testing.T) {
	root, sure, doubtful, gone := ID{10, 1}, ID{11, 1}, ID{12, 1}, ID{13, 0}
	tr := &tree{root: root, members: map[int]*node{}}
	for _, id := range []ID{root, sure, doubtful, gone} {
		tr.members[id.PID] = &node{id: id, tree: tr, doubt: id == doubtful}
	}
	x := Tracker{trees: map[ID]*tree{root: tr}}
	if got := setOf(x.certain(nil, []ID{root})); len(got) != 2 || !got[root] || !got[sure] {
		t.Errorf("stopped at once: %v", got)
	}
}
