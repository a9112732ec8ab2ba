package metrics

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The pieces of Prometheus's text format 0.0.4, as strictly as Prometheus and
// node_exporter's textfile collector read it.
var (
	helpLine = regexp.MustCompile(`^# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) ((?:[^\\\n]|\\\\|\\n)+)$`)
	typeLine = regexp.MustCompile(`^# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) (gauge|counter)$`)
	row      = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{.*\})? (\S+)$`)
	label    = regexp.MustCompile(`^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"`)
)

// sample is one series of a page.
type sample struct {
	metric string
	labels map[string]string
	value  float64
}

// parsePage reads a page. It refuses what Prometheus would, and besides: a
// metric without HELP or TYPE, series of one metric in two places, a time
// stamp, a name that is not by the conventions.
func parsePage(r io.Reader) ([]sample, error) {
	in := bufio.NewScanner(r)
	in.Buffer(nil, 1<<24)
	var all []sample
	seen, done := map[string]bool{}, map[string]bool{}
	var help, current string
	for n := 1; in.Scan(); n++ {
		line := in.Text()
		if !utf8.ValidString(line) {
			return nil, fmt.Errorf("line %d: not UTF-8", n)
		}
		if m := helpLine.FindStringSubmatch(line); m != nil {
			if done[m[1]] {
				return nil, fmt.Errorf("line %d: %s a second time", n, m[1])
			}
			help, current = m[1], ""
			done[m[1]] = true
			continue
		}
		if m := typeLine.FindStringSubmatch(line); m != nil {
			if m[1] != help || (m[2] == "counter") != strings.HasSuffix(m[1], "_total") {
				return nil, fmt.Errorf("line %d: %q after the HELP of %s", n, line, help)
			}
			current = m[1]
			continue
		}
		s, err := parseSeries(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if s.metric != current {
			return nil, fmt.Errorf("line %d: a series of %s below %s", n, s.metric, current)
		}
		if key := fmt.Sprint(s.metric, s.labels); seen[key] {
			return nil, fmt.Errorf("line %d: %s twice", n, key)
		} else {
			seen[key] = true
		}
		all = append(all, s)
	}
	return all, in.Err()
}

func parseSeries(line string) (sample, error) {
	m := row.FindStringSubmatch(line)
	if m == nil {
		return sample{}, fmt.Errorf("%q is no series", line)
	}
	s := sample{metric: m[1], labels: map[string]string{}}
	var err error
	if s.value, err = strconv.ParseFloat(m[3], 64); err != nil {
		return sample{}, fmt.Errorf("%q: %w", line, err)
	}
	rest := strings.TrimSuffix(strings.TrimPrefix(m[2], "{"), "}")
	for rest != "" {
		l := label.FindStringSubmatch(rest)
		if l == nil {
			return sample{}, fmt.Errorf("labels %q", rest)
		}
		if _, twice := s.labels[l[1]]; twice || strings.HasPrefix(l[1], "__") {
			return sample{}, fmt.Errorf("label %s", l[1])
		}
		s.labels[l[1]] = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n").Replace(l[2])
		rest = rest[len(l[0]):]
		if rest != "" && !strings.HasPrefix(rest, ",") {
			return sample{}, fmt.Errorf("labels %q", rest)
		}
		rest = strings.TrimPrefix(rest, ",")
	}
	return s, nil
}
