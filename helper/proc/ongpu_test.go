package proc

import (
	"context"
	"slices"
	"testing"
)

// both are a tracker that is told of forks and one that is not.
func both(t *testing.T) []*Tracker { return []*Tracker{tracked(t, Host{}, nil), scanning(t)} }

// Of an interactive step its shell goes on, and what else runs there, such as an
// editor: only what is on a GPU is stopped, with what descends from it. Where that is
// the step's own process there is no shell.
func TestPauseOfAnInteractiveStep(t *testing.T) {
	for _, tr := range both(t) {
		l := launch(t, `sleep 1000 & echo $!; sh -c 'echo $$; sleep 1000 & echo $!; wait' & wait`)
		watch(t, tr, l.id)
		l.run(t)
		editor, trainer, loader := l.pid(t), l.pid(t), l.pid(t)
		for _, c := range []struct {
			name            string
			onGPU           []ID
			stopped, spared []ID
		}{
			{"nothing is on a GPU", nil, nil, []ID{l.id, editor, trainer, loader}},
			{"a trainer is", []ID{trainer}, []ID{trainer, loader}, []ID{l.id, editor}},
			{"its worker alone is", []ID{loader}, []ID{loader}, []ID{l.id, editor, trainer}},
			{"it is itself", []ID{l.id}, []ID{l.id, editor, trainer, loader}, nil},
		} {
			p := pause(t, tr, Target{Roots: []ID{l.id}, Spare: []ID{l.id}, OnGPU: setOf(c.onGPU)})
			if !sameIDs(p.Stopped, c.stopped) || !sameIDs(p.Spared, c.spared) {
				t.Errorf("%s: %+v", c.name, p)
			}
			for _, id := range c.spared {
				if state(t, id) == 'T' {
					t.Errorf("%s: %s is stopped", c.name, id)
				}
			}
			if _, err := tr.host.Resume(p.Stopped); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func sameIDs(a, b []ID) bool {
	byPID := func(x, y ID) int { return x.PID - y.PID }
	return slices.Equal(slices.SortedFunc(slices.Values(a), byPID), slices.SortedFunc(slices.Values(b), byPID))
}

// By an injected library, or a mount of its own, a job can have what looks like a
// program of Slurm in every way compute for it.
func TestWhoIsOnAGPUIsNoProgramOfSlurm(t *testing.T) {
	for _, name := range []string{"srun", "slurmstepd"} {
		file := program(t, name, 0)
		for _, tr := range both(t) {
			l := launch(t, `exec `+file+` 1000`)
			watch(t, tr, l.id)
			l.run(t)
			eventually(t, "the exec", func() bool {
				comm, _ := Host{}.readAll(l.id.PID, "comm")
				return string(comm) == name+"\n"
			})
			if p, err := tr.Pause(context.Background(), Target{Roots: []ID{l.id}}); err == nil && len(p.Stopped) > 0 {
				t.Fatalf("%s: paused %+v though it is on no GPU", name, p)
			}
			p := pause(t, tr, Target{Roots: []ID{l.id}, OnGPU: setOf([]ID{l.id})})
			if !slices.Equal(p.Stopped, []ID{l.id}) || state(t, l.id) != 'T' {
				t.Errorf("%s: it is %c, paused %+v", name, state(t, l.id), p)
			}
			if _, err := tr.host.Resume(p.Stopped); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A process whose first thread has ended shows no program of its own; what the others
// run counts, whatever the first one called itself.
func TestNameOfAFirstThreadThatEnded(t *testing.T) {
	need(t, "python3")
	for _, name := range []string{"srun", "slurmstepd"} {
		for _, tr := range both(t) {
			l := launch(t, `exec python3 -c '
import ctypes, threading, time, os
threading.Thread(target=lambda: time.sleep(1000)).start()
ctypes.CDLL(None).prctl(15, b"`+name+`")
print(os.getpid(), flush=True)
ctypes.CDLL(None).pthread_exit(None)'`)
			watch(t, tr, l.id)
			l.run(t)
			l.pid(t)
			eventually(t, "the first thread to end", func() bool { return state(t, l.id) == 'Z' })
			p := pause(t, tr, Target{Roots: []ID{l.id}})
			if !slices.Equal(p.Stopped, []ID{l.id}) {
				t.Errorf("it calls itself %s: paused %+v", name, p)
			}
			if _, err := tr.host.Resume(p.Stopped); err != nil {
				t.Fatal(err)
			}
		}
	}
}
