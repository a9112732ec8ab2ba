package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/report"
)

// busyNode is a node with two GPUs, five tenants and a GPU's reading missing.
func busyNode() model.Snapshot {
	view := func(job uint32, user string, state model.State, since time.Duration, reason string, use map[string]model.Usage) model.View {
		v := model.View{SinceWall: noon.Add(-since)}
		v.ID, v.Whole, v.State, v.Use = model.TenantID(fmt.Sprintf("%d@1", job)), true, state, use
		v.Reg = model.Registration{JobID: job, User: user, ArrayTask: model.NoVal, HetOffset: model.NoVal, JobName: "train-" + user}
		v.Reason = model.Reason{Code: "x", Text: reason}
		for g := range use {
			v.GPUs = append(v.GPUs, g)
		}
		return v
	}
	of := func(gpu string, mem model.Bytes, sm float64) map[string]model.Usage {
		return map[string]model.Usage{gpu: {Memory: model.Known(mem), SM: model.Known(sm)}}
	}
	s := model.Snapshot{Node: "n0", At: noon, Policies: map[string]string{"A": "timeslice", "B": "together"},
		Foreign: map[string]model.Reading[model.Bytes]{"B": model.Known(2 * model.GiB)},
		GPUs: []model.GPU{
			{UUID: "A", Index: 0, Name: "NVIDIA H200", Total: model.Known(16 * model.GiB), Used: model.Known(12 * model.GiB), Util: model.Known(0.5)},
			{UUID: "B", Index: 1, Name: "NVIDIA H200", Total: model.Known(16 * model.GiB)},
			{UUID: "C", Index: 2, Name: "NVIDIA H200", Fault: "lost"},
		}}
	both := of("A", 4*model.GiB, 0)
	both["B"] = model.Usage{}
	hidden := model.View{Hidden: true}
	hidden.State, hidden.GPUs, hidden.Use = model.Running, []string{"B"}, of("B", model.GiB, 0.1)
	none := view(15, "eve", model.Held, time.Hour, "has no shared GPU", nil)
	s.Tenants = []model.View{
		view(12, "ann", model.Running, 12*time.Second, "its turn (timeslice, quantum 30s)", of("A", 6*model.GiB, 0.48)),
		view(13, "bob", model.Paused, 12*time.Second, "turn of 12 (timeslice, quantum 30s)", both),
		view(14, "a-very-long-name", model.Held, 70*time.Second, "needs 10GiB on GPU 0, 4GiB free", of("A", 0, 0)),
		hidden, none,
	}
	return s
}

func shown(s *screen, width, height int) string {
	var b strings.Builder
	for _, l := range s.lines(width, height) {
		b.WriteString(strings.TrimRight(l.text, " ") + "\n")
	}
	return b.String()
}

const wantTop = `gimbal top: n0 12:00:00, 3 GPUs, 5 tenants, 2 held, 2 running, 1 paused
GPU 0  mem [|||||||||||   ]     12G/16G  util [|||||     ]  50%  timeslice  NVI+
  JOBID      USER     STATE        MEM   SM     TIME REASON
  12         ann      RUNNING       6G  48% 18s left its turn (timeslice, quant+
  13         bob      PAUSED        4G   0%      12s turn of 12 (timeslice, qua+
  14         a-very-+ HELD          0K   0%    1m10s needs 10GiB on GPU 0, 4GiB+
GPU 1  mem [      ?       ]       ?/16G  util [    ?     ]   ?%  together, fore+
  JOBID      USER     STATE        MEM   SM     TIME REASON
  13         bob      PAUSED         -    -      12s turn of 12 (timeslice, qua+
  -          -        RUNNING       1G  10%        -
GPU 2 NVIDIA H200: lost
on no GPU
  JOBID      USER     STATE        MEM   SM     TIME REASON
  15         eve      HELD           -    -    1h00m has no shared GPU
last
11:59:48 12 running: its turn (timeslice, quantum 30s)
11:59:48 13 paused: turn of 12 (timeslice, quantum 30s)
11:58:50 14 held: needs 10GiB on GPU 0, 4GiB free
11:00:00 15 held: has no shared GPU
`

func TestTopShows(t *testing.T) {
	s := newScreen("job", "")
	s.take(busyNode(), nil, noon)
	if diff := cmp.Diff(wantTop, shown(s, 80, 0)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	s.user = "bob"
	if out := shown(s, 120, 0); strings.Count(out, "  13 ") != 2 || strings.Contains(out, " 12 running") || strings.Contains(out, "\n  12 ") || strings.Contains(out, "\n  -  ") || !strings.Contains(out, "train-bob") {
		t.Errorf("bob's:\n%s", out)
	}
}

// Whatever the size, the screen fits, the keys' line is last, and the chosen
// line is in sight.
func TestTopFitsEverySize(t *testing.T) {
	s := newScreen("job", "")
	s.take(busyNode(), nil, noon)
	for range 8 {
		for width := 1; width < 200; width += 7 {
			for height := 1; height < 30; height++ {
				lines := s.lines(width, height)
				if len(lines) != height {
					t.Fatalf("%dx%d: %d lines", width, height, len(lines))
				}
				for _, l := range lines {
					if report.Width(l.text) != width && l.text != "" {
						t.Fatalf("%dx%d: a line of %d columns: %q", width, height, report.Width(l.text), l.text)
					}
					_ = painted(l, true)
				}
				inSight := slices.ContainsFunc(lines, func(l topLine) bool { return l.chosen })
				if s.chosen != (place{}) && height > 3 && !inSight {
					t.Fatalf("%dx%d: %v is out of sight", width, height, s.chosen)
				}
			}
		}
		s.press("down")
	}
}

func TestTopKeys(t *testing.T) {
	s := newScreen("job", "")
	s.take(busyNode(), nil, noon)
	if d := s.press("enter"); d != deedNone || s.message == "" {
		t.Errorf("enter without a choice: %v %q", d, s.message)
	}
	for _, want := range []string{"12", "13", "14", "13"} {
		s.press("down")
		if v := s.selected(); v == nil || v.Name() != want {
			t.Fatalf("down to %+v, want %s", v, want)
		}
	}
	if s.chosen.gpu != "B" || s.press("enter") != deedHistory {
		t.Errorf("13 on GPU B is chosen: %v", s.chosen)
	}
	s.press("down")
	if d := s.press("enter"); d != deedNone || !strings.Contains(s.message, "another user") {
		t.Errorf("another's history: %v %q", d, s.message)
	}
	s.press("end")
	if v := s.selected(); v == nil || v.Name() != "15" {
		t.Errorf("end: %+v", v)
	}
	for _, k := range []string{"f", "x", "backspace", "b", "o", "b", "q", "backspace", "enter"} {
		if d := s.press(k); d != deedNone {
			t.Errorf("%s while typing: %v", k, d)
		}
	}
	if s.user != "bob" {
		t.Errorf("user %q", s.user)
	}
	s.press("f")
	s.press("esc")
	if s.user != "bob" || s.asking {
		t.Errorf("after esc: user %q", s.user)
	}
	s.history = []string{"a", "b", "c"}
	if s.press("end"); s.offset != 2 || !strings.HasPrefix(s.lines(40, 3)[0].text, "b") {
		t.Errorf("the end of a history: %d", s.offset)
	}
	if d := s.press("q"); d != deedNone || s.history != nil {
		t.Errorf("q leaves the history first: %v", d)
	}
	if s.press("q") != deedQuit || s.press("ctrl-c") != deedQuit || s.press("ctrl-z") != deedSuspend {
		t.Error("q, ctrl-c and ctrl-z do nothing")
	}
}

func TestTopSorts(t *testing.T) {
	for sort, want := range map[string]string{"job": "12 13 14", "state": "14 12 13", "memory": "12 13 14", "sm": "12 13 14", "time": "12 13 14", "user": "14 12 13"} {
		s := newScreen(sort, "")
		s.take(busyNode(), nil, noon)
		var got []string
		for _, v := range s.lanes()[0].tenants {
			got = append(got, v.Name())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", sort, got, want)
		}
	}
	s := newScreen("job", "")
	for range topSorts {
		s.press("s")
	}
	if s.sort != "job" {
		t.Errorf("after a round: %s", s.sort)
	}
}

// A daemon that goes away leaves what was known, and says so; news are told
// once.
func TestTopKeepsWhatWasKnown(t *testing.T) {
	s := newScreen("job", "")
	s.take(busyNode(), nil, noon)
	s.take(model.Snapshot{}, errors.New("gimbald does not answer"), noon.Add(90*time.Second))
	out := shown(s, 80, 24)
	if !strings.Contains(out, "gimbald does not answer; this is what was known 1 minute 30 seconds ago") || !strings.Contains(out, "  12  ") {
		t.Errorf("without a daemon:\n%s", out)
	}
	next := busyNode()
	next.At = noon.Add(20 * time.Second)
	next.Tenants[0].SinceWall = next.Tenants[0].SinceWall.Add(3 * time.Millisecond) // worked out anew
	next.Tenants[1].State, next.Tenants[1].SinceWall = model.Running, noon.Add(18*time.Second)
	s.take(next, nil, noon.Add(20*time.Second))
	if len(s.news) != 5 || !strings.HasPrefix(s.news[0].text, "13 running") || s.trouble != "" {
		t.Errorf("news: %+v", s.news)
	}
}

func TestKeys(t *testing.T) {
	for in, want := range map[string]string{
		"q": "q", "\x1b[A\x1bOB": "up down", "\x1b": "esc", "\x1b[5~x": "pgup x", "\r\x7f\x03": "enter backspace ctrl-c",
		"\x1b[1;5A": "", "é\x01ß": "é ß", "\xff": "", "\x1b[": "", "a\x1b[6": "a",
	} {
		if got, _ := keys([]byte(in)); strings.Join(got, " ") != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if _, rest := keys([]byte("a\x1b[6")); string(rest) != "\x1b[6" {
		t.Errorf("the beginning of a key: %q", rest)
	}
}

func FuzzKeys(f *testing.F) {
	f.Add([]byte("\x1b[A\x1b"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := newScreen("job", "")
		s.take(busyNode(), nil, noon)
		pressed, rest := keys(b)
		if len(rest) > maxSequence {
			t.Errorf("%d bytes are kept", len(rest))
		}
		for _, k := range pressed {
			s.press(k)
		}
		if n := len(s.lines(80, 24)); n != 24 {
			t.Errorf("%d lines", n)
		}
	})
}

func TestTopPrintsOnce(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "run", "g.sock")
	serve(t, socket, filepath.Join(dir, "state"), false)
	code, out, errs := try("top", "--socket", socket)
	if code != exitOK || errs != "" || !strings.Contains(out, "\n  102        user1002 RUNNING ") || strings.Contains(out, "\x1b") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	if code, _, _ := try("top", "--socket", filepath.Join(dir, "none")); code != exitUnreachable {
		t.Errorf("without a daemon: exit %d", code)
	}
	for _, args := range []string{"top x", "top --delay 1", "top --delay 1ms", "top --sort height"} {
		if code, _, errs := try(strings.Fields(args)...); code != exitUsage || errs == "" {
			t.Errorf("%s: exit %d", args, code)
		}
	}
}

// topChild names the socket that the child of a test watches.
const topChild = "GIMBAL_TEST_TOP"
