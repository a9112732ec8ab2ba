package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

func itoa(n int) string { return strconv.Itoa(n) }

// Terminal says what a terminal can show.
type Terminal struct {
	Width int  // columns; below 40 counts as 40
	Color bool // ANSI colours
	ASCII bool // plain ASCII only
}

// look is how an activity is drawn in a terminal.
type look struct {
	plain, rich string
	color       string
}

func (a Activity) look() look {
	return [numActivities]look{
		Absent:    {" ", " ", ""},
		Waiting:   {"-", "░", "33"},
		Paused:    {".", "·", "90"},
		Swapped:   {"~", "▒", "35"},
		Suspended: {"s", "s", "31"},
		Computing: {"#", "█", "32"},
	}[a]
}

// WriteText draws a timeline with one line for each track: the time goes from
// left to right, a column shows what took most of its time.
func WriteText(w io.Writer, t Timeline, term Terminal) error {
	term.Width = max(term.Width, 40)
	label := labelWidth(t, term.Width/3)
	const tail = 6 // " 100%" and a space to spare
	bins := max(term.Width-label-tail-2, 10)
	var b strings.Builder
	if t.Title != "" {
		fmt.Fprintf(&b, "%s\n", Printable(t.Title))
	}
	for _, lane := range t.Lanes {
		fmt.Fprintf(&b, "%s\n", Printable(lane.Name))
		for _, tr := range lane.Tracks {
			b.WriteString(fit(trackLabel(tr), label, true))
			b.WriteString(edge(term))
			writeBins(&b, tr.bins(t.Length, bins), term)
			fmt.Fprintf(&b, "%s%4.0f%%\n", edge(term), 100*share(tr.Total(Computing), t.Length))
		}
	}
	if len(t.Lanes) == 0 {
		b.WriteString("nothing ran in this time\n")
		_, err := io.WriteString(w, b.String())
		return err
	}
	b.WriteString(axis(t, label+1, bins))
	b.WriteString(legend(t, term))
	_, err := io.WriteString(w, b.String())
	return err
}

func edge(t Terminal) string {
	if t.ASCII {
		return "|"
	}
	return "│"
}

func share(d, of time.Duration) float64 {
	if of <= 0 {
		return 0
	}
	return float64(d) / float64(of)
}

func trackLabel(t Track) string {
	if t.Detail == "" {
		return Printable(t.Name)
	}
	return Printable(t.Name + " " + t.Detail)
}

func labelWidth(t Timeline, most int) int {
	w := 8
	for _, lane := range t.Lanes {
		for _, tr := range lane.Tracks {
			w = max(w, Width(trackLabel(tr))+1)
		}
	}
	return min(w, max(most, 8))
}

// cell is one column of a drawing: what took most of its time, and for
// Computing the share of the time in eighths.
type cell struct {
	what  Activity
	level int
}

// bins cuts a track's time into n columns. One in which anything was done at
// all is not left empty, and who computed for a sixteenth of the time or more
// is shown to compute.
func (t Track) bins(length time.Duration, n int) []cell {
	if length <= 0 {
		return make([]cell, n)
	}
	times := make([][numActivities]time.Duration, n)
	for _, s := range t.Stretches {
		for i := int(share(s.From, length) * float64(n)); i < n; i++ {
			from, to := binEdges(i, n, length)
			if from >= s.To {
				break
			}
			if d := min(to, s.To) - max(from, s.From); d > 0 {
				times[i][s.What] += time.Duration(float64(d) * s.share())
			}
		}
	}
	out := make([]cell, n)
	for i := range times {
		out[i] = cellOf(times[i], length/time.Duration(n))
	}
	return out
}

func cellOf(times [numActivities]time.Duration, width time.Duration) cell {
	var c cell
	most := time.Duration(0)
	for a := Absent + 1; a < Computing; a++ {
		if times[a] > most {
			c.what, most = a, times[a]
		}
	}
	if t := times[Computing]; t > 0 && (t >= width/16 || most == 0) {
		c.what = Computing
		c.level = min(max(int(8*share(t, width)+0.5), 1), 8)
	}
	return c
}

func (s Stretch) share() float64 {
	if s.Share > 0 && s.Share < 1 {
		return s.Share
	}
	return 1
}

func binEdges(i, n int, length time.Duration) (from, to time.Duration) {
	step := float64(length) / float64(n)
	return time.Duration(float64(i) * step), time.Duration(float64(i+1) * step)
}

func writeBins(b *strings.Builder, cells []cell, term Terminal) {
	for i := 0; i < len(cells); {
		k := i
		for k < len(cells) && cells[k] == cells[i] {
			k++
		}
		text := strings.Repeat(cells[i].sign(term), k-i)
		if c := cells[i].what.look().color; term.Color && c != "" {
			text = "\x1b[" + c + "m" + text + "\x1b[0m"
		}
		b.WriteString(text)
		i = k
	}
}

// sign is the cell's character. Who computed for a part of the time only gets
// a lower block, or a plus sign.
func (c cell) sign(term Terminal) string {
	l := c.what.look()
	switch {
	case !term.ASCII && c.what == Computing:
		return string([]rune("▁▂▃▄▅▆▇█")[c.level-1])
	case !term.ASCII:
		return l.rich
	case c.what == Computing && c.level < 6:
		return "+"
	}
	return l.plain
}

// axis writes the times at the start, the middle and the end.
func axis(t Timeline, indent, width int) string {
	left, mid, right := mark(t, 0), mark(t, t.Length/2), mark(t, t.Length)
	line := left
	if at := width/2 - len(mid)/2; at > len(line)+1 && at+len(mid) < width-len(right)-1 {
		line += strings.Repeat(" ", at-len(line)) + mid
	}
	line += strings.Repeat(" ", max(width-len(line)-len(right), 1)) + right
	return strings.Repeat(" ", indent) + line + "\n"
}

func mark(t Timeline, d time.Duration) string {
	if t.Start.IsZero() {
		return d.Round(100 * time.Millisecond).String()
	}
	if t.Length >= 48*time.Hour {
		return t.Start.Add(d).Format("01-02T15:04")
	}
	return t.Start.Add(d).Format("15:04:05")
}

// legend names the signs that occur.
func legend(t Timeline, term Terminal) string {
	var seen [numActivities]bool
	for _, lane := range t.Lanes {
		for _, tr := range lane.Tracks {
			for _, s := range tr.Stretches {
				seen[s.What] = true
			}
		}
	}
	var parts []string
	for _, a := range Activities() {
		if !seen[a] {
			continue
		}
		var b strings.Builder
		writeBins(&b, []cell{{a, 8}}, term)
		parts = append(parts, b.String()+" "+a.String())
	}
	return strings.Join(parts, "   ") + "   % of the time computing\n"
}
