package main

import (
	"fmt"
	"path/filepath"

	"github.com/gimbal-hpc/gimbal/helper/report"
	"github.com/gimbal-hpc/gimbal/helper/sim/study"
)

// traceName is how a page calls the trace.
func (s *simulation) traceName() string {
	if s.trace == "-" {
		return "standard input"
	}
	return filepath.Base(s.trace)
}

// where draws who ran where under each policy: jobs where they can be seen,
// else how full the nodes were.
func (p *page) where() (out []report.Drawing) {
	most := min(pageBarsEach, pageBars/max(len(p.results), 1))
	for _, r := range p.results {
		if r.Outcome.GPUs <= pageBarGPUs {
			if seats, slots := study.Seats(r.Outcome, p.s.nodes); len(seats) <= most {
				out = append(out, p.bars(r, seats, slots))
				continue
			}
		}
		out = append(out, p.shades(r))
	}
	return out
}

// bars draws each job on each of its GPUs.
func (p *page) bars(r study.Result, seats []study.Seat, slots int) report.Bars {
	b := report.Bars{Title: r.Policy + ": jobs on GPUs", X: p.time}
	placed := study.Placed(r.Outcome)
	for i := range r.Outcome.GPUs {
		name := fmt.Sprintf("GPU %d", i)
		if placed && p.s.nodes > 1 {
			name = fmt.Sprintf("node%d GPU%d", i/p.s.perNode, i%p.s.perNode)
		}
		b.Rows = append(b.Rows, name)
	}
	for _, s := range seats {
		j := r.Outcome.Jobs[s.Job].Job
		b.Bars = append(b.Bars, report.Bar{
			From: s.From - p.window.From, To: s.To - p.window.From, Row: s.GPU,
			Top: float64(s.Slot) / float64(slots), Low: float64(s.Slot+1) / float64(slots), Kind: s.Job,
			Text: fmt.Sprintf("job %.40s %.40s, %d GPUs, %s to %s", j.ID, j.Model, j.GPUs, study.Span(s.From-p.window.From), study.Span(s.To-p.window.From)),
		})
	}
	return b
}

// shades draws how many of the GPUs of each group of nodes jobs held.
func (p *page) shades(r study.Result) report.Shades {
	group := (p.s.nodes + pageRows - 1) / pageRows
	w := p.window
	w.Stretches = min(160, max(40, pageCells/pageRows/len(p.results)))
	s := report.Shades{Title: r.Policy + ": GPUs that jobs held", X: p.time, Cells: study.Held(r.Outcome, w, p.s.nodes, group), Above: "more: jobs shared GPUs"}
	for i := range s.Cells {
		first, last := i*group, min((i+1)*group, p.s.nodes)-1
		switch {
		case !study.Placed(r.Outcome):
			s.Rows = append(s.Rows, "all GPUs")
		case first == last:
			s.Rows = append(s.Rows, fmt.Sprintf("node %d", first))
		default:
			s.Rows = append(s.Rows, fmt.Sprintf("%d to %d", first, last))
		}
	}
	return s
}
