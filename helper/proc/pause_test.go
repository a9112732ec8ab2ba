package proc

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// family starts a process in the same group, one in a session of its own, one
// daemon by double fork, one by double fork in a session of its own, and forks a
// child every few milliseconds.
const family = `
sleep 1000 & echo $!
setsid sleep 1000 & echo $!
(sleep 1000 & echo $!)
(setsid sh -c 'sleep 1000 & echo $!; wait' &)
while :; do sleep 0.005 & wait $!; done`

// needConnector skips where the kernel does not report forks to this user.
func needConnector(t *testing.T) {
	t.Helper()
	conn, err := openConnector()
	if err != nil {
		t.Skipf("SKIPPED: no process connector: %v", err)
	}
	conn.close()
}

func TestPauseStopsTheWholeTree(t *testing.T) {
	for _, mode := range []string{"connector", "scan"} {
		t.Run(mode, func(t *testing.T) {
			tr := scanning(t)
			if mode == "connector" {
				needConnector(t)
				tr = tracked(t, Host{}, nil)
			}
			l := launch(t, family)
			watch(t, tr, l.id)
			l.run(t)
			members := []ID{l.id}
			for range 4 {
				members = append(members, l.pid(t))
			}
			if mode == "scan" {
				members = members[:4] // who left the tree and the session is not seen
				procs, err := Host{}.Scan(nil)
				if err != nil {
					t.Fatal(err)
				}
				tr.Update(procs)
			}
			for range 5 {
				pauseOnce(t, tr, l, members, mode == "connector")
			}
		})
	}
}

func pauseOnce(t *testing.T, tr *Tracker, l *launched, members []ID, complete bool) {
	t.Helper()
	p := pause(t, tr, Target{Roots: []ID{l.id}})
	if p.Complete != complete {
		t.Errorf("complete: %v, want %v", p.Complete, complete)
	}
	for _, pid := range marked("GIMBAL_PROC_TEST=" + t.Name() + "-" + strconv.Itoa(os.Getpid())) {
		id, err := Host{}.Identify(pid)
		if err != nil || !complete && !slices.Contains(members, id) {
			continue
		}
		if s := state(t, id); s != 'T' && s != 'Z' && s != '-' {
			t.Errorf("process %d is %c after the pause", pid, s)
		}
	}
	for _, id := range members {
		if !slices.Contains(p.Stopped, id) {
			t.Errorf("process %s is not in the set", id)
		}
	}
	r, err := tr.host.Resume(p.Stopped)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Continued) != len(p.Stopped) || len(r.Foreign)+len(r.Gone)+len(r.Running) != 0 {
		t.Errorf("resumed %+v of %v", r, p.Stopped)
	}
	for _, id := range members {
		if s := state(t, id); s == 'T' {
			t.Errorf("process %s is stopped after the resume", id)
		}
	}
}

// chain is a script of which each process starts the next and ends: the tree is
// one process that is never the same. It ends by itself after very many.
const chain = `exec sh -c '[ $1 -lt 50000 ] || exit; (exec sh -c "$0" "$0" $(($1+1))) & exit' \
	'[ $1 -lt 50000 ] || exit; (exec sh -c "$0" "$0" $(($1+1))) & exit' 1`

func TestPauseIncludesAChainOfForkAndExit(t *testing.T) {
	needConnector(t)
	tr := tracked(t, Host{}, nil)
	l := launch(t, chain)
	watch(t, tr, l.id)
	l.run(t)
	eventually(t, "the chain to move on", func() bool {
		return state(t, l.id) == 'Z' && len(tr.Members(l.id)) > 0
	})
	for range 10 {
		p := pause(t, tr, Target{Roots: []ID{l.id}})
		if len(p.Stopped) == 0 {
			t.Fatal("nothing was stopped")
		}
		if _, err := tr.host.Resume(p.Stopped); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range pause(t, tr, Target{Roots: []ID{l.id}}).Stopped {
		_ = unix.Kill(id.PID, unix.SIGKILL)
	}
}

func TestPauseLeavesAForeignStopAlone(t *testing.T) {
	tr := tracked(t, Host{}, nil)
	l := launch(t, `sleep 1000 & echo $!; sleep 1000 & echo $!; wait`)
	watch(t, tr, l.id)
	l.run(t)
	stopped, other := l.pid(t), l.pid(t)
	if err := unix.Kill(stopped.PID, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the stop", func() bool { return state(t, stopped) == 'T' })
	p := pause(t, tr, Target{Roots: []ID{l.id}})
	if !slices.Equal(p.Foreign, []ID{stopped}) || !slices.Contains(p.Stopped, other) || slices.Contains(p.Stopped, stopped) {
		t.Fatalf("paused %+v", p)
	}
	if _, err := tr.host.Resume(p.Stopped); err != nil {
		t.Fatal(err)
	}
	if state(t, stopped) != 'T' || state(t, other) == 'T' {
		t.Error("resume did not keep to its own stops")
	}
	again := pause(t, tr, Target{Roots: []ID{l.id}, Mine: []ID{stopped}})
	if len(again.Foreign) != 0 || !slices.Contains(again.Stopped, stopped) {
		t.Errorf("an earlier stop of ours counts as foreign: %+v", again)
	}
}

// A suspend by Slurm sends SIGTSTP, then SIGSTOP; neither is undone.
func TestResumeLeavesASuspendedProcessAlone(t *testing.T) {
	for _, sigs := range [][]unix.Signal{{unix.SIGTSTP}, {unix.SIGTSTP, unix.SIGSTOP}, {unix.SIGSTOP}} {
		t.Run(Signals(sigs...).String(), func(t *testing.T) {
			tr := tracked(t, Host{}, nil)
			l := launch(t, `sleep 1000 & echo $!; wait`)
			watch(t, tr, l.id)
			l.run(t)
			child := l.pid(t)
			p := pause(t, tr, Target{Roots: []ID{l.id}})
			for _, sig := range sigs {
				if err := unix.Kill(child.PID, sig); err != nil {
					t.Fatal(err)
				}
			}
			r, err := tr.host.Resume(p.Stopped)
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Foreign) != 1 || r.Foreign[0].ID != child || r.Foreign[0].Pending != Signals(sigs...) {
				t.Fatalf("foreign stops: %+v", r.Foreign)
			}
			if state(t, child) != 'T' || state(t, l.id) == 'T' {
				t.Error("the suspended process runs, or the other does not")
			}
		})
	}
}

// A process that was continued by somebody and stopped again by SIGTSTP is
// stopped by another, though nothing waits for it.
func TestResumeSeesAnEffectiveForeignStop(t *testing.T) {
	tr := tracked(t, Host{}, nil)
	// A group whose parent is in the same session: others ignore SIGTSTP.
	l := launchAs(t, `sleep 1000 & echo $!; wait`, &syscall.SysProcAttr{Setpgid: true})
	watch(t, tr, l.id)
	l.run(t)
	child := l.pid(t)
	p := pause(t, tr, Target{Roots: []ID{l.id}})
	_ = unix.Kill(child.PID, unix.SIGCONT)
	eventually(t, "the continue", func() bool { return state(t, child) == 'S' })
	_ = unix.Kill(child.PID, unix.SIGTSTP)
	eventually(t, "the stop", func() bool { return state(t, child) == 'T' })
	var buf [statSize]byte
	if s, err := tr.host.statOf(buf[:], child); err != nil || s.StopSignal == 0 {
		t.Skip("SKIPPED: this kernel does not show the signal of a stop")
	}
	r, err := tr.host.Resume(p.Stopped)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Foreign) != 1 || r.Foreign[0].StopSignal != unix.SIGTSTP || state(t, child) != 'T' {
		t.Errorf("resumed %+v", r)
	}
}

func TestPauseStopsAProgramThatIgnoresTerminalStops(t *testing.T) {
	tr := tracked(t, Host{}, nil)
	l := launch(t, `trap '' TSTP TTIN TTOU; echo $$; while :; do :; done`)
	watch(t, tr, l.id)
	l.run(t)
	l.pid(t)
	pause(t, tr, Target{Roots: []ID{l.id}})
	if state(t, l.id) != 'T' {
		t.Error("it runs")
	}
}

func TestPauseDuringExecs(t *testing.T) {
	tr := tracked(t, Host{}, nil)
	l := launch(t, `echo $$; exec sh -c 'i=$1; exec sh -c "$0" "$0" $((i+1))' 'exec sh -c "$0" "$0" x'`)
	watch(t, tr, l.id)
	l.run(t)
	l.pid(t)
	for range 20 {
		p := pause(t, tr, Target{Roots: []ID{l.id}})
		if !slices.Contains(p.Stopped, l.id) || state(t, l.id) != 'T' {
			t.Fatalf("not stopped: %+v", p)
		}
		if _, err := tr.host.Resume(p.Stopped); err != nil {
			t.Fatal(err)
		}
	}
}

// One that cannot be stopped brings the whole pause back.
func TestPauseThatCannotSucceedIsUndone(t *testing.T) {
	l := launch(t, `sleep 1000 & echo $!; wait`)
	deaf := &deafTo{recorder: recorder{pass: true}}
	tr := tracked(t, Host{Signals: deaf}, nil)
	watch(t, tr, l.id)
	l.run(t)
	child := l.pid(t)
	eventually(t, "the exec", func() bool {
		comm, _ := Host{}.readAll(child.PID, "comm")
		return string(comm) == "sleep\n"
	})
	deaf.pid = child.PID
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := tr.Pause(ctx, Target{Roots: []ID{l.id}})
	var inc *IncompleteError
	if !errors.Is(err, ErrIncomplete) || !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &inc) {
		t.Fatalf("error %v", err)
	}
	if len(inc.Left) != 1 || inc.Left[0].ID != child || inc.Left[0].Comm != "sleep" {
		t.Errorf("left over: %+v", inc.Left)
	}
	if state(t, l.id) == 'T' {
		t.Error("the root was not continued")
	}
}

// A stop that somebody's SIGCONT took away before it had its effect is told
// again, as one stop: the resume finds nobody else's.
func TestPauseTellsAgain(t *testing.T) {
	l := launch(t, `sleep 1000; true`)
	deaf := &deafTo{recorder: recorder{pass: true}, pid: l.id.PID, times: 2}
	tr := tracked(t, Host{Signals: deaf}, nil)
	watch(t, tr, l.id)
	l.run(t)
	p := pause(t, tr, Target{Roots: []ID{l.id}})
	if s := state(t, l.id); s != 'T' && s != 'D' {
		t.Errorf("the process is %c", s)
	}
	r, err := tr.host.Resume(p.Stopped)
	if err != nil || len(r.Foreign) > 0 {
		t.Errorf("resumed: %+v, %v", r, err)
	}
}

// deafTo swallows the stops of one process: the first so many, 0 for all.
type deafTo struct {
	recorder
	pid   int
	times int
	heard int
}

func (d *deafTo) Send(fd int, sig unix.Signal) error {
	d.mu.Lock()
	deaf := d.pids[fd] == d.pid && sig == unix.SIGSTOP && (d.times == 0 || d.heard < d.times)
	if deaf {
		d.heard++
	}
	d.mu.Unlock()
	if deaf {
		return nil
	}
	return d.recorder.Send(fd, sig)
}

// A record whose start time is not the living process's gets no signal.
func TestNoSignalToAReusedPid(t *testing.T) {
	l := launch(t, `sleep 1000`)
	rec := &recorder{pass: true}
	host := Host{Signals: rec}
	tr := tracked(t, host, nil)
	stale := ID{PID: l.id.PID, Start: l.id.Start - 1}
	if err := tr.Watch(stale, false); !errors.Is(err, ErrGone) {
		t.Errorf("watch: %v", err)
	}
	p := pause(t, tr, Target{Roots: []ID{stale}})
	r, err := host.Resume([]ID{stale})
	if err != nil || len(p.Stopped) != 0 || !slices.Equal(r.Gone, []ID{stale}) {
		t.Errorf("paused %+v, resumed %+v, %v", p, r, err)
	}
	if len(rec.sent()) != 0 {
		t.Errorf("signals went out: %v", rec.sent())
	}
}

func TestNeverSignalled(t *testing.T) {
	rec := &recorder{}
	host := Host{Signals: rec}
	self, err := host.Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []ID{{}, {PID: 1, Start: 1}, {PID: 0, Start: 1}, {PID: -1, Start: 1}, self} {
		if _, err := host.Resume([]ID{id}); !errors.Is(err, errProtected) {
			t.Errorf("process %s: %v", id, err)
		}
	}
	if len(rec.sent()) != 0 {
		t.Errorf("signals went out: %v", rec.sent())
	}
}

// Another tree's pids mean nothing on this machine.
func TestNoSignalsForAnotherProcRoot(t *testing.T) {
	l := launch(t, `sleep 1000`)
	host := Host{ProcRoot: "/proc/../proc"}
	if _, err := host.Resume([]ID{l.id}); !errors.Is(err, errNoSignals) {
		t.Errorf("error %v", err)
	}
}
