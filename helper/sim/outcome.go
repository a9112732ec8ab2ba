package sim

import "slices"

// Outcome is what came of a run.
type Outcome struct {
	Jobs     []JobOutcome // in the order of the trace
	Moments  int          // times at which something happened
	BusyTime float64      // GPU seconds with work
	GPUs     int          // of the cluster
	History  *History     // nil where none was asked for
}

// JobOutcome is what came of one job. Times are seconds from the trace's start.
type JobOutcome struct {
	Job      *Job
	Start    float64 // when it first ran
	End      float64
	Held     float64 // seconds it held GPUs
	Preempts int
	// Fairness is its completion time over what it would have needed with a
	// share of the cluster: its work alone times the average number of times
	// that the jobs there asked for the whole cluster while it was there, or
	// once where they asked for less.
	Fairness float64
}

// JCT is the time from arrival to end, in seconds.
func (o *JobOutcome) JCT() float64 { return o.End - o.Job.Submit }

// finish books the end of a task.
func (w *World) finish(t *Task) {
	w.asked -= t.Job.GPUs
	t.ended = w.Now
	jct := w.Now - t.Job.Submit
	crowd := 1.0
	if jct > 0 {
		crowd = max(1, (w.demand-t.demand)/jct/float64(w.Cluster.GPUs()))
	}
	t.fairness = 1
	if work := t.Job.Iterations * t.Solo; work > 0 {
		t.fairness = jct / (work * crowd)
	}
}

func (w *World) outcome() *Outcome {
	o := &Outcome{
		Jobs: make([]JobOutcome, len(w.Tasks)), Moments: w.moments,
		BusyTime: w.busyTime, GPUs: w.Cluster.GPUs(), History: w.history,
	}
	for i := range w.Tasks {
		t := &w.Tasks[i]
		o.Jobs[i] = JobOutcome{
			Job: t.Job, Start: t.First, End: t.ended, Held: t.Attained,
			Preempts: t.Preempts, Fairness: t.fairness,
		}
	}
	return o
}

// Summary is the figures of a run. Times are in seconds.
type Summary struct {
	Jobs      int     `json:"jobs"`
	AvgJCT    float64 `json:"avg_jct_s"`
	MedianJCT float64 `json:"median_jct_s"`
	P99JCT    float64 `json:"p99_jct_s"`
	// Makespan is from the first arrival to the last end.
	Makespan float64 `json:"makespan_s"`
	// MaxFTF is the worst finish-time fairness of a job; above 1 a job did
	// worse than with its share of the cluster.
	MaxFTF float64 `json:"max_ftf"`
	// DeadlinesMet is how many of the jobs with a deadline kept it; nil where
	// no job has one.
	DeadlinesMet *int `json:"deadlines_met"`
	Deadlines    int  `json:"deadlines"` // jobs that have one
	// GPUBusy is the share of GPU time with work, over the makespan.
	GPUBusy float64 `json:"gpu_busy"`
	Events  int     `json:"events"`
}

// Summary computes the figures of the run.
func (o *Outcome) Summary() Summary {
	s := Summary{Jobs: len(o.Jobs), Events: o.Moments}
	if len(o.Jobs) == 0 {
		return s
	}
	jcts, last, met := make([]float64, len(o.Jobs)), 0.0, 0
	for i := range o.Jobs {
		j := &o.Jobs[i]
		jcts[i] = j.JCT()
		s.AvgJCT += jcts[i]
		s.MaxFTF = max(s.MaxFTF, j.Fairness)
		last = max(last, j.End)
		if j.Job.Deadline < Never {
			s.Deadlines++
			if j.End <= j.Job.Deadline {
				met++
			}
		}
	}
	slices.Sort(jcts)
	n := len(jcts)
	s.AvgJCT /= float64(n)
	s.MedianJCT = (jcts[(n-1)/2] + jcts[n/2]) / 2
	s.P99JCT = jcts[n*99/100]
	s.Makespan = last - o.Jobs[0].Job.Submit
	if s.Makespan > 0 {
		s.GPUBusy = o.BusyTime / (float64(o.GPUs) * s.Makespan)
	}
	if s.Deadlines > 0 {
		s.DeadlinesMet = &met
	}
	return s
}
