package bound

import "math"

// most is an x >= 0 with rows·x <= limits and the largest gain·x (the simplex method,
// by Bland's rule). No limit is below 0, so that x = 0 is one; the gain must be bounded.
func most(gain []float64, rows [][]float64, limits []float64) []float64 {
	n, m := len(gain), len(rows)
	t := make([][]float64, m+1) // the tableau: x, a slack for each row, the limit
	for i := range t {
		t[i] = make([]float64, n+m+1)
	}
	basis := make([]int, m)
	for i, row := range rows {
		copy(t[i], row)
		t[i][n+i], t[i][n+m], basis[i] = 1, limits[i], n+i
	}
	for k, g := range gain {
		t[m][k] = -g
	}
	for range mostPivots {
		enter := entering(t[m][:n+m])
		if enter < 0 {
			break
		}
		leave := leaving(t, basis, enter)
		if leave < 0 {
			break
		}
		pivot(t, leave, enter)
		basis[leave] = enter
	}
	x := make([]float64, n)
	for i, b := range basis {
		if b < n {
			x[b] = max(0, t[i][n+m])
		}
	}
	return x
}

// Below tiny a figure of a tableau is rounding; a search that needs more pivots ends
// with what it has.
const (
	tiny       = 1e-10
	mostPivots = 10_000
)

// entering is the first column that would raise the value, -1 if none would.
func entering(gains []float64) int {
	for k, g := range gains {
		if g < -tiny {
			return k
		}
	}
	return -1
}

// leaving is the row whose limit is reached first where a column grows.
func leaving(t [][]float64, basis []int, enter int) int {
	leave, least := -1, math.Inf(1)
	for i, b := range basis {
		row := t[i]
		if row[enter] <= tiny {
			continue
		}
		x := row[len(row)-1] / row[enter]
		if x < least-tiny || leave < 0 || x <= least+tiny && b < basis[leave] {
			leave, least = i, min(x, least)
		}
	}
	return leave
}

// pivot makes a column the one of a row.
func pivot(t [][]float64, row, column int) {
	by := t[row][column]
	for k := range t[row] {
		t[row][k] /= by
	}
	for i := range t {
		if f := t[i][column]; i != row && f != 0 {
			for k, v := range t[row] {
				t[i][k] -= f * v
			}
		}
	}
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i, x := range a {
		sum += x * b[i]
	}
	return sum
}
