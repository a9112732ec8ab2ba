package report

import (
	"fmt"
	"html"
	"io"
	"strings"
	"time"
)

// Sizes of the picture, in pixels.
const (
	svgWidth  = 960
	svgLabel  = 190
	svgShare  = 52
	svgRow    = 22
	svgBar    = 14
	svgTop    = 34
	svgLegend = 30
)

// svgStyle draws with colours that are told apart by people who do not see red
// and green alike, in dark and in light and in print.
const svgStyle = `<style>
.gimbal{font:12px system-ui,sans-serif;--ink:#1a1a1a;--soft:#777;--line:#ddd;--a5:#0072b2;--a1:#e69f00;--a2:#bbb;--a3:#cc79a7;--a4:#d55e00}
@media (prefers-color-scheme:dark){.gimbal{--ink:#eee;--soft:#999;--line:#444;--a5:#56b4e9;--a2:#666}}
@media print{.gimbal{--ink:#000;--soft:#555;--line:#ccc;--a5:#0072b2;--a2:#bbb}}
.gimbal text{fill:var(--ink)}.gimbal .soft{fill:var(--soft)}.gimbal .lane{font-weight:600}
.gimbal line{stroke:var(--line)}.a1{fill:var(--a1)}.a2{fill:var(--a2)}.a3{fill:var(--a3)}.a4{fill:var(--a4)}.a5{fill:var(--a5)}
</style>`

// svgCells is into how many stretches of equal length a track is cut at most:
// more could not be seen, and the size of the page stays bounded.
const svgCells = 1000

// WriteSVG draws a timeline as a picture of its own.
func WriteSVG(w io.Writer, t Timeline) error {
	var b strings.Builder
	drawSVG(&b, t)
	_, err := io.WriteString(w, b.String())
	return err
}

func drawSVG(b *strings.Builder, t Timeline) {
	height := svgTop + svgLegend
	for _, l := range t.Lanes {
		height += svgRow * (1 + len(l.Tracks))
	}
	fmt.Fprintf(b, `<svg class="gimbal" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img">`, svgWidth, height)
	fmt.Fprintf(b, "<title>%s</title>%s\n", escapeXML(titleOf(t)), svgStyle)
	y := svgAxis(b, t, height-svgLegend)
	for _, l := range t.Lanes {
		fmt.Fprintf(b, `<text class="lane" x="4" y="%d">%s</text>`+"\n", y+svgBar, escapeXML(Printable(l.Name)))
		y += svgRow
		for _, tr := range l.Tracks {
			svgTrack(b, t, tr, y)
			y += svgRow
		}
	}
	svgLegendRow(b, y+8)
	b.WriteString("</svg>\n")
}

func titleOf(t Timeline) string {
	if t.Title == "" {
		return "Who computed when"
	}
	return Printable(t.Title)
}

func escapeXML(s string) string { return html.EscapeString(s) }

const svgPlot = svgWidth - svgLabel - svgShare

func svgX(t Timeline, d time.Duration) float64 {
	return svgLabel + svgPlot*share(d, t.Length)
}

// svgAxis writes the title and five times with their lines.
func svgAxis(b *strings.Builder, t Timeline, bottom int) (y int) {
	fmt.Fprintf(b, `<text class="lane" x="4" y="14">%s</text>`+"\n", escapeXML(fit(titleOf(t), 26, true)))
	const parts = 4
	for i := range parts + 1 {
		d := t.Length * time.Duration(i) / parts
		anchor := [parts + 1]string{"start", "middle", "middle", "middle", "end"}[i]
		x := svgX(t, d)
		fmt.Fprintf(b, `<line x1="%.1f" x2="%.1f" y1="20" y2="%d"/><text class="soft" x="%.1f" y="14" text-anchor="%s">%s</text>`+"\n",
			x, x, bottom, x, anchor, escapeXML(mark(t, d)))
	}
	return svgTop - svgBar/2
}

func svgTrack(b *strings.Builder, t Timeline, tr Track, y int) {
	label := trackLabel(tr)
	fmt.Fprintf(b, `<g><title>%s</title><text x="16" y="%d">%s</text>`, escapeXML(label), y+svgBar-2, escapeXML(strings.TrimRight(fit(label, 25, true), " ")))
	for a, d := range svgPaths(tr.bins(t.Length, svgCells), y) {
		if d != "" {
			fmt.Fprintf(b, `<path class="a%d" d="%s"/>`, a, d)
		}
	}
	fmt.Fprintf(b, `<text class="soft" x="%d" y="%d" text-anchor="end">%.0f%%</text></g>`+"\n", svgWidth-4, y+svgBar-2, 100*share(tr.Total(Computing), t.Length))
}

// svgPaths draws the cells as one path for each activity. The height of a cell
// is the share of its time in which it computed; what is beside computing fills
// the whole height.
func svgPaths(cells []cell, y int) [numActivities]string {
	var paths [numActivities]strings.Builder
	const width = float64(svgPlot) / svgCells
	for i := 0; i < len(cells); {
		k := i
		for k < len(cells) && cells[k] == cells[i] {
			k++
		}
		if c := cells[i]; c.what != Absent {
			h := float64(svgBar)
			if c.what == Computing {
				h = h * float64(c.level) / 8
			}
			w := width * float64(k-i)
			fmt.Fprintf(&paths[c.what], "M%.1f %gh%.1fv%gh-%.1fz", svgLabel+width*float64(i), float64(y+svgBar)-h, w, h, w)
		}
		i = k
	}
	var out [numActivities]string
	for a := range paths {
		out[a] = paths[a].String()
	}
	return out
}

func svgLegendRow(b *strings.Builder, y int) {
	x := svgLabel
	for _, a := range Activities() {
		fmt.Fprintf(b, `<rect class="a%d" x="%d" y="%d" width="12" height="12"/><text x="%d" y="%d">%s</text>`, a, x, y, x+17, y+10, a)
		x += 110
	}
	b.WriteString("\n")
}

// WriteHTML draws a timeline as a page that needs nothing else. On a narrow
// screen the picture can be moved sideways.
func WriteHTML(w io.Writer, t Timeline) error {
	var b strings.Builder
	fmt.Fprintf(&b, `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1"><title>%s</title>
<style>:root{color-scheme:light dark}body{margin:1rem auto;max-width:75rem;padding:0 1rem;font:16px system-ui,sans-serif}.plot{overflow-x:auto}.plot svg{min-width:640px;width:100%%;height:auto}</style></head><body>
<h1>%s</h1><div class="plot">
`, escapeXML(titleOf(t)), escapeXML(titleOf(t)))
	drawSVG(&b, t)
	b.WriteString("</div></body></html>\n")
	_, err := io.WriteString(w, b.String())
	return err
}
