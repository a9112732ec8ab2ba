package proc

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestTrackerReportsTheExitOfARoot(t *testing.T) {
	needConnector(t)
	for name, why := range map[string]error{"connector": nil, "scans alone": errors.New("switched off by the test")} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan ID, 100)
			tr := tracked(t, Host{}, func(root ID) { ended <- root })
			tr.noConnector = why
			other, l := launch(t, `sleep 1000`), launch(t, `exec sleep 0.05`)
			watch(t, tr, other.id)
			watch(t, tr, l.id)
			l.run(t)
			select {
			case root := <-ended:
				if root != l.id || state(t, l.id) != 'Z' {
					t.Errorf("the end of %s was told, %s is %c", root, l.id, state(t, l.id))
				}
			case <-time.After(patience):
				t.Fatal("no end was told")
			}
		})
	}
}

// Without a process connector and pidfds the exit of a root is seen by the next scan.
func TestScansReportTheExitOfARoot(t *testing.T) {
	ended := make(chan ID, 100)
	tr := tracked(t, Host{ProcRoot: "/proc/."}, func(root ID) { ended <- root })
	l := launch(t, `exit`)
	watch(t, tr, l.id)
	l.run(t)
	eventually(t, "the exit", func() bool { return state(t, l.id) == 'Z' })
	procs, err := Host{}.Scan(nil)
	if err != nil {
		t.Fatal(err)
	}
	tr.Update(procs)
	select {
	case root := <-ended:
		if root != l.id {
			t.Errorf("the end of %s was told", root)
		}
	case <-time.After(patience):
		t.Fatal("no end was told")
	}
}

// What a root forked just before it ended belongs to its tree, though nobody asked
// in between.
func TestLastForkOfARootThatEnds(t *testing.T) {
	needConnector(t)
	ended := make(chan ID, 100)
	tr := tracked(t, Host{}, func(root ID) { ended <- root })
	l := launch(t, `(setsid sleep 1000 & echo $!) & wait; exit`)
	watch(t, tr, l.id)
	l.run(t)
	child := l.pid(t)
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatal("no end was told")
	}
	if got := tr.Members(l.id); !slices.Contains(got, child) {
		t.Errorf("members %v lack %s", got, child)
	}
}

func TestTrackerListensOnlyWhileSomethingIsWatched(t *testing.T) {
	needConnector(t)
	tr := tracked(t, Host{}, nil)
	if s := tr.Stats(); s.Connector {
		t.Error("it listens for nothing")
	}
	a, b := launch(t, `sleep 1000`), launch(t, `sleep 1000`)
	watch(t, tr, a.id)
	watch(t, tr, b.id)
	tr.Unwatch(a.id)
	if s := tr.Stats(); !s.Connector || s.Roots != 1 || s.Members != 1 {
		t.Errorf("stats %+v", s)
	}
	tr.Unwatch(b.id)
	if s := tr.Stats(); s.Connector || s.Roots != 0 || s.Members != 0 {
		t.Errorf("stats %+v", s)
	}
	watch(t, tr, a.id)
	if s := tr.Stats(); !s.Connector {
		t.Error("it does not listen again")
	}
	tr.Close()
	tr.Close()
	if err := tr.Watch(b.id, true); !errors.Is(err, errClosed) {
		t.Errorf("watch after close: %v", err)
	}
}

func TestWatchOfAProcessThatIsGone(t *testing.T) {
	tr := tracked(t, Host{}, nil)
	if err := tr.Watch(ID{PID: os.Getpid(), Start: 1}, true); !errors.Is(err, ErrGone) {
		t.Errorf("error %v", err)
	}
	if s := tr.Stats(); s.Connector || s.Roots != 0 {
		t.Errorf("stats %+v", s)
	}
}

// Who was there before the watch began is found by parent, session and group;
// who forks afterwards by events.
func TestWatchOfARunningTree(t *testing.T) {
	needConnector(t)
	tr := tracked(t, Host{}, nil)
	l := launch(t, `(sleep 1000 & echo $!); sleep 1000 & echo $!; read again; (setsid sleep 1000 & echo $!); wait`)
	l.run(t)
	want := []ID{l.id, l.pid(t), l.pid(t)}
	if err := tr.Watch(l.id, false); err != nil {
		t.Fatal(err)
	}
	l.run(t)
	want = append(want, l.pid(t))
	got := tr.Members(l.id)
	for _, id := range want {
		if !slices.Contains(got, id) {
			t.Errorf("process %s is not in %v", id, got)
		}
		if root, member, ok := tr.Owner(id.PID); !ok || root != l.id || member != id {
			t.Errorf("owner of %s: %s, %s, %v", id, root, member, ok)
		}
	}
	if _, _, ok := tr.Owner(os.Getpid()); ok {
		t.Error("this process is in a tree")
	}
	p := pause(t, tr, Target{Roots: []ID{l.id}})
	for _, id := range want {
		if p.Complete || !slices.Contains(p.Stopped, id) {
			t.Errorf("process %s: paused %+v", id, p)
		}
	}
}

// A root inside another's tree is a tree of its own while it is watched.
func TestNestedRoots(t *testing.T) {
	needConnector(t)
	tr := tracked(t, Host{}, nil)
	l := launch(t, `sh -c 'echo $$; read go; sleep 1000 & echo $!; wait' & wait`)
	watch(t, tr, l.id)
	l.run(t)
	inner := l.pid(t)
	watch(t, tr, inner)
	if got := tr.Members(l.id); slices.Contains(got, inner) {
		t.Errorf("outer tree %v", got)
	}
	tr.Unwatch(inner)
	if got := tr.Members(l.id); !slices.Contains(got, inner) {
		t.Errorf("outer tree %v", got)
	}
}

// A first thread that ends before the others is a process still.
func TestProcessWhoseFirstThreadEnded(t *testing.T) {
	needConnector(t)
	need(t, "python3")
	tr := tracked(t, Host{}, nil)
	l := launch(t, `exec python3 -c '
import ctypes, threading, time, os
threading.Thread(target=lambda: time.sleep(1000)).start()
print(os.getpid(), flush=True)
ctypes.CDLL(None).pthread_exit(None)'`)
	watch(t, tr, l.id)
	l.run(t)
	l.pid(t)
	eventually(t, "the first thread to end", func() bool { return state(t, l.id) == 'Z' })
	if !(Host{}).Alive(l.id) || !slices.Contains(tr.Members(l.id), l.id) {
		t.Fatal("it counts as dead")
	}
	p := pause(t, tr, Target{Roots: []ID{l.id}})
	if !slices.Contains(p.Stopped, l.id) {
		t.Errorf("paused %+v", p)
	}
	tids, err := Host{}.threads(l.id.PID)
	if err != nil {
		t.Fatal(err)
	}
	for _, tid := range tids {
		if !(Host{}).threadStopped(l.id.PID, tid) {
			t.Errorf("thread %d runs", tid)
		}
	}
	if r, err := tr.host.Resume(p.Stopped); err != nil || len(r.Foreign) != 0 {
		t.Errorf("resumed %+v, %v", r, err)
	}
}

// A parent in vfork never is seen stopped; it waits for a child that is.
func TestPauseOfAVforkingParent(t *testing.T) {
	need(t, "perl")
	if runtime.GOARCH != "amd64" {
		t.Skip("SKIPPED: the number of vfork is that of amd64")
	}
	tr := tracked(t, Host{}, nil)
	l := launch(t, `exec perl -e '
$| = 1; print "$$\n";
if (syscall(58) == 0) { select(undef, undef, undef, 0.001) while 1 }'`)
	watch(t, tr, l.id)
	l.run(t)
	l.pid(t)
	eventually(t, "the vfork", func() bool { return state(t, l.id) == 'D' })
	p := pause(t, tr, Target{Roots: []ID{l.id}})
	if len(p.Stopped) != 2 {
		t.Errorf("paused %+v", p)
	}
	if r, err := tr.host.Resume(p.Stopped); err != nil || len(r.Continued) != 2 {
		t.Errorf("resumed %+v, %v", r, err)
	}
}

func TestWaitExec(t *testing.T) {
	for _, mode := range []string{"connector", "scan"} {
		t.Run(mode, func(t *testing.T) {
			tr := scanning(t)
			if mode == "connector" {
				needConnector(t)
				tr = tracked(t, Host{}, nil)
			}
			stepd := shellAs(t, "slurmstepd")
			l := launch(t, `exec `+stepd+` -c 'echo $$; read go; exec sleep 1000'`)
			l.run(t)
			l.pid(t)
			watch(t, tr, l.id)
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
			defer cancel()
			if err := tr.WaitExec(ctx, l.id); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("before the exec: %v", err)
			}
			if _, err := tr.Pause(context.Background(), Target{Roots: []ID{l.id}}); !errors.Is(err, ErrNotStarted) || state(t, l.id) == 'T' {
				t.Errorf("pause before the exec: %v, process %c", err, state(t, l.id))
			}
			l.run(t)
			if err := tr.WaitExec(context.Background(), l.id); err != nil {
				t.Fatal(err)
			}
			if comm, _ := (Host{}).readAll(l.id.PID, "comm"); string(comm) != "sleep\n" {
				t.Errorf("comm %q", comm)
			}
			if err := unix.Kill(l.id.PID, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the end", func() bool { return !Host{}.Alive(l.id) })
			if err := tr.WaitExec(context.Background(), l.id); !errors.Is(err, ErrGone) {
				t.Errorf("after the end: %v", err)
			}
		})
	}
}

// shellAs is the shell under another name, as if a package had installed it.
func shellAs(t *testing.T, name string) string {
	t.Helper()
	file := program(t, name, 0)
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(shell)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o755); err != nil {
		t.Fatal(err)
	}
	return file
}

// reuse makes a process with exactly this pid, or says that it could not.
func reuse(t *testing.T, pid int) (*exec.Cmd, bool) {
	t.Helper()
	last := filepath.Join(defaultProcRoot, "sys/kernel/ns_last_pid")
	for range 200 {
		cmd := exec.Command("sleep", "1000")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := os.WriteFile(last, []byte(strconv.Itoa(pid-1)), 0); err != nil {
			t.Skipf("SKIPPED: pids cannot be chosen: %v", err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if cmd.Process.Pid == pid {
			return cmd, true
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	return nil, false
}

// A stranger that got the pid of a member is untouched by pause and resume.
func TestAReusedPidIsAStranger(t *testing.T) {
	for _, mode := range []string{"connector", "scan"} {
		t.Run(mode, func(t *testing.T) {
			tr := scanning(t)
			if mode == "connector" {
				needConnector(t)
				tr = tracked(t, Host{}, nil)
			}
			l := launch(t, `sleep 1000 & echo $!; wait; sleep 1000`)
			watch(t, tr, l.id)
			l.run(t)
			member := l.pid(t)
			if mode == "scan" {
				procs, _ := Host{}.Scan(nil)
				tr.Update(procs)
			}
			first := pause(t, tr, Target{Roots: []ID{l.id}})
			if !slices.Contains(first.Stopped, member) {
				t.Fatalf("paused %+v", first)
			}
			if _, err := tr.host.Resume([]ID{l.id}); err != nil {
				t.Fatal(err)
			}
			_ = unix.Kill(member.PID, unix.SIGKILL)
			eventually(t, "the member to be reaped", func() bool { return state(t, member) == '-' })
			time.Sleep(20 * time.Millisecond) // start times have a grain of 10 ms
			cmd, ok := reuse(t, member.PID)
			if !ok {
				t.Skip("SKIPPED: another process took the pid")
			}
			defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
			stranger, err := Host{}.Identify(member.PID)
			if err != nil {
				t.Fatal(err)
			}
			_ = unix.Kill(stranger.PID, unix.SIGSTOP)
			eventually(t, "the stranger's own stop", func() bool { return state(t, stranger) == 'T' })
			r, err := tr.host.Resume(first.Stopped)
			if err != nil || state(t, stranger) != 'T' || !slices.Contains(r.Gone, member) {
				t.Errorf("resumed a stranger: %+v, %v", r, err)
			}
			_ = unix.Kill(stranger.PID, unix.SIGCONT)
			p := pause(t, tr, Target{Roots: []ID{l.id, member}})
			if slices.Contains(p.Stopped, stranger) || state(t, stranger) == 'T' {
				t.Errorf("stopped a stranger: %+v", p)
			}
		})
	}
}

func TestScan(t *testing.T) {
	l := launch(t, `sleep 1000 & echo $!; wait`)
	l.run(t)
	child := l.pid(t)
	procs, err := Host{}.Scan(make([]Process, 7))
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(procs, func(p Process) bool { return p.ID == child })
	if i < 0 || procs[i].PPID != l.id.PID || procs[i].Session != l.id.PID || procs[i].Threads != 1 {
		t.Errorf("child %s: %+v", child, procs[max(i, 0)])
	}
	if slices.ContainsFunc(procs, func(p Process) bool { return p.PID == 2 }) {
		t.Error("a kernel thread is in the scan")
	}
	if _, err := (Host{ProcRoot: t.TempDir() + "/none"}).Scan(nil); err == nil {
		t.Error("no error for a folder that is not there")
	}
}
