package report

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Page is an offline page: a heading, a few words, and parts one below the
// other. It holds no script and fetches nothing.
type Page struct {
	Title string
	Intro string
	Notes []string // said below the introduction, such as what was assumed
	Parts []Part
}

// Part is a drawing with a heading and a few words on how to read it.
type Part struct {
	Title string
	Text  string
	Body  []Drawing
}

// Drawing is what a part of a page can show: [Table], [Key], [Lines], [Area],
// [Bars], [Shades], [Tracks] or [Stack].
type Drawing interface{ draw(b *strings.Builder) }

// WritePage writes a page that needs nothing else.
func WritePage(w io.Writer, p Page) error {
	var b strings.Builder
	title := label(p.Title)
	fmt.Fprintf(&b, `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1"><link rel="icon" href="data:,"><title>%s</title><style>%s%s</style></head><body>
<h1>%s</h1>
`, title, palette+chartStyle, pageStyle, title)
	if p.Intro != "" {
		fmt.Fprintf(&b, "<p>%s</p>\n", label(p.Intro))
	}
	if len(p.Notes) > 0 {
		b.WriteString("<ul>")
		for _, n := range p.Notes {
			fmt.Fprintf(&b, "<li>%s</li>", label(n))
		}
		b.WriteString("</ul>\n")
	}
	for _, part := range p.Parts {
		part.draw(&b)
	}
	b.WriteString("</body></html>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func (p Part) draw(b *strings.Builder) {
	fmt.Fprintf(b, "<section><h2>%s</h2>\n", label(p.Title))
	if p.Text != "" {
		fmt.Fprintf(b, `<p class="soft">%s</p>`+"\n", label(p.Text))
	}
	for _, d := range p.Body {
		d.draw(b)
	}
	b.WriteString("</section>\n")
}

// longWord is from how many letters on a word may be broken; numbers and plain words
// stay whole, or columns of them would be squeezed to a few letters.
const longWord = 16

// manyColumns is from how many columns on a table has no room for whole words on
// every screen.
const manyColumns = 9

// wrap is the class of a cell in which words may be broken.
func wrap(s string) string {
	for _, word := range strings.Fields(s) {
		if utf8.RuneCountInString(word) > longWord {
			return ` class="long"`
		}
	}
	return ""
}

// label is a text as it may stand in a page.
func label(s string) string { return escapeXML(Printable(s)) }

// Table is a table whose first column names the rows. On a narrow screen each
// row becomes a block of its own.
type Table struct {
	Columns []string
	Rows    [][]string
}

func (t Table) draw(b *strings.Builder) {
	if len(t.Columns) > manyColumns {
		b.WriteString(`<table class="many"><thead><tr>`)
	} else {
		b.WriteString("<table><thead><tr>")
	}
	for _, c := range t.Columns {
		fmt.Fprintf(b, `<th scope="col">%s</th>`, label(c))
	}
	b.WriteString("</tr></thead><tbody>\n")
	for _, row := range t.Rows {
		b.WriteString("<tr>")
		for i, v := range row[:min(len(row), len(t.Columns))] {
			fmt.Fprintf(b, `<td data-name="%s"%s>%s</td>`, label(t.Columns[i]), wrap(v), label(v))
		}
		b.WriteString("</tr>\n")
	}
	b.WriteString("</tbody></table>\n")
}
