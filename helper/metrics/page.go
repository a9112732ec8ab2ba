package metrics

import (
	"bufio"
	"io"
	"slices"
	"strconv"
	"strings"
)

// desc is one metric: what it is called and what it means.
type desc struct {
	name, kind, help string
}

// page is an exposition in the making. A series occurs once: what is set or
// added under the same labels comes together.
type page struct {
	series map[string]map[string]float64 // by metric, by labels as they are written
	more   []desc                        // beyond the catalogue
}

func newPage() *page { return &page{series: map[string]map[string]float64{}} }

// set gives a series its value; one that has a value keeps it.
func (p *page) set(metric string, value float64, labels ...string) {
	s, key := p.metric(metric), render(labels)
	if _, ok := s[key]; !ok {
		s[key] = value
	}
}

// add adds to the value of a series, which starts at nothing.
func (p *page) add(metric string, value float64, labels ...string) {
	p.metric(metric)[render(labels)] += value
}

func (p *page) metric(name string) map[string]float64 {
	s := p.series[name]
	if s == nil {
		s = map[string]float64{}
		p.series[name] = s
	}
	return s
}

// render writes labels, given as name, value, name, value.
func render(labels []string) string {
	if len(labels) == 0 {
		return ""
	}
	var b strings.Builder
	b.Grow(96)
	for i := 0; i+1 < len(labels); i += 2 {
		b.WriteByte("{,"[min(i, 1)])
		b.WriteString(labels[i])
		b.WriteString(`="`)
		b.WriteString(escape(labels[i+1], true))
		b.WriteByte('"')
	}
	b.WriteByte('}')
	return b.String()
}

// escape makes a text fit for a label's value, or for a HELP line, where
// quotes stay.
func escape(s string, quotes bool) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if !strings.ContainsAny(s, "\\\n\"") {
		return s
	}
	s = strings.ReplaceAll(s, `\`, `\\`)
	s = strings.ReplaceAll(s, "\n", `\n`)
	if quotes {
		s = strings.ReplaceAll(s, `"`, `\"`)
	}
	return s
}

// write writes the metrics that have series, in the order of the catalogue,
// their series sorted.
func (p *page) write(w io.Writer) error {
	out := bufio.NewWriter(w)
	for _, d := range slices.Concat(catalogue(), p.more) {
		series := p.series[d.name]
		if len(series) == 0 {
			continue
		}
		out.WriteString("# HELP " + d.name + " " + escape(d.help, false) + "\n")
		out.WriteString("# TYPE " + d.name + " " + d.kind + "\n")
		for _, labels := range sorted(series) {
			out.WriteString(d.name + labels + " " + number(series[labels]) + "\n")
		}
	}
	return out.Flush()
}

func sorted(series map[string]float64) []string {
	all := make([]string, 0, len(series))
	for labels := range series {
		all = append(all, labels)
	}
	slices.Sort(all)
	return all
}

// number writes whole numbers up to 2^53 plainly, so that a size stays
// readable.
func number(v float64) string {
	if v == float64(int64(v)) && v < 1<<53 && v > -1<<53 {
		return strconv.FormatInt(int64(v), 10)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}
