package policy

import "slices"

// nearest finds the name closest to what was written, "" where none is close
// enough to be what was meant.
func nearest(word string, names []string) string {
	best, least := "", len(word)/3+1
	for _, n := range names {
		if d := distance(word, n); d < least || d == least && best != "" && n < best {
			best, least = n, d
		}
	}
	return best
}

// distance counts the letters to insert, drop, change or swap with their
// neighbour to turn a into b.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return max(len(a), len(b))
	}
	var before []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next := make([]int, len(b)+1)
		next[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}

// didYouMean ends a message with the nearest name, or with all of them where
// they are few.
func didYouMean(word string, names []string) string {
	if n := nearest(word, names); n != "" {
		return "; did you mean " + n + "?"
	}
	if len(names) > 12 {
		return ""
	}
	names = slices.Clone(names)
	slices.Sort(names)
	text := "; known are "
	for i, n := range names {
		if i > 0 {
			text += ", "
		}
		text += n
	}
	return text
}
