package proc

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const statTail = " 10889 10888 2338 0 -1 4194368 23 0 0 0 7 5 0 0 20 0 3 0 69413 4595712 258 18446744073709551615" +
	" 94567162269696 94567163059101 140730158085408 0 0 0 0 0 81920 1 0 0 17 1 0 0 0 0 0 94567163292400" +
	" 94567163340644 94567177412608 140730158091100 140730158091115 140730158091115 140730158092266 "

func TestParseStat(t *testing.T) {
	for _, comm := range []string{"bash", "", "a b", "x) R 1 (y", "((", "))", "new\nline", "tab\t) T 9 9"} {
		got, err := ParseStat([]byte("10891 (" + comm + ") T" + statTail + "19\n"))
		if err != nil {
			t.Errorf("comm %q: %v", comm, err)
			continue
		}
		if string(got.Comm) != comm || got.PID != 10891 || got.State != 'T' || got.PPID != 10889 ||
			got.PGrp != 10888 || got.Session != 2338 || got.Threads != 3 || got.Start != 69413 ||
			got.UserTicks != 7 || got.SysTicks != 5 || got.Flags != 4194368 || got.StopSignal != 19 {
			t.Errorf("comm %q: %+v", comm, got)
		}
	}
}

func TestParseStatTellsTheStopSignalOnlyOfAStoppedProcess(t *testing.T) {
	for state, want := range map[string]int{"T": 19, "t": 19, "S": 0, "Z": 0} {
		got, err := ParseStat([]byte("1 (x) " + state + statTail + "19"))
		if err != nil || got.StopSignal != want {
			t.Errorf("state %s: stop signal %d, %v", state, got.StopSignal, err)
		}
	}
}

func TestParseStatRefuses(t *testing.T) {
	for _, text := range []string{
		"", "1", "1 (x", "1 x) S 1", "(x) S" + statTail, "x (y) S" + statTail, "1 (x) S", "1 (x) S ",
		"1 (x) S 1 2 3", "1 (x) S a" + statTail, "99999999999999999999999 (x) S" + statTail,
	} {
		if got, err := ParseStat([]byte(text)); !errors.Is(err, errMalformed) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

func TestParseStatAllocatesNothing(t *testing.T) {
	text := []byte("10891 (bash) T" + statTail + "19\n")
	if n := testing.AllocsPerRun(100, func() { _, _ = ParseStat(text) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

const statusText = "Name:\ta\\nTracerPid:\t9\nState:\tT (stopped)\nPid:\t5\nTracerPid:\t77\n" +
	"Uid:\t1001\t0\t0\t0\nThreads:\t1\nSigQ:\t3/96365\nSigPnd:\t0000000000000200\nShdPnd:\t0000000000084000\n" +
	"SigBlk:\t0000000000000001\nSigIgn:\t0000000000000002\nSigCgt:\t0000000100014000\nCpus_allowed:\t3\n"

func TestParseStatus(t *testing.T) {
	got, err := ParseStatus([]byte(statusText))
	want := Status{
		State: 'T', UID: 1001, EUID: 0, TracerPID: 77, Queued: 3,
		Pending: Signals(unix.SIGUSR1), Shared: Signals(unix.SIGTERM, unix.SIGTSTP),
		Blocked: Signals(unix.SIGHUP), Ignored: Signals(unix.SIGINT),
		Caught: Signals(unix.SIGTERM, unix.SIGCHLD, 33),
	}
	if err != nil || got != want {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
	if all := got.AllPending().String(); all != "SIGUSR1,SIGTERM,SIGTSTP" {
		t.Errorf("pending %s", all)
	}
	if got.Caught.String() != "SIGTERM,SIGCHLD,SIG33" {
		t.Errorf("caught %s", got.Caught)
	}
}

func TestParseStatusRefuses(t *testing.T) {
	for _, text := range []string{"", "Name:\tx\n", "Uid:\tx\t1\n", "Uid:\t1\n", "Uid:\t-1\t0\n",
		strings.Replace(statusText, "0000000000084000", "zz", 1),
		strings.Replace(statusText, "0000000000084000", "00000000000840000", 1),
		strings.Replace(statusText, "77", "a", 1)} {
		if got, err := ParseStatus([]byte(text)); !errors.Is(err, errMalformed) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

func TestSigSetOutOfRange(t *testing.T) {
	if s := Signals(0, -1, 65, 1000); s != 0 {
		t.Errorf("set %v", s)
	}
	if !slices.Equal(Signals(64, 1).List(), []unix.Signal{1, 64}) {
		t.Error("ends of the range")
	}
}

func TestParseCgroup(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       Cgroups
	}{
		{"v1", "6:freezer:/slurm/uid_0/job_1/step_0\n4:memory:/x\n", Cgroups{Freezer: "/slurm/uid_0/job_1/step_0"}},
		{"v1, controllers together", "6:cpu,freezer:/a\n", Cgroups{Freezer: "/a"}},
		{"v2", "0::/system.slice/slurmstepd.scope/job_1/step_0/user/task_0\n",
			Cgroups{Unified: "/system.slice/slurmstepd.scope/job_1/step_0/user/task_0"}},
		{"hybrid", "9:name=systemd:/\n6:freezer:/f\n0::/u\n", Cgroups{Freezer: "/f", Unified: "/u"}},
		{"colons in the path", "6:freezer:/a:b/c\n0::/d::e\n", Cgroups{Freezer: "/a:b/c", Unified: "/d::e"}},
		{"a named hierarchy called freezer", "3:name=freezer:/no\n0::/u\n", Cgroups{Unified: "/u"}},
		{"none", "", Cgroups{}},
	} {
		if got, err := ParseCgroup([]byte(c.text)); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
	}
	for _, text := range []string{"x", "1:2", "0::", "0::a\n", "6:freezer:\n"} {
		if got, err := ParseCgroup([]byte(text)); !errors.Is(err, errMalformed) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

// Numbers come out whole wherever the reads cut the text.
func TestWordReader(t *testing.T) {
	text := "1 22 333 4444 55555 \n666666\n7"
	want := []int{1, 22, 333, 4444, 55555, 666666, 7}
	for size := 1; size <= len(text); size++ {
		var w wordReader
		var got []int
		for rest := text; rest != ""; {
			n := copy(w.space(), rest[:min(size, len(rest))])
			rest = rest[n:]
			got = w.take(got, n)
		}
		if got = w.rest(got); !slices.Equal(got, want) {
			t.Errorf("by %d: %v", size, got)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("10891 (bash) T" + statTail + "19\n"))
	f.Add([]byte("1 () R ) 1 1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := ParseStat(b)
		if err == nil && (s.PID < 0 || len(s.Comm) > len(b)) {
			t.Errorf("%q: %+v", b, s)
		}
	})
}

func FuzzParseStatus(f *testing.F) {
	f.Add([]byte(statusText))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := ParseStatus(b); err == nil && (s.UID < 0 || s.EUID < 0) {
			t.Errorf("%q: %+v", b, s)
		}
	})
}

func FuzzParseCgroup(f *testing.F) {
	f.Add([]byte("6:freezer:/slurm_n0/uid_0/job_1/step_0\n0::/system.slice/slurmstepd.scope/job_1/step_0/user/task_0\n"))
	f.Add([]byte("0::/../..\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := ParseCgroup(b)
		if err != nil {
			return
		}
		for _, p := range []string{c.Freezer, c.Unified} {
			for _, step := range []func(string) (string, bool){stepV1, stepV2} {
				below, ok := step(p)
				if ok && (!strings.Contains(below, "step_") || strings.Contains("/"+below+"/", "/../") || !strings.HasPrefix(p, "/"+below)) {
					t.Errorf("%q gives %q", p, below)
				}
			}
		}
	})
}

func FuzzParseEvent(f *testing.F) {
	f.Add(message(eventFork, 1, 1, 2, 2))
	f.Add(message(eventExec, 5, 5))
	f.Add(message(eventExit, 5, 6))
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, ok := parseEvent(b); ok && (e.pid < 0 || e.ppid < 0) {
			t.Errorf("%x: %+v", b, e)
		}
	})
}

func FuzzChildren(f *testing.F) {
	f.Add([]byte("1 22 333 "))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, pid := range appendNumbers(nil, b) {
			if pid < 0 {
				t.Errorf("%q: %d", b, pid)
			}
		}
	})
}

func TestWhatStaysBlocked(t *testing.T) {
	some := Signals(unix.SIGTSTP, unix.SIGTERM)
	for _, c := range []struct{ blocked, want SigSet }{
		{0, 0},
		{some, some},
		{^SigSet(0) &^ Signals(unix.SIGKILL, unix.SIGSTOP), 0},
		{^SigSet(0) &^ Signals(unix.SIGKILL, unix.SIGSTOP, 32, 33), 0},
		{^SigSet(0) &^ Signals(unix.SIGKILL, unix.SIGSTOP, unix.SIGTERM), ^SigSet(0) &^ Signals(unix.SIGKILL, unix.SIGSTOP, unix.SIGTERM)},
	} {
		if got := (Status{Blocked: c.blocked}).StaysBlocked(); got != c.want {
			t.Errorf("of %x there stays %x, want %x", c.blocked, got, c.want)
		}
	}
}
