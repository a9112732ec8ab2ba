package report

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"sync"
)

// Column is a field as asked for.
type Column struct {
	Field
	fixed bool // the width was asked for
}

// ParseFormat reads a list of columns as sacct's -o takes it: names in any
// case, or as much of one as is unambiguous, each with %WIDTH or %-WIDTH; ALL
// stands for all. The error names the valid ones.
func ParseFormat(s string) ([]Column, error) {
	all := Fields()
	var cols []Column
	for _, item := range strings.Split(s, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		name, width, wide := strings.Cut(item, "%")
		if strings.EqualFold(name, "all") {
			for _, f := range all {
				cols = append(cols, Column{Field: f})
			}
			continue
		}
		f, err := findField(all, name)
		if err != nil {
			return nil, err
		}
		c := Column{Field: f, fixed: wide}
		if wide {
			if err := c.resize(width); err != nil {
				return nil, err
			}
		}
		cols = append(cols, c)
	}
	if len(cols) == 0 {
		return nil, fmt.Errorf("the format %q names no field", s)
	}
	return cols, nil
}

// findField finds a field by its name, else the first whose name begins so, as sacct
// does.
func findField(all []Field, name string) (Field, error) {
	var names []string
	first := -1
	for i, f := range all {
		if strings.EqualFold(f.Name, name) {
			return f, nil
		}
		if first < 0 && len(name) < len(f.Name) && strings.EqualFold(f.Name[:len(name)], name) {
			first = i
		}
		names = append(names, f.Name)
	}
	if first < 0 {
		return Field{}, fmt.Errorf("no field is called %q; valid ones: %s", name, strings.Join(names, ", "))
	}
	return all[first], nil
}

// maxWidth bounds what a format may ask for.
const maxWidth = 10_000

func (c *Column) resize(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n == 0 || n > maxWidth || n < -maxWidth {
		return fmt.Errorf("width of %s: %%%s is not a number of columns from 1 to %d", c.Name, s, maxWidth)
	}
	c.Left, c.Width = n < 0, max(n, -n)
	return nil
}

// Layout says in what form a table is written.
type Layout struct {
	NoHeader  bool
	Parsable  bool   // fields separated by Delimiter, nothing padded or cut
	Trailing  bool   // with another delimiter behind the last field
	Delimiter string // "" is "|"
}

// Write writes the rows as a table.
func Write(w io.Writer, cols []Column, rows []Row, l Layout) error {
	if l.Parsable {
		return writeParsable(w, cols, rows, l)
	}
	parts := make([]tablePart, partsOf(len(rows)))
	eachPart(parts, func(i int, p *tablePart) {
		p.fill(cols, rows[i*len(rows)/len(parts):(i+1)*len(rows)/len(parts)])
	})
	widths := make([]int, len(cols))
	for k, c := range cols {
		widths[k] = c.Width
		for _, p := range parts {
			widths[k] = max(widths[k], p.widths[k])
		}
	}
	eachPart(parts, func(_ int, p *tablePart) { p.write(cols, widths) })
	var b strings.Builder
	if !l.NoHeader {
		writeHeader(&b, cols, widths)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	for i := range parts {
		if _, err := io.WriteString(w, parts[i].text.String()); err != nil {
			return err
		}
	}
	return nil
}

// tablePart is some rows of a table. Many rows are written by several
// processors at once.
type tablePart struct {
	cells  []string
	widths []int // of the columns whose values are never cut
	text   strings.Builder
}

// partsOf is into how many parts a number of rows is worth being cut.
func partsOf(rows int) int {
	const worth = 1000
	return max(min(runtime.GOMAXPROCS(0), rows/worth, 8), 1)
}

func eachPart(parts []tablePart, f func(i int, p *tablePart)) {
	var wg sync.WaitGroup
	for i := range parts[1:] {
		wg.Go(func() { f(i+1, &parts[i+1]) })
	}
	f(0, &parts[0])
	wg.Wait()
}

func (p *tablePart) fill(cols []Column, rows []Row) {
	p.cells = make([]string, 0, len(rows)*len(cols))
	p.widths = make([]int, len(cols))
	for i := range rows {
		for k := range cols {
			cell := Printable(cols[k].Value(&rows[i]))
			if cols[k].Whole {
				p.widths[k] = max(p.widths[k], Width(cell))
			}
			p.cells = append(p.cells, cell)
		}
	}
}

func (p *tablePart) write(cols []Column, widths []int) {
	line := 1
	for _, w := range widths {
		line += w + 1
	}
	p.text.Grow(line * len(p.cells) / max(len(cols), 1))
	for i, cell := range p.cells {
		k := i % len(cols)
		writeFit(&p.text, cell, widths[k], cols[k].Left)
		p.text.WriteByte(' ')
		if k == len(cols)-1 {
			p.text.WriteByte('\n')
		}
	}
	p.cells = nil
}

func writeHeader(b *strings.Builder, cols []Column, widths []int) {
	for k, c := range cols {
		name := c.Name
		if len(name) > widths[k] {
			name = name[:widths[k]]
		}
		b.WriteString(fit(name, widths[k], c.Left))
		b.WriteByte(' ')
	}
	b.WriteByte('\n')
	for k := range cols {
		b.WriteString(strings.Repeat("-", widths[k]))
		b.WriteByte(' ')
	}
	b.WriteByte('\n')
}

// errDelimiter says that a delimiter could not be told from an escape.
var errDelimiter = errors.New(`a delimiter needs a character other than a backslash, a digit and the letters a to f, n, t, u, U and x`)

// CheckDelimiter tells whether a delimiter can be used.
func CheckDelimiter(d string) error {
	if _, ok := distinct(d); d != "" && !ok {
		return errDelimiter
	}
	return nil
}

// distinct finds a character of the delimiter that no escape contains.
func distinct(d string) (rune, bool) {
	for _, r := range d {
		if !strings.ContainsRune(`\0123456789abcdefntuUx`, r) {
			return r, true
		}
	}
	return 0, false
}

func writeParsable(w io.Writer, cols []Column, rows []Row, l Layout) error {
	if l.Delimiter == "" {
		l.Delimiter = "|"
	}
	mark, ok := distinct(l.Delimiter)
	if !ok {
		return errDelimiter
	}
	var b strings.Builder
	line := func(cell func(Column) string) {
		for k, c := range cols {
			if k > 0 {
				b.WriteString(l.Delimiter)
			}
			b.WriteString(cell(c))
		}
		if l.Trailing {
			b.WriteString(l.Delimiter)
		}
		b.WriteByte('\n')
	}
	if !l.NoHeader {
		line(func(c Column) string { return c.Name })
	}
	for i := range rows {
		line(func(c Column) string { return Delimited(c.Value(&rows[i]), mark) })
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Delimited escapes a value for the parsable forms, so that each row is one
// line with the header's number of fields and each value can be had back: a
// backslash becomes \\, the delimiter's character and what is not printable
// become \n, \t, \xNN (a byte), \uNNNN or \UNNNNNNNN (a character).
func Delimited(s string, mark rune) string {
	s = Printable(strings.ReplaceAll(s, `\`, `\\`))
	if !strings.ContainsRune(s, mark) {
		return s
	}
	return strings.ReplaceAll(s, string(mark), escape(mark, string(mark)))
}

// WriteFields lists the names of all fields in four columns, as sacct's -e.
func WriteFields(w io.Writer) error {
	var b strings.Builder
	for i, f := range Fields() {
		fmt.Fprintf(&b, "%-19s", f.Name)
		if i%4 == 3 {
			b.WriteByte('\n')
		} else {
			b.WriteByte(' ')
		}
	}
	if len(Fields())%4 != 0 {
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}
