// Package help writes what the commands say of their options.
package help

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// Options lists the options of a command, each with the name of its value in
// capitals and its default. A value that may be left out is in brackets.
func Options(f *pflag.FlagSet) string {
	var left, right []string
	width := 0
	f.VisitAll(func(o *pflag.Flag) {
		if o.Hidden {
			return
		}
		value, text := pflag.UnquoteUsage(o)
		name := "      --" + o.Name
		if o.Shorthand != "" {
			name = "  -" + o.Shorthand + ", --" + o.Name
		}
		switch value = strings.ToUpper(value); {
		case o.Value.Type() == "bool":
		case o.NoOptDefVal != "":
			name += "[=" + value + "]"
		default:
			name += " " + value
		}
		if d := strings.Trim(o.DefValue, "[]"); d != "" && d != "false" && d != "0" {
			text += " (default " + d + ")"
		}
		left, right = append(left, name), append(right, text)
		width = max(width, len(name))
	})
	var b strings.Builder
	for i := range left {
		fmt.Fprintf(&b, "%-*s  %s\n", width, left[i], right[i])
	}
	return b.String()
}
