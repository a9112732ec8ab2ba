// gimbald is the root daemon of a node: it registers packed steps, decides by
// the policy of each GPU which of them compute, and stops and continues them.
package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/pflag"

	"github.com/gimbal-hpc/gimbal/helper/cmd/help"
	"github.com/gimbal-hpc/gimbal/helper/config"
)

// version is set by the build.
var version = "devel"

// Exit codes, the same for gimbal and gimbald.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

type options struct {
	config  string
	node    string
	check   bool
	release bool
	guard   bool
	helper  bool
	private bool
	version bool
	help    bool
	watch   guardOptions
	calls   helperOptions
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run runs gimbald. Where its output could not be written it has failed.
func run(args []string, stdout, stderr io.Writer) int {
	out := &help.Output{Writer: stdout}
	code := dispatch(args, out, stderr)
	if code == exitOK && out.End("gimbald", stderr) {
		return exitFailed
	}
	return code
}

// dispatch does what the command line asks for.
func dispatch(args []string, stdout, stderr io.Writer) int {
	o, err := parseFlags(args, stdout)
	if errors.Is(err, pflag.ErrHelp) {
		return exitOK
	}
	if err != nil {
		fmt.Fprintf(stderr, "gimbald: %v\nTry 'gimbald --help'.\n", err)
		return exitUsage
	}
	switch {
	case o.version:
		fmt.Fprintf(stdout, "gimbald %s\n", version)
		return exitOK
	case o.guard:
		return report(stderr, runGuard(o.watch, os.Stdin, stderr))
	case o.helper:
		return report(stderr, runHelper(o.calls, os.Stdin, stdout))
	case o.check:
		return report(stderr, check(o.config, o.node, stdout, stderr))
	case o.release:
		return report(stderr, releaseAll(o.config, o.node, stdout))
	}
	if o.private {
		return report(stderr, servePrivate(o.config, stderr))
	}
	return report(stderr, serve(o.config, o.node, "", stderr))
}

func report(stderr io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(stderr, "gimbald: %v\n", err)
	return exitFailed
}

func parseFlags(args []string, stdout io.Writer) (options, error) {
	var o options
	fs := pflag.NewFlagSet("gimbald", pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.SortFlags = false
	fs.StringVarP(&o.config, "config", "c", config.Path, "configuration `FILE`")
	fs.StringVarP(&o.node, "node", "N", "", "Slurm's `NAME` of this node, instead of node.name; several can share a host")
	fs.BoolVar(&o.check, "check", false, "print the effective configuration, or the first mistake in it, and exit")
	fs.BoolVar(&o.release, "release", false, "continue everything that an earlier gimbald left stopped, and exit")
	fs.BoolVar(&o.private, "private", false, "serve only the user who starts it, beside a socket of his own, and end after his last gimbal run")
	fs.BoolVarP(&o.version, "version", "V", false, "print the version and exit")
	fs.BoolVarP(&o.help, "help", "h", false, "this text")
	fs.BoolVar(&o.guard, "guard", false, "be the guard of a daemon whose beats come on standard input")
	fs.StringVar(&o.watch.stopSet, "guard-set", "", "the guard's `FILE` of what is stopped")
	fs.Uint64Var(&o.watch.gen, "guard-generation", 0, "`NUMBER` of the generation of it that is in force")
	fs.DurationVar(&o.watch.stall, "guard-stall", 0, "without a beat for this long the daemon counts as hung")
	fs.DurationVar(&o.watch.held, "guard-held", 0, "how long held tenants wait for a new daemon")
	fs.BoolVar(&o.helper, "checkpoint-helper", false, "make the driver's checkpoint calls that are asked for on standard input")
	fs.StringVar(&o.calls.library, "checkpoint-library", "", "`FILE` of CUDA's library")
	fs.StringVar(&o.calls.moves, "checkpoint-moves", "", "`FOLDER` of what is swapped")
	fs.DurationVar(&o.calls.wait, "checkpoint-wait", 0, "how long what is swapped waits for a new daemon")
	for _, name := range []string{"guard", "guard-set", "guard-generation", "guard-stall", "guard-held", "checkpoint-helper", "checkpoint-library", "checkpoint-moves", "checkpoint-wait"} {
		if err := fs.MarkHidden(name); err != nil {
			return o, err
		}
	}
	fs.Usage = func() {}
	if err := help.Fault(fs, fs.Parse(args)); err != nil {
		return o, err
	}
	if o.help {
		fmt.Fprintf(stdout, "Usage: gimbald [OPTION]...\n\nThe daemon of a node with shared GPUs. See gimbald(8).\n\n%s", help.Options(fs))
		return o, pflag.ErrHelp
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("%q is no option; a configuration is given with --config", fs.Arg(0))
	}
	return o, nil
}

// check prints the effective configuration, or returns the first mistake in it.
func check(path, node string, stdout, stderr io.Writer) error {
	c, _, warnings, err := load(path, node)
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		warnings = append(warnings, path+" is not there: the defaults hold")
	}
	for _, w := range append(warnings, c.HostWarnings()...) {
		fmt.Fprintf(stderr, "gimbald: warning: %s\n", w)
	}
	_, err = stdout.Write(c.Effective())
	return err
}
