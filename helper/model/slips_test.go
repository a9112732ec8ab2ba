package model

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/gimbal-hpc/gimbal/tests/draw"
)

func TestSlips(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"status", "status", 0}, {"stauts", "status", 1}, {"sttus", "status", 1}, {"statuss", "status", 1}, {"stotus", "status", 1}, {"", "abc", 3}, {"abc", "xyz", 3}} {
		if got := Slips(tt.a, tt.b); got != tt.want {
			t.Errorf("%q to %q: %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}

// TestSlipsIsADistance: the same both ways, none to itself, and never more than
// the longer word has letters nor less than they differ in length.
func TestSlipsIsADistance(t *testing.T) {
	draw.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[a-d]{0,70}`)
		a, b := word.Draw(t, "a"), word.Draw(t, "b")
		d := Slips(a, b)
		if d != Slips(b, a) || d > max(len(a), len(b)) || d < max(len(a), len(b))-min(len(a), len(b)) || a == b && len(a) <= 64 && d != 0 {
			t.Fatalf("%q to %q: %d, back %d", a, b, d, Slips(b, a))
		}
	})
}
