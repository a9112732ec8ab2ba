package sim

// Task is a job in one run.
type Task struct {
	Job   *Job
	Index int // its place in the trace

	Left     float64 // iterations still to do, as of the last time it was settled
	Solo     float64 // seconds an iteration takes alone on this cluster
	Iter     float64 // seconds an iteration takes as it runs now
	Restart  float64 // seconds it loses to a start
	Attained float64 // seconds it has held GPUs
	End      float64 // when it ends if nothing changes; Never while it does not run

	Nodes []Share // where it runs, kept by the scheduler

	First    float64 // when it first ran; Never before that
	Preempts int     // how often it was stopped before its end

	running  bool
	stay     int     // its last stay in the history, where one is kept
	pos      int     // its place in the heap of ends, -1 outside
	since    float64 // when it was last settled
	debt     float64 // seconds of restart still to pay
	demand   float64 // the world's demand integral when it arrived
	ended    float64
	fairness float64
}

// Running says whether the task has GPUs now.
func (t *Task) Running() bool { return t.running }

// Remaining is the time the task still needs alone, in seconds, as of the last
// moment at which it was settled. It is current for a task that does not run,
// and for all tasks after [World.Settle].
func (t *Task) Remaining() float64 { return t.Left * t.Solo }

// settle books what a running task has done up to now.
func (t *Task) settle(now float64) {
	elapsed := now - t.since
	if elapsed <= 0 {
		return
	}
	t.since = now
	t.Attained += elapsed
	t.Left -= max(elapsed-t.debt, 0) / t.Iter
	t.debt = max(t.debt-elapsed, 0)
}
