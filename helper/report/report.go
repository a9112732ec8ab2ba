package report

import (
	"fmt"
	"io"
	"sort"
	"strings"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// Report tells what a node did over some time, and what came of it.
type Report struct {
	Title  string
	Notes  []string
	course *Course
	line   Timeline
	gains  []Gain // one for each lane
}

// NewReport adds a course up.
func NewReport(c *Course) *Report {
	r := &Report{Title: "What the GPUs did", course: c, line: FromCourse(c)}
	if c.Node != "" {
		r.Title = "What the GPUs of node " + c.Node + " did"
	}
	r.line.addIdle(c.GPUs)
	for _, l := range r.line.Lanes {
		r.gains = append(r.gains, gainOf(l, c.Loads, c.Start))
	}
	return r
}

// addIdle adds the GPUs on which nobody was, so that none is missed.
func (t *Timeline) addIdle(gpus []model.GPU) {
	byGPU := map[string][]Track{}
	for _, l := range t.Lanes {
		byGPU[l.UUID] = l.Tracks
	}
	for _, g := range gpus {
		if byGPU[g.UUID] == nil {
			byGPU[g.UUID] = []Track{}
		}
	}
	t.Lanes = lanes(byGPU, gpus)
}

// What the estimate of the gain rests on, in words.
const gainText = `Not measured, but estimated: nobody ran the same jobs one at a time. A job's work counts in the time that it would have taken alone. ` +
	`While a job had a GPU alone, that is the time itself. While it computed beside others, it is at most the time ("at most": nobody slowed it down), ` +
	`and at least its share of the multiprocessors of that time ("at least": alone it would have had all of them). ` +
	`"Likely" divides that share by the one that the job had while it was alone, in this report's time; where a job was never seen alone it is not known. ` +
	`Shares are means over ten seconds or more, and how jobs slow each other in memory bandwidth, caches and on the host does not show in them: where that is much, even "at least" is too high. ` +
	`Where jobs take turns and never compute at once there is nothing to gain but that nobody waits for another's end.`

// Page makes the page.
func (r *Report) Page() Page {
	u := newUsage(r.course, r.line)
	var memory, util []Drawing
	for _, l := range r.line.Lanes {
		memory, util = append(memory, u.memory(l)), append(util, u.util(l))
	}
	p := Page{Title: r.Title, Intro: r.intro(), Notes: r.Notes}
	if len(r.line.Lanes) == 0 {
		return p
	}
	p.Parts = []Part{
		{Title: "Who computed when", Text: "A row for each job, or for jobs that were never there at once; a pointer that rests on a bar tells whose it is. Higher is more of the time.", Body: r.line.Drawings()},
		{Title: "GPU memory", Text: "Whose it was, in the colours above: means. The line is the highest that was seen; grey belongs to no packed job; pale is not known.", Body: memory},
		{Title: "Utilisation", Text: "The share of the multiprocessors' time, by job. The line is the highest share of the time in which a kernel ran.", Body: util},
		{Title: "Shares of the time", Text: "Of each job, within the time of this report.", Body: []Drawing{r.shares()}},
		{Title: "What packing gained", Text: gainText, Body: []Drawing{r.gain()}},
	}
	return p
}

func (r *Report) intro() string {
	c := r.course
	jobs := map[model.TenantID]bool{}
	for _, l := range r.line.Lanes {
		for _, t := range l.Tracks {
			jobs[t.Tenant] = true
		}
	}
	text := fmt.Sprintf("From %s to %s: %s on %s.", Clock(c.Start, c.Start.Location()), Clock(c.End, c.Start.Location()),
		counted(len(jobs), "packed job"), counted(len(r.line.Lanes), "GPU"))
	if len(r.line.Lanes) == 0 {
		text += " Nothing ran in this time."
	}
	return text
}

func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return itoa(n) + " " + what
}

// tenantTime is a tenant with the most that it did on one of its GPUs.
type tenantTime struct {
	view  *model.View
	track Track
	gpus  int
	sm    model.Reading[float64]
	peak  model.Reading[float64]
}

// tenants lists those that are drawn, in order of their start.
func (r *Report) tenants() []tenantTime {
	byID := map[model.TenantID]*tenantTime{}
	for _, l := range r.line.Lanes {
		for _, t := range l.Tracks {
			if byID[t.Tenant] == nil {
				byID[t.Tenant] = &tenantTime{track: t}
			}
			byID[t.Tenant].gpus++
		}
	}
	var out []tenantTime
	for i := range r.course.Tenants {
		v := &r.course.Tenants[i]
		if t := byID[v.ID]; t != nil {
			t.view = v
			t.sm, t.peak = r.taken(v.ID)
			r.fromLife(t)
			out = append(out, *t)
			delete(byID, v.ID)
		}
	}
	sort.SliceStable(out, func(i, k int) bool { return out[i].view.Start.Before(out[k].view.Start) })
	return out
}

// fromLife takes what no stretch of load tells from what is known of a tenant whose
// whole life the report tells: a short one has no stretch, and one that just came
// none yet.
func (r *Report) fromLife(t *tenantTime) {
	if t.view.Start.Before(r.course.Start) || t.view.End.After(r.course.End) {
		return
	}
	if !t.sm.Known() {
		t.sm = t.view.Tally.Util()
	}
	if most, ok := maxPeak(t.view); ok && !t.peak.Known() {
		t.peak = model.Known(float64(most))
	}
}

// taken is a tenant's mean share of the multiprocessors of its GPUs, and the
// highest memory seen on one of them.
func (r *Report) taken(id model.TenantID) (sm, peak model.Reading[float64]) {
	sum, time, whole := 0.0, 0.0, true
	for i := range r.course.Loads {
		l := &r.course.Loads[i]
		for k := range l.GPUs {
			for _, t := range l.GPUs[k].Tenants {
				if t.Tenant != id {
					continue
				}
				v, ok := t.SM.Get()
				if whole = whole && ok; ok {
					sum, time = sum+v.Mean*l.Length.Seconds(), time+l.Length.Seconds()
				}
				if v, ok := t.Memory.Get(); ok {
					peak = model.Known(max(peak.Or(0), v.Max))
				}
			}
		}
	}
	if time > 0 && (whole || sum > 0) { // while it was paused is no more than that
		sm = model.Known(sum / time)
	}
	return sm, peak
}

// sharesMost bounds the rows of the table of shares.
const sharesMost = 400

func (r *Report) shares() Table {
	t := Table{Columns: []string{"job", "name", "user", "GPUs", "there", "computed", "of its time", "held", "paused", "swapped", "multiprocessors", "highest memory"}}
	all := r.tenants()
	for _, v := range all[:min(len(all), sharesMost)] {
		var sum [numActivities]time.Duration
		there := time.Duration(0)
		for _, s := range v.track.Stretches {
			sum[s.What] += s.To - s.From
			there += s.To - s.From
		}
		t.Rows = append(t.Rows, []string{v.view.Name(), v.view.Reg.JobName, v.view.Reg.UserLabel(), itoa(v.gpus), Duration(there),
			Duration(sum[Computing]), percent(share(sum[Computing], there)), Duration(sum[Waiting]), Duration(sum[Paused]), Duration(sum[Swapped]),
			reading(v.sm, percent), reading(v.peak, func(b float64) string { return model.Bytes(b).String() })})
	}
	if n := len(all) - sharesMost; n > 0 {
		t.Rows = append(t.Rows, []string{fmt.Sprintf("and %d more", n)})
	}
	return t
}

func percent(v float64) string { return fmt.Sprintf("%.0f %%", 100*v) }

func reading[T any](r model.Reading[T], text func(T) string) string {
	v, ok := r.Get()
	if !ok {
		return "not known"
	}
	return text(v)
}

// gain compares with one job at a time, by GPU and over all.
func (r *Report) gain() Table {
	t := Table{Columns: []string{"GPU", "computed", "by several at once", "nobody, though some waited", "one at a time: at least", "likely", "at most", "gain"}}
	sum := Gain{Least: model.Known(time.Duration(0)), Likely: model.Known(time.Duration(0))}
	for i, g := range r.gains {
		t.Rows = append(t.Rows, g.row(r.line.Lanes[i].Name))
		sum.Busy, sum.Shared, sum.Wait, sum.Most = sum.Busy+g.Busy, sum.Shared+g.Shared, sum.Wait+g.Wait, sum.Most+g.Most
		sum.Least, sum.Likely = plus(sum.Least, g.Least), plus(sum.Likely, g.Likely)
	}
	if len(r.gains) > 1 {
		t.Rows = append(t.Rows, sum.row("all"))
	}
	return t
}

func plus(a, b model.Reading[time.Duration]) model.Reading[time.Duration] {
	x, ok1 := a.Get()
	y, ok2 := b.Get()
	if !ok1 || !ok2 {
		return model.Unknown[time.Duration]()
	}
	return model.Known(x + y)
}

func (g Gain) row(name string) []string {
	return []string{name, Duration(g.Busy), Duration(g.Shared), Duration(g.Wait), reading(g.Least, Duration), reading(g.Likely, Duration), Duration(g.Most), g.words()}
}

// words tells the gain as far as it is known.
func (g Gain) words() string {
	least, bounded := g.Least.Get()
	likely, told := g.Likely.Get()
	switch {
	case g.Busy == 0:
		return "nobody computed"
	case g.Shared == 0 && Duration(g.Wait) == Duration(0): // as the column beside it tells
		return "none: never two at once"
	case told && bounded && g.Shared > 0:
		return fmt.Sprintf("about %.2f times, from %.2f to %.2f", g.Over(likely), g.Over(least), g.Over(g.Most))
	case bounded && g.Shared > 0:
		return fmt.Sprintf("from %.2f to %.2f times", g.Over(least), g.Over(g.Most))
	case bounded:
		return fmt.Sprintf("%.2f times: never two at once, and time passed between turns", g.Over(g.Most))
	}
	return fmt.Sprintf("at most %.2f times; from where is not known", g.Over(g.Most))
}

// WriteText writes the report for a terminal.
func (r *Report) WriteText(w io.Writer, term Terminal) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n", Printable(r.Title), Printable(r.intro()))
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "%s\n", Printable(n))
	}
	if len(r.line.Lanes) > 0 {
		line := r.line
		b.WriteByte('\n')
		line.Title = "Who computed when"
		if err := WriteText(&b, line, term); err != nil {
			return err
		}
		r.writeSparks(&b, term)
		b.WriteString("\nShares of the time\n")
		writeColumns(&b, r.shares().cells(), "  ")
		b.WriteString("\nWhat packing gained\n")
		writeColumns(&b, r.gain().cells(), "  ")
		writeWrapped(&b, gainText, max(min(term.Width, 100), 40))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (t Table) cells() [][]string { return append([][]string{t.Columns}, t.Rows...) }
