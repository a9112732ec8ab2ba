package trace

import (
	"math"
	"strconv"
)

// bounds of what a field may hold; what lies outside is a slip, not a job.
const (
	maxSeconds    = 1e10 // three centuries
	maxGPUs       = 1e6
	maxIterations = 1e15
	maxIterMS     = 1e9
	maxMemoryMiB  = 1e9
)

// Number is a field of this row that must be a number from low to high.
func (t *Table) Number(name string, low, high float64) (float64, error) {
	s := t.Text(name)
	v, err := strconv.ParseFloat(s, 64)
	switch {
	case s == "":
		return 0, t.Errorf(name, "is blank")
	case err != nil || math.IsNaN(v) || math.IsInf(v, 0):
		return 0, t.Errorf(name, "%q is not a number", s)
	case v < low || v > high:
		return 0, t.Errorf(name, "%s is not between %v and %v", s, low, high)
	}
	return v, nil
}

// Optional is the same for a field that may be blank or missing: other then.
func (t *Table) Optional(name string, low, high, other float64) (float64, error) {
	if t.Text(name) == "" {
		return other, nil
	}
	return t.Number(name, low, high)
}

// Whole is a field of this row that must be a whole number from low to high.
func (t *Table) Whole(name string, low, high int) (int, error) {
	v, err := t.Number(name, float64(low), float64(high))
	if err == nil && v != math.Trunc(v) {
		err = t.Errorf(name, "%s is not a whole number", t.Text(name))
	}
	return int(v), err
}
