package journal

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/tests/draw"
)

var readings = cmp.AllowUnexported(model.Tenant{}, model.Reading[model.Progress]{}, model.Reading[model.Bytes]{}, model.Reading[float64]{}, model.Reading[model.Speed]{})

// drawView makes the final view of any tenant, with any text in it.
func drawView(t *rapid.T) model.View {
	id32 := rapid.Uint32()
	micros := rapid.Int64Range(0, 1e12)
	dur := func(name string) time.Duration { return time.Duration(micros.Draw(t, name)) * time.Microsecond }
	start := time.UnixMicro(1_700_000_000_000_000 + micros.Draw(t, "start"))
	text := rapid.OneOf(rapid.String(), rapid.Just("a|b,c=d e%\\\"\n"), rapid.Just("\xff\x00é宽"))
	v := model.View{Start: start, PolicyNow: text.Draw(t, "policy"), Elapsed: dur("elapsed")}
	v.ID = model.TenantID(text.Filter(func(s string) bool { return s != "" }).Draw(t, "id"))
	v.State, v.Whole = model.Gone, rapid.Bool().Draw(t, "whole")
	v.Reg = model.Registration{JobID: id32.Draw(t, "job"), StepID: id32.Draw(t, "step"), ArrayJob: id32.Draw(t, "array"),
		ArrayTask: id32.Draw(t, "task"), HetOffset: id32.Draw(t, "het"), UID: id32.Draw(t, "uid"),
		User: text.Draw(t, "user"), JobName: text.Draw(t, "name"), Own: rapid.Bool().Draw(t, "own")}
	v.Terms = model.Terms{Weight: rapid.Float64Range(0.5, 9).Draw(t, "weight"), Policy: text.Draw(t, "asked"), MaxPause: dur("pause")}
	if rapid.Bool().Draw(t, "memory") {
		v.Terms.Memory = model.Known(model.Bytes(micros.Draw(t, "bytes")))
		v.Terms.Declared = model.Known(model.Bytes(micros.Draw(t, "declared")))
	}
	v.Reason = model.Reason{Code: text.Draw(t, "code"), Text: text.Draw(t, "why")}
	v.GPUs = rapid.SliceOfN(rapid.StringN(1, 9, 40), 1, 3).Draw(t, "gpus")
	v.Peak = map[string]model.Bytes{v.GPUs[0]: model.Bytes(micros.Draw(t, "peak"))}
	v.Tally = model.Tally{Held: dur("held"), Paused: dur("paused"), Attained: dur("on"), SM: dur("sm"), Seen: dur("seen"), Swaps: 3, Pauses: 2}
	if rapid.Bool().Draw(t, "measured") {
		thousandths := rapid.IntRange(0, 1000)
		v.Speed = model.Known(model.Speed{Mean: float64(thousandths.Draw(t, "speed")) / 1000, Error: float64(thousandths.Draw(t, "error")) / 1000})
	}
	if v.HasRun = rapid.Bool().Draw(t, "ran"); v.HasRun {
		v.FirstRan = dur("first")
		v.Ran = start.Add(v.FirstRan)
	}
	v.End, v.SinceWall = start.Add(v.Elapsed), start.Add(v.Elapsed)
	v.Since, v.EndedAt = v.Elapsed, v.Elapsed
	for i := range rapid.IntRange(0, 3).Draw(t, "steps") {
		s := model.Step{ID: uint32(i), Tasks: 2, Status: 256 * i, Start: dur("step start")}
		w := model.StepWall{Start: start.Add(s.Start)}
		if s.Ended = i != 1; s.Ended {
			s.End = dur("step end")
			w.End = start.Add(s.End)
		}
		v.Steps, v.StepWall = append(v.Steps, s), append(v.StepWall, w)
	}
	return v
}

func TestPackKeepsEverything(t *testing.T) {
	draw.Check(t, func(t *rapid.T) {
		want := drawView(t)
		line := string(Pack(nil, &want))
		if strings.Count(line, "\n") != 1 || !strings.HasSuffix(line, "\n") {
			t.Fatalf("not one line: %q", line)
		}
		got, err := Unpack(strings.TrimSuffix(line, "\n"))
		if err != nil {
			t.Fatalf("%v: %q", err, line)
		}
		if diff := cmp.Diff(want, got, readings); diff != "" {
			t.Fatalf("(-want +got):\n%s\n%s", diff, line)
		}
		// It travels in a JSON string.
		quoted, err := json.Marshal(line)
		var back string
		if err != nil || json.Unmarshal(quoted, &back) != nil || back != line {
			t.Fatalf("changed by JSON: %q", line)
		}
	})
}

func TestUnpackSkipsUnknownKeys(t *testing.T) {
	v, err := Unpack("id=5@1 job=5 new_key=x,y:z tally=1000000,2,3,4,5,6,7,8,9,10")
	if err != nil || v.Reg.JobID != 5 || v.Tally.Held != time.Second || v.Tally.Swaps != 8 {
		t.Errorf("%+v, %v", v, err)
	}
}

func FuzzUnpack(f *testing.F) {
	v := model.ViewAt(tenant(3, model.Gone), epoch, time.Hour)
	f.Add(strings.TrimSuffix(string(Pack(nil, &v)), "\n"))
	f.Add("id=5@1 steps=1:2:3:4:5,6:7 peak=a:1,b tally=1 name=%zz")
	f.Add("id=5%40 gpus=,, deadline=-1")
	f.Fuzz(func(t *testing.T, s string) {
		v, err := Unpack(s)
		if err != nil {
			return
		}
		again, err := Unpack(strings.TrimSuffix(string(Pack(nil, &v)), "\n"))
		if err != nil || again.ID != v.ID || again.Reg.JobName != v.Reg.JobName {
			t.Errorf("%q came back as %+v, %v", s, again, err)
		}
	})
}

// fill writes n ended tenants, one a second.
func fill(t testing.TB, dir string, n int) {
	t.Helper()
	j := mustOpen(t, dir, testOptions())
	for i := range n {
		x := tenant(i+1, model.Gone)
		x.Reg.UID = uint32(1000 + i%10)
		x.Registered, x.EndedAt, x.HasRun = time.Duration(i)*time.Second, time.Duration(i+60)*time.Second, true
		x.Reg.JobName, x.Reg.User, x.Reg.Account, x.Reg.Partition = "train.sh", "alice", "research", "gpu"
		x.GPUs = []string{"GPU-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"}
		x.Peak = map[string]model.Bytes{x.GPUs[0]: 8 << 30}
		x.Tally = model.Tally{Running: 50 * time.Second, Paused: 10 * time.Second, Pauses: 4}
		x.Steps = []model.Step{{ID: model.StepBatch, Tasks: 1, Ended: true}, {ID: 0, Tasks: 4, Ended: true, End: time.Minute}}
		x.Reason = model.Reason{Code: model.CodeEnded}
		appendAll(t, j, at(i+60, x, nil, nil))
	}
	_ = j.Close()
}

func TestHistorySelects(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, 100)
	// Job i registered at second i-1 and ended 60 s later.
	ref := func(job uint32) model.JobRef {
		return model.JobRef{Job: job, Task: model.NoVal, Offset: model.NoVal, Step: model.NoVal}
	}
	when := func(sec int) time.Time { return epoch.Add(time.Duration(sec) * time.Second) }
	tests := []struct {
		name string
		q    model.StatusQuery
		want int
	}{
		{"all", model.StatusQuery{}, 100},
		{"jobs", model.StatusQuery{Jobs: []model.JobRef{ref(3), ref(50), ref(1000)}}, 2},
		{"user by number", model.StatusQuery{Users: []string{"1003"}}, 10},
		{"user by name", model.StatusQuery{Users: []string{"alice"}}, 100},
		{"window", model.StatusQuery{Start: when(100), End: when(120)}, 60},
		{"ended before it", model.StatusQuery{Start: when(1000)}, 0},
		{"completed", model.StatusQuery{States: []string{"COMPLETED"}}, 100},
		{"failed", model.StatusQuery{States: []string{"FAILED"}}, 0},
		{"was paused", model.StatusQuery{States: []string{"PAUSED"}}, 100},
		{"and", model.StatusQuery{Users: []string{"1003"}, Jobs: []model.JobRef{ref(4), ref(5)}}, 1},
		{"partition", model.StatusQuery{Partitions: []string{"cpu"}}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Ended(dir, tt.q)
			if err != nil || len(got) != tt.want {
				t.Errorf("%d tenants, %v; want %d", len(got), err, tt.want)
			}
		})
	}
}

func TestPages(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, 100)
	odd := func(v *model.View) bool { return v.Reg.JobID%2 == 1 }
	seen := map[model.TenantID]bool{}
	q := model.StatusQuery{Limit: 7}
	for pages := 1; ; pages++ {
		text, n, more, err := Page(dir, q, 1<<20, odd)
		if err != nil {
			t.Fatal(err)
		}
		views, skipped := UnpackAll(text)
		if len(views) != n || skipped != 0 {
			t.Fatalf("page of %d holds %d, %d are broken", n, len(views), skipped)
		}
		for _, v := range views {
			seen[v.ID] = true
		}
		q.After += n
		if !more {
			if pages != 8 || len(seen) != 50 {
				t.Errorf("%d tenants in %d pages, want 50 in 8", len(seen), pages)
			}
			break
		}
	}
	if text, n, more, err := Page(dir, model.StatusQuery{}, 1000, nil); err != nil || !more || n < 1 || len(text) > 1000 {
		t.Errorf("a page of 1000 bytes has %d with %d tenants, more %v, %v", len(text), n, more, err)
	}
}

func TestEndedSurvivesACrashBetweenTheTwoLines(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir, testOptions())
	appendAll(t, j, at(1, tenant(1, model.Running), nil, nil), at(2, tenant(1, model.Evicting), nil, nil))
	gone := tenant(1, model.Gone)
	gone.Reason.Code = model.CodeEnded
	appendAll(t, j, at(3, gone, nil, nil))
	ended := j.past.f.Name()
	_ = j.Close()
	if err := os.Truncate(ended, 5); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second start must not enter it twice
		j = mustOpen(t, dir, testOptions())
		_ = j.Close()
	}
	past, err := Ended(dir, model.StatusQuery{})
	if err != nil || len(past) != 1 || past[0].Word() != "EVICTED" {
		t.Errorf("history: %+v, %v", past, err)
	}
}

func TestEndedRotates(t *testing.T) {
	dir := t.TempDir()
	o := testOptions()
	o.EndedBytes = 40_000
	j := mustOpen(t, dir, o)
	for i := range 1000 {
		appendAll(t, j, at(i, tenant(i+1, model.Gone), nil, nil))
	}
	paths, _ := j.ended.list()
	past, err := Ended(dir, model.StatusQuery{})
	if err != nil || len(paths) < 3 || len(paths) > 6 || past[len(past)-1].Reg.JobID != 1000 {
		t.Errorf("%d files with %d tenants, %v", len(paths), len(past), err)
	}
}

func TestEntries(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir, testOptions())
	appendAll(t, j,
		at(0, nil, nil, &model.Event{Kind: model.EvStarted}),
		at(1, tenant(1, model.Running), nil, &model.Event{Kind: model.EvRegistered, Tenant: "1@1"}),
		at(2, tenant(12, model.Running), nil, &model.Event{Kind: model.EvRegistered, Tenant: "12@1"}),
		at(3, tenant(1, model.Pausing), pause(1, 9), nil),
		at(4, tenant(1, model.Gone), nil, &model.Event{Kind: model.EvEnded, Tenant: "1@1"}))
	live, err := LiveViews(dir)
	if err != nil || len(live) != 1 {
		t.Fatalf("live: %v, %v", live, err)
	}
	ref := []model.JobRef{{Job: 1, Task: model.NoVal, Offset: model.NoVal, Step: model.NoVal}}
	out, err := Entries(dir, model.RecordsQuery{StatusQuery: model.StatusQuery{Jobs: ref}}, live, nil)
	if err != nil || len(out.Tenants) != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
	var got []string
	for _, e := range out.Entries {
		got = append(got, fmt.Sprint(e.Seq, e.Event, e.Do))
	}
	if diff := cmp.Diff([]string{"1started", "2registered", "4pause", "5ended"}, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	page, err := Entries(dir, model.RecordsQuery{StatusQuery: model.StatusQuery{Jobs: ref}, Since: 2, Max: 1}, live, nil)
	if err != nil || len(page.Entries) != 1 || page.Entries[0].Seq != 4 || !page.More {
		t.Errorf("page: %+v, %v", page, err)
	}
	none, err := Entries(dir, model.RecordsQuery{}, live, func(*model.View) bool { return false })
	if err != nil || len(none.Tenants)+len(none.Entries) != 0 {
		t.Errorf("not allowed, and yet: %+v, %v", none, err)
	}
}

func BenchmarkHistory10000(b *testing.B) {
	dir := b.TempDir()
	fill(b, dir, 10_000)
	for b.Loop() {
		if all, err := Ended(dir, model.StatusQuery{}); err != nil || len(all) != 10_000 {
			b.Fatal(len(all), err)
		}
	}
}

// TestUnpackAllInParts: a text that is long enough to be read in parts gives the
// lines in order, without those that cannot be read, however it ends.
func TestUnpackAllInParts(t *testing.T) {
	var b strings.Builder
	want, bad := []model.TenantID{}, 0
	for i := range 6000 {
		if i%7 == 3 {
			b.WriteString("id=x job=rubbish\n")
			bad++
			continue
		}
		v := model.ViewAt(tenant(i, model.Gone), epoch, 0)
		v.Reg.JobName = strings.Repeat("n", i%300)
		b.Write(Pack(nil, &v))
		want = append(want, v.ID)
	}
	for _, text := range []string{b.String(), strings.TrimSuffix(b.String(), "\n")} {
		got, skipped := UnpackAll(text)
		ids := []model.TenantID{}
		for i := range got {
			ids = append(ids, got[i].ID)
		}
		if d := cmp.Diff(want, ids); d != "" || skipped != bad || len(text) < 512<<10 {
			t.Errorf("%d bytes: %d skipped, want %d (-want +got):\n%s", len(text), skipped, bad, d)
		}
	}
	if got, skipped := UnpackAll(""); len(got) != 0 || skipped != 0 {
		t.Errorf("nothing gives %d views", len(got))
	}
}
