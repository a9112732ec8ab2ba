package config

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// Effective writes the configuration that is in force as a gimbald.toml that
// Load reads back to the same, and after it, as comments, where LoadPolicies found
// which policies.
func (c *Config) Effective() []byte {
	var b bytes.Buffer
	writeTable(&b, "", "", reflect.ValueOf(c).Elem())
	if len(c.policies) > 0 {
		fmt.Fprintf(&b, "\n# Policies; 'gimbal policies show NAME' prints one:\n")
	}
	for _, p := range c.policies {
		fmt.Fprintf(&b, "#   %s: %s\n", p.Name, p.File)
	}
	return b.Bytes()
}

// writeTable writes the plain keys of a struct under a header, then its
// tables.
func writeTable(b *bytes.Buffer, header, path string, v reflect.Value) {
	var tables []int
	if header != "" {
		fmt.Fprintf(b, "\n%s\n", header)
	}
	for i := range v.NumField() {
		tag, ok := v.Type().Field(i).Tag.Lookup("toml")
		if !ok {
			continue
		}
		if s, ok := plain(v.Field(i)); ok {
			if s != "" {
				fmt.Fprintf(b, "%s = %s\n", tag, s)
			}
			continue
		}
		tables = append(tables, i)
	}
	for _, i := range tables {
		writeInner(b, join(path, v.Type().Field(i).Tag.Get("toml")), v.Field(i))
	}
}

func writeInner(b *bytes.Buffer, path string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Slice:
		for i := range v.Len() {
			writeTable(b, "[["+path+"]]", path, v.Index(i))
		}
	case reflect.Map:
		m, _ := v.Interface().(map[string]string)
		if len(m) > 0 {
			fmt.Fprintf(b, "\n[%s]\n", path)
		}
		for _, k := range slices.Sorted(maps.Keys(m)) {
			fmt.Fprintf(b, "%s = %s\n", quote(k), quote(m[k]))
		}
	default:
		writeTable(b, "["+path+"]", path, v)
	}
}

// plain writes a value that stands behind a key, "" where it was not given; ok
// is false for a table.
func plain(v reflect.Value) (s string, ok bool) {
	if c, found := codecs[v.Type()]; found {
		return c.format(v), true
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return "", true
		}
		return plain(v.Elem())
	case reflect.Slice:
		c, found := codecs[v.Type().Elem()]
		if !found {
			return "", false
		}
		if v.IsNil() {
			return "", true
		}
		items := make([]string, v.Len())
		for i := range items {
			items[i] = c.format(v.Index(i))
		}
		return "[" + strings.Join(items, ", ") + "]", true
	}
	return "", false
}

// quote writes a TOML basic string.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case unicode.IsControl(r):
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
