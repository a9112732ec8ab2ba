package study

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/gimbal-hpc/gimbal/helper/sim"
)

// WriteJSON writes the results as an array with one object a policy.
func WriteJSON(w io.Writer, results []Result) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(results)
}

// Columns is the heads of the columns of [Result.Row].
func Columns() []string {
	return []string{"policy", "jobs", "mean JCT", "median JCT", "p99 JCT", "makespan", "worst fairness", "deadlines met", "GPUs busy"}
}

// Row is the result in words, a column each.
func (r Result) Row() []string {
	return []string{r.Policy, strconv.Itoa(r.Jobs), Span(r.AvgJCT), Span(r.MedianJCT), Span(r.P99JCT), Span(r.Makespan),
		fmt.Sprintf("%.2f", r.MaxFTF), deadlines(r.Summary), fmt.Sprintf("%.1f %%", 100*r.GPUBusy)}
}

// WriteTable writes the results as a table to read.
func WriteTable(w io.Writer, results []Result) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	rows := [][]string{Columns()}
	for _, r := range results {
		rows = append(rows, r.Row())
	}
	for _, row := range rows {
		fmt.Fprintln(t, strings.Join(row, "\t")+"\t")
	}
	return t.Flush()
}

func deadlines(s sim.Summary) string {
	if s.DeadlinesMet == nil {
		return "-"
	}
	return fmt.Sprintf("%d of %d", *s.DeadlinesMet, s.Deadlines)
}

// Span is a time in seconds to read, in its two largest units.
func Span(seconds float64) string {
	switch s := int64(math.Round(seconds)); {
	case seconds < 60:
		return fmt.Sprintf("%.1fs", seconds)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	case s < 86400:
		return fmt.Sprintf("%dh%02dm", s/3600, s/60%60)
	default:
		return fmt.Sprintf("%dd%02dh", s/86400, s/3600%24)
	}
}

// WriteJobs writes what came of each job under each policy as CSV. Times are
// seconds from the start of the trace; a job without deadline has none there.
func WriteJobs(w io.Writer, results []Result) error {
	c := csv.NewWriter(w)
	_ = c.Write([]string{"policy", "job_id", "user", "model", "gpus", "submit_s", "start_s", "end_s", "jct_s", "held_s", "preempts", "fairness", "deadline_s"})
	for _, r := range results {
		for i := range r.Outcome.Jobs {
			o := &r.Outcome.Jobs[i]
			deadline := ""
			if o.Job.Deadline < sim.Never {
				deadline = number(o.Job.Deadline)
			}
			_ = c.Write([]string{r.Policy, o.Job.ID, o.Job.User, o.Job.Model, strconv.Itoa(o.Job.GPUs),
				number(o.Job.Submit), number(o.Start), number(o.End), number(o.JCT()), number(o.Held),
				strconv.Itoa(o.Preempts), strconv.FormatFloat(o.Fairness, 'f', 4, 64), deadline})
		}
	}
	c.Flush() // what failed before is in its error
	return c.Error()
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', 3, 64) }
