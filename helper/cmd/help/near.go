package help

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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

// NoFile adds to an error about a file that is not there the one beside it that may
// have been meant.
func NoFile(err error) error {
	var path *fs.PathError
	if !errors.As(err, &path) || !errors.Is(path, fs.ErrNotExist) {
		return err
	}
	dir, base := filepath.Split(path.Path)
	beside, _ := os.ReadDir(cmp.Or(dir, ".")) // none where the folder is not there either
	names := make([]string, len(beside))
	for i, f := range beside {
		names[i] = f.Name()
	}
	if near := Nearest(base, names); near != "" {
		return fmt.Errorf("%w, did you mean %q?", err, dir+near)
	}
	return err
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
