package study

import (
	"math"
	"slices"

	"github.com/gimbal-hpc/gimbal/helper/sim"
)

// Step is a value and the share of all values that are not above it.
type Step struct{ Value, Share float64 }

// Distribution is the values' cumulative distribution in at most n steps, the
// least and the greatest value among them.
func Distribution(values []float64, n int) []Step {
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	all := len(sorted)
	n = min(n, all)
	out := make([]Step, 0, n)
	for i := range n {
		at := all - 1
		if n > 1 {
			at = i * (all - 1) / (n - 1)
		}
		out = append(out, Step{sorted[at], float64(at+1) / float64(all)})
	}
	return out
}

// Quantile is the value below which a share of the steps lies.
func Quantile(steps []Step, share float64) float64 {
	for _, s := range steps {
		if s.Share >= share {
			return s.Value
		}
	}
	return math.NaN()
}

// Window is a time of the simulation, cut into stretches of equal length.
type Window struct {
	From, To  float64 // seconds from the trace's start
	Stretches int
}

// WindowOf is the time from the first arrival to the last end of all results.
func WindowOf(results []Result, stretches int) Window {
	w := Window{From: sim.Never, Stretches: stretches}
	for _, r := range results {
		for i := range r.Outcome.Jobs {
			j := &r.Outcome.Jobs[i]
			w.From, w.To = min(w.From, j.Job.Submit), max(w.To, j.End)
		}
	}
	w.From = min(w.From, w.To)
	return w
}

// spread calls add for each stretch that the time from from to to touches, with
// the share of the stretch that it covers.
func (w Window) spread(from, to float64, add func(i int, share float64)) {
	length := (w.To - w.From) / float64(w.Stretches)
	from, to = max(from, w.From), min(to, w.To)
	if !(length > 0) || !(to > from) {
		return
	}
	for i := int((from - w.From) / length); i < w.Stretches; i++ {
		begin := w.From + float64(i)*length
		if begin >= to {
			return
		}
		if share := (min(to, begin+length) - max(from, begin)) / length; share > 0 {
			add(i, share)
		}
	}
}

// Busy is the mean share of the cluster's GPUs that have work, by stretch.
func Busy(o *sim.Outcome, w Window) []float64 {
	out := make([]float64, w.Stretches)
	loads := o.History.Loads
	for i, l := range loads {
		to := w.To
		if i+1 < len(loads) {
			to = loads[i+1].At
		}
		w.spread(l.At, to, func(k int, share float64) { out[k] += share * float64(l.Busy) / float64(o.GPUs) })
	}
	return out
}

// Placed says whether it is known on which nodes jobs ran.
func Placed(o *sim.Outcome) bool {
	return !slices.ContainsFunc(o.History.Stays, func(s sim.Stay) bool { return len(s.Nodes) == 0 })
}

// sharesOf is where a stay was. Where nodes are not known, the cluster is one.
func sharesOf(o *sim.Outcome, s *sim.Stay, placed bool) []sim.Share {
	if placed {
		return s.Nodes
	}
	return []sim.Share{{GPUs: o.Jobs[s.Job].Job.GPUs}}
}

// Held is, by group of so many nodes and by stretch, the GPUs that jobs held
// over the GPUs that there are: above 1 where jobs shared them. Where nodes are
// not known there is one group.
func Held(o *sim.Outcome, w Window, nodes, group int) [][]float64 {
	placed, per := Placed(o), o.GPUs/nodes
	if !placed {
		nodes, group, per = 1, 1, o.GPUs
	}
	out := make([][]float64, (nodes+group-1)/group)
	for i := range out {
		out[i] = make([]float64, w.Stretches)
	}
	for i := range o.History.Stays {
		s := &o.History.Stays[i]
		for _, at := range sharesOf(o, s, placed) {
			g := at.Node / group
			gpus := float64(per * min(group, nodes-g*group))
			w.spread(s.From, s.To, func(k int, share float64) { out[g][k] += share * float64(at.GPUs) / gpus })
		}
	}
	return out
}
