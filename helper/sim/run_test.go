package sim

import (
	"math"
	"strings"
	"testing"
)

// fifo runs whatever fits in the order of arrival; it checks what the world
// tells it on the way.
type fifo struct {
	w       *World
	waiting []*Task
	wake    float64 // asked for once
	asked   []float64
}

func (f *fifo) Start(w *World) { f.w = w }
func (f *fifo) Arrive(t *Task) { f.waiting = append(f.waiting, t) }
func (f *fifo) Finish(t *Task) { f.w.Cluster.Release(t.Nodes) }
func (f *fifo) Schedule() float64 {
	f.asked = append(f.asked, f.w.Now)
	for len(f.waiting) > 0 {
		t := f.waiting[0]
		if t.Nodes = f.w.Cluster.Place(t.Job, nil); t.Nodes == nil {
			break
		}
		f.w.Start(t, t.Solo)
		f.waiting = f.waiting[1:]
	}
	f.w.Busy = f.w.Cluster.Used()
	if f.wake > f.w.Now {
		return f.wake
	}
	return Never
}

func job(id string, submit float64, gpus int, seconds float64) Job {
	return Job{ID: id, Submit: submit, GPUs: gpus, Iterations: seconds, IterTime: 1, Deadline: Never}
}

func TestRun(t *testing.T) {
	jobs := []Job{job("a", 0, 2, 100), job("b", 10, 2, 50), job("c", 20, 1, 5)}
	jobs[1].Deadline, jobs[2].Deadline = 150, 151
	f := &fifo{wake: 30}
	o, err := Run(jobs, Config{Nodes: 1, GPUsPerNode: 2}, f)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][2]float64{{0, 100}, {100, 150}, {150, 155}} {
		if j := o.Jobs[i]; j.Start != want[0] || j.End != want[1] || j.Held != want[1]-want[0] {
			t.Errorf("job %s ran from %v to %v and held GPUs for %v s, want %v", j.Job.ID, j.Start, j.End, j.Held, want)
		}
	}
	s := o.Summary()
	if s.Makespan != 155 || s.AvgJCT != (100+140+135)/3.0 || s.MedianJCT != 135 || s.P99JCT != 140 {
		t.Errorf("summary %+v", s)
	}
	if want := (2*150 + 5) / (2 * 155.0); math.Abs(s.GPUBusy-want) > 1e-12 {
		t.Errorf("GPUs busy for %v of the time, want %v", s.GPUBusy, want)
	}
	if s.DeadlinesMet == nil || *s.DeadlinesMet != 1 || s.Deadlines != 2 {
		t.Errorf("deadlines met: %v of %d, want 1 of 2", s.DeadlinesMet, s.Deadlines)
	}
	if want := []float64{0, 10, 20, 30, 100, 150, 155}; !equal(f.asked, want) {
		t.Errorf("asked at %v, want %v", f.asked, want)
	}
	// c asks for 1 of 2 GPUs; from 20 to 100 a, b and c ask for 5, from 100 to
	// 150 b and c for 3, then c for 1.
	crowd := (80*5 + 50*3 + 5*1) / 135.0 / 2
	if got, want := o.Jobs[2].Fairness, 135/(5*crowd); math.Abs(got-want) > 1e-9 {
		t.Errorf("fairness of c is %v, want %v", got, want)
	}
}

func equal(a, b []float64) bool {
	for i := range a {
		if i >= len(b) || a[i] != b[i] {
			return false
		}
	}
	return len(a) == len(b)
}

func TestCosts(t *testing.T) {
	jobs := []Job{job("a", 0, 1, 100), job("b", 10, 1, 100)}
	restart := Times{Other: 7}
	for name, c := range map[string]struct {
		cost Cost
		ends [2]float64
	}{
		"paid at the start":         {Cost{Solo: 1, Restart: restart}, [2]float64{107, 117}},
		"iterations take longer":    {Cost{Solo: 1.5}, [2]float64{150, 160}},
		"paid by who runs past one": {Cost{Solo: 1, Restart: restart, EveryMoment: true}, [2]float64{107, 117}},
	} {
		o, err := Run(jobs, Config{Nodes: 2, GPUsPerNode: 1, Cost: &c.cost}, &fifo{})
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range c.ends {
			if o.Jobs[i].End != want {
				t.Errorf("%s: job %s ends at %v, want %v", name, o.Jobs[i].Job.ID, o.Jobs[i].End, want)
			}
		}
	}
}

func TestRunRefuses(t *testing.T) {
	two := Config{Nodes: 1, GPUsPerNode: 2}
	for want, c := range map[string]struct {
		jobs   []Job
		config Config
	}{
		"both must be at least 1":            {nil, Config{}},
		"job a asks for 3 GPUs":              {[]Job{job("a", 0, 3, 1)}, two},
		"job b arrives before the one":       {[]Job{job("a", 1, 1, 1), job("b", 0, 1, 1)}, two},
		"1 jobs wait for ever: nothing runs": {[]Job{job("a", 0, 1, 1), job("b", 0, 1, 1)}, Config{Nodes: 1, GPUsPerNode: 1}},
	} {
		if _, err := Run(c.jobs, c.config, &leaky{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// leaky is fifo that never frees GPUs.
type leaky struct{ fifo }

func (l *leaky) Finish(*Task) {}

func TestPaceAndStop(t *testing.T) {
	jobs := []Job{job("a", 0, 1, 100)}
	s := &script{at: map[float64]func(*World, *Task){
		0:   func(w *World, t *Task) { w.Start(t, 1) },
		40:  func(w *World, t *Task) { w.Pace(t, 2) },  // 60 left, ends at 160
		60:  func(w *World, t *Task) { w.Stop(t) },     // 50 left
		200: func(w *World, t *Task) { w.Start(t, 1) }, // restart: from 210 on
		230: func(w *World, t *Task) { w.Repay(t) },    // 30 left from 240 on
	}}
	o, err := Run(jobs, Config{Nodes: 1, GPUsPerNode: 1, Cost: &Cost{Solo: 1}}, s)
	if err != nil {
		t.Fatal(err)
	}
	if j := o.Jobs[0]; j.End != 270 || j.Held != 130 || j.Preempts != 1 || j.Start != 0 {
		t.Errorf("outcome %+v, want the end at 270, 130 s held and one preemption", j)
	}
}

// script does something to the only task at given times; a restart costs 10 s
// from the first stop on.
type script struct {
	w  *World
	at map[float64]func(*World, *Task)
}

func (s *script) Start(w *World) { s.w = w }
func (s *script) Arrive(*Task)   {}
func (s *script) Finish(*Task)   {}
func (s *script) Schedule() float64 {
	if f := s.at[s.w.Now]; f != nil {
		f(s.w, &s.w.Tasks[0])
		s.w.Tasks[0].Restart = 10
	}
	next := Never
	for at := range s.at {
		if at > s.w.Now {
			next = min(next, at)
		}
	}
	return next
}
