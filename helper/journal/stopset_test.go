package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/tests/draw"
)

func mustStopSet(t testing.TB, path string) *StopSet {
	t.Helper()
	s, err := OpenStopSet(path, "boot-a")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func load(t testing.TB, path string) StopState {
	t.Helper()
	st, err := LoadStopSet(path)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// The file and the set in memory agree with a plain map after any operations,
// and over a new opening.
func TestStopSetIsAMap(t *testing.T) {
	draw.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "stopset")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		path := filepath.Join(dir, "stopped")
		s, err := OpenStopSet(path, "b")
		if err != nil {
			t.Fatal(err)
		}
		want := map[model.TenantID]Stopped{}
		name := rapid.OneOf(rapid.SampledFrom([]string{"1@1", "2@1", "3.0@2"}), rapid.String())
		proc := rapid.Custom(func(t *rapid.T) model.ProcID {
			return model.ProcID{PID: rapid.IntRange(1, 1<<22).Draw(t, "pid"), Start: rapid.Uint64().Draw(t, "start")}
		})
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				n := model.TenantID(name.Draw(t, "tenant"))
				ids := rapid.SliceOfN(proc, 0, 4).Draw(t, "procs")
				cg := rapid.SliceOfN(rapid.String(), 0, 2).Draw(t, "cgroups")
				if err := s.Add(n, ids, cg); err != nil {
					t.Fatal(err)
				}
				e := want[n]
				want[n] = Stopped{Procs: once(append(e.Procs, ids...)), Cgroups: once(append(e.Cgroups, cg...))}
			},
			"hold": func(t *rapid.T) {
				n := model.TenantID(name.Draw(t, "tenant"))
				ids := rapid.SliceOfN(proc, 1, 2).Draw(t, "procs")
				if err := s.AddHeld(n, ids, nil); err != nil {
					t.Fatal(err)
				}
				e := want[n]
				want[n] = Stopped{Procs: once(append(e.Procs, ids...)), Cgroups: e.Cgroups, Held: true}
			},
			"remove": func(t *rapid.T) {
				n := model.TenantID(name.Draw(t, "tenant"))
				if err := s.Remove(n); err != nil {
					t.Fatal(err)
				}
				delete(want, n)
			},
			"reopen": func(t *rapid.T) {
				old := s
				if s, err = OpenStopSet(path, "b"); err != nil {
					t.Fatal(err)
				}
				if err := old.Check(); !errors.Is(err, ErrFenced) {
					t.Fatalf("the old generation: %v, want ErrFenced", err)
				}
				_ = old.Close()
			},
			"": func(t *rapid.T) {
				st, err := LoadStopSet(path)
				if err != nil || st.Skipped != 0 || st.Generation != s.Generation() {
					t.Fatalf("%+v, %v", st, err)
				}
				if diff := cmp.Diff(want, st.Tenants, equateEmpty); diff != "" {
					t.Fatalf("file (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(want, s.Tenants(), equateEmpty); diff != "" {
					t.Fatalf("memory (-want +got):\n%s", diff)
				}
			},
		})
		_ = s.Close()
	})
}

// once keeps the first of equals.
func once[T comparable](list []T) []T {
	var out []T
	for _, x := range list {
		if !slices.Contains(out, x) {
			out = append(out, x)
		}
	}
	return out
}

// equateEmpty takes nil and empty lists for equal.
var equateEmpty = cmp.Transformer("lists", func(s Stopped) []string {
	return append([]string{fmt.Sprint(s.Procs, s.Held)}, s.Cgroups...)
})

// Whatever a crash leaves of the last line, what was there before stands, and
// the line counts whole or not at all.
func TestStopSetTornAtEveryByte(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stopped")
	s := mustStopSet(t, path)
	procs := []model.ProcID{{PID: 123, Start: 456}, {PID: 1234, Start: 4567}}
	if err := s.Add("1@1", procs[:1], nil); err != nil {
		t.Fatal(err)
	}
	before := s.tail.size
	if err := s.Add("2@1", procs, []string{"/sys/fs/cgroup/x y"}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for n := int(before); n <= len(b); n++ {
		if err := os.WriteFile(path, b[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		st := load(t, path)
		two, ok := st.Tenants["2@1"]
		if len(st.Tenants["1@1"].Procs) != 1 || ok && (len(two.Procs) != 2 || len(two.Cgroups) != 1) || n == len(b) && !ok {
			t.Fatalf("cut at %d: %+v", n, st)
		}
		s2 := mustStopSet(t, path)
		if err := s2.Add("3@1", procs, nil); err != nil {
			t.Fatal(err)
		}
		if st := load(t, path); st.Skipped != 0 || len(st.Tenants["3@1"].Procs) != 2 {
			t.Fatalf("cut at %d, opened again: %+v", n, st)
		}
	}
}

func TestStopSetForgetsAnotherBoot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stopped")
	s := mustStopSet(t, path)
	if err := s.Add("1@1", []model.ProcID{{PID: 1, Start: 2}}, nil); err != nil {
		t.Fatal(err)
	}
	s2, err := OpenStopSet(path, "boot-b")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s2.Close() }()
	if n := len(s2.Tenants()); n != 0 {
		t.Errorf("%d tenants of another boot are left", n)
	}
}

func TestTakeOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stopped")
	s := mustStopSet(t, path)
	if err := s.Add("1@1", []model.ProcID{{PID: 7, Start: 8}}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := TakeOver(path, s.Generation()+1, 0); !errors.Is(err, ErrFenced) {
		t.Fatalf("a guard of another generation: %v, want ErrFenced", err)
	}
	if err := s.Check(); err != nil {
		t.Fatalf("it must not disturb: %v", err)
	}
	guard, err := TakeOver(path, s.Generation(), time.Second)
	if err != nil || !guard.Locked || len(guard.Tenants["1@1"].Procs) != 1 {
		t.Fatalf("%+v, %v", guard, err)
	}
	if err := s.Check(); !errors.Is(err, ErrFenced) {
		t.Errorf("the daemon's check after a takeover: %v", err)
	}
	if err := guard.Release(); err != nil {
		t.Fatal(err)
	}
	if err := s.Add("2@1", nil, nil); !errors.Is(err, ErrFenced) {
		t.Errorf("the daemon stops something after a takeover: %v", err)
	}
	if err := s.Remove("1@1"); !errors.Is(err, ErrFenced) {
		t.Errorf("the daemon forgets something after a takeover: %v", err)
	}
	next := mustStopSet(t, path)
	if len(next.Tenants()) != 1 {
		t.Errorf("the next daemon finds %v, want what the guard continued", next.Tenants())
	}
}

// A daemon that hangs with the lock in its hand does not keep the guard.
func TestTakeOverWithoutTheLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stopped")
	s := mustStopSet(t, path)
	if err := unix.Flock(int(s.lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	guard, err := TakeOver(path, 0, 10*time.Millisecond)
	if err != nil || guard.Locked {
		t.Fatalf("%+v, %v", guard, err)
	}
	defer func() { _ = guard.Release() }()
	if err := s.Check(); !errors.Is(err, ErrFenced) {
		t.Errorf("the daemon's check: %v", err)
	}
}

// A new daemon waits until the old one's guard has continued everything.
func TestOpenWaitsForTheGuard(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stopped")
	mustStopSet(t, path)
	guard, err := TakeOver(path, 0, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	opened := make(chan error, 1)
	go func() {
		s, err := OpenStopSet(path, "boot-a")
		if err == nil {
			err = s.Close()
		}
		opened <- err
	}()
	select {
	case err := <-opened:
		t.Fatalf("opened beside a guard at work: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	if err := guard.Release(); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Error(err)
	}
}

// Somebody cleans /run under a running daemon.
func TestStopSetThatVanishes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stopped")
	s := mustStopSet(t, path)
	procs := []model.ProcID{{PID: 7, Start: 8}}
	for _, spoil := range []func() error{
		func() error { return os.Remove(path) },
		func() error { return errors.Join(os.Remove(path), os.WriteFile(path, []byte("junk"), 0o600)) },
	} {
		if err := errors.Join(s.AddHeld("1@1", procs, nil), spoil(), s.Add("2@1", procs, nil)); err != nil {
			t.Fatal(err)
		}
		st := load(t, path)
		if len(st.Tenants) != 2 || !st.Tenants["1@1"].Held || st.Tenants["2@1"].Held || st.Generation != s.Generation() {
			t.Errorf("the file holds %+v", st)
		}
		if err := errors.Join(s.Check(), s.Remove("1@1"), s.Remove("2@1")); err != nil {
			t.Error(err)
		}
	}
}

func TestStopSetIsRewritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stopped")
	s := mustStopSet(t, path)
	procs := make([]model.ProcID, 100)
	for i := range procs {
		procs[i] = model.ProcID{PID: 100_000 + i, Start: 123456789}
	}
	if err := s.Add("kept@1", procs, nil); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if err := errors.Join(s.Add("x@1", procs, nil), s.Remove("x@1")); err != nil {
			t.Fatal(err)
		}
	}
	st, err := os.Stat(path)
	if err != nil || st.Size() > 2*rewriteAt {
		t.Errorf("the file has %d bytes, %v", st.Size(), err)
	}
	if got := load(t, path); len(got.Tenants) != 1 || len(got.Tenants["kept@1"].Procs) != 100 {
		t.Errorf("%d tenants are left", len(got.Tenants))
	}
}

func FuzzParseStopSet(f *testing.F) {
	b := appendHeader(nil, 7, "boot")
	b = appendAdd(b, "1@1", Stopped{Procs: []model.ProcID{{PID: 1, Start: 2}}, Cgroups: []string{"/a b\n"}, Held: true})
	f.Add(string(appendRemove(b, "2@1")))
	f.Add("gimbal-stopped 1 junk")
	f.Add("+ \"a\" 1:2 ~00000000\n")
	f.Fuzz(func(t *testing.T, s string) {
		st := parseStopSet([]byte(s))
		for _, e := range st.Tenants {
			for _, p := range e.Procs {
				if p.PID <= 0 { // kill(0) and kill(-1) reach strangers
					t.Errorf("pid %d out of %q", p.PID, s)
				}
			}
		}
	})
}

func FuzzReplay(f *testing.F) {
	h := newBook()
	good := string(h.head("boot-a", epoch))
	line, _ := appendLine(nil, at(1, tenant(1, model.Paused), pause(1, 1), nil), []byte(`{"id":"1@1","state":"paused"}`))
	f.Add(good + `{"seq":1,"tenant":{"id":"a","state":"gone"}}` + "\n")
	f.Add(good + string(line))
	f.Add(`{"journal":1,"boot":"x","live":[{"tenant":{"id":"a","state":"held"}},{"tenant":null}]}` + "\n")
	f.Fuzz(func(t *testing.T, s string) {
		dir := t.TempDir()
		path := recordSeries(dir).name(1)
		if err := os.WriteFile(path, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
		before, err := Replay(dir, "boot-a")
		if err != nil {
			t.Fatal(err)
		}
		j, err := Open(dir, testOptions())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = j.Close() }()
		if err := j.Append(at(9, tenant(9, model.Paused), nil, nil)); err != nil {
			t.Fatal(err)
		}
		after, err := Replay(dir, "boot-a")
		if err != nil || !stopped(after)["9@1"] || after.Seq <= before.Seq && before.SameBoot {
			t.Errorf("after %q: %+v, %v", s, after, err)
		}
	})
}

func BenchmarkStopSetPauseResume(b *testing.B) {
	for _, n := range []int{4, 34, 512} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := mustStopSet(b, filepath.Join(b.TempDir(), "stopped"))
			procs := make([]model.ProcID, n)
			for i := range procs {
				procs[i] = model.ProcID{PID: 100_000 + i, Start: 123456789}
			}
			if err := s.Add("other@1", procs, nil); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if err := errors.Join(s.Add("1@1", procs, nil), s.Check(), s.Remove("1@1")); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
