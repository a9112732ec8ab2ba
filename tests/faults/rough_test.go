package faults

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/tests/simgpu"
)

// long is n in a long run, else a few.
func long(n, few int) int {
	if os.Getenv("GIMBAL_LONG") != "" {
		return n
	}
	return few
}

// TestManyProcesses: a tenant of very many processes, and one that forks all the
// time, are paused whole; and when the daemon and its guard are killed in the
// middle, none of them stays stopped.
func TestManyProcesses(t *testing.T) {
	for name, args := range map[string]string{
		"many":         fmt.Sprintf("--fork %d", long(5000, 400)),
		"a fork storm": "--fork-every 3 --child-life 200 --fork-kind setsid",
		"daemons":      "--fork-every 10 --child-life 300 --fork-kind daemon",
	} {
		t.Run(name, func(t *testing.T) {
			underBoth(t, func(t *testing.T, slurm bool) { testManyProcesses(t, slurm, name, args) })
		})
	}
}

func testManyProcesses(t *testing.T, slurm bool, name, args string) {
	injects(t, 3)
	r := newRig(t, setting{slurm: slurm})
	r.start()
	k := r.launch("2GiB", "--memory 512MiB --gpu-ms 5 --cpu-ms 5 "+args)
	r.await(k, model.Running)
	k.trains()
	for _, at := range []string{"pause.told 1", "pause.told 3", "pause.taken 1"} {
		r.order(k, "release")
		r.await(k, model.Running)
		k.trains()
		p := play{begin: func() { r.order(k, model.PrimPause) }, over: func() bool { return r.is(k, model.Paused) }}
		if !r.breakOff(scene{}, p, killedWithGuard, at) && name != "daemons" {
			t.Errorf("%s was not passed", at)
		}
	}
	r.order(k, "release")
	r.await(k, model.Running)
	k.finish()
	r.strange.wantUntouched(t)
}

// TestManyTenants: very many tenants are held for want of memory. With the daemon
// dead they run, and the next one knows each of them.
func TestManyTenants(t *testing.T) {
	injects(t, 1)
	t.Parallel()
	r := newRig(t, setting{config: impatient, gpu: simgpu.Options{Memory: "80GiB"}})
	r.start()
	first := r.launch("79GiB", "--memory 512MiB --gpu-ms 5 --cpu-ms 50")
	r.await(first, model.Running)
	var all []*task
	for range long(300, 40) {
		all = append(all, r.launch("20GiB", "--startup 100000"))
	}
	for _, k := range all {
		r.await(k, model.Held)
	}
	begin := time.Now()
	r.killed()
	for _, k := range all {
		eventually(t, patience, "it runs", func() bool { return len(k.stopped()) == 0 })
	}
	t.Logf("%d tenants run %s after the daemon's death", len(all), time.Since(begin))
	r.start()
	r.wantWhole()
	r.finishAll()
}

// TestOldGuard: a guard that slept while its daemon died, and wakes beside the
// next one, continues nothing of what that has stopped.
func TestOldGuard(t *testing.T) {
	injects(t, 1)
	t.Parallel()
	r := newRig(t, setting{})
	r.start()
	k := r.living(nil)
	old := r.guard()
	halt(t, old)
	r.killed()
	r.start()
	r.order(k, model.PrimPause)
	r.await(k, model.Paused)
	kill(t, old, unix.SIGCONT)
	eventually(t, patience, "the old guard leaves", func() bool { s, ok := statOf(old); return !ok || s.state == 'Z' })
	if v := r.view(k); v == nil || v.State != model.Paused || len(k.stopped()) != len(k.pids()) {
		t.Errorf("it is %+v, and %d of %d processes are stopped", v, len(k.stopped()), len(k.pids()))
	}
	r.finishAll()
}

// TestDriverThatFails: with a driver that is not there yet, is gone, mismatched,
// lost or hangs, nothing is stopped, what was paused runs, and jobs are managed
// once it is well.
func TestDriverThatFails(t *testing.T) {
	for _, c := range []struct{ name, broken, well string }{
		{"mismatch", "driver=mismatch", "driver=ok"},
		{"lost GPU", "lost=yes", "lost=no"},
		{"gone and reloaded", "present=no", "present=yes"},
		{"hangs", "hang=10m", "hang=0s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			injects(t, 1)
			t.Parallel()
			r := newRig(t, setting{})
			r.write("gimbald.toml", withStale(r))
			r.start()
			k := r.living(nil)
			r.order(k, model.PrimPause)
			r.await(k, model.Paused)
			r.gpu.Ctl("set", c.broken)
			eventually(t, patience, "what was paused runs", func() bool { return len(k.stopped()) == 0 })
			r.answer()
			r.gpu.Ctl("set", c.well)
			r.await(k, model.Paused) // the order stands
			r.order(k, "release")
			r.await(k, model.Running)
			k.trains()
			r.finishAll()
		})
	}
	t.Run("not there yet", func(t *testing.T) {
		injects(t, 1)
		t.Parallel()
		r := newRig(t, setting{})
		r.write("gimbald.toml", withStale(r))
		r.gpu.Stop()
		r.start()
		eventually(t, patience, "the node is degraded", func() bool { return r.answer().Degraded != "" })
		r.gpu.Restart(simgpu.Options{})
		eventually(t, patience, "it is managed", func() bool { return r.answer().Degraded == "" })
		k := r.living(nil)
		r.order(k, model.PrimPause)
		r.await(k, model.Paused)
		r.finishAll()
	})
}

// withStale is the configuration with readings that are old after a second.
func withStale(r *rig) string {
	text, err := os.ReadFile(r.path("gimbald.toml"))
	if err != nil {
		r.t.Fatal(err)
	}
	const at = `interval = "50ms"`
	return replaceOnce(r.t, string(text), at, at+"\nstale = \"1s\"")
}

func replaceOnce(t *testing.T, text, old, new string) string {
	t.Helper()
	if strings.Count(text, old) != 1 {
		t.Fatalf("%q is %d times in:\n%s", old, strings.Count(text, old), text)
	}
	return strings.Replace(text, old, new, 1)
}

// TestDebugger: a process of a tenant stands in a debugger while the tenant is
// paused and resumed. It stays there, and goes on when it is let go.
func TestDebugger(t *testing.T) {
	injects(t, 1)
	t.Parallel()
	r := newRig(t, setting{})
	r.start()
	k := r.living(nil)
	children := childrenOf(k.root())
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pid := children[0]
	if err := unix.PtraceAttach(pid); err != nil {
		t.Skipf("SKIPPED: no process can be traced here: %v", err)
	}
	var status unix.WaitStatus
	if _, err := unix.Wait4(pid, &status, unix.WALL, nil); err != nil {
		t.Fatal(err)
	}
	r.order(k, model.PrimPause)
	r.await(k, model.Paused)
	r.order(k, model.PrimResume)
	r.await(k, model.Running)
	k.trains()
	if s, _ := statOf(pid); s.state != 't' {
		t.Errorf("the process in the debugger is %c", s.state)
	}
	if err := unix.PtraceDetach(pid); err != nil {
		t.Fatal(err)
	}
	eventually(t, patience, "it goes on", func() bool { return len(k.stopped()) == 0 })
	r.finishAll()
}

// TestAnothersFreeze: a cgroup that somebody else froze is neither paused nor
// thawed, and its tenant is shown as stopped by another.
func TestAnothersFreeze(t *testing.T) {
	injects(t, 1)
	t.Parallel()
	r := newRig(t, setting{freezer: true})
	r.start()
	k := r.living(nil)
	state := fmt.Sprintf("%s/uid_0/job_%d/step_0/freezer.state", freezerRoot(r), k.job)
	if err := os.WriteFile(state, []byte("FROZEN"), 0); err != nil {
		t.Fatal(err)
	}
	eventually(t, patience, "it shows as frozen", func() bool { v := r.view(k); return v != nil && v.Suspended == "frozen" })
	r.order(k, model.PrimPause)
	r.order(k, model.PrimResume)
	r.order(k, "release")
	time.Sleep(500 * time.Millisecond)
	r.killed()
	r.start()
	time.Sleep(500 * time.Millisecond)
	if text, err := os.ReadFile(state); err != nil || string(text) != "FROZEN\n" {
		t.Errorf("the cgroup is %s (%v)", text, err)
	}
	if err := os.WriteFile(state, []byte("THAWED"), 0); err != nil {
		t.Fatal(err)
	}
	k.trains()
	r.finishAll()
}
