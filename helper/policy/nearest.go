package policy

import (
	"slices"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// nearest finds the name closest to what was written, "" where none is close
// enough to be what was meant.
func nearest(word string, names []string) string {
	best, least := "", len(word)/3+1
	for _, n := range names {
		if d := model.Slips(word, n); d < least || d == least && best != "" && n < best {
			best, least = n, d
		}
	}
	return best
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
