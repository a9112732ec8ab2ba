package config

import (
	"reflect"
	"slices"
)

// Changes are the keys that differ between two configurations.
type Changes struct {
	Applied []string // take effect on a reload
	Restart []string // are not applied until a restart
}

// Diff compares the configuration in force with a new one.
func Diff(old, new *Config) Changes {
	var ch Changes
	walk(reflect.ValueOf(old).Elem(), reflect.ValueOf(new).Elem(), "", func(key string, restart bool, a, b reflect.Value) {
		switch {
		case reflect.DeepEqual(a.Interface(), b.Interface()):
		case restart:
			ch.Restart = append(ch.Restart, key)
		default:
			ch.Applied = append(ch.Applied, key)
		}
	})
	if !slices.Equal(old.policies, new.policies) {
		ch.Applied = append(ch.Applied, "policies")
	}
	return ch
}

// KeepFrom puts the values of the restart-only keys of the configuration in
// force into c, so that c says what is in force after a reload.
func (c *Config) KeepFrom(old *Config) {
	walk(reflect.ValueOf(old).Elem(), reflect.ValueOf(c).Elem(), "", func(_ string, restart bool, a, b reflect.Value) {
		if restart {
			b.Set(a)
		}
	})
}

// walk visits every key of two configurations side by side; a list of tables
// and a table with free keys count as one key.
func walk(a, b reflect.Value, path string, visit func(key string, restart bool, a, b reflect.Value)) {
	for i := range a.NumField() {
		f := a.Type().Field(i)
		tag, ok := f.Tag.Lookup("toml")
		if !ok {
			continue
		}
		key := join(path, tag)
		_, leaf := codecs[f.Type]
		if f.Type.Kind() == reflect.Struct && !leaf {
			walk(a.Field(i), b.Field(i), key, visit)
			continue
		}
		visit(key, f.Tag.Get("restart") == "yes", a.Field(i), b.Field(i))
	}
}
