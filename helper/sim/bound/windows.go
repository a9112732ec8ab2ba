package bound

import (
	"math"
	"slices"
)

// windows is until when each job has to end.
type windows []float64

// stretch is a time.
type stretch struct{ from, to float64 }

const (
	// overfull is how much more than there is has to be asked for to be
	// impossible: below it may be rounding.
	overfull = 1 + 1e-9
	// mostTimes bounds at how many times stretches begin, or end, that are looked at.
	mostTimes = 96
	// halvings is how exactly a bound is sought.
	halvings = 40
	// Prices are sought anew for the stretch that is fullest so often, while that
	// raises a bound by worthAnother.
	mostLearnt   = 6
	worthAnother = 1.001
)

// p99JCT is the bound on the completion time that sim.Summary calls the 99th
// percentile: all have to keep it but those that come behind it in order.
func (p *problem) p99JCT() float64 {
	return p.least(p.forever(), p.exempt(), func(x float64) windows {
		return p.each(func(j *job) float64 { return j.Submit + x })
	})
}

// exempt is how many jobs take longer than the 99th percentile.
func (p *problem) exempt() int {
	n := len(p.jobs)
	return n - 1 - n*99/100
}

// makespan is the bound on the time from the first arrival to the last end.
func (p *problem) makespan() float64 {
	return p.least(p.forever(), 0, func(x float64) windows {
		return p.each(func(*job) float64 { return p.jobs[0].Submit + x })
	})
}

func (p *problem) each(end func(*job) float64) windows {
	w := make(windows, len(p.jobs))
	for i := range w {
		w[i] = end(&p.jobs[i])
	}
	return w
}

// least is a value up to which it is proven that windows cannot be kept, which become
// wider with it, and can be kept at high.
func (p *problem) least(high float64, exempt int, of func(float64) windows) float64 {
	low := 0.0
	for n := range mostLearnt {
		found := p.impossible(low, high, exempt, of)
		if n > 0 && found <= low*worthAnother {
			return found
		}
		low = found
		w := of(found + (high-found)*1e-6)
		at, load := p.fullest(w, exempt, math.Inf(1))
		if load == 0 || math.IsInf(load, 1) {
			return found
		}
		p.learn(func(j *job) float64 { return j.due(at, w[j.at]) })
	}
	return low
}

// impossible halves a range until its lower end is nearly the greatest value at which
// the windows ask for more than there is.
func (p *problem) impossible(low, high float64, exempt int, of func(float64) windows) float64 {
	for range halvings {
		middle := low + (high-low)/2
		if _, load := p.fullest(of(middle), exempt, overfull); load > overfull {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}

// fullest is the stretch in which the windows ask for most over what there is, at the
// best of the prices, and how much that is, or the first one where it is more than
// enough. All but a number of jobs have to keep their windows. If too many have no time
// for their length it is infinite.
func (p *problem) fullest(w windows, exempt int, enough float64) (at stretch, load float64) {
	late, begins := 0, make([]float64, len(w))
	for i := range p.jobs {
		j := &p.jobs[i]
		begins[i] = j.ready
		if j.ready+j.length > w[i] {
			late++
		}
	}
	if late > exempt {
		return at, math.Inf(1)
	}
	ends := some(slices.Clone(w))
	for _, a := range some(begins) {
		for _, b := range ends {
			if b > a && load <= enough {
				if x := p.load(w, exempt, stretch{a, b}); x > load {
					at, load = stretch{a, b}, x
				}
			}
		}
	}
	return at, load
}

// some is the values in order, each once, or mostTimes of them.
func some(values []float64) []float64 {
	slices.Sort(values)
	values = slices.Compact(values)
	if len(values) <= mostTimes {
		return values
	}
	out := make([]float64, mostTimes)
	for i := range out {
		out[i] = values[i*(len(values)-1)/(mostTimes-1)]
	}
	return out
}

// load is how many GPU seconds the windows ask for in a stretch, over those in it.
func (p *problem) load(w windows, exempt int, at stretch) float64 {
	due := p.each(func(j *job) float64 { return j.due(at, w[j.at]) })
	most, sizes := 0.0, make([]float64, 0, len(w))
	for _, prices := range p.prices {
		sum := 0.0
		sizes = sizes[:0]
		for i, d := range due {
			if d > 0 {
				sizes = append(sizes, p.jobs[i].size(d, prices))
				sum += sizes[len(sizes)-1]
			}
		}
		if exempt > 0 {
			slices.Sort(sizes)
			for _, s := range sizes[max(0, len(sizes)-exempt):] {
				sum -= s
			}
		}
		most = max(most, sum)
	}
	return most / p.gpus / (at.to - at.from)
}

// due is how much work of a job that ends in time falls into a stretch at least.
func (j *job) due(at stretch, end float64) float64 {
	outside := max(0, min(at.from, end)-j.ready) + max(0, end-max(at.to, j.ready))
	return max(0, j.work-outside*j.speed)
}
