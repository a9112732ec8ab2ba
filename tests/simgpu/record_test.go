package simgpu

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const ms = time.Millisecond

func TestStretchesJoinsTheParts(t *testing.T) {
	r, err := ParseRecord(strings.NewReader(`# simgpu 1 monotonic_ns=1 wall_ns=2
0 10 a 0 100000000 60000000
0 11 b 50000000 100000000 40000000
0 10 a 100000000 150000000 50000000
1 10 a 150000000 160000000 10000000
0 10 a 170000000 180000000 10000000
0 10 a 190000`))
	if err != nil {
		t.Fatal(err)
	}
	if len(r) != 5 {
		t.Errorf("%d lines were read as %v", 5, r)
	}
	want := Record{
		{0, 10, "a", 0, 150 * ms, 110 * ms},
		{0, 11, "b", 50 * ms, 100 * ms, 40 * ms},
		{1, 10, "a", 150 * ms, 160 * ms, 10 * ms},
		{0, 10, "a", 170 * ms, 180 * ms, 10 * ms},
	}
	if diff := cmp.Diff(want, r.Stretches()); diff != "" {
		t.Error(diff)
	}
}

func TestParseRecordRefusesNonsense(t *testing.T) {
	for _, line := range []string{"x", "0 1 a 5 4 1", "0 1 a -5 4 1", "0 1 a 1 2"} {
		if r, err := ParseRecord(strings.NewReader(line + "\n")); err == nil {
			t.Errorf("%q was read as %v", line, r)
		}
	}
}

func TestRecordArithmetic(t *testing.T) {
	r := Record{
		{0, 1, "a", 0, 100 * ms, 100 * ms},
		{0, 2, "b", 90 * ms, 150 * ms, 50 * ms},
		{1, 2, "b", 0, 50 * ms, 50 * ms},
		{0, 3, "b", 92 * ms, 100 * ms, 5 * ms},
		{0, 1, "a", 140 * ms, 160 * ms, 20 * ms},
	}
	if total, longest := r.Overlap("a", "b"); total != 20*ms || longest != 10*ms {
		t.Errorf("overlap %v, longest %v", total, longest)
	}
	if got := r.Busy("a"); got != 120*ms {
		t.Errorf("busy %v", got)
	}
	if got := r.On(0).Between(50*ms, 100*ms).Busy("a"); got != 50*ms {
		t.Errorf("busy in the window %v", got)
	}
	if got := r.Shares()["b"]; got != 105.0/225.0 {
		t.Errorf("share %v", got)
	}
	if got := r.Utilisation(1); got != 1 {
		t.Errorf("utilisation %v", got)
	}
	if diff := cmp.Diff([]string{"a", "b"}, r.Labels()); diff != "" {
		t.Error(diff)
	}
	if total, _ := r.Overlap("a", "nobody"); total != 0 {
		t.Errorf("overlap with nobody %v", total)
	}
}

func FuzzParseRecord(f *testing.F) {
	f.Add("0 10 a 0 100 60\n0 10 a 100 200 60\n")
	f.Add("# comment\n\n0 1 x 5 4 1\n")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRecord(strings.NewReader(text))
		if err != nil {
			return
		}
		for n, i := range r {
			if i.End < i.Start || (n > 0 && i.Start < r[n-1].Start) {
				t.Errorf("not in order: %v", r)
			}
		}
	})
}
