package main

import (
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/journal"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/node"
	"github.com/gimbal-hpc/gimbal/helper/proc"
)

// stoppedChild is a process that is stopped.
func stoppedChild(t *testing.T) proc.ID {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	id, err := proc.Host{}.Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(id.PID, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	until(t, "it to stop", func() bool { return proc.Host{}.Look(id) == proc.ConditionStopped })
	return id
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited for %s", what)
		}
	}
}

// TestGuardOfADaemonThatDiesAtOnce: a daemon that dies before its first beat leaves a
// guard that knows what was in force then: it continues that, and nothing that a newer
// daemon has stopped.
func TestGuardOfADaemonThatDiesAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stopped")
	gens := []uint64{}
	told := func(g uint64) { gens = append(gens, g) }
	old, err := openStops(path, told)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = old.close() }()
	s, err := openStops(path, told)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.close() }()
	paused := stoppedChild(t)
	if err := s.Put(node.Stop{Tenant: "1@1", IDs: []model.ProcID{model.ProcID(paused)}}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []proc.Condition{proc.ConditionStopped, proc.ConditionRunning} {
		o := guardOptions{stopSet: path, gen: gens[i], stall: time.Hour}
		if err := runGuard(o, strings.NewReader(""), io.Discard); err != nil {
			t.Error(err)
		}
		if c := (proc.Host{}).Look(paused); c != want {
			t.Errorf("after the guard of generation %d it is %s, want %s", gens[i], c, want)
		}
		if fenced := s.Check(); (fenced != nil) != (want == proc.ConditionRunning) {
			t.Errorf("after the guard of generation %d: %v", gens[i], fenced)
		}
	}
	if err := runGuard(guardOptions{stopSet: path, stall: time.Hour}, strings.NewReader(""), io.Discard); err == nil {
		t.Error("a guard that knows no generation watches")
	}
}

// TestGuard: what is paused runs at the daemon's end, what is held after a
// while, and both where its loop does not turn.
func TestGuard(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "stopped")
		var gen uint64
		s, err := openStops(path, func(g uint64) { gen = g })
		if err != nil {
			t.Fatal(err)
		}
		paused, held := stoppedChild(t), stoppedChild(t)
		for _, stop := range []node.Stop{{Tenant: "1@1", IDs: []model.ProcID{model.ProcID(paused)}},
			{Tenant: "2@1", Held: true, IDs: []model.ProcID{model.ProcID(held)}}} {
			if err := s.Put(stop); err != nil {
				t.Fatal(err)
			}
		}
		g := &guard{opts: guardOptions{stopSet: path, stall: time.Hour, held: 300 * time.Millisecond}, log: zerolog.New(io.Discard)}
		if hangs {
			g.opts.stall = 100 * time.Millisecond
		}
		beats, done := make(chan uint64), make(chan error, 1)
		go func() { done <- g.watch(beats) }()
		beats <- gen
		if hangs {
			until(t, "all to run", func() bool {
				return proc.Host{}.Look(paused) == proc.ConditionRunning && proc.Host{}.Look(held) == proc.ConditionRunning
			})
		}
		close(beats)
		if err := <-done; err != nil {
			t.Error(err)
		}
		for _, id := range []proc.ID{paused, held} {
			if c := (proc.Host{}).Look(id); c != proc.ConditionRunning {
				t.Errorf("hangs %t: process %s is %s", hangs, id, c)
			}
		}
		if st, err := journal.LoadStopSet(path); err != nil || st.Generation <= gen {
			t.Errorf("the set was not taken over: %+v, %v", st, err)
		}
		_ = s.close()
	}
}
