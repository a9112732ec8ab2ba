package bound

import (
	"errors"

	"github.com/gimbal-hpc/gimbal/helper/sim"
)

// Bounds is what no policy passes: of the first four none has less, of the deadlines
// none meets more. Times are in seconds, as in sim.Summary.
type Bounds struct {
	AvgJCT       float64 `json:"avg_jct_s"`
	P99JCT       float64 `json:"p99_jct_s"`
	Makespan     float64 `json:"makespan_s"`
	MaxFTF       float64 `json:"max_ftf"`
	DeadlinesMet int     `json:"deadlines_met"`
}

// and is the closer of two bounds, for each figure.
func (b Bounds) and(o Bounds) Bounds {
	return Bounds{
		AvgJCT: max(b.AvgJCT, o.AvgJCT), P99JCT: max(b.P99JCT, o.P99JCT), Makespan: max(b.Makespan, o.Makespan),
		MaxFTF: max(b.MaxFTF, o.MaxFTF), DeadlinesMet: min(b.DeadlinesMet, o.DeadlinesMet),
	}
}

// Of finds the bounds for jobs in order of arrival on a cluster: for any placement, and
// for one under which jobs of the first moment have their GPUs from then on, by GPU
// (their places in the trace), as node.FirstSeats has it. It fails under cost models
// that start jobs anew at each moment, whose packs have speeds of their own.
func Of(jobs []sim.Job, c sim.Config, seats [][]int) (anywhere, seated Bounds, err error) {
	if c.Cost == nil {
		c.Cost = sim.NoCost()
	}
	if c.Cost.EveryMoment {
		return anywhere, seated, errors.New("bounding a trace: the cost model starts jobs anew at each moment")
	}
	if len(jobs) == 0 {
		return anywhere, seated, nil
	}
	p := newProblem(jobs, c)
	anywhere = p.bounds()
	return anywhere, p.seated(seats, anywhere), nil
}

// problem is the jobs on a cluster, as the bounds look at them.
type problem struct {
	jobs   []job
	gpus   float64 // of the cluster
	sets   *sets
	prices []prices // those for all work, and those that proved most of some stretch
}

// job is what the bounds look at in a job.
type job struct {
	*sim.Job
	at     int     // its place in the trace
	kind   int     // of its work: see sets
	ready  float64 // when it can compute at the earliest
	work   float64 // seconds alone
	speed  float64 // the greatest that it can have
	length float64 // seconds that it computes at least
}

func newProblem(jobs []sim.Job, c sim.Config) *problem {
	p := &problem{gpus: float64(c.Nodes * c.GPUsPerNode), sets: newSets(jobs, c.Interference)}
	for i := range jobs {
		j, k := &jobs[i], p.sets.kind[i]
		work, speed := j.Work()*c.Cost.Solo, p.sets.fastest[k]
		p.jobs = append(p.jobs, job{
			Job: j, at: i, kind: k, ready: j.Submit + c.Cost.Restart.At(j.Model, j.GPUs),
			work: work, speed: speed, length: work / speed,
		})
	}
	p.learn(func(j *job) float64 { return j.work })
	return p
}

func (p *problem) bounds() Bounds {
	return Bounds{AvgJCT: p.avgJCT(), P99JCT: p.p99JCT(), Makespan: p.makespan(), MaxFTF: p.maxFTF(), DeadlinesMet: p.deadlinesMet()}
}

// learn adds the prices that prove most where each job has so much work to do.
func (p *problem) learn(work func(*job) float64) {
	amount := make([]float64, len(p.sets.fastest))
	for i := range p.jobs {
		j := &p.jobs[i]
		amount[j.kind] += work(j) * float64(j.GPUs)
	}
	p.prices = append(p.prices, p.sets.pricesFor(amount))
}

// inTime tells whether a job that nothing keeps from computing meets its deadline.
func (j *job) inTime() bool { return j.Deadline < sim.Never && j.ready+j.length <= j.Deadline }

// size is the GPU seconds that so much of a job's work takes at least.
func (j *job) size(work float64, at prices) float64 { return work * float64(j.GPUs) * at[j.kind] }

// forever is a time in which all jobs can be done, one after the other.
func (p *problem) forever() float64 {
	all := p.jobs[len(p.jobs)-1].Submit - p.jobs[0].Submit
	for i := range p.jobs {
		j := &p.jobs[i]
		all += j.ready - j.Submit + j.work
	}
	return all
}
