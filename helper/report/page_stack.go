package report

import (
	"fmt"
	"strings"
)

// Step is a value over a part of an axis, drawn between two heights.
type Step struct{ From, To, Low, High float64 }

// Layer is one part of a stack.
type Layer struct {
	Name  string
	Kind  int // its colour; below 0: that of what belongs to nobody
	Steps []Step
}

// Stack is a picture of parts that lie on each other, over time.
type Stack struct {
	Title   string
	X, Y    Axis
	Layers  []Layer
	Most    []Step // the highest value that was seen: its High is drawn as a line
	Unknown []Step // where nothing is known
}

const stackHeight = 84

func (s Stack) draw(b *strings.Builder) { s.picture().figure(b) }

func (s Stack) picture() picture {
	b := &strings.Builder{}
	s.Y.drawY(b, chartTop, stackHeight)
	s.X.drawX(b, chartTop, stackHeight)
	openPlot(b, chartTop, stackHeight)
	if d := s.boxes(s.Unknown); d != "" {
		fmt.Fprintf(b, `<path class="unknown" d="%s"><title>not known</title></path>`, d)
	}
	for _, l := range s.Layers {
		class := "rest"
		if l.Kind >= 0 {
			class = fmt.Sprintf("k%d", l.Kind%colours)
		}
		fmt.Fprintf(b, `<path class="%s layer" d="%s"><title>%s</title></path>`, class, s.boxes(l.Steps), label(l.Name))
	}
	if len(s.Most) > 0 {
		fmt.Fprintf(b, `<path class="most" d="%s"/>`, s.line(s.Most))
	}
	b.WriteString("</svg>")
	return picture{title: s.Title, class: "chart rows shares", height: stackHeight + chartTop + chartFoot, body: b.String()}
}

func (s Stack) x(v float64) int { return int(plotUnits*s.X.at(v) + .5) }
func (s Stack) y(v float64) int { return int(plotUnits*(1-s.Y.at(v)) + .5) }

// boxes draws steps, equal neighbours as one.
func (s Stack) boxes(steps []Step) string {
	var d strings.Builder
	for i := 0; i < len(steps); {
		a, k := steps[i], i+1
		for k < len(steps) && steps[k].From == steps[k-1].To && s.y(steps[k].Low) == s.y(a.Low) && s.y(steps[k].High) == s.y(a.High) {
			k++
		}
		x, to := s.x(a.From), s.x(steps[k-1].To)
		if top, low := s.y(a.High), s.y(a.Low); low > top && to > x {
			fmt.Fprintf(&d, "M%d %dH%dV%dH%dz", x, low, to, top, x)
		}
		i = k
	}
	return d.String()
}

// line draws the upper edge of steps; where some are missing it is broken.
func (s Stack) line(steps []Step) string {
	var d strings.Builder
	for i, t := range steps {
		if i == 0 || t.From != steps[i-1].To {
			fmt.Fprintf(&d, "M%d %d", s.x(t.From), s.y(t.High))
		} else if s.y(t.High) != s.y(steps[i-1].High) {
			fmt.Fprintf(&d, "V%d", s.y(t.High))
		}
		fmt.Fprintf(&d, "H%d", s.x(t.To))
	}
	return d.String()
}
