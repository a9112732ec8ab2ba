package main

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/gimbal-hpc/gimbal/helper/cmd/help"
)

// newFlags makes the set of options of a command, which are told in the order in
// which they are added.
func newFlags(name string) *pflag.FlagSet {
	f := pflag.NewFlagSet(name, pflag.ContinueOnError)
	f.SortFlags = false
	f.Usage = func() {}
	return f
}

// parse reads a command line and checks it. Where over is true there is nothing
// more to do, and code is the exit code: help was asked for (usage, the options, and
// what notes return), or the usage is wrong.
func parse(f *pflag.FlagSet, args []string, w world, usage string, check func() error, notes ...func() string) (code int, over bool) {
	wanted := f.BoolP("help", "h", false, "this text")
	err := help.Fault(f, f.Parse(args))
	if *wanted {
		fmt.Fprint(w.stdout, usage, help.Options(f))
		for _, n := range notes {
			fmt.Fprint(w.stdout, n())
		}
		return exitOK, true
	}
	if err == nil {
		err = check()
	}
	if err != nil {
		return wrongUsage(w, f.Name(), err), true
	}
	return exitOK, false
}

// noArguments refuses what is no option; hint says what was meant.
func noArguments(f *pflag.FlagSet, hint string) error {
	if f.NArg() == 0 {
		return nil
	}
	return fmt.Errorf("%q is no option%s", f.Arg(0), hint)
}

// oneOf refuses two of some options that each ask for another answer.
func oneOf(f *pflag.FlagSet, options ...string) error {
	first := ""
	for _, name := range options {
		switch {
		case f.Lookup(name).Value.String() != "true":
		case first != "":
			return fmt.Errorf("--%s and --%s ask for two answers: give one of them", first, name)
		default:
			first = name
		}
	}
	return nil
}
