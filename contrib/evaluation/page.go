package main

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/gimbal-hpc/gimbal/helper/report"
)

// page writes the results as a page that needs nothing else.
func (r *results) page(w io.Writer) error {
	p := report.Page{
		Title: "Every policy on the public traces",
		Intro: "Five objectives, and for each the shipped policy that is for it, against the baselines that pack. Ratios are above 1 where ours is better.",
		Notes: []string{
			"Made by: " + r.command() + ". The same data and options give the same bytes.",
			fmt.Sprintf("Seed %d: of the deadlines, and of the baselines that draw lots.", seed),
			"Traces of Muri (Apache-2.0) and Gavel (MIT; arrivals of one from Philly, CC BY 4.0), measured pairs of Gavel (MIT), memory of the jobs from MISO (MIT).",
			"What is assumed, and why a ratio is what it is: contrib/evaluation/README.md.",
		},
		Parts: []report.Part{{Title: "Summary", Text: "Geometric means over all scenarios; in brackets the least, and in how many ours is not below 1. The best of the baselines is chosen anew in each scenario.", Body: []report.Drawing{r.overview()}}},
	}
	p.Parts = append(p.Parts, report.Part{Title: roomTitle, Text: roomText, Body: []report.Drawing{r.room()}})
	for i := range objectives {
		p.Parts = append(p.Parts, r.part(&objectives[i]))
	}
	p.Parts = append(p.Parts, report.Part{Title: "Against each baseline", Text: "Geometric means over all scenarios of what ours gains over one baseline throughout.", Body: []report.Drawing{r.each()}})
	for i := range r.Scenarios {
		f := &r.Scenarios[i]
		p.Parts = append(p.Parts, report.Part{Title: f.Name, Text: f.size(), Body: []report.Drawing{f.figures()}})
	}
	return report.WritePage(w, p)
}

// overview is the summary of all objectives.
func (r *results) overview() report.Table {
	t := report.Table{Columns: []string{"objective", "policy", versusRule, versusRule + ", choosing GPUs", versusOwn}}
	for i := range objectives {
		o := &objectives[i]
		same, chosen, own := newTally(), newTally(), newTally()
		for k := range r.Scenarios {
			if c, ok := r.Scenarios[k].compare(o); ok {
				same.add(o.gain(c.ours, c.rule))
				chosen.add(o.gain(c.chosen, c.rule))
				own.add(o.gain(c.ours, c.pack))
			}
		}
		t.Rows = append(t.Rows, []string{o.name, o.ours, same.brief(), chosen.brief(), own.brief()})
	}
	return t
}

// part is the picture and the table of an objective.
func (r *results) part(o *objective) report.Part {
	bars := report.Bars{Title: o.name + ": ours against the best of the others"}
	low, high := .5, 2.0
	for i := range r.Scenarios {
		f := &r.Scenarios[i]
		c, ok := f.compare(o)
		if !ok {
			continue
		}
		same, own := o.gain(c.ours, c.rule), o.gain(c.ours, c.pack)
		for k, g := range []float64{same, own} {
			low, high = min(low, g), max(high, g)
			bars.Bars = append(bars.Bars, report.Bar{
				From: min(g, 1), To: max(g, 1), Row: len(bars.Rows), Top: .5 * float64(k), Low: .5 + .5*float64(k), Kind: k,
				Text: fmt.Sprintf("%s, %s: %s", f.Name, []string{versusRule, versusOwn}[k], ratio(g)),
			})
		}
		bars.Rows = append(bars.Rows, f.short())
	}
	bars.X = report.Among(max(low, .01), min(high, 100), []float64{.01, .1, .25, .5, 1, 2, 4, 10, 100}, func(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) })
	text := fmt.Sprintf("The policy %s. Each scenario has two bars, from 1 to its ratio: to the right ours is better, to the left it is worse. "+
		"The upper bar is against the best rule on the same placement, the lower one against the best baseline with a placement of its own. "+
		"las and batch are the two traces of Gavel's physical cluster; V and P are V100 and P100, sim and phy the two tables.", o.ours)
	return report.Part{Title: o.name, Text: text, Body: []report.Drawing{bars, r.versus(o)}}
}

// each is what ours gains over each baseline by itself.
func (r *results) each() report.Table {
	t := report.Table{Columns: []string{"baseline"}}
	for i := range objectives {
		t.Columns = append(t.Columns, objectives[i].name)
	}
	for _, name := range r.rivals() {
		row := []string{name}
		for i := range objectives {
			row = append(row, objectives[i].over(name, r.Scenarios))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// figures is all figures of a scenario.
func (f *finding) figures() report.Table {
	t := report.Table{Columns: []string{"policy", "kind"}}
	for i := range objectives {
		t.Columns = append(t.Columns, objectives[i].name)
	}
	for i := range f.Policies {
		e := &f.Policies[i]
		row := []string{e.Policy, e.Kind}
		for k := range objectives {
			row = append(row, value(objectives[k].of(e)))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// short is a scenario's name where there is little room.
func (f *finding) short() string {
	return strings.NewReplacer("physical-makespan", "batch", "physical-las", "las", "v100", "V", "p100", "P", "simulation", "sim", "physical", "phy").Replace(f.Name)
}

// ratio is a ratio in two decimals.
func ratio(v float64) string {
	if math.IsInf(v, 1) {
		return "none met"
	}
	return fmt.Sprintf("%.2f", v)
}
