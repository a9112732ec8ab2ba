package proc

import (
	"errors"
	"runtime"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func asUser(uid uint32) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: uid, Gid: uid}}
}

// meaningful reads the status of a process and says what of it is meant for the job.
func meaningful(h Host, id ID, baseline SigSet, jobSignal unix.Signal) (SigSet, error) {
	st, err := h.Status(id)
	if err != nil {
		return 0, err
	}
	return h.Meaningful(id, st, baseline, jobSignal), nil
}

func TestMeaningful(t *testing.T) {
	for _, c := range []struct {
		name   string
		before []unix.Signal // waiting when the stop is confirmed
		after  []unix.Signal
		job    unix.Signal
		want   SigSet
	}{
		{"none", nil, nil, 0, 0},
		{"term", nil, []unix.Signal{unix.SIGTERM}, 0, Signals(unix.SIGTERM)},
		{"not new", []unix.Signal{unix.SIGTERM}, []unix.Signal{unix.SIGTERM}, 0, 0},
		{"blocked", nil, []unix.Signal{unix.SIGUSR2}, 0, 0},
		{"of no meaning", nil, []unix.Signal{unix.SIGALRM, unix.SIGCHLD, unix.SIGWINCH, unix.SIGURG, unix.SIGTSTP}, 0, 0},
		{"of no meaning, though the job chose it", nil, []unix.Signal{unix.SIGALRM, unix.SIGTSTP}, unix.SIGTSTP, 0},
		{"the job's own", nil, []unix.Signal{unix.SIGIO}, unix.SIGIO, Signals(unix.SIGIO)},
		{"not the job's own", nil, []unix.Signal{unix.SIGIO}, unix.SIGVTALRM, 0},
		{"several", nil, []unix.Signal{unix.SIGUSR1, unix.SIGALRM, unix.SIGXCPU}, 0, Signals(unix.SIGUSR1, unix.SIGXCPU)},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := tracked(t, Host{}, nil)
			need(t, "perl")
			l := launch(t, `exec perl -e '
use POSIX;
$SIG{$_} = sub {} for qw(ALRM CHLD WINCH URG TSTP);
sigprocmask(SIG_BLOCK, POSIX::SigSet->new(SIGUSR2));
$| = 1; print "$$\n"; sleep 1000 while 1'`)
			watch(t, tr, l.id)
			l.run(t)
			l.pid(t)
			pause(t, tr, Target{Roots: []ID{l.id}})
			send := func(sigs []unix.Signal) {
				for _, sig := range sigs {
					if err := unix.Kill(l.id.PID, sig); err != nil {
						t.Fatal(err)
					}
				}
			}
			send(c.before)
			baseline, err := tr.host.Pending(l.id)
			if err != nil || baseline != Signals(c.before...) {
				t.Fatalf("baseline %v, %v", baseline, err)
			}
			send(c.after)
			if got, err := meaningful(tr.host, l.id, baseline, c.job); err != nil || got != c.want {
				t.Errorf("got %v, %v, want %v", got, err, c.want)
			}
		})
	}
	if _, err := meaningful(Host{}, ID{PID: 1, Start: 1}, 0, 0); !errors.Is(err, ErrGone) {
		t.Errorf("of another: %v", err)
	}
}

// A signal that the first thread blocks may be another's to take.
func TestMeaningfulOfThreads(t *testing.T) {
	need(t, "python3")
	tr := tracked(t, Host{}, nil)
	l := launch(t, `exec python3 -c '
import signal, os, threading, time
threading.Thread(target=lambda: time.sleep(1000), daemon=True).start()
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
print(os.getpid(), flush=True)
time.sleep(1000)'`)
	watch(t, tr, l.id)
	l.run(t)
	l.pid(t)
	pause(t, tr, Target{Roots: []ID{l.id}})
	if err := unix.Kill(l.id.PID, unix.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if got, err := meaningful(tr.host, l.id, 0, 0); err != nil || got != Signals(unix.SIGUSR1) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestNotifyOnlyThoseThatCatch(t *testing.T) {
	tr := tracked(t, Host{}, nil)
	l := launch(t, `sleep 1000 & echo $!; trap 'echo 0' USR1; while :; do wait; done`)
	watch(t, tr, l.id)
	l.run(t)
	child := l.pid(t)
	eventually(t, "the trap", func() bool {
		ok, err := tr.host.Catches(l.id, unix.SIGUSR1)
		return err == nil && ok
	})
	gone := ID{PID: child.PID, Start: child.Start - 1}
	n, err := tr.host.Notify([]ID{l.id, child, gone}, unix.SIGUSR1)
	if err != nil || !slices.Equal(n.Sent, []ID{l.id}) || !slices.Equal(n.Deaf, []ID{child}) || !slices.Equal(n.Gone, []ID{gone}) {
		t.Errorf("notified %+v, %v", n, err)
	}
	if line, err := l.lines.ReadString('\n'); err != nil || line != "0\n" {
		t.Errorf("the trap said %q, %v", line, err)
	}
	for _, sig := range []unix.Signal{unix.SIGKILL, unix.SIGSTOP, unix.SIGTSTP, unix.SIGCONT, 0, 65, -1} {
		if n, err := tr.host.Notify([]ID{l.id}, sig); !errors.Is(err, ErrRefusedSignal) || n.Sent != nil {
			t.Errorf("signal %d: %+v, %v", int(sig), n, err)
		}
	}
}

// SIGTERM waits for a stopped process until it is continued.
func TestTerminateOfAStoppedProcess(t *testing.T) {
	tr := tracked(t, Host{}, nil)
	l := launch(t, `exec sleep 1000`)
	watch(t, tr, l.id)
	l.run(t)
	p := pause(t, tr, Target{Roots: []ID{l.id}})
	if n, err := tr.host.Terminate(p.Stopped); err != nil || len(n.Sent) != 1 {
		t.Fatalf("%+v, %v", n, err)
	}
	if got, err := meaningful(tr.host, l.id, 0, 0); err != nil || got != Signals(unix.SIGTERM) {
		t.Errorf("pending %v, %v", got, err)
	}
	if _, err := tr.host.Resume(p.Stopped); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end", func() bool { return !tr.host.Alive(l.id) })
}

func TestInspect(t *testing.T) {
	tr := tracked(t, Host{}, nil)
	l := launch(t, `exec sleep 1000`)
	watch(t, tr, l.id)
	l.run(t)
	check := func(look, inspect Condition) {
		t.Helper()
		got, _ := tr.host.Inspect(l.id)
		if fast := tr.host.Look(l.id); fast != look || got != inspect {
			t.Errorf("look %s, inspect %s, want %s and %s", fast, got, look, inspect)
		}
	}
	check(ConditionRunning, ConditionRunning)
	pause(t, tr, Target{Roots: []ID{l.id}})
	check(ConditionStopped, ConditionStopped)
	_ = unix.Kill(l.id.PID, unix.SIGTSTP)
	check(ConditionStopped, ConditionForeign)
	if _, f := tr.host.Inspect(l.id); f.Pending != Signals(unix.SIGTSTP) {
		t.Errorf("foreign stop %+v", f)
	}
	_ = unix.Kill(l.id.PID, unix.SIGKILL)
	eventually(t, "the end", func() bool { return tr.host.Look(l.id) == ConditionGone })
	check(ConditionGone, ConditionGone)
}

// A C library blocks every signal while it sleeps in vfork: what comes for a
// process that is paused there waits behind no mask of the program's own.
func TestMeaningfulInVfork(t *testing.T) {
	need(t, "perl")
	if runtime.GOARCH != "amd64" {
		t.Skip("SKIPPED: the number of vfork is that of amd64")
	}
	tr := tracked(t, Host{}, nil)
	l := launch(t, `exec perl -e '
use POSIX;
$| = 1; print "$$\n";
my $all = POSIX::SigSet->new; $all->fillset; sigprocmask(SIG_BLOCK, $all);
if (syscall(58) == 0) { select(undef, undef, undef, 0.001) while 1 }'`)
	watch(t, tr, l.id)
	l.run(t)
	l.pid(t)
	eventually(t, "the vfork", func() bool { return state(t, l.id) == 'D' })
	pause(t, tr, Target{Roots: []ID{l.id}})
	if err := unix.Kill(l.id.PID, unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got, err := meaningful(tr.host, l.id, 0, 0); err != nil || got != Signals(unix.SIGTERM) {
		t.Errorf("got %v, %v, want SIGTERM", got, err)
	}
}
