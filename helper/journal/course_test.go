package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/tests/draw"
)

// anyRecord draws a record whose texts try to pass for other parts of a line.
func anyRecord(t *rapid.T, sec int) model.Record {
	text := rapid.SampledFrom([]string{"", "plain", `","state":"gone`, `,"tenant":{"id":"9@9","state":"held"`, "\"wall\":\"2020-01-01T00:00:00Z\"", "\x00\n\xff"})
	n := rapid.IntRange(1, 4).Draw(t, "tenant")
	tn := tenant(n, rapid.SampledFrom(model.States()).Draw(t, "state"))
	tn.Reg.JobName, tn.Reason.Text = text.Draw(t, "name"), text.Draw(t, "why")
	tn.Suspended = rapid.SampledFrom([]string{"", "slurm"}).Draw(t, "suspended")
	ev := &model.Event{Kind: model.EvDone, Tenant: tn.ID, Text: text.Draw(t, "text")}
	act := &model.Action{ID: 1, Do: model.PrimPause, Tenant: tn.ID, Why: model.Reason{Text: text.Draw(t, "because")}}
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0:
		return at(sec, nil, act, nil)
	case 1:
		return at(sec, nil, nil, ev)
	case 2:
		return at(sec, tn, act, nil)
	case 3:
		ev.Kind, ev.Adopt = model.EvAdopted, tn
	}
	return at(sec, tn, nil, ev)
}

// TestChangeOf: what is picked out of a line is what decoding it gives.
func TestChangeOf(t *testing.T) {
	draw.Check(t, func(t *rapid.T) {
		r := anyRecord(t, rapid.IntRange(0, 1e6).Draw(t, "second"))
		r.Seq = 1
		raw, err := rawTenant(r.Tenant)
		if err != nil {
			t.Fatal(err)
		}
		b, err := appendLine(nil, r, raw)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := changeOf(b)
		var back model.Record
		if err := json.Unmarshal(b, &back); err != nil {
			t.Fatal(err)
		}
		if ok != (back.Tenant != nil) {
			t.Fatalf("picked: %v, of a record with the tenant %+v", ok, back.Tenant)
		}
		if !ok {
			return
		}
		want := model.Change{At: back.Wall, Tenant: back.Tenant.ID, State: back.Tenant.State, Suspended: back.Tenant.Suspended != ""}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("-want +got:\n%s", d)
		}
	})
}

// TestCourse reads the changes of a time out of several files, with what stood
// before it.
func TestCourse(t *testing.T) {
	dir := t.TempDir()
	o := testOptions()
	now := epoch
	o.SegmentAge, o.Now = 10*time.Second, func() time.Time { return now }
	j := mustOpen(t, dir, o)
	add := func(sec, n int, s model.State) {
		now = epoch.Add(time.Duration(sec) * time.Second)
		appendAll(t, j, at(sec, tenant(n, s), nil, &model.Event{Kind: model.EvDone}))
	}
	add(0, 1, model.Running)
	add(1, 2, model.Held)
	add(2, 3, model.Running)
	add(3, 3, model.Gone)
	add(12, 1, model.Paused)  // another file
	add(25, 2, model.Running) // another one
	add(26, 1, model.Paused)
	add(37, 1, model.Running)
	add(49, 2, model.Gone)
	told := func(from, to int) string {
		p := NewChangePacker()
		err := Course(dir, epoch.Add(time.Duration(from)*time.Second), epoch.Add(time.Duration(to)*time.Second), func(c model.Change) bool { p.Add(c); return true })
		if err != nil {
			t.Fatal(err)
		}
		text := map[string]bool{}
		for _, c := range UnpackChanges(p.Text()) {
			text[fmt.Sprintf("%d %s %s", int(c.At.Sub(epoch).Seconds()), c.Tenant, c.State)] = true
		}
		b, _ := json.Marshal(text)
		return string(b)
	}
	for _, tt := range []struct {
		from, to int
		want     string
	}{
		{0, 100, `{"0 1@1 running":true,"1 2@1 held":true,"12 1@1 paused":true,"2 3@1 running":true,"25 2@1 running":true,"3 3@1 gone":true,"37 1@1 running":true,"49 2@1 gone":true}`},
		{20, 40, `{"20 1@1 paused":true,"20 2@1 held":true,"25 2@1 running":true,"37 1@1 running":true}`},
		{38, 60, `{"38 1@1 running":true,"38 2@1 running":true,"49 2@1 gone":true}`},
		{50, 60, `{"50 1@1 running":true}`},
	} {
		if got := told(tt.from, tt.to); got != tt.want {
			t.Errorf("from %d to %d: %s, want %s", tt.from, tt.to, got, tt.want)
		}
	}
}

// TestCourseOfAClockSetBack: whatever the clock did, of every tenant the newest state
// is told last.
func TestCourseOfAClockSetBack(t *testing.T) {
	dir := t.TempDir()
	draw.Check(t, func(t *rapid.T) {
		sub, err := os.MkdirTemp(dir, "")
		if err != nil {
			t.Fatal(err)
		}
		j, err := Open(sub, testOptions())
		if err != nil {
			t.Fatal(err)
		}
		want, got := map[model.TenantID]model.State{}, map[model.TenantID]model.State{}
		for range rapid.IntRange(1, 20).Draw(t, "records") {
			n, state := rapid.IntRange(1, 3).Draw(t, "tenant"), rapid.SampledFrom([]model.State{model.Running, model.Paused}).Draw(t, "state")
			r := at(rapid.IntRange(0, 50).Draw(t, "second"), tenant(n, state), nil, &model.Event{Kind: model.EvDone})
			if err := j.Append(r); err != nil {
				t.Fatal(err)
			}
			want[r.Tenant.ID] = state
		}
		from := epoch.Add(time.Duration(rapid.IntRange(0, 60).Draw(t, "from")) * time.Second)
		err = errors.Join(j.Close(), Course(sub, from, epoch.Add(100*time.Second), func(c model.Change) bool {
			if c.At.Before(from) {
				t.Fatalf("%+v is before %v", c, from)
			}
			got[c.Tenant] = c.State
			return true
		}))
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Fatalf("%v (-want +got):\n%s", err, d)
		}
	})
}

// TestTellInPages: pages together tell what one would, each load once, and of
// tenants only those that may be seen.
func TestTellInPages(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir, testOptions())
	states := []model.State{model.Running, model.Paused}
	for i := range 3000 {
		appendAll(t, j, at(i, tenant(1+i%2, states[i/2%2]), nil, &model.Event{Kind: model.EvDone}))
	}
	for i := range 50 {
		l := model.Load{From: epoch.Add(time.Duration(i) * time.Minute), Length: time.Minute, GPUs: []model.GPULoad{{UUID: "GPU-0", Used: level(0, 0),
			Tenants: []model.TenantLoad{{Tenant: "1@1"}, {Tenant: "2@1"}}}}}
		if _, err := j.Load(l); err != nil {
			t.Fatal(err)
		}
	}
	live, err := LiveViews(dir)
	if err != nil {
		t.Fatal(err)
	}
	q := model.CourseQuery{StatusQuery: model.StatusQuery{Start: epoch, End: epoch.Add(time.Hour)}}
	one := func(v *model.View) bool { return v.ID == "1@1" }
	whole, err := Tell(dir, q, live, one)
	if err != nil || !whole.Next.IsZero() {
		t.Fatal(whole.Next, err)
	}
	var changes []model.Change
	var loads []model.Load
	for pages := 0; ; pages++ {
		r, err := tellPage(dir, q, live, one, 4000)
		if err != nil || pages > 100 {
			t.Fatal(pages, err)
		}
		changes, loads = append(changes, UnpackChanges(r.Changes)...), append(loads, UnpackLoads(r.Loads)...)
		if q.From = r.Next; r.Next.IsZero() {
			if pages < 3 {
				t.Errorf("only %d pages", pages)
			}
			break
		}
	}
	p := NewChangePacker()
	for _, c := range changes {
		p.Add(c)
	}
	if d := cmp.Diff(whole.Changes, p.Text()); d != "" {
		t.Errorf("changes (-whole +pages):\n%s", d)
	}
	if d := cmp.Diff(UnpackLoads(whole.Loads), loads, sameLoads()); d != "" || len(loads) != 50 || len(loads[0].GPUs[0].Tenants) != 1 {
		t.Errorf("loads (-whole +pages):\n%s", d)
	}
}
