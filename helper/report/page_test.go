package report

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gimbal-hpc/gimbal/tests/draw"
)

func plainNumber(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }

// TestPage holds that a page is well formed whatever the texts and numbers in
// it are.
func TestPage(t *testing.T) {
	draw.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		values := rapid.SliceOfN(rapid.Float64Range(0, 1e9), 1, 9).Draw(t, "values")
		var points []Point
		var bars []Bar
		for i, v := range values {
			points = append(points, Point{v, float64(i)})
			bars = append(bars, Bar{From: v, To: 2 * v, Row: i, Low: 1, Kind: i, Text: text})
		}
		x := Even(values[0], 60, plainNumber)
		p := Page{Title: text, Intro: text, Notes: []string{text}, Parts: []Part{{Title: text, Text: text, Body: []Drawing{
			Table{Columns: []string{text, "b"}, Rows: [][]string{{text, text}}},
			Lines{Title: text, X: Among(values[0], values[len(values)-1], values, plainNumber), Y: Percent(), Mark: 1, Series: []Series{{text, points}}},
			Area{Title: text, X: x, Values: values},
			Bars{Title: text, X: x, Rows: make([]string, len(values)), Bars: bars},
			Shades{Title: text, X: x, Rows: []string{text}, Cells: [][]float64{values}, Above: text},
		}}}}
		var b strings.Builder
		if err := WritePage(&b, p); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.String(), "NaN") && !strings.Contains(text, "NaN") {
			t.Fatalf("a number is none")
		}
		d := xml.NewDecoder(strings.NewReader(b.String()))
		d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				return
			} else if err != nil {
				t.Fatalf("%v in %s", err, b.String())
			}
		}
	})
}

func TestAxis(t *testing.T) {
	for name, c := range map[string]struct {
		axis Axis
		want string
	}{
		"round":    {Even(10*3600, 3600, plainNumber), "[{0 0} {18000 1.8e+04} {36000 3.6e+04}]"},
		"log":      {Among(1, 1000, []float64{.1, 1, 2, 10, 1000}, plainNumber), "[{1 1} {10 10} {1000 1e+03}]"},
		"no marks": {Among(3, 5, []float64{1, 10}, plainNumber), "[{3 3} {5 5}]"},
	} {
		if got := fmt.Sprint(c.axis.Ticks); got != c.want {
			t.Errorf("%s: ticks %s, want %s", name, got, c.want)
		}
	}
	if at := (Axis{From: 1, To: 100, Log: true}).at(10); math.Abs(at-.5) > 1e-9 {
		t.Errorf("10 lies at %v between 1 and 100", at)
	}
}

func TestShade(t *testing.T) {
	for v, want := range map[float64]int{0: -1, .1: 0, .25: 0, .3: 1, 1: 3, 1.01: 4, 7: 4} {
		if got := shade(v); got != want {
			t.Errorf("%v has shade %d, want %d", v, got, want)
		}
	}
}
