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
	switch {
	case x == y:
		return 1
	case x == 0:
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
	fmt.Fprint(w, "# All figures\n")
	for i := range all {
		all[i].table(w)
	}
}

// summary compares the shipped policy for an objective with the best others.
func summary(w io.Writer, o *objective, all []finding) {
	fmt.Fprintf(w, "## %s: `%s`\n\n", o.name, o.ours)
	fmt.Fprint(w, "| scenario | ours | best packing baseline | ratio | naive, ratio | best of ours | ratio | best that preempts for free |\n|---|---|---|---|---|---|---|---|\n")
	product, least, wins, n := 0.0, math.Inf(1), 0, 0
	for i := range all {
		f := &all[i]
		ours, pack, naive, top, cluster := f.named(o.ours), f.best(o, "packing"), f.named("naive"), f.best(o, "ours"), f.best(o, "cluster")
		if ours == nil || pack == nil || naive == nil || cluster == nil {
			continue
		}
		g := o.gain(ours, pack)
		product, least, n = product+math.Log(g), min(least, g), n+1
		if g >= 1 {
			wins++
		}
		fmt.Fprintf(w, "| %s | %s | %s (%s) | %.2f%s | %.2f | %s (%s) | %.2f | %s (%s) |\n", f.Name, value(o.of(ours)),
			value(o.of(pack)), pack.Policy, g, mark(g), o.gain(ours, naive), value(o.of(top)), top.Policy, o.gain(top, pack), value(o.of(cluster)), cluster.Policy)
	}
	if n > 0 {
		fmt.Fprintf(w, "\nGeometric mean %.2f, least %.2f; not below 1 in %d of %d.\n\n", math.Exp(product/float64(n)), least, wins, n)
	}
}

func mark(g float64) string {
	if g < 1 {
		return " below"
	}
	return ""
}

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
