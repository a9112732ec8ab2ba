// Package speed tells how fast jobs run that share their GPUs: from a table of
// measured pairs, else from what their iterations spend on each resource, else
// from how busy each keeps a GPU alone.
package speed

import "github.com/gimbal-hpc/gimbal/helper/sim"

// Model is an estimate of the speeds of jobs that run together. For two jobs it
// takes the best source that knows both of them:
//
//  1. Pairs, by the names of their models. Pairs are measured on one GPU; jobs
//     on several are taken to fare alike.
//  2. Stage times: a stage takes as many times longer as the jobs together ask
//     for more of its resource than there is.
//  3. Utilisation: both slow down as they together ask for more than one GPU. A
//     job of unknown utilisation is taken to keep its GPU busy.
//
// More than two jobs delay each other one by one: a job that takes d1 times as
// long beside one and d2 times as long beside another takes 1 + (d1-1) + (d2-1)
// times as long beside both. Where they would so get more of a resource than there
// is, it is shared out fairly; see [fair]. Jobs of which two cannot run together,
// or which need more memory than the GPU has, cannot.
type Model struct {
	Pairs     *Pairs  // nil where nothing was measured
	GPUMemory float64 // MiB of a GPU; 0 when unknown, and then everything fits
}

var _ sim.Interference = (*Model)(nil)

// Speeds implements [sim.Interference].
func (m *Model) Speeds(jobs []*sim.Job, out []float64) {
	if !m.fit(jobs) {
		clear(out[:len(jobs)])
		return
	}
	if len(jobs) == 2 {
		out[0], out[1] = m.Pair(jobs[0], jobs[1])
		return
	}
	m.many(jobs, out)
}

// many is the speeds of any number of jobs that fit.
func (m *Model) many(jobs []*sim.Job, out []float64) {
	for i := range jobs {
		out[i] = 1
	}
	f := newFair(jobs)
	for i := range jobs {
		for j := range i {
			a, b := m.Pair(jobs[i], jobs[j])
			if a == 0 || b == 0 {
				clear(out[:len(jobs)])
				return
			}
			out[i] = slower(out[i], a)
			out[j] = slower(out[j], b)
			f.pair(i, j, a, b)
		}
	}
	f.share(out)
}

// Profile implements [sim.Interference].
func (m *Model) Profile(j *sim.Job) sim.Profile {
	var p sim.Profile
	if m.Pairs != nil && m.Pairs.Knows(j.Model) {
		p.Model = j.Model
	}
	if j.Stages.Sum() > 0 {
		p.Stages, p.IterTime = j.Stages, j.IterTime
	}
	p.Util = j.Util
	if m.GPUMemory > 0 {
		p.Memory = j.Memory
	}
	return p
}

// slower adds the delay of one more neighbour to a speed.
func slower(speed, beside float64) float64 { return 1 / (1/speed + 1/beside - 1) }

// Pair is the speed of two jobs beside each other over their speed alone,
// without regard to memory. Both are zero where they cannot run together.
func (m *Model) Pair(a, b *sim.Job) (float64, float64) {
	if m.Pairs != nil {
		if x, y, ok := m.Pairs.Of(a.Model, b.Model); ok {
			return x, y
		}
	}
	if a.Stages.Sum() > 0 && b.Stages.Sum() > 0 && a.IterTime > 0 && b.IterTime > 0 {
		return byStages(a, b)
	}
	s := 1 / max(1, utilisation(a)+utilisation(b))
	return s, s
}

func (m *Model) fit(jobs []*sim.Job) bool {
	if m.GPUMemory == 0 {
		return true
	}
	sum := 0.0
	for _, j := range jobs {
		sum += j.Memory
	}
	return sum <= m.GPUMemory
}

func utilisation(j *sim.Job) float64 {
	if j.Util == 0 {
		return 1
	}
	return j.Util
}

func byStages(a, b *sim.Job) (float64, float64) {
	longerA, longerB := 0.0, 0.0
	for r := range a.Stages {
		over := max(0, a.Stages[r]/a.IterTime+b.Stages[r]/b.IterTime-1)
		longerA += over * a.Stages[r] / a.IterTime
		longerB += over * b.Stages[r] / b.IterTime
	}
	return 1 / (1 + longerA), 1 / (1 + longerB)
}
