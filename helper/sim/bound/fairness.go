package bound

import (
	"cmp"
	"math"
	"slices"
)

// How often the largest crowd is looked at anew, and the time that a job could take
// in it: each time both only become smaller.
const (
	crowdRounds = 20
	timeRounds  = 20
)

// maxFTF is the bound on the worst finish-time ratio. A job without work has the ratio
// 1 however long it takes.
func (p *problem) maxFTF() float64 {
	high := 1.0
	for i := range p.jobs {
		if j := &p.jobs[i]; j.work > 0 {
			high = max(high, p.forever()/j.work)
		}
	}
	return p.least(high, 0, p.within)
}

// within is until when each job ends at the latest if none has a ratio above this
// one: after its work, times the ratio, times the crowd. That is largest if all others
// stay for as long as they may, which is found by going down from all of them.
func (p *problem) within(ratio float64) windows {
	asked := 0.0
	for i := range p.jobs {
		asked += float64(p.jobs[i].GPUs)
	}
	w := p.each(func(j *job) float64 {
		if j.work == 0 {
			return math.Inf(1)
		}
		return j.Submit + ratio*j.work*max(1, asked/p.gpus)
	})
	for range crowdRounds {
		c := p.crowd(w)
		next := p.each(func(j *job) float64 { return j.latest(w[j.at], ratio, c) })
		if slices.Equal(w, next) {
			break
		}
		w = next
	}
	return w
}

// latest is when a job ends at the latest, which is no later than by end: the crowd
// that it is judged by is the mean one up to its end.
func (j *job) latest(end, ratio float64, c *crowd) float64 {
	if math.IsInf(end, 1) {
		return end
	}
	before := c.until(j.Submit)
	for range timeRounds {
		// time <= ratio x work x sum of the crowd / time
		time := math.Sqrt(ratio * j.work * max(0, c.until(end)-before))
		end = min(end, j.Submit+max(time, ratio*j.work))
	}
	return end
}

// crowd is how many times the cluster is asked for at most, from times on that are in
// order, and the sum of that over the time before.
type crowd struct{ at, size, sum []float64 }

// crowd is the largest that there can be where jobs end by their windows.
func (p *problem) crowd(w windows) *crowd {
	type change struct{ at, by float64 }
	var all []change
	for i := range p.jobs {
		part := float64(p.jobs[i].GPUs) / p.gpus
		all = append(all, change{p.jobs[i].Submit, part}, change{w[i], -part})
	}
	slices.SortStableFunc(all, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	c, size, sum := &crowd{}, 0.0, 0.0
	for i, e := range all {
		if math.IsInf(e.at, 1) {
			break
		}
		if i > 0 {
			sum += size * (e.at - all[i-1].at)
		}
		size += e.by
		c.at, c.size, c.sum = append(c.at, e.at), append(c.size, size), append(c.sum, sum)
	}
	return c
}

// until is the sum up to a time.
func (c *crowd) until(t float64) float64 {
	i, found := slices.BinarySearch(c.at, t)
	if !found {
		i--
	}
	if i < 0 {
		return 0
	}
	return c.sum[i] + c.size[i]*(t-c.at[i])
}
