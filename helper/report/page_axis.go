package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// shortNumber is a number in three digits.
func shortNumber(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }

// Axis is how values lie along a side of a chart.
type Axis struct {
	From, To float64
	Log      bool // equal factors are equally far apart; From is above 0 then
	Ticks    []Tick
}

// Tick is a value with its text.
type Tick struct {
	At   float64
	Text string
}

// at is where a value lies, from 0 to 1; what is outside lies on the edge.
func (a Axis) at(v float64) float64 {
	from, to := a.From, a.To
	if a.Log {
		v, from, to = math.Log(max(v, a.From)), math.Log(from), math.Log(to)
	}
	if !(to > from) {
		return 0
	}
	return min(max((v-from)/(to-from), 0), 1)
}

// Percent is an axis of shares from 0 to 1.
func Percent() Axis {
	return Axis{To: 1, Ticks: []Tick{{0, "0 %"}, {.25, "25 %"}, {.5, "50 %"}, {.75, "75 %"}, {1, "100 %"}}}
}

// Even is an axis from 0 to a value, in a unit, with ticks at round numbers of
// the unit.
func Even(to, unit float64, text func(float64) string) Axis {
	a := Axis{To: to}
	step := round(to/unit/4) * unit
	for i := 0; float64(i)*step <= to; i++ {
		a.Ticks = append(a.Ticks, Tick{float64(i) * step, text(float64(i) * step)})
	}
	return a
}

// round is the least of 1, 2, 5 and their decimal multiples that is not below v.
func round(v float64) float64 {
	if !(v > 0) {
		return 1
	}
	ten := math.Pow(10, math.Floor(math.Log10(v)))
	for _, f := range [...]float64{1, 2, 5} {
		if f*ten >= v {
			return f * ten
		}
	}
	return 10 * ten
}

// spread is the least part of a logarithmic axis between two ticks: their
// texts would meet on a phone.
const spread = 0.17

// Among is a logarithmic axis over values from low to high. Of the marks those
// become ticks that lie there and do not crowd; where they are too few, the ends
// do.
func Among(low, high float64, marks []float64, text func(float64) string) Axis {
	a := Axis{From: low, To: high, Log: true}
	if !(low > 0) {
		a.From = max(high, 1e-6) / 1e3
	}
	if !(a.To > a.From) {
		a.From, a.To = a.From/2, a.From*2
	}
	a.Ticks = a.among(marks, text)
	if len(a.Ticks) < 2 {
		a.Ticks = a.among([]float64{a.From, a.To}, text)
	}
	return a
}

func (a Axis) among(marks []float64, text func(float64) string) (out []Tick) {
	last := -spread
	for _, m := range marks {
		if at := a.at(m); m >= a.From && m <= a.To && at-last >= spread {
			last = at
			out = append(out, Tick{m, text(m)})
		}
	}
	return out
}

// Heights in a chart, in pixels.
const (
	chartTop  = 10 // above the plot: half a line of text
	chartFoot = 24 // below it: the texts of the axis
)

// anchor keeps a text at the edge inside.
func anchor(at float64) string {
	switch {
	case at < .08:
		return "start"
	case at > .92:
		return "end"
	}
	return "middle"
}

// drawX writes the ticks of the lower axis of a plot of a height.
func (a Axis) drawX(b *strings.Builder, top, height int) {
	for _, t := range a.Ticks {
		x := 100 * a.at(t.At)
		fmt.Fprintf(b, `<line class="grid" x1="%.2f%%" x2="%.2f%%" y1="%d" y2="%d"/><text x="%.2f%%" y="%d" text-anchor="%s">%s</text>`,
			x, x, top, top+height+4, x, top+height+18, anchor(x/100), label(t.Text))
	}
}

// drawY writes the ticks of the left axis.
func (a Axis) drawY(b *strings.Builder, top, height int) {
	for _, t := range a.Ticks {
		y := float64(top) + float64(height)*(1-a.at(t.At))
		fmt.Fprintf(b, `<line class="grid" x1="0" x2="100%%" y1="%.1f" y2="%.1f"/><text x="-8" y="%.1f" text-anchor="end">%s</text>`,
			y, y, y+4, label(t.Text))
	}
}
