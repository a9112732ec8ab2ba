package learn

import "math"

// Estimates forget: a window weighs at least 1/memory of what is known. One that
// is off by more than jump of the mean begins anew, since the job does something
// else now.
const (
	memory = 32
	jump   = 0.5
)

// estimate is the mean of a rate over windows, and how they spread. Its
// increments are those of D. H. D. West (1979), with exponential weights once
// there are memory windows.
type estimate struct {
	n        int // windows, memory at most
	mean     float64
	variance float64
}

func (e *estimate) add(x float64) {
	if !(x >= 0) || math.IsInf(x, 0) {
		return
	}
	if e.n > 0 && math.Abs(x-e.mean) > jump*e.mean {
		*e = estimate{}
	}
	e.n = min(e.n+1, memory)
	weight := 1 / float64(e.n)
	off := x - e.mean
	e.mean += weight * off
	e.variance = (1 - weight) * (e.variance + weight*off*off)
}

// err is the standard error of the mean over the mean: infinite while it is not
// known.
func (e *estimate) err() float64 {
	if e.n < leastWindows || !(e.mean > 0) {
		return math.Inf(1)
	}
	return math.Sqrt(e.variance/float64(e.n-1)) / e.mean
}

// certain tells whether the mean is known as well as a speed has to be.
func (e *estimate) certain() bool { return e.err() <= MaxError }

// over is a ratio of two rates with its standard error, by the law of propagation
// of uncertainty.
func (e *estimate) over(alone *estimate) (x, err float64) {
	a, b := e.err(), alone.err()
	if math.IsInf(a, 0) || math.IsInf(b, 0) {
		return math.NaN(), math.Inf(1)
	}
	x = e.mean / alone.mean
	return x, x * math.Hypot(a, b)
}
