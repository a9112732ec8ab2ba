package main

import (
	"fmt"
	"strconv"

	"github.com/gimbal-hpc/gimbal/helper/report"
	"github.com/gimbal-hpc/gimbal/helper/sim"
	"github.com/gimbal-hpc/gimbal/helper/sim/study"
)

// What a page holds at most: it stays small however long the run was, and all
// policies share in it.
const (
	pageSteps     = 150  // of a distribution
	pageStretches = 240  // of a curve over time
	pageBars      = 6000 // of all policies
	pageBarsEach  = 1500 // of one policy
	pageBarGPUs   = 64   // with more GPUs nodes are shown, not jobs
	pageRows      = 32   // of a picture of nodes
	pageCells     = 40000
)

// page draws results as a page.
type page struct {
	s       *simulation
	results []study.Result
	notes   []string
	window  study.Window
	time    report.Axis
}

func newPage(s *simulation, results []study.Result, notes []string) *page {
	p := &page{s: s, results: results, notes: notes, window: study.WindowOf(results, pageStretches)}
	length := p.window.To - p.window.From
	unit, name := report.UnitOf(length / 3)
	p.time = report.Even(length, unit, func(v float64) string { return digits(v/unit) + " " + name })
	return p
}

// briefly is a time in one unit.
func briefly(seconds float64) string {
	unit, name := report.UnitOf(seconds)
	return digits(seconds/unit) + " " + name
}

func (p *page) build() report.Page {
	jobs := 0
	if len(p.results) > 0 {
		jobs = p.results[0].Jobs
	}
	return report.Page{
		Title: "What policies would have made of " + p.s.traceName(),
		Intro: fmt.Sprintf("%d jobs on %d nodes with %d GPUs each, replayed on a virtual clock; restarts cost: %s.", jobs, p.s.nodes, p.s.perNode, p.s.cost),
		Notes: p.notes,
		Parts: []report.Part{
			{Title: "Policies", Text: "JCT is a job's time from arrival to end.", Body: []report.Drawing{p.table()}},
			{Title: "Completion times", Text: "The share of jobs that had ended so long after their arrival. Further left is better.",
				Body: []report.Drawing{p.lines("Jobs by completion time", jct, 0, times(), briefly)}},
			{Title: "Fairness", Text: "A job's completion time over what it would have needed with its share of the cluster. To the right of 1 a job did worse than with its share.",
				Body: []report.Drawing{p.lines("Jobs by finish-time ratio", ratio, 1, ratios(), digits), p.fairness()}},
			{Title: "Use of the GPUs over time", Text: "The share of the cluster's GPUs with work, from the first arrival to the last end under any of the policies.", Body: p.use()},
			{Title: "Who ran where", Text: "The same time, for each policy.", Body: p.where()},
		},
	}
}

func (p *page) table() report.Table {
	t := report.Table{Columns: study.Columns()}
	for _, r := range p.results {
		t.Rows = append(t.Rows, r.Row())
	}
	return t
}

func jct(j *sim.JobOutcome) float64   { return j.JCT() }
func ratio(j *sim.JobOutcome) float64 { return j.Fairness }

// times are marks of a logarithmic axis of seconds.
func times() []float64 {
	return []float64{.1, 1, 10, 60, 600, 3600, 6 * 3600, 86400, 7 * 86400, 30 * 86400, 365 * 86400, 3650 * 86400}
}

// ratios are marks of a logarithmic axis of ratios.
func ratios() []float64 {
	return []float64{.001, .01, .1, .3, 1, 3, 10, 30, 100, 1e3, 1e4, 1e6, 1e8}
}

// digits is a number in three digits.
func digits(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }

func (p *page) distribution(r study.Result, of func(*sim.JobOutcome) float64) []study.Step {
	values := make([]float64, len(r.Outcome.Jobs))
	for i := range values {
		values[i] = of(&r.Outcome.Jobs[i])
	}
	return study.Distribution(values, pageSteps)
}

// lines draws the distribution of a figure of the jobs under each policy.
func (p *page) lines(title string, of func(*sim.JobOutcome) float64, mark float64, marks []float64, text func(float64) string) report.Lines {
	l := report.Lines{Title: title, Y: report.Percent(), Mark: mark}
	low, high := sim.Never, 0.0
	for _, r := range p.results {
		series := report.Series{Name: r.Policy}
		before := 0.0
		for _, s := range p.distribution(r, of) {
			series.Points = append(series.Points, report.Point{X: s.Value, Y: before}, report.Point{X: s.Value, Y: s.Share})
			before = s.Share
			if s.Value > 0 {
				low = min(low, s.Value)
			}
			high = max(high, s.Value)
		}
		l.Series = append(l.Series, series)
	}
	l.X = report.Among(min(low, high), high, marks, text)
	return l
}

func (p *page) fairness() report.Table {
	t := report.Table{Columns: []string{"policy", "median ratio", "p99 ratio", "worst ratio", "jobs above 1"}}
	for _, r := range p.results {
		above := 0
		for i := range r.Outcome.Jobs {
			if r.Outcome.Jobs[i].Fairness > 1 {
				above++
			}
		}
		steps := p.distribution(r, ratio)
		t.Rows = append(t.Rows, []string{r.Policy, digits(study.Quantile(steps, .5)), digits(study.Quantile(steps, .99)), digits(r.MaxFTF),
			fmt.Sprintf("%.1f %%", 100*float64(above)/float64(max(r.Jobs, 1)))})
	}
	return t
}

func (p *page) use() (out []report.Drawing) {
	for _, r := range p.results {
		out = append(out, report.Area{Title: fmt.Sprintf("%s: %.1f %% until its last end", r.Policy, 100*r.GPUBusy), X: p.time, Values: study.Busy(r.Outcome, p.window)})
	}
	return out
}
