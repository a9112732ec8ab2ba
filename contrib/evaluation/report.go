package main

import (
	"fmt"
	"io"
	"math"
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
	{"p99 JCT (h)", "throughput", false, func(e *entry) float64 { return e.P99JCT / 3600 }},
	{"makespan (h)", "makespan", false, func(e *entry) float64 { return e.Makespan / 3600 }},
	{"max finish-time ratio", "fair", false, func(e *entry) float64 { return e.MaxFTF }},
	{"deadlines met", "deadline", true, func(e *entry) float64 {
		if e.DeadlinesMet == nil {
			return 0
		}
		return float64(*e.DeadlinesMet)
	}},
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

// report writes the results to read.
func (o *options) report(w io.Writer, all []finding) {
	fmt.Fprintf(w, `# Every policy on the public traces

Written by `+"`scripts/evaluate --jobs %d --turns %d`"+`; README.md says what is
compared, with which data and under which assumptions. Ratios are above 1 where
ours is better.

`, o.jobs, o.turns)
	for i := range objectives {
		summary(w, &objectives[i], all)
	}
	against(w, all)
	fmt.Fprint(w, "# All figures\n")
	for i := range all {
		all[i].table(w)
	}
}

// summary compares the shipped policy for an objective with the best others.
func summary(w io.Writer, o *objective, all []finding) {
	fmt.Fprintf(w, "## %s: `%s`\n\n", o.name, o.ours)
	fmt.Fprint(w, "| scenario | ours | best rule on the same placement | ratio | best packing baseline, own placement | ratio | best of ours | best that preempts for free |\n|---|---|---|---|---|---|---|---|\n")
	same, free := newTally(), newTally()
	for i := range all {
		f := &all[i]
		ours, rule, pack, top, cluster := f.named(o.ours), f.best(o, "same placement"), f.best(o, "packing"), f.best(o, "ours"), f.best(o, "cluster")
		if ours == nil || rule == nil || pack == nil || cluster == nil {
			continue
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", f.Name, value(o.of(ours)),
			o.cell(rule), same.add(o.gain(ours, rule)), o.cell(pack), free.add(o.gain(ours, pack)), o.cell(top), o.cell(cluster))
	}
	fmt.Fprintf(w, "\nOn the same placement: %s. Against those with a placement of their own: %s.\n\n", same, free)
}

func (o *objective) cell(e *entry) string { return fmt.Sprintf("%s (%s)", value(o.of(e)), e.Policy) }

// against compares the shipped policy for each objective with every baseline by
// itself, over all scenarios.
func against(w io.Writer, all []finding) {
	fmt.Fprint(w, "## Against each baseline\n\nGeometric means over all scenarios of what ours gains over one baseline throughout.\n\n| baseline |")
	rule := "|---|"
	for _, o := range objectives {
		fmt.Fprintf(w, " %s: `%s` |", o.name, o.ours)
		rule += "---|"
	}
	fmt.Fprintln(w, "\n"+rule)
	for _, name := range rivals(all) {
		fmt.Fprintf(w, "| %s |", name)
		for i := range objectives {
			fmt.Fprintf(w, " %s |", objectives[i].over(name, all))
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w)
}

// rivals are the baselines that pack, by their own placement or on Slurm's.
func rivals(all []finding) []string {
	var names []string
	for _, f := range all[:min(1, len(all))] {
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

// tally adds up ratios.
type tally struct {
	logs, least float64
	wins, n     int
}

func newTally() *tally { return &tally{least: math.Inf(1)} }

// add takes a ratio in and returns how it is written.
func (t *tally) add(ratio float64) string {
	t.logs, t.least, t.n = t.logs+math.Log(ratio), min(t.least, ratio), t.n+1
	if ratio < 1 {
		return fmt.Sprintf("%.2f below", ratio)
	}
	t.wins++
	return fmt.Sprintf("%.2f", ratio)
}

func (t *tally) String() string {
	if t.n == 0 {
		return "nothing to compare"
	}
	return fmt.Sprintf("geometric mean %s, least %.2f, not below 1 in %d of %d", t.mean(), t.least, t.wins, t.n)
}

func (t *tally) mean() string { return fmt.Sprintf("%.2f", math.Exp(t.logs/float64(max(t.n, 1)))) }

func value(v float64) string {
	switch {
	case v == math.Trunc(v):
		return fmt.Sprintf("%.0f", v)
	case v < 100:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.1f", v)
}

// table writes all figures of a scenario.
func (f *finding) table(w io.Writer) {
	fmt.Fprintf(w, "\n## %s\n\n%d jobs on %d nodes of %d GPUs.\n\n| kind | policy |", f.Name, f.Jobs, f.Nodes, perNode)
	rule := "|---|---|"
	for i := range objectives {
		fmt.Fprintf(w, " %s |", objectives[i].name)
		rule += "---|"
	}
	fmt.Fprintln(w, "\n"+rule)
	for i := range f.Policies {
		e := &f.Policies[i]
		fmt.Fprintf(w, "| %s | %s |", e.Kind, e.Policy)
		for k := range objectives {
			fmt.Fprintf(w, " %s |", value(objectives[k].of(e)))
		}
		fmt.Fprintln(w)
	}
}
