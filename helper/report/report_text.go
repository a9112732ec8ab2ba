package report

import (
	"fmt"
	"strings"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// writeColumns writes rows of cells, each column as wide as it has to be, with a
// gap between them.
func writeColumns(b *strings.Builder, rows [][]string, gap string) {
	var widths []int
	for _, r := range rows {
		for k, cell := range r {
			if k == len(widths) {
				widths = append(widths, 0)
			}
			widths[k] = max(widths[k], Width(Printable(cell)))
		}
	}
	for _, r := range rows {
		var line strings.Builder
		for k, cell := range r {
			writeFit(&line, Printable(cell), widths[k], true)
			line.WriteString(gap)
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

// writeWrapped writes a text in lines of a width.
func writeWrapped(b *strings.Builder, text string, width int) {
	at := 0
	for _, word := range strings.Fields(text) {
		if at > 0 && at+1+Width(word) > width {
			b.WriteByte('\n')
			at = 0
		}
		if at > 0 {
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += Width(word)
	}
	b.WriteByte('\n')
}

// writeSparks draws how full and how busy each GPU was.
func (r *Report) writeSparks(b *strings.Builder, term Terminal) {
	width := max(max(term.Width, 40)-30, 10)
	b.WriteString("\nGPU memory and utilisation: means, from left to right; ? is not known\n")
	for _, l := range r.line.Lanes {
		b.WriteString(Printable(l.Name) + "\n")
		for _, q := range []struct {
			name string
			of   func(*model.GPULoad) (float64, bool)
		}{{"memory", fullness}, {"utilisation", busyness}} {
			text, most := r.spark(l.UUID, q.of, width, term.ASCII)
			fmt.Fprintf(b, "  %-11s %s%s%s  %s\n", q.name, bar(term), text, bar(term), most)
		}
	}
}

func bar(t Terminal) string { return edge(t) }

// fullness is the share of a GPU's memory that was in use.
func fullness(g *model.GPULoad) (float64, bool) {
	total, ok := g.Total.Get()
	sum := 0.0
	for _, t := range g.Tenants {
		m, _ := t.Memory.Get()
		sum += m.Mean
	}
	used, known := g.Used.Get()
	return max(used.Mean, sum) / max(float64(total), 1), ok && known && total > 0
}

// busyness is the share of the time in which a kernel ran, or that of its
// tenants together where the GPU does not tell.
func busyness(g *model.GPULoad) (float64, bool) {
	if u, ok := g.Util.Get(); ok {
		return u.Mean, true
	}
	sum, known := 0.0, len(g.Tenants) > 0
	for _, t := range g.Tenants {
		s, ok := t.SM.Get()
		sum, known = sum+s.Mean, known && ok
	}
	return min(sum, 1), known
}

// spark draws shares over time as signs, one for each of n equal parts.
func (r *Report) spark(uuid string, of func(*model.GPULoad) (float64, bool), n int, ascii bool) (text, most string) {
	sums, times, blind := make([]float64, n), make([]float64, n), make([]bool, n)
	length := r.course.End.Sub(r.course.Start)
	for i := range r.course.Loads {
		l := &r.course.Loads[i]
		g := gpuLoad(l, uuid)
		if g == nil {
			continue
		}
		v, ok := of(g)
		from, to := l.From.Sub(r.course.Start), l.From.Add(l.Length).Sub(r.course.Start)
		for k := max(int(share(from, length)*float64(n)), 0); k < n; k++ {
			a, z := binEdges(k, n, length)
			if a >= to {
				break
			}
			switch d := (min(z, to) - max(a, from)).Seconds(); {
			case d > 0 && ok:
				sums[k], times[k] = sums[k]+v*d, times[k]+d
			case d > 0:
				blind[k] = true
			}
		}
	}
	for k := range blind {
		if blind[k] && sums[k] == 0 { // nothing was seen, for a part of the time alone
			times[k] = 0
		}
	}
	return sparkText(sums, times, ascii)
}

func sparkText(sums, times []float64, ascii bool) (text, most string) {
	signs := []rune(" ▁▂▃▄▅▆▇█")
	if ascii {
		signs = []rune(" ..::++##")
	}
	var b strings.Builder
	high, some := 0.0, false
	for k := range sums {
		if times[k] == 0 {
			b.WriteByte('?')
			continue
		}
		v := sums[k] / times[k]
		high, some = max(high, v), true
		b.WriteRune(signs[min(max(int(8*v+.5), 0), 8)])
	}
	if !some {
		return b.String(), "not known"
	}
	return b.String(), "up to " + percent(high)
}
