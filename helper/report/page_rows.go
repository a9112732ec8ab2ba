package report

import (
	"fmt"
	"strings"
)

// Bar is a length of something in a row of [Bars].
type Bar struct {
	From, To float64
	Row      int     // counts from 0
	Top, Low float64 // the part of the row's height that it takes, 0 to 1 from above
	Kind     int     // bars of the same kind have the same colour
	Text     string  // shown where a pointer rests on it
}

// Bars is a picture of who was where when, one bar for each.
type Bars struct {
	Title string
	X     Axis
	Rows  []string // names, "" for none
	Bars  []Bar
}

// Shades is a picture of how much there was where when: a row for each place,
// cut into stretches of equal length.
type Shades struct {
	Title string
	X     Axis
	Rows  []string
	// Cells is, by row and stretch, how much there was: up to 1 in four shades,
	// and above 1.
	Cells [][]float64
	// Above says what it means that a cell is above 1.
	Above string
}

// Heights of rows in pixels: they shrink where there are many.
const (
	rowMost     = 22
	rowLeast    = 8
	rowsAll     = 420 // what all rows together aim at
	nameLetters = 12  // of a row's name: more would not fit before it on a phone
	nameLine    = 14  // the height of a name: rows whose names would meet go without
)

func rowHeight(rows int) int {
	return min(max(rowsAll/max(rows, 1), rowLeast), rowMost)
}

// drawNames writes the names of rows, leaving out those that would meet.
func drawNames(b *strings.Builder, rows []string, height int) {
	every := (nameLine + height - 1) / height
	for i, name := range rows {
		if i%every == 0 && name != "" {
			fmt.Fprintf(b, `<text x="-8" y="%.1f" text-anchor="end">%s</text>`, float64(chartTop+i*height)+float64(height)/2+4, escapeXML(strings.TrimRight(fit(Printable(name), nameLetters, true), " ")))
		}
	}
}

// rowsPicture makes a picture of rows; openRows begins what it shows.
func rowsPicture(title string, rows int) picture {
	return picture{title: title, class: "chart rows", height: rowHeight(rows)*rows + chartTop + chartFoot}
}

func openRows(b *strings.Builder, x Axis, rows []string) {
	height := rowHeight(len(rows))
	all := height * len(rows)
	x.drawX(b, chartTop, all)
	drawNames(b, rows, height)
	openPlot(b, chartTop, all)
}

func (r Bars) draw(b *strings.Builder) { r.picture().figure(b) }

// rowGap is the part of a row between its bars and the next row.
const rowGap = .06

func (r Bars) picture() picture {
	b := &strings.Builder{}
	openRows(b, r.X, r.Rows)
	unit := float64(plotUnits) / float64(max(len(r.Rows), 1))
	for _, bar := range r.Bars {
		x, to := plotUnits*r.X.at(bar.From), plotUnits*r.X.at(bar.To)
		y := unit * (float64(bar.Row) + rowGap + (1-2*rowGap)*bar.Top)
		h := unit * (1 - 2*rowGap) * (bar.Low - bar.Top)
		fmt.Fprintf(b, `<path class="k%d" d="M%.1f %.1fH%.1fv%.1fH%.1fz"><title>%s</title></path>`, bar.Kind%colours, x, y, max(to, x+.5), h, x, label(bar.Text))
	}
	b.WriteString("</svg>")
	p := rowsPicture(r.Title, len(r.Rows))
	p.body = b.String()
	return p
}

const shades = 5 // h0 to h4

// shade is the class of a cell, or -1 for an empty one.
func shade(v float64) int {
	const rounding = 1e-6
	if v <= rounding {
		return -1
	}
	for i := range shades - 1 {
		if v <= .25*float64(i+1)+rounding {
			return i
		}
	}
	return shades - 1
}

func (s Shades) draw(b *strings.Builder) { s.picture().figure(b) }

func (s Shades) picture() picture {
	b := &strings.Builder{}
	openRows(b, s.X, s.Rows)
	for i, d := range s.paths() {
		if d != "" {
			fmt.Fprintf(b, `<path class="h%d" d="%s"/>`, i, d)
		}
	}
	b.WriteString("</svg>")
	p := rowsPicture(s.Title, len(s.Rows))
	p.body = b.String()
	for i, text := range [shades]string{"up to 25 %", "50 %", "75 %", "100 %", s.Above} {
		if text != "" {
			p.keys = append(p.keys, keyItem{"", fmt.Sprintf(`<rect class="h%d" width="26" height="12"/>`, i), text})
		}
	}
	return p
}

// paths draws all cells of a shade as one path, equal neighbours as one.
func (s Shades) paths() (out [shades]string) {
	var paths [shades]strings.Builder
	unit := float64(plotUnits) / float64(max(len(s.Rows), 1))
	for row, cells := range s.Cells {
		for i := 0; i < len(cells); {
			k := i
			for k < len(cells) && shade(cells[k]) == shade(cells[i]) {
				k++
			}
			if c := shade(cells[i]); c >= 0 {
				width := float64(plotUnits) / float64(len(cells))
				fmt.Fprintf(&paths[c], "M%.0f %.1fH%.0fv%.1fH%.0fz", width*float64(i), unit*(float64(row)+.05), width*float64(k), unit*.9, width*float64(i))
			}
			i = k
		}
	}
	for i := range paths {
		out[i] = paths[i].String()
	}
	return out
}
