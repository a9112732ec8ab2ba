package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/gimbal-hpc/gimbal/helper/report"
)

// packing is the baselines that pack, which ours are compared with.
var packing = []string{"gandiva", "antman", "lucid", "muri-s", "muri-l", "fifo-pack", "naive"}

// objective is a figure, and which shipped policy is for it.
type objective struct {
	name, ours string
	higher     bool // is better
	of         func(e *entry) float64
}

var objectives = []objective{
	{"average JCT (h)", "jct", false, func(e *entry) float64 { return e.AvgJCT / 3600 }},
	{"p99 JCT (h)", "tail", false, func(e *entry) float64 { return e.P99JCT / 3600 }},
	{"makespan (h)", "makespan", false, func(e *entry) float64 { return e.Makespan / 3600 }},
	{"max finish-time ratio", "fair", false, func(e *entry) float64 { return e.MaxFTF }},
	{"deadlines met", "deadline", true, func(e *entry) float64 {
		if e.DeadlinesMet == nil {
			return 0
		}
		return float64(*e.DeadlinesMet)
	}},
}

// isOurs tells whether a policy is the one for an objective.
func isOurs(name string) bool {
	return slices.ContainsFunc(objectives, func(o objective) bool { return o.ours == name })
}

// gain is by how much a does better than b: above 1 a is better.
func (o *objective) gain(a, b *entry) float64 {
	x, y := o.of(a), o.of(b)
	if o.higher {
		x, y = y, x
	}
	switch x {
	case y:
		return 1
	case 0:
		return math.Inf(1)
	}
	return y / x
}

// best is the best of a kind, nil where there is none.
func (f *finding) best(o *objective, kind string) *entry {
	var best *entry
	for i := range f.Policies {
		if e := &f.Policies[i]; e.Kind == kind && (best == nil || o.gain(e, best) > 1) {
			best = e
		}
	}
	return best
}

func (f *finding) named(name string) *entry {
	for i := range f.Policies {
		if f.Policies[i].Policy == name {
			return &f.Policies[i]
		}
	}
	return nil
}

// The kinds of comparison.
const (
	versusRule = "best rule, same placement"
	versusOwn  = "best baseline, own placement"
	atBest     = "at best"
)

// comparison is what an objective looks at in a scenario.
type comparison struct{ ours, chosen, rule, pack, top, cluster, slurm *entry }

// compare finds what is compared for an objective; ok is false where some of it
// was left out.
func (f *finding) compare(o *objective) (c comparison, ok bool) {
	c = comparison{f.named(o.ours), f.named(o.ours + choosing), f.best(o, "same placement"), f.best(o, "packing"), f.best(o, "ours"), f.best(o, "cluster"), atBound(f.Bounds.Slurm)}
	return c, c.ours != nil && c.chosen != nil && c.rule != nil && c.pack != nil && c.cluster != nil
}

// markdown writes the results to read.
func (r *results) markdown(w io.Writer) {
	fmt.Fprintf(w, `# Every policy on the public traces

Written by `+"`%s`"+`.
README.md says what is compared, with which data and under which assumptions;
RESULTS.html shows the same in pictures. Ratios are above 1 where ours is better.

## Summary

Geometric means over all scenarios; in brackets the least, and in how many ours
is not below 1. The best of the baselines is chosen anew in each scenario.

`, r.command())
	writeTable(w, r.overview())
	fmt.Fprintf(w, "\n## %s\n\n%s\n\n", roomTitle, roomText)
	writeTable(w, r.room())
	for i := range objectives {
		r.section(w, &objectives[i])
	}
	fmt.Fprint(w, "\n## Against each baseline\n\nGeometric means over all scenarios of what ours gains over one baseline throughout.\n\n")
	writeTable(w, r.each())
	fmt.Fprint(w, "\n# All figures\n")
	for i := range r.Scenarios {
		f := &r.Scenarios[i]
		fmt.Fprintf(w, "\n## %s\n\n%s\n\n", f.Name, f.size())
		writeTable(w, f.figures())
	}
}

// section compares the shipped policy for an objective with the best others.
func (r *results) section(w io.Writer, o *objective) {
	fmt.Fprintf(w, "\n## %s: `%s`\n\n", o.name, o.ours)
	writeTable(w, r.versus(o))
}

// versus is the figures of an objective in every scenario.
func (r *results) versus(o *objective) report.Table {
	t := report.Table{Columns: []string{"scenario", "ours", "choosing GPUs", versusRule, "ratio", atBest, versusOwn, "ratio to that", atBest, "bound", "bound, any placement", "best of ours", "best that preempts for free"}}
	for i := range r.Scenarios {
		f := &r.Scenarios[i]
		if c, ok := f.compare(o); ok {
			t.Rows = append(t.Rows, []string{f.Name, value(o.of(c.ours)), value(o.of(c.chosen)), o.cell(c.rule), ratio(o.gain(c.ours, c.rule)), ratio(o.gain(c.slurm, c.rule)), o.cell(c.pack), ratio(o.gain(c.ours, c.pack)), ratio(o.gain(c.slurm, c.pack)),
				value(o.of(c.slurm)), value(o.of(atBound(f.Bounds.Any))), o.cell(c.top), o.cell(c.cluster)})
		}
	}
	return t
}

// writeTable writes a table as Markdown.
func writeTable(w io.Writer, t report.Table) {
	row := func(cells []string) { fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | ")) }
	row(t.Columns)
	fmt.Fprintf(w, "|%s\n", strings.Repeat("---|", len(t.Columns)))
	for _, cells := range t.Rows {
		row(cells)
	}
}

func (o *objective) cell(e *entry) string { return fmt.Sprintf("%s (%s)", value(o.of(e)), e.Policy) }

// rivals are the baselines that pack, by their own placement or on Slurm's.
func (r *results) rivals() []string {
	var names []string
	for _, f := range r.Scenarios[:min(1, len(r.Scenarios))] {
		for _, e := range f.Policies {
			if e.Kind == "packing" || e.Kind == "same placement" {
				names = append(names, e.Policy)
			}
		}
	}
	return names
}

// over is what ours gains over one baseline in all scenarios.
func (o *objective) over(name string, all []finding) string {
	t := newTally()
	for i := range all {
		if ours, e := all[i].named(o.ours), all[i].named(name); ours != nil && e != nil {
			t.add(o.gain(ours, e))
		}
	}
	return t.mean()
}

// size is how large a scenario is.
func (f *finding) size() string {
	return fmt.Sprintf("%d jobs on %d nodes of %d GPUs.", f.Jobs, f.Nodes, perNode)
}

// tally adds up ratios.
type tally struct {
	logs, least float64
	wins, n     int
}

func newTally() *tally { return &tally{least: math.Inf(1)} }

func (t *tally) add(ratio float64) {
	t.logs, t.least, t.n = t.logs+math.Log(ratio), min(t.least, ratio), t.n+1
	if ratio >= 1-rounding {
		t.wins++
	}
}

// rounding is by how much two figures may differ and be taken to be the same.
const rounding = 1e-9

// brief is the mean, the least, and in how many ours is not below 1.
func (t *tally) brief() string {
	if t.n == 0 {
		return "nothing to compare"
	}
	return fmt.Sprintf("%s (%.2f, %d of %d)", t.mean(), t.least, t.wins, t.n)
}

func (t *tally) mean() string { return fmt.Sprintf("%.2f", t.value()) }

// value is the geometric mean.
func (t *tally) value() float64 { return math.Exp(t.logs / float64(max(t.n, 1))) }

func value(v float64) string {
	switch {
	case v == math.Trunc(v):
		return fmt.Sprintf("%.0f", v)
	case v < 100:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.1f", v)
}
