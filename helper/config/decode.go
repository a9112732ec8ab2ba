package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// Error is a mistake in a file, with its place.
type Error struct {
	File string
	Line int // 0 where the mistake has no line
	Msg  string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.File, e.Msg)
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Msg)
}

// document is a parsed TOML file that knows where its keys stand.
type document struct {
	file  string
	tree  map[string]any
	lines map[string]int
}

func parse(file, text string) (*document, error) {
	d := &document{file: file, tree: map[string]any{}}
	if _, err := toml.Decode(text, &d.tree); err != nil {
		var pe toml.ParseError
		if errors.As(err, &pe) {
			line, _, msg := model.SyntaxFault(text, pe.Position.Start, pe.Position.Len, pe.Message)
			return nil, &Error{File: file, Line: line, Msg: msg}
		}
		return nil, &Error{File: file, Msg: err.Error()}
	}
	d.lines = keyLines(text)
	return d, nil
}

// line is where a path stands, else where the closest table around it does.
func (d *document) line(path string) int {
	for {
		if n, ok := d.lines[path]; ok {
			return n
		}
		i := strings.LastIndexByte(path, '.')
		if i < 0 {
			return 0
		}
		path = path[:i]
	}
}

// decoder fills a struct from a document, key by key, and collects what is
// wrong.
type decoder struct {
	doc      *document
	tables   []table // of the whole schema, for hints
	problems []*Error
}

// decode fills the struct that v points to. The mistake that stands first in
// the file is the one returned.
func (d *document) decode(v any) error {
	dec := &decoder{doc: d, tables: tablesOf("", reflect.TypeOf(v).Elem())}
	dec.table(reflect.ValueOf(v).Elem(), d.tree, "")
	return dec.first()
}

func (dec *decoder) first() error {
	if len(dec.problems) == 0 {
		return nil
	}
	return slices.MinFunc(dec.problems, func(a, b *Error) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return strings.Compare(a.Msg, b.Msg)
	})
}

func (dec *decoder) fail(path, format string, args ...any) {
	dec.problems = append(dec.problems, &Error{
		File: dec.doc.file, Line: dec.doc.line(path), Msg: fmt.Sprintf(format, args...),
	})
}

// table fills a struct from a table.
func (dec *decoder) table(v reflect.Value, m map[string]any, path string) {
	for key, val := range m {
		p := join(path, key)
		if i := fieldOf(v.Type(), key); i >= 0 {
			dec.value(v.Field(i), val, p)
		} else {
			_, isTable := val.(map[string]any)
			dec.fail(p, "%s", unknown(dec.tables, schemaPath(path), key, isTable))
		}
	}
}

// value fills one field.
func (dec *decoder) value(v reflect.Value, val any, path string) {
	if c, ok := codecs[v.Type()]; ok {
		got, err := c.parse(val)
		if err != nil {
			dec.fail(path, "%s: %v", display(path), err)
			return
		}
		v.Set(reflect.ValueOf(got).Convert(v.Type()))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		dec.value(v.Elem(), val, path)
	case reflect.Struct:
		dec.subtable(v, val, path)
	case reflect.Slice:
		dec.slice(v, val, path)
	case reflect.Map:
		dec.mapping(v, val, path)
	}
}

func (dec *decoder) subtable(v reflect.Value, val any, path string) {
	m, ok := val.(map[string]any)
	if !ok {
		dec.fail(path, "%s must be a table, written [%s], not %s", display(path), display(path), describe(val))
		return
	}
	dec.table(v, m, path)
}

// slice fills a list; one string stands for a list of one.
func (dec *decoder) slice(v reflect.Value, val any, path string) {
	tables := v.Type().Elem().Kind() == reflect.Struct
	var items []any
	switch val := val.(type) {
	case []map[string]any:
		for _, m := range val {
			items = append(items, m)
		}
	case []any:
		items = val
	case string:
		items = []any{val}
	}
	_, single := val.(string)
	if items == nil && !isEmptyList(val) || tables && single {
		want := `a list such as ["a", "b"]`
		if tables {
			want = "a list of tables, each written [[" + display(path) + "]]"
		}
		dec.fail(path, "%s must be %s, not %s", display(path), want, describe(val))
		return
	}
	out := reflect.MakeSlice(v.Type(), len(items), len(items))
	for i, item := range items {
		p := join(path, strconv.Itoa(i))
		if single {
			p = path
		}
		dec.value(out.Index(i), item, p)
	}
	v.Set(out)
}

func isEmptyList(val any) bool {
	l, ok := val.([]any)
	return ok && len(l) == 0
}

// mapping fills a table whose keys are free.
func (dec *decoder) mapping(v reflect.Value, val any, path string) {
	m, ok := val.(map[string]any)
	if !ok {
		dec.fail(path, "%s must be a table, written [%s], not %s", display(path), display(path), describe(val))
		return
	}
	out := reflect.MakeMap(v.Type())
	for key, item := range m {
		e := reflect.New(v.Type().Elem()).Elem()
		dec.value(e, item, join(path, key))
		out.SetMapIndex(reflect.ValueOf(key), e)
	}
	v.Set(out)
}

// fieldOf finds the field of a key, -1 if there is none.
func fieldOf(t reflect.Type, key string) int {
	for i := range t.NumField() {
		if tag, ok := t.Field(i).Tag.Lookup("toml"); ok && tag == key {
			return i
		}
	}
	return -1
}

// display writes a path for people: without the numbers of list elements.
func display(path string) string { return schemaPath(path) }

// schemaPath drops the numbers of list elements from a path.
func schemaPath(path string) string {
	var keep []string
	for _, p := range strings.Split(path, ".") {
		if _, err := strconv.Atoi(p); err != nil {
			keep = append(keep, p)
		}
	}
	return strings.Join(keep, ".")
}

// describe names a TOML value of the wrong kind.
func describe(val any) string {
	switch v := val.(type) {
	case string:
		return fmt.Sprintf("the string %q", v)
	case bool:
		return fmt.Sprintf("%v", v)
	case int64, float64:
		return fmt.Sprintf("the bare number %v", v)
	case map[string]any, []map[string]any:
		return "a table"
	case []any:
		return "a list"
	}
	return "a date"
}
