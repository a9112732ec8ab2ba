package model

// Slips counts the letters to insert, drop, change or swap with their neighbour
// to turn one word into another (Damerau 1964, in the form that changes no
// letter twice), for messages that name what was meant. Words of more than 64
// letters are as far apart as the longer is long.
func Slips(a, b string) int {
	const longest = 64
	if len(a) > longest || len(b) > longest {
		return max(len(a), len(b))
	}
	var before []int
	row := make([]int, len(b)+1)
	for k := range row {
		row[k] = k
	}
	for i := 1; i <= len(a); i++ {
		next := make([]int, len(b)+1)
		next[0] = i
		for k := 1; k <= len(b); k++ {
			cost := 1
			if a[i-1] == b[k-1] {
				cost = 0
			}
			next[k] = min(row[k]+1, next[k-1]+1, row[k-1]+cost)
			if i > 1 && k > 1 && a[i-1] == b[k-2] && a[i-2] == b[k-1] {
				next[k] = min(next[k], before[k-2]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
