package report

import (
	"fmt"
	"html"
	"io"
	"strings"
	"time"
)

// Tracks is a picture of one GPU: a row for each track, or for tracks that were
// never there at the same time. Each track has its colour; what it did is told
// by the shape, so that it reads without colour.
type Tracks struct {
	Title  string
	X      Axis // seconds from the timeline's start
	Length time.Duration
	Lane   Lane
	Cells  int // into how many stretches a row is cut at most; 0: most
}

const (
	// mostCells is what could still be seen.
	mostCells = 1000
	// ownRows is up to how many tracks have a row each.
	ownRows = 16
)

func (r Tracks) draw(b *strings.Builder) { r.picture().figure(b) }

func (r Tracks) picture() picture {
	b := &strings.Builder{}
	rows, names := r.Lane.rows(), []string{}
	for _, row := range rows {
		name := ""
		if len(row) == 1 {
			name = trackLabel(row[0])
		}
		names = append(names, name)
	}
	openRows(b, r.X, names)
	for i, row := range rows {
		for _, t := range row {
			r.track(b, t, float64(plotUnits)*float64(i)/float64(len(rows)), float64(plotUnits)/float64(len(rows)))
		}
	}
	b.WriteString("</svg>")
	r.shares(b, rows)
	p := rowsPicture(r.Title, len(rows))
	p.class, p.body = "chart rows shares", b.String()
	return p
}

// rows puts tracks that were never there at once into one row, where there are
// too many for a row each.
func (l Lane) rows() [][]Track {
	var rows [][]Track
	for _, t := range l.Tracks {
		place := len(rows)
		if len(l.Tracks) > ownRows {
			place = freeRow(rows, t.begin())
		}
		if place == len(rows) {
			rows = append(rows, nil)
		}
		rows[place] = append(rows[place], t)
	}
	return rows
}

// freeRow is the first row in which all has ended by a time.
func freeRow(rows [][]Track, at time.Duration) int {
	for i, row := range rows {
		if row[len(row)-1].end() <= at {
			return i
		}
	}
	return len(rows)
}

func (t Track) end() time.Duration {
	if n := len(t.Stretches); n > 0 {
		return t.Stretches[n-1].To
	}
	return 0
}

// shares writes behind each row how much of the time its track computed.
func (r Tracks) shares(b *strings.Builder, rows [][]Track) {
	height := rowHeight(len(rows))
	if len(r.Lane.Tracks) > len(rows) || height < nameLine {
		return
	}
	for i, row := range rows {
		fmt.Fprintf(b, `<text x="100%%" dx="8" y="%.1f">%.0f %%</text>`, float64(chartTop+i*height)+float64(height)/2+4, 100*share(row[0].Total(Computing), r.Length))
	}
}

// shape is how an activity is drawn: the part of a row's height that it takes,
// from above, and its style.
type shape struct {
	top, low float64
	class    string
}

func (a Activity) shape() shape {
	return [numActivities]shape{
		Absent:    {},
		Waiting:   {.1, .9, "idle"},
		Paused:    {.82, 1, "thin"},
		Swapped:   {0, .18, "thin"},
		Suspended: {0, 1, "pale"},
		Computing: {0, 1, "run"},
	}[a]
}

// track draws a track into the row that begins at y.
func (r Tracks) track(b *strings.Builder, t Track, y, height float64) {
	n := min(r.Cells, mostCells)
	if n <= 0 {
		n = mostCells
	}
	fmt.Fprintf(b, `<g class="k%d"><title>%s</title>`, t.Kind%colours, label(trackLabel(t)))
	for a, d := range trackPaths(t.bins(r.Length, n), y+rowGap*height, (1-2*rowGap)*height) {
		if d != "" {
			fmt.Fprintf(b, `<path class="%s" d="%s"/>`, Activity(a).shape().class, d)
		}
	}
	b.WriteString("</g>")
}

// trackPaths draws cells as one path for each activity. How high one is in
// which the track computed tells for how much of the time.
func trackPaths(cells []cell, y, height float64) (out [numActivities]string) {
	var paths [numActivities]strings.Builder
	width := float64(plotUnits) / float64(len(cells))
	for i := 0; i < len(cells); {
		k := i
		for k < len(cells) && cells[k] == cells[i] {
			k++
		}
		if c := cells[i]; c.what != Absent {
			s := c.what.shape()
			if c.what == Computing {
				s.top = 1 - float64(c.level)/8
			}
			fmt.Fprintf(&paths[c.what], "M%.4g %.4gH%.4gv%.3gH%.4gz", width*float64(i), y+height*s.top, width*float64(k), height*(s.low-s.top), width*float64(i))
		}
		i = k
	}
	for a := range paths {
		out[a] = paths[a].String()
	}
	return out
}

// shapesKey tells what the shapes mean.
func shapesKey() Key {
	var k Key
	for _, a := range Activities() {
		s := a.shape()
		sign := fmt.Sprintf(`<path class="%s" d="M1 %.3gh24v%.3gh-24z"/>`, s.class, 12*s.top, 12*(s.low-s.top))
		k.items = append(k.items, keyItem{"rest", sign, a.String()})
	}
	return k
}

// cellsInAll bounds what the rows of a page hold.
const cellsInAll = 24_000

// Drawings makes the pictures of a timeline, one for each GPU.
func (t Timeline) Drawings() []Drawing {
	tracks := 0
	for _, l := range t.Lanes {
		tracks += len(l.Tracks)
	}
	out := []Drawing{shapesKey()}
	for _, l := range t.Lanes {
		out = append(out, Tracks{Title: l.Name, X: t.Axis(), Length: t.Length, Lane: l, Cells: max(cellsInAll/max(tracks, 1), 120)})
	}
	return out
}

func titleOf(t Timeline) string {
	if t.Title == "" {
		return "Who computed when"
	}
	return t.Title
}

func escapeXML(s string) string { return html.EscapeString(s) }

func (t Timeline) page() Page {
	p := Page{Title: titleOf(t), Parts: []Part{{Title: "Who computed when", Text: "On the right: the share of the time in which it could compute.", Body: t.Drawings()}}}
	if len(t.Lanes) == 0 {
		p.Intro = "Nothing ran in this time."
	}
	return p
}

// WriteSVG draws a timeline as a picture of its own.
func WriteSVG(w io.Writer, t Timeline) error { return WritePictures(w, t.page()) }

// WriteHTML draws a timeline as a page that needs nothing else.
func WriteHTML(w io.Writer, t Timeline) error { return WritePage(w, t.page()) }
