package main

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// flagHelp lists the options of a command, each with the name of its value in
// capitals and its default.
func flagHelp(f *pflag.FlagSet) string {
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
		if o.Value.Type() != "bool" {
			name += " " + strings.ToUpper(value)
		}
		if d := o.DefValue; d != "" && d != "false" && d != "0" && d != "[]" {
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
