package report

import (
	"fmt"
	"strings"
)

// Point is a place in a chart.
type Point struct{ X, Y float64 }

// Series is a line of a chart.
type Series struct {
	Name   string
	Points []Point
}

// Lines is a chart of lines over one pair of axes.
type Lines struct {
	Title  string
	X, Y   Axis
	Mark   float64 // a value of X to mark, 0 for none
	Series []Series
}

const (
	linesHeight = 240
	areaHeight  = 72
	colours     = 8 // k0 to k7
)

// dash tells lines of one colour apart, and all of them in print.
func dash(i int) string {
	return [...]string{"", "6 3", "2 2", "9 3 2 3", "4 2", "12 3", "1 3"}[(i+i/colours)%7]
}

func (l Lines) draw(b *strings.Builder) { l.picture().figure(b) }

func (l Lines) picture() picture {
	b := &strings.Builder{}
	l.Y.drawY(b, chartTop, linesHeight)
	l.X.drawX(b, chartTop, linesHeight)
	if l.Mark != 0 {
		x := 100 * l.X.at(l.Mark)
		fmt.Fprintf(b, `<line class="mark" x1="%.2f%%" x2="%.2f%%" y1="%d" y2="%d"/>`, x, x, chartTop, chartTop+linesHeight)
	}
	openPlot(b, chartTop, linesHeight)
	p := picture{title: l.Title, class: "chart", height: linesHeight + chartTop + chartFoot}
	for i, s := range l.Series {
		fmt.Fprintf(b, `<path class="curve k%d" stroke-dasharray="%s" d="%s"><title>%s</title></path>`, i%colours, dash(i), l.path(s.Points), label(s.Name))
		p.keys = append(p.keys, keyItem{fmt.Sprintf("k%d", i%colours), fmt.Sprintf(`<path class="curve" stroke-dasharray="%s" d="M0 6h26"/>`, dash(i)), s.Name})
	}
	b.WriteString("</svg>")
	p.body = b.String()
	return p
}

// plotUnits is the width and height of a plot that is stretched to its place.
const plotUnits = 1000

func (l Lines) path(points []Point) string {
	var d strings.Builder
	for i, p := range points {
		c := 'L'
		if i == 0 {
			c = 'M'
		}
		fmt.Fprintf(&d, "%c%.0f %.0f", c, plotUnits*l.X.at(p.X), plotUnits*(1-l.Y.at(p.Y)))
	}
	return d.String()
}

// openPlot begins the part of a picture that is stretched to its place.
func openPlot(b *strings.Builder, top, height int) {
	fmt.Fprintf(b, `<svg x="0" y="%d" width="100%%" height="%d" viewBox="0 0 %d %d" preserveAspectRatio="none">`, top, height, plotUnits, plotUnits)
}

// Area is a share over time: the mean of each of a number of equal stretches.
type Area struct {
	Title  string
	X      Axis
	Values []float64 // 0 to 1
}

func (a Area) draw(b *strings.Builder) { a.picture().figure(b) }

func (a Area) picture() picture {
	b := &strings.Builder{}
	halves().drawY(b, chartTop, areaHeight)
	a.X.drawX(b, chartTop, areaHeight)
	openPlot(b, chartTop, areaHeight)
	fmt.Fprintf(b, `<path class="area" d="%s"/></svg>`, a.path())
	return picture{title: a.Title, class: "chart", height: areaHeight + chartTop + chartFoot, body: b.String()}
}

// halves is an axis of shares for a low picture.
func halves() Axis { return Axis{To: 1, Ticks: []Tick{{0, "0 %"}, {.5, "50 %"}, {1, "100 %"}}} }

// path is the outline in steps.
func (a Area) path() string {
	var d strings.Builder
	fmt.Fprintf(&d, "M0 %d", plotUnits)
	for i, v := range a.Values {
		fmt.Fprintf(&d, "V%.0fH%.0f", plotUnits*(1-min(max(v, 0), 1)), plotUnits*float64(i+1)/float64(len(a.Values)))
	}
	fmt.Fprintf(&d, "V%dz", plotUnits)
	return d.String()
}
