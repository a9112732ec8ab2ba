package study

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"text/tabwriter"

	"github.com/gimbal-hpc/gimbal/helper/sim"
)

// WriteJSON writes the results as an array with one object a policy.
func WriteJSON(w io.Writer, results []Result) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(results)
}

// WriteTable writes the results as a table to read.
func WriteTable(w io.Writer, results []Result) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "policy\tjobs\tmean JCT\tmedian JCT\tp99 JCT\tmakespan\tworst fairness\tdeadlines met\tGPUs busy\t")
	for _, r := range results {
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\t%.2f\t%s\t%.1f %%\t\n", r.Policy, r.Jobs,
			span(r.AvgJCT), span(r.MedianJCT), span(r.P99JCT), span(r.Makespan), r.MaxFTF, deadlines(r.Summary), 100*r.GPUBusy)
	}
	return t.Flush()
}

func deadlines(s sim.Summary) string {
	if s.DeadlinesMet == nil {
		return "-"
	}
	return fmt.Sprintf("%d of %d", *s.DeadlinesMet, s.Deadlines)
}

// span is a time in seconds to read, in its two largest units.
func span(seconds float64) string {
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
