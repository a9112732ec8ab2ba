package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/gimbal-hpc/gimbal/helper/policy"
	"github.com/gimbal-hpc/gimbal/helper/report"
)

// variables lists what expressions can use.
func (p *policiesCommand) variables() error {
	rows := [][]string{{"Variable", "Type", "Unit", "Meaning"}}
	for _, v := range policy.Variables() {
		rows = append(rows, []string{v.Name, v.Type, v.Unit, v.Meaning})
	}
	if p.parse {
		return p.parsable(rows)
	}
	p.table(rows)
	fmt.Fprintf(p.w.stdout, "\nEach tenant.NAME is there as mate.NAME too, in share.pair and share.throttle.\n"+
		"Unit 1 is a plain number. Constants: second, minute, hour, day, KiB, MiB, GiB, TiB.\n\n")
	rows = [][]string{{"Function", "Meaning"}}
	for _, f := range policy.Functions() {
		rows = append(rows, []string{f.Form, f.Meaning})
	}
	p.table(rows)
	fmt.Fprintln(p.w.stdout)
	rows = [][]string{{"Where", "Sees"}}
	for _, place := range policy.Places() {
		rows = append(rows, []string{place.Key, strings.Join(place.Groups, ", ")})
	}
	p.table(rows)
	return nil
}

// keys lists what a policy file can hold.
func (p *policiesCommand) keys() error {
	rows := [][]string{{"Key", "Type", "Default", "Meaning"}}
	for _, k := range policy.Keys() {
		rows = append(rows, []string{k.Path, k.Type, k.Default, k.Meaning})
	}
	if p.parse {
		return p.parsable(rows)
	}
	p.table(rows)
	return nil
}

func (p *policiesCommand) parsable(rows [][]string) error {
	for _, r := range rows {
		writeParsable(p.w.stdout, r...)
	}
	return nil
}

func writeParsable(w io.Writer, fields ...string) {
	for i, f := range fields {
		fields[i] = report.Delimited(f, '|')
	}
	fmt.Fprintln(w, strings.Join(fields, "|"))
}

// table writes rows in columns; the last column is wrapped.
func (p *policiesCommand) table(rows [][]string) {
	last := len(rows[0]) - 1
	widths := make([]int, last)
	for _, r := range rows {
		for i := range last {
			widths[i] = max(widths[i], report.Width(r[i]))
		}
	}
	for _, r := range rows {
		head := ""
		for i := range last {
			head += r[i] + strings.Repeat(" ", widths[i]-report.Width(r[i])+2)
		}
		indent := strings.Repeat(" ", len(head))
		width := max(100, len(head)+40)
		fmt.Fprint(p.w.stdout, strings.Replace(wrap(r[last], width, indent), indent, head, 1))
	}
}

// clean makes one line of a text that came from a file.
func clean(s string) string { return report.Printable(strings.Join(strings.Fields(s), " ")) }

// wrap breaks a text at spaces into lines of at most width columns, where a
// word lets it. Every line is indented; the first one of a list's item ("- ")
// less, so that the mark stands out.
func wrap(text string, width int, indent string) string {
	var b strings.Builder
	line := indent
	if strings.HasPrefix(text, "- ") {
		line = strings.TrimSuffix(indent, "  ")
	}
	empty := true
	for _, word := range strings.Fields(text) {
		if !empty && report.Width(line)+1+report.Width(word) > width {
			b.WriteString(line + "\n")
			line, empty = indent, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	b.WriteString(line + "\n")
	return b.String()
}
