package report

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/tests/draw"
)

func changed(sec int, id model.TenantID, s model.State) model.Change {
	return model.Change{At: noon.Add(time.Duration(sec) * time.Second), Tenant: id, State: s}
}

// turns are two tenants that take turns of ten seconds on one GPU.
func turns(start, end time.Time) *Course {
	a, b := view(1, "alpha", model.Running, 0), view(2, "beta", model.Gone, 0)
	a.Start, b.Start = noon, noon.Add(5*time.Second)
	b.End = noon.Add(45 * time.Second)
	suspended := changed(50, a.ID, model.Running)
	suspended.Suspended = true
	return &Course{Node: "n0", Start: start, End: end, Tenants: []model.View{a, b},
		GPUs: []model.GPU{{UUID: "GPU-aa", Index: 0, Name: "Model H"}},
		Changes: []model.Change{
			changed(0, a.ID, model.Running), changed(5, b.ID, model.Held),
			changed(20, a.ID, model.Pausing), changed(20, a.ID, model.Paused), changed(20, b.ID, model.Running),
			changed(30, b.ID, model.Swapped), changed(30, a.ID, model.Running),
			changed(45, b.ID, model.Gone), suspended, changed(55, a.ID, model.Running)}}
}

func TestFromCourse(t *testing.T) {
	s := time.Second
	got := FromCourse(turns(noon.Add(10*s), noon.Add(60*s)))
	want := Timeline{Title: "node n0", Start: noon.Add(10 * s), Length: 50 * s, Lanes: []Lane{{Name: "GPU 0 (Model H)", UUID: "GPU-aa", Tracks: []Track{
		{Name: "1", Detail: "alpha", Tenant: "1@1", Stretches: []Stretch{{From: 0, To: 10 * s, What: Computing}, {From: 10 * s, To: 20 * s, What: Paused}, {From: 20 * s, To: 40 * s, What: Computing}, {From: 40 * s, To: 45 * s, What: Suspended}, {From: 45 * s, To: 50 * s, What: Computing}}},
		{Name: "2", Detail: "beta", Tenant: "2@1", Kind: 1, Stretches: []Stretch{{From: 0, To: 10 * s, What: Waiting}, {From: 10 * s, To: 20 * s, What: Computing}, {From: 20 * s, To: 35 * s, What: Swapped}}},
	}}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTextTimelines(t *testing.T) {
	line := FromCourse(turns(noon, noon.Add(time.Minute)))
	tests := []struct {
		file string
		term Terminal
	}{{"timeline.txt", Terminal{Width: 72}}, {"timeline-ascii.txt", Terminal{Width: 60, ASCII: true}}, {"timeline-color.txt", Terminal{Width: 60, Color: true}}}
	for _, tt := range tests {
		var b strings.Builder
		if err := WriteText(&b, line, tt.term); err != nil {
			t.Fatal(err)
		}
		golden(t, tt.file, b.String())
	}
	var b strings.Builder
	if err := WriteText(&b, Timeline{}, Terminal{}); err != nil || b.String() != "nothing ran in this time\n" {
		t.Errorf("an empty timeline: %q, %v", b.String(), err)
	}
}

func drawTimeline(t *rapid.T) Timeline {
	length := rapid.Int64Range(0, int64(time.Hour)).Draw(t, "length")
	out := Timeline{Title: anyName().Draw(t, "title"), Length: time.Duration(length)}
	for range rapid.IntRange(0, 3).Draw(t, "lanes") {
		lane := Lane{Name: anyName().Draw(t, "lane")}
		for range rapid.IntRange(0, 3).Draw(t, "tracks") {
			tr := Track{Name: anyName().Draw(t, "track"), Detail: anyName().Draw(t, "detail")}
			at := int64(0)
			for range rapid.IntRange(0, 5).Draw(t, "stretches") {
				from := rapid.Int64Range(at, length).Draw(t, "from")
				at = rapid.Int64Range(from, length).Draw(t, "to")
				tr.Stretches = append(tr.Stretches, Stretch{From: time.Duration(from), To: time.Duration(at),
					What: Activity(rapid.IntRange(0, int(numActivities)-1).Draw(t, "what")), Share: rapid.Float64Range(0, 1).Draw(t, "share")})
			}
			lane.Tracks = append(lane.Tracks, tr)
		}
		out.Lanes = append(out.Lanes, lane)
	}
	return out
}

// Every track is one line as wide as the terminal, whatever it holds.
func TestTextTimelineFits(t *testing.T) {
	draw.Check(t, func(t *rapid.T) {
		line := drawTimeline(t)
		width := rapid.IntRange(40, 200).Draw(t, "width")
		var b strings.Builder
		if err := WriteText(&b, line, Terminal{Width: width}); err != nil {
			t.Fatal(err)
		}
		tracks, drawn := 0, 0
		for _, l := range line.Lanes {
			tracks += len(l.Tracks)
		}
		for _, l := range strings.Split(b.String(), "\n") {
			if strings.HasSuffix(l, "%") && strings.Count(l, "│") >= 2 {
				drawn++
				if w := Width(l); w > width {
					t.Fatalf("a track is %d wide on %d columns: %q", w, width, l)
				}
			}
		}
		if drawn < tracks {
			t.Fatalf("%d of %d tracks are drawn:\n%s", drawn, tracks, b.String())
		}
	})
}

// A column shows what took most of its time, and what happened is never
// invisible.
func TestBins(t *testing.T) {
	ms := time.Millisecond
	tr := Track{Stretches: []Stretch{{0, 600 * ms, Computing, 0}, {600 * ms, 1400 * ms, Paused, 0}, {1400 * ms, 2000 * ms, Computing, 0.05}, {3999 * ms, 4000 * ms, Computing, 0}}}
	got := tr.bins(4*time.Second, 4)
	if diff := cmp.Diff([]cell{{Computing, 5}, {Paused, 0}, {}, {Computing, 1}}, got, cmp.AllowUnexported(cell{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The picture is well-formed whatever names it holds.
func TestSVGIsXML(t *testing.T) {
	draw.Check(t, func(t *rapid.T) {
		var b strings.Builder
		if err := WriteSVG(&b, drawTimeline(t)); err != nil {
			t.Fatal(err)
		}
		d := xml.NewDecoder(strings.NewReader(b.String()))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				return
			} else if err != nil {
				t.Fatalf("%v in %s", err, b.String())
			}
		}
	})
}

// The picture of a full day with many turns stays small.
func TestSVGIsBounded(t *testing.T) {
	lane := Lane{Name: "GPU 0"}
	for range 8 {
		tr := Track{Name: "x"}
		for i := range 43_200 {
			at := time.Duration(2*i) * time.Second
			tr.Stretches = append(tr.Stretches, Stretch{at, at + time.Second, Computing, 0}, Stretch{at + time.Second, at + 2*time.Second, Paused, 0})
		}
		lane.Tracks = append(lane.Tracks, tr)
	}
	var b strings.Builder
	if err := WriteHTML(&b, Timeline{Length: 24 * time.Hour, Lanes: []Lane{lane, lane, lane, lane, lane, lane, lane, lane}}); err != nil {
		t.Fatal(err)
	}
	if b.Len() > 2<<20 {
		t.Errorf("the page has %d bytes", b.Len())
	}
}

const record = `# CLOCK_MONOTONIC 1000 wall 5
0 11 100.0 1000000000 2000000000 1000000000
0 12 101.0 2000000000 4000000000 1000000000
1 13 102.0 1500000000 1500000000 0
0 11 100.0 4000000000 500`

func TestFromDevice(t *testing.T) {
	got, err := FromDevice(strings.NewReader(record))
	if err != nil {
		t.Fatal(err)
	}
	s := time.Second
	want := Timeline{Length: 3 * s, Lanes: []Lane{
		{Name: "GPU 0", Tracks: []Track{{Name: "100.0", Stretches: []Stretch{{0, s, Computing, 1}}}, {Name: "101.0", Kind: 1, Stretches: []Stretch{{s, 3 * s, Computing, 0.5}}}}},
		{Name: "GPU 1", Tracks: []Track{{Name: "102.0", Stretches: []Stretch{{s / 2, s / 2, Computing, 0}}}}}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if d := got.Lanes[0].Tracks[1].Total(Computing); d != s {
		t.Errorf("101.0 computed for %v, want 1s", d)
	}
	for _, bad := range []string{"0 1 a 5 4 0\n", "x 1 a 1 2 1\n", "0 1 a 1 2\n", "0 1 a -1 2 1\n"} {
		if _, err := FromDevice(strings.NewReader(bad)); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func FuzzFromDevice(f *testing.F) {
	f.Add(record)
	f.Add("0 1 a 0 9223372036854775807 1\n0 1 b 1 2 3\n")
	f.Fuzz(func(t *testing.T, s string) {
		line, err := FromDevice(strings.NewReader(s))
		if err != nil {
			return
		}
		if err := WriteText(io.Discard, line, Terminal{Width: 60}); err != nil {
			t.Error(err)
		}
	})
}
