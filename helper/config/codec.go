package config

import (
	"fmt"
	"io/fs"
	"math"
	"reflect"
	"strconv"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// codec reads one Go type from a TOML value, and writes it as one.
type codec struct {
	parse  func(any) (any, error)
	format func(reflect.Value) string
}

// codecs are the types that a value in the file can have. Those with a unit
// are written as strings, so that the unit always stands beside the number.
var codecs = map[reflect.Type]codec{
	reflect.TypeFor[time.Duration](): {
		parse: fromString(`a time with a unit such as "30s"`, ParseDuration),
		format: func(v reflect.Value) string {
			return quote(FormatDuration(time.Duration(v.Int())))
		},
	},
	reflect.TypeFor[model.Bytes](): {
		parse:  fromString(`a size with a unit such as "16GiB"`, ParseSize),
		format: func(v reflect.Value) string { return quote(FormatSize(model.Bytes(v.Int()))) },
	},
	reflect.TypeFor[model.Reading[model.Bytes]](): {
		parse: fromString(`"whole" or a size such as "16GiB"`, parseClaim),
		format: func(v reflect.Value) string {
			r, _ := v.Interface().(model.Reading[model.Bytes])
			if b, ok := r.Get(); ok {
				return quote(FormatSize(b))
			}
			return quote("whole")
		},
	},
	reflect.TypeFor[fs.FileMode](): {
		parse:  fromString(`permission bits as a string such as "0660"`, parseMode),
		format: func(v reflect.Value) string { return quote(fmt.Sprintf("%04o", v.Uint())) },
	},
	reflect.TypeFor[Private]():     {parse: parsePrivate, format: formatPrivate},
	reflect.TypeFor[model.Class](): {parse: fromString(`"guaranteed" or "opportunistic"`, ParseClass), format: formatString},
	reflect.TypeFor[string]():      {parse: parseString, format: formatString},
	reflect.TypeFor[bool]():        {parse: parseBool, format: func(v reflect.Value) string { return strconv.FormatBool(v.Bool()) }},
	reflect.TypeFor[int]():         {parse: parseInt, format: func(v reflect.Value) string { return strconv.FormatInt(v.Int(), 10) }},
	reflect.TypeFor[float64]():     {parse: parseFloat, format: formatFloat},
}

// fromString makes a reader of strings; want says what is expected.
func fromString[T any](want string, f func(string) (T, error)) func(any) (any, error) {
	return func(val any) (any, error) {
		s, ok := val.(string)
		if !ok {
			return nil, fmt.Errorf("must be %s, not %s", want, describe(val))
		}
		v, err := f(s)
		if err != nil {
			return nil, err
		}
		return v, nil
	}
}

func parseClaim(s string) (model.Reading[model.Bytes], error) {
	if s == "whole" {
		return model.Unknown[model.Bytes](), nil
	}
	b, err := ParseSize(s)
	if err != nil {
		return model.Unknown[model.Bytes](), fmt.Errorf(`%q is neither "whole" nor a size with a unit such as "16GiB"`, s)
	}
	return model.Known(b), nil
}

func parseMode(s string) (fs.FileMode, error) {
	n, err := strconv.ParseUint(s, 8, 32)
	if err != nil || n > 0o777 {
		return 0, fmt.Errorf(`%q is not permission bits such as "0660"`, s)
	}
	return fs.FileMode(n), nil
}

func parsePrivate(val any) (any, error) {
	switch val {
	case true:
		return PrivateOn, nil
	case false:
		return PrivateOff, nil
	case "slurm":
		return PrivateSlurm, nil
	}
	return nil, fmt.Errorf(`must be true, false or "slurm", not %s`, describe(val))
}

func formatPrivate(v reflect.Value) string {
	switch Private(v.String()) {
	case PrivateOn:
		return "true"
	case PrivateOff:
		return "false"
	}
	return quote("slurm")
}

func parseString(val any) (any, error) {
	if s, ok := val.(string); ok {
		return s, nil
	}
	return nil, fmt.Errorf("must be a string, not %s", describe(val))
}

func parseBool(val any) (any, error) {
	if b, ok := val.(bool); ok {
		return b, nil
	}
	return nil, fmt.Errorf("must be true or false, not %s", describe(val))
}

func parseInt(val any) (any, error) {
	if n, ok := val.(int64); ok && n >= math.MinInt32 && n <= math.MaxInt32 {
		return int(n), nil
	}
	return nil, fmt.Errorf("must be a whole number, not %s", describe(val))
}

func parseFloat(val any) (any, error) {
	switch n := val.(type) {
	case int64:
		return float64(n), nil
	case float64:
		if !math.IsNaN(n) && !math.IsInf(n, 0) {
			return n, nil
		}
	}
	return nil, fmt.Errorf("must be a number, not %s", describe(val))
}

func formatString(v reflect.Value) string { return quote(v.String()) }

func formatFloat(v reflect.Value) string {
	f := v.Float()
	if f == math.Trunc(f) && math.Abs(f) < 1e15 {
		return strconv.FormatFloat(f, 'f', 1, 64)
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}
