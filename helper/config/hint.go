package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// table is one table of the schema with its keys.
type table struct {
	path string
	keys []string
	open bool // its keys are free
}

// tablesOf lists the tables of a schema, outermost first.
func tablesOf(path string, t reflect.Type) []table {
	self := table{path: path}
	var inner []table
	for i := range t.NumField() {
		tag, ok := t.Field(i).Tag.Lookup("toml")
		if !ok {
			continue
		}
		self.keys = append(self.keys, tag)
		ft, p := t.Field(i).Type, join(path, tag)
		if _, leaf := codecs[ft]; leaf {
			continue
		}
		if ft.Kind() == reflect.Slice {
			ft = ft.Elem()
		}
		if _, leaf := codecs[ft]; leaf {
			continue
		}
		switch ft.Kind() {
		case reflect.Struct:
			inner = append(inner, tablesOf(p, ft)...)
		case reflect.Map:
			inner = append(inner, table{path: p, open: true})
		}
	}
	return append([]table{self}, inner...)
}

// unknown words the error about a key that a table does not have: where it
// belongs, else which valid key is nearest.
func unknown(tables []table, path, key string, isTable bool) string {
	what := fmt.Sprintf("unknown key %q", key)
	if isTable {
		what = fmt.Sprintf("unknown table [%s]", join(path, key))
	}
	if path != "" && !isTable {
		what += fmt.Sprintf(" in [%s]", path)
	}
	own := tables[slices.IndexFunc(tables, func(t table) bool { return t.path == path })]
	for _, t := range tables {
		if t.path != path && slices.Contains(t.keys, key) {
			return fmt.Sprintf("%s; %q belongs %s", what, key, place(t.path))
		}
	}
	if k, d := nearest(key, own.keys); d <= tolerance(key) {
		return fmt.Sprintf("%s; did you mean %q?", what, k)
	}
	for _, t := range tables {
		if k, d := nearest(key, t.keys); d <= tolerance(key) {
			return fmt.Sprintf("%s; did you mean %q %s?", what, k, place(t.path))
		}
	}
	k, _ := nearest(key, own.keys)
	return fmt.Sprintf("%s; the nearest valid key is %q", what, k)
}

func place(path string) string {
	if path == "" {
		return "at the top, before any table"
	}
	return "in [" + path + "]"
}

// tolerance is how many letters may differ for a key to be a likely slip.
func tolerance(key string) int { return max(2, len(key)/3) }

// Nearest is the word that another was meant to be, "" where none is near.
func Nearest(word string, words []string) string {
	words = slices.Sorted(slices.Values(words))
	if near, d := nearest(word, words); d <= tolerance(word) {
		return near
	}
	return ""
}

// nearest finds the key with the least edit distance. A word that was cut
// short is near to the whole one, however long that is.
func nearest(key string, keys []string) (best string, dist int) {
	dist = 1 << 30
	for _, k := range keys {
		d := model.Slips(key, k)
		if len(key) > 2 && strings.HasPrefix(k, key) {
			d = min(d, 2)
		}
		if d < dist {
			best, dist = k, d
		}
	}
	return best, dist
}
