package trace

import (
	"bufio"
	"encoding/csv"
	"errors"
	"io"
	"strings"
)

// csvLines reads comma-separated values with quotes.
type csvLines struct{ r *csv.Reader }

func newCSVLines(text io.Reader) *csvLines {
	r := csv.NewReader(text)
	r.FieldsPerRecord = -1 // Table.Next says it better
	r.ReuseRecord = true
	return &csvLines{r}
}

func (l *csvLines) read(to *row) error {
	fields, err := l.r.Read()
	if err != nil {
		var p *csv.ParseError
		if errors.As(err, &p) {
			to.line, err = p.Line, p.Err
		} else if err != io.EOF {
			to.line++
		}
		return err
	}
	to.fields, to.columns = fields, to.columns[:0]
	for i := range fields {
		line, column := l.r.FieldPos(i)
		if i == 0 {
			to.line = line
		}
		to.columns = append(to.columns, column)
	}
	return nil
}

// maxLine bounds one line between bars, in bytes.
const maxLine = 1 << 20

// barLines reads fields between bars, without quotes, as sacct -P writes them.
type barLines struct {
	s    *bufio.Scanner
	line int
}

func newBarLines(text io.Reader) *barLines {
	s := bufio.NewScanner(text)
	s.Buffer(nil, maxLine)
	return &barLines{s: s}
}

func (l *barLines) read(to *row) error {
	for l.s.Scan() {
		l.line++
		to.line = l.line
		text := strings.TrimSuffix(l.s.Text(), "\r")
		if text == "" {
			continue
		}
		to.fields = strings.Split(text, "|")
		to.columns = to.columns[:0]
		column := 1
		for _, f := range to.fields {
			to.columns = append(to.columns, column)
			column += len(f) + 1
		}
		return nil
	}
	to.line = l.line + 1
	if err := l.s.Err(); err != nil {
		return err
	}
	return io.EOF
}
