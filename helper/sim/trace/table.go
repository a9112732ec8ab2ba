package trace

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// Error is a fault in a file, and where it is.
type Error struct {
	File         string
	Line, Column int // from 1; Column is 0 where the whole line is meant
	Text         string
}

func (e *Error) Error() string {
	if e.Column == 0 {
		return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Text)
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Text)
}

// maxRows bounds what is read of one file.
const maxRows = 20_000_000

// maxHeader is how much of a file is looked at to find its format, in bytes.
const maxHeader = 4096

// Table reads a file of named columns row by row, and says where it is.
type Table struct {
	file  string
	lines lineReader
	names []string       // the header, as written
	index map[string]int // column name in lower case to its place
	row   row
	rows  int

	loose  int    // place of the column that may hold the mark between fields, -1 for none
	joined int    // rows in which it did
	advice string // what to do where a row has too many fields
}

// row is one line of a table: its fields, the column each begins at, and the
// line.
type row struct {
	fields  []string
	columns []int
	line    int
}

// lineReader fills in the next row. It returns io.EOF after the last one.
type lineReader interface {
	read(*row) error
}

// OpenTable reads the header of a table: CSV, or fields between bars as sacct
// writes them, either of them in gzip. The name is for messages.
func OpenTable(r io.Reader, name string) (*Table, error) {
	t := &Table{file: name, row: row{line: 1}, loose: -1}
	text, err := plain(r)
	if err != nil {
		return nil, t.fail(err)
	}
	first, err := text.Peek(maxHeader)
	if len(first) == 0 {
		if errors.Is(err, io.EOF) {
			err = errors.New("the file is empty")
		}
		return nil, t.fail(err)
	}
	first, _, _ = bytes.Cut(first, []byte("\n"))
	if bytes.IndexByte(first, '|') >= 0 {
		t.lines = newBarLines(text)
	} else {
		t.lines = newCSVLines(text)
	}
	return t, t.header()
}

// plain is the text of a file that may be compressed, without byte order mark.
func plain(r io.Reader) (*bufio.Reader, error) {
	b := bufio.NewReaderSize(r, 1<<16)
	if magic, _ := b.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, err
		}
		b = bufio.NewReaderSize(z, 1<<16)
	}
	if mark, _ := b.Peek(3); bytes.Equal(mark, []byte("\xef\xbb\xbf")) {
		_, _ = b.Discard(3)
	}
	return b, nil
}

func (t *Table) header() error {
	if err := t.lines.read(&t.row); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("there is no header line")
		}
		return t.fail(err)
	}
	t.index = make(map[string]int, len(t.row.fields))
	for i, f := range t.row.fields {
		f = strings.TrimSpace(f)
		t.names = append(t.names, f)
		key := strings.ToLower(f)
		if _, twice := t.index[key]; twice && key != "" {
			return t.errorAt(t.row.columns[i], "column %q is there twice", f)
		}
		t.index[key] = i
	}
	return nil
}

// Next goes to the next row. It returns io.EOF after the last one.
func (t *Table) Next() error {
	err := t.lines.read(&t.row)
	switch {
	case errors.Is(err, io.EOF):
		return io.EOF
	case err != nil:
		return t.fail(err)
	}
	t.join()
	switch more := len(t.row.fields) - len(t.names); {
	case more > 0:
		return t.errorAt(0, "%d fields, but the header has %d%s", len(t.row.fields), len(t.names), t.advice)
	case more < 0:
		return t.errorAt(0, "%d fields, but the header has %d", len(t.row.fields), len(t.names))
	}
	if t.rows++; t.rows > maxRows {
		return t.errorAt(0, "more than %d rows", maxRows)
	}
	return nil
}

// join makes one field of what a row has too much, where one column alone may hold
// the mark between fields.
func (t *Table) join() {
	more := len(t.row.fields) - len(t.names)
	if more <= 0 || t.loose < 0 {
		return
	}
	t.joined++
	from, to := t.loose, t.loose+more+1
	t.row.fields[from] = strings.Join(t.row.fields[from:to], "|")
	t.row.fields = slices.Delete(t.row.fields, from+1, to)
	t.row.columns = slices.Delete(t.row.columns, from+1, to)
}

// Has says whether the table has a column.
func (t *Table) Has(name string) bool {
	_, ok := t.index[strings.ToLower(name)]
	return ok
}

// Need returns an error where one of the columns is missing.
func (t *Table) Need(names ...string) error {
	for _, n := range names {
		if !t.Has(n) {
			return &Error{t.file, 1, 0, fmt.Sprintf("column %q is missing%s; the header has %s", n, perhaps(n, t.names), strings.Join(t.names, ", "))}
		}
	}
	return nil
}

// perhaps names the word that a name was meant to be, where one is near: a slip
// in three letters, two at least.
func perhaps(name string, words []string) string {
	best, least := "", max(2, len(name)/3)+1
	for _, w := range words {
		if d := model.Slips(strings.ToLower(name), strings.ToLower(w)); d < least {
			best, least = w, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (is it %q?)", best)
}

// Names is the header.
func (t *Table) Names() []string { return t.names }

// Rows is the number of rows read so far.
func (t *Table) Rows() int { return t.rows }

// Line is the line of this row.
func (t *Table) Line() int { return t.row.line }

// Column is where a field of this row begins, or 0 where there is none.
func (t *Table) Column(name string) int {
	if i, ok := t.index[strings.ToLower(name)]; ok {
		return t.row.columns[i]
	}
	return 0
}

// Text is a field of this row without the blanks around it, or "" where the
// table has no such column.
func (t *Table) Text(name string) string {
	i, ok := t.index[strings.ToLower(name)]
	if !ok {
		return ""
	}
	return strings.TrimSpace(t.row.fields[i])
}

// Errorf is an error at a field of this row.
func (t *Table) Errorf(name, format string, args ...any) error {
	return t.errorAt(t.Column(name), name+": "+format, args...)
}

func (t *Table) errorAt(column int, format string, args ...any) error {
	return &Error{t.file, t.row.line, column, fmt.Sprintf(format, args...)}
}

// fail puts the place in front of an error of reading.
func (t *Table) fail(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("the compressed file is cut short")
	}
	return t.errorAt(0, "%v", err)
}
