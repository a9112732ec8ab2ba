package report

import (
	"fmt"
	"io"
	"strings"
)

// picture is a chart before it is put on a page or alone into a file.
type picture struct {
	title, class string
	height       int    // in pixels
	body         string // what is inside its svg
	keys         []keyItem
}

// keyItem tells what a colour or a line means.
type keyItem struct {
	class string
	sign  string // svg of 26 by 12 pixels
	text  string
}

// figure puts a picture on a page, where it is as wide as its place.
func (p picture) figure(b *strings.Builder) {
	fmt.Fprintf(b, `<figure><figcaption>%s</figcaption><svg class="%s" height="%d" role="img" aria-label="%s">%s</svg>`,
		label(p.title), p.class, p.height, label(p.title), p.body)
	writeKeys(b, p.keys)
	b.WriteString("</figure>\n")
}

func writeKeys(b *strings.Builder, keys []keyItem) {
	if len(keys) == 0 {
		return
	}
	b.WriteString(`<div class="key">`)
	for _, k := range keys {
		fmt.Fprintf(b, `<span><svg class="%s" aria-hidden="true">%s</svg>%s</span>`, k.class, k.sign, label(k.text))
	}
	b.WriteString("</div>")
}

// Key is a row of what colours and lines mean, for the drawings around it.
type Key struct{ items []keyItem }

func (k Key) draw(b *strings.Builder) {
	writeKeys(b, k.items)
	b.WriteByte('\n')
}

// Sizes of a file with pictures, in pixels.
const (
	svgWidth = 960
	svgLeft  = 112
	svgRight = 54
	svgLine  = 20
)

// WritePictures writes the pictures of a page, one below the other, as one SVG;
// tables and what is said in words are left out.
func WritePictures(w io.Writer, p Page) error {
	var b strings.Builder
	y := 24
	fmt.Fprintf(&b, `<text class="head" x="8" y="%d">%s</text>`, y, label(p.Title))
	for _, part := range p.Parts {
		for _, d := range part.Body {
			switch d := d.(type) {
			case Key:
				y = svgKeys(&b, d.items, y)
			case interface{ picture() picture }:
				pic := d.picture()
				pic.title = part.Title + ": " + pic.title
				y = pic.alone(&b, y)
			}
		}
	}
	const head = `.head{font-weight:600;fill:var(--ink)}`
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img"><title>%s</title><style>%s%s%s</style><rect width="100%%" height="100%%" style="fill:var(--paper)"/>%s</svg>`+"\n",
		svgWidth, y+16, svgWidth, y+16, label(p.Title), palette, chartStyle, head, b.String())
	return err
}

// alone puts a picture below what ends at y; it returns where it ends.
func (p picture) alone(b *strings.Builder, y int) int {
	y += svgLine + 6
	fmt.Fprintf(b, "<text class=\"head\" x=\"8\" y=\"%d\">%s</text>\n", y, label(p.title))
	y += 8
	fmt.Fprintf(b, `<svg x="%d" y="%d" width="%d" height="%d" overflow="visible">%s</svg>`,
		svgLeft, y, svgWidth-svgLeft-svgRight, p.height, p.body)
	return svgKeys(b, p.keys, y+p.height)
}

func svgKeys(b *strings.Builder, keys []keyItem, y int) int {
	x := svgLeft
	if len(keys) > 0 {
		y += svgLine
	}
	for _, k := range keys {
		text := Printable(k.text)
		wide := 48 + 7*Width(text)
		if x+wide > svgWidth && x > svgLeft {
			x, y = svgLeft, y+svgLine
		}
		fmt.Fprintf(b, `<svg class="%s" x="%d" y="%d" width="26" height="12">%s</svg><text x="%d" y="%d">%s</text>`, k.class, x, y-10, k.sign, x+32, y, escapeXML(text))
		x += wide
	}
	return y
}
