package metrics

import (
	"cmp"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
)

// desc is one metric: what it is called and what it means.
type desc struct {
	name string
	kind dto.MetricType
	help string
}

// page is an exposition in the making. A series occurs once: what is set or
// added under the same labels comes together.
type page struct {
	metrics map[string]*metric // by name
	more    []desc             // beyond the catalogue
}

// metric is all series of one name, as they came.
type metric struct {
	series []*series
	index  map[string]*series // by labels
}

// series has its labels as name, value, name, value.
type series struct {
	labels []string
	value  float64
}

func newPage() *page { return &page{metrics: map[string]*metric{}} }

// set gives a series its value; one that has a value keeps it.
func (p *page) set(metric string, value float64, labels ...string) {
	if s, isNew := p.get(metric, labels); isNew {
		s.value = value
	}
}

// add adds to the value of a series, which starts at nothing.
func (p *page) add(metric string, value float64, labels ...string) {
	s, _ := p.get(metric, labels)
	s.value += value
}

func (p *page) get(name string, labels []string) (s *series, isNew bool) {
	m := p.metrics[name]
	if m == nil {
		m = &metric{index: map[string]*series{}}
		p.metrics[name] = m
	}
	for i, l := range labels { // a name may hold anything
		labels[i] = strings.ToValidUTF8(l, "\uFFFD")
	}
	key := strings.Join(labels, "\xff")
	s, ok := m.index[key]
	if !ok {
		s = &series{labels: labels}
		m.index[key] = s
		m.series = append(m.series, s)
	}
	return s, !ok
}

// families are the metrics that have series, as Prometheus's library takes
// them, by name.
func (p *page) families() []*dto.MetricFamily {
	all := make([]*dto.MetricFamily, 0, len(p.metrics))
	for _, d := range slices.Concat(catalogue(), p.more) {
		if m := p.metrics[d.name]; m != nil {
			all = append(all, &dto.MetricFamily{Name: &d.name, Help: &d.help, Type: &d.kind, Metric: m.values(d.kind)})
		}
	}
	slices.SortFunc(all, func(a, b *dto.MetricFamily) int { return cmp.Compare(*a.Name, *b.Name) })
	return all
}

func (m *metric) values(kind dto.MetricType) []*dto.Metric {
	made, gauges := make([]dto.Metric, len(m.series)), make([]dto.Gauge, len(m.series))
	out := make([]*dto.Metric, len(m.series))
	for i, s := range m.series {
		out[i] = &made[i]
		out[i].Label = s.pairs()
		if kind == counter {
			out[i].Counter = &dto.Counter{Value: &s.value}
			continue
		}
		gauges[i].Value = &s.value
		out[i].Gauge = &gauges[i]
	}
	return out
}

// pairs are the labels by name.
func (s *series) pairs() []*dto.LabelPair {
	made := make([]dto.LabelPair, len(s.labels)/2)
	out := make([]*dto.LabelPair, len(made))
	for i := range made {
		made[i].Name, made[i].Value = &s.labels[2*i], &s.labels[2*i+1]
		out[i] = &made[i]
	}
	slices.SortFunc(out, func(a, b *dto.LabelPair) int { return cmp.Compare(*a.Name, *b.Name) })
	return out
}
