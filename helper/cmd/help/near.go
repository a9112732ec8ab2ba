package help

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// Nearest finds which of some words another was meant to be: one that begins with
// it, or at most two slips away, and not every letter of it a slip. It is "" where
// none is near.
func Nearest(word string, words []string) string {
	best, dist := "", 3
	for _, w := range words {
		d := model.Slips(word, w)
		if word != "" && strings.HasPrefix(w, word) {
			d = min(d, 1)
		}
		if d < dist && d < len(word) {
			best, dist = w, d
		}
	}
	return best
}

// Meant asks for the nearest of some words, "" where none is near.
func Meant(word string, words []string) string {
	if near := Nearest(word, words); near != "" {
		return fmt.Sprintf(", did you mean %q?", near)
	}
	return ""
}

// Fault adds to what is wrong with a command line the option that may have been
// meant.
func Fault(f *pflag.FlagSet, err error) error {
	var none *pflag.NotExistError
	if !errors.As(err, &none) || none.GetSpecifiedShortnames() != "" {
		return err
	}
	var names []string
	f.VisitAll(func(o *pflag.Flag) {
		if !o.Hidden {
			names = append(names, o.Name)
		}
	})
	if near := Nearest(none.GetSpecifiedName(), names); near != "" {
		return fmt.Errorf("%w, did you mean --%s?", err, near)
	}
	return err
}
