package faults

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// fewPids is so small a pid_max that pids come back within a second. The kernel
// gives out those below firstPid only once.
const (
	fewPids  = 450
	firstPid = 300
)

// pidMax is the largest pid there can be. Since Linux 6.14 each pid namespace has
// its own; before, one is the whole machine's, which a test must not change.
// lastPid has always been a namespace's own.
const (
	pidMax  = "/proc/sys/kernel/pid_max"
	lastPid = "/proc/sys/kernel/ns_last_pid"
)

// TestReusedPids plays what follows in a pid namespace in which pids are soon
// used again.
func TestReusedPids(t *testing.T) {
	need(t)
	if os.Getenv(asInside) != "" {
		makeFew(t)
		t.Run("of a paused tenant that has ended", testPidsOfEnded)
		t.Run("while tenants are paused and resumed", testPidsGoRound)
		return
	}
	t.Parallel()
	// The shell is the namespace's init, which reaps what its parent left.
	cmd := exec.Command("unshare", "--pid", "--fork", "--kill-child", "--mount-proc",
		"sh", "-c", `"$0" -test.v '-test.run=^TestReusedPids$'; exit $?`, stepd())
	cmd.Env = append(os.Environ(), asInside+"="+built.dir)
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Errorf("in a pid namespace: %v", err)
	}
}

// makeFew has this namespace run out of pids soon, so that it begins again. Where
// it has no pid_max of its own the pids are set back all the time.
func makeFew(t *testing.T) {
	t.Helper()
	set := func(file string, value int) error { return os.WriteFile(file, fmt.Append(nil, value), 0) }
	if err := set(lastPid, firstPid); err != nil {
		t.Skipf("SKIPPED: no pid can be asked for: %v", err)
	}
	if ownPidMax(t) {
		if err := set(pidMax, fewPids); err != nil {
			t.Fatal(err)
		}
		return
	}
	go func() {
		for range time.Tick(50 * time.Millisecond) {
			_ = set(lastPid, firstPid)
		}
	}()
}

// ownPidMax tells whether a pid namespace has a pid_max of its own.
func ownPidMax(t *testing.T) bool {
	t.Helper()
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	var major, minor int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor); err != nil {
		t.Fatal(err)
	}
	return major > 6 || major == 6 && minor >= 14
}

// testPidsOfEnded: the pids of processes that were stopped are others' by the time
// the next daemon comes. Somebody has stopped those: they stay stopped.
func testPidsOfEnded(t *testing.T) {
	r := newRig(t, setting{})
	r.start()
	for range long(20, 3) {
		k := r.living(nil)
		r.order(k, model.PrimPause)
		r.await(k, model.Paused)
		r.killedBoth()
		pids := k.pids()
		k.destroy()
		others := atPids(t, pids)
		for _, pid := range pids {
			halt(t, pid)
		}
		r.start()
		eventually(t, patience, "nobody is known", r.empty)
		for _, pid := range pids {
			if s, ok := statOf(pid); !ok || s.state != 'T' {
				t.Errorf("a stranger with a pid that was ours is %c", s.state)
			}
		}
		end(others)
		r.tasks = nil // it did not end as its owner would have it
	}
	r.strange.wantUntouched(t)
}

// atPids starts processes until there is one at each of these pids.
func atPids(t *testing.T, pids []int) (all []*exec.Cmd) {
	t.Helper()
	for range 20 * (fewPids - firstPid) {
		cmd := exec.Command("sleep", "1000")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(pids, cmd.Process.Pid) {
			end([]*exec.Cmd{cmd})
		} else if all = append(all, cmd); len(all) == len(pids) {
			return all
		}
	}
	t.Fatalf("of the pids %v only %d came back", pids, len(all))
	return nil
}

func end(all []*exec.Cmd) {
	for _, cmd := range all {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

// testPidsGoRound: strangers come and go at pids that were a tenant's a moment ago,
// and the other way round, while the tenant is paused and resumed and daemons are
// killed. What of them was stopped stays so, and the others are never stopped.
func testPidsGoRound(t *testing.T) {
	r := newRig(t, setting{})
	r.start()
	k := r.launch("2GiB", trainer+" --fork-every 5 --child-life 40 --fork-kind setsid")
	r.await(k, model.Running)
	k.trains()
	ours, stop := map[int]bool{}, make(chan struct{})
	var mu sync.Mutex // of ours
	var both int
	var wrong []string
	var done sync.WaitGroup
	done.Go(func() {
		for n := 0; !closed(stop); n++ {
			pid, what := passBy(n%2 == 0)
			mu.Lock()
			if ours[pid] {
				both++
				delete(ours, pid)
			}
			mu.Unlock()
			if what != "" {
				wrong = append(wrong, what)
			}
		}
	})
	const few = 5
	rounds := long(300, 25)
	seldom := func() bool { mu.Lock(); defer mu.Unlock(); return both < few }
	for n := 0; n < rounds || n < 20*rounds && seldom(); n++ {
		r.order(k, model.PrimPause)
		r.await(k, model.Paused)
		if n%5 == 4 {
			r.killed()
			r.start()
		}
		r.order(k, "release")
		r.await(k, model.Running)
		k.trains()
		mu.Lock()
		for _, pid := range k.pids() {
			ours[pid] = true
		}
		mu.Unlock()
	}
	close(stop)
	done.Wait()
	injects(t, both)
	if t.Logf("%d times a pid was a tenant's and then a stranger's", both); both < few {
		t.Errorf("only %d pids were the tenant's and then a stranger's", both)
	}
	if len(wrong) > 0 {
		t.Error(strings.Join(wrong, "\n"))
	}
	r.finishAll()
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// passBy is a stranger, stopped or not, that is there for a moment; it says what
// was done to it, "" if nothing.
func passBy(stopped bool) (pid int, wrong string) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		return 0, err.Error()
	}
	defer end([]*exec.Cmd{cmd})
	pid = cmd.Process.Pid
	if stopped {
		if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
			return pid, err.Error()
		}
		var status unix.WaitStatus
		if _, err := unix.Wait4(pid, &status, unix.WUNTRACED, nil); err != nil || !status.Stopped() {
			return pid, fmt.Sprintf("stranger %d: %v, %v", pid, status, err)
		}
	}
	time.Sleep(10 * time.Millisecond)
	if s, ok := statOf(pid); !ok || (s.state == 'T') != stopped {
		return pid, fmt.Sprintf("stranger %d is %c, and somebody stopped it: %t", pid, s.state, stopped)
	}
	return pid, ""
}
