// gimbal is the command for people: it shows what a node does with packed
// jobs, explains it, and plays a policy through before anybody is stopped.
package main

import (
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/cmd/help"
	"github.com/gimbal-hpc/gimbal/helper/model"
)

// version is set by the build.
var version = "devel"

// Exit codes, the same for gimbal and gimbald.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitUnreachable = 3 // the daemon does not answer
)

// world is what a command may touch of the process that it runs in.
type world struct {
	stdout, stderr io.Writer
	env            func(string) string
	now            func() time.Time
	uid            int
}

// command is one subcommand.
type command struct {
	name    string
	summary string
	run     func(args []string, w world) int
}

func commands() []command {
	return []command{
		{"run", "run a command packed with others, without Slurm", runRun},
		{"status", "list packed jobs, live and ended, as sacct does", runStatus},
		{"explain", "tell what happened to a job and why", runExplain},
		{"timeline", "draw who computed when", runTimeline},
		{"report", "tell what the GPUs did, and what packing gained, on a page", runReport},
		{"pause", "pause a job until it is released", runOrder(model.PrimPause)},
		{"resume", "let a job run before all others until it is released", runOrder(model.PrimResume)},
		{"evict", "end a job kindly and requeue it", runOrder(model.PrimEvict)},
		{"notify", "send a job a signal that it catches", runOrder(model.PrimNotify)},
		{"release", "end what pause or resume ordered", runOrder(release)},
		{"policies", "show, check and explain policies", runPolicies},
		{"learnt", "list how well jobs share a GPU, as nodes have learnt it", runLearnt},
		{"top", "watch the GPUs and who is on them", runTop},
		{"doctor", "say what is wrong with this host and how to mend it", runDoctor},
		{"simulate", "play policies through on a job history", runSimulate},
	}
}

// collectAt is by how many percent the heap of a command grows before garbage
// is collected: it lives for a moment.
const collectAt = 400

func main() {
	debug.SetGCPercent(collectAt)
	os.Exit(run(os.Args[1:], world{os.Stdout, os.Stderr, os.Getenv, time.Now, os.Getuid()}))
}

// run runs a command. One whose output could not be written has failed, whether or
// not it looked.
func run(args []string, w world) int {
	if _, watched := w.stdout.(*help.Output); watched {
		return dispatch(args, w)
	}
	out := &help.Output{Writer: w.stdout}
	w.stdout = out
	code := dispatch(args, w)
	if (code == exitOK || code == exitUnreachable) && out.End("gimbal", w.stderr) {
		return exitFailed
	}
	return code
}

// dispatch finds the command that is meant.
func dispatch(args []string, w world) int {
	all := commands()
	if len(args) > 0 && args[0] == runChild {
		return beChild(args[1:], w.stderr)
	}
	if len(args) == 0 {
		usage(w.stderr, all)
		return exitUsage
	}
	switch args[0] {
	case "help":
		if len(args) > 1 && args[1] != "help" {
			return run(append(slices.Clone(args[1:]), "--help"), w)
		}
		usage(w.stdout, all)
		return exitOK
	case "-h", "--help":
		usage(w.stdout, all)
		return exitOK
	case "-V", "--version", "version":
		fmt.Fprintf(w.stdout, "gimbal %s\n", version)
		return exitOK
	}
	for _, c := range all {
		if c.name == args[0] {
			return c.run(args[1:], w)
		}
	}
	fmt.Fprintf(w.stderr, "gimbal: %s\nTry 'gimbal --help'.\n", noCommand(args[0], all))
	return exitUsage
}

// noCommand says that a word is no command, and which may have been meant.
func noCommand(word string, all []command) string {
	if strings.HasPrefix(word, "-") {
		return fmt.Sprintf("there is no option %q before the command: a command's options stand behind it", word)
	}
	var names []string
	for _, c := range all {
		names = append(names, c.name)
	}
	return fmt.Sprintf("there is no command %q%s", word, help.Meant(word, names))
}

func usage(w io.Writer, all []command) {
	fmt.Fprintf(w, "Usage: gimbal COMMAND [OPTION]...\n\nGimbal packs deep-learning jobs onto shared GPUs under Slurm.\n\nCommands:\n")
	for _, c := range all {
		fmt.Fprintf(w, "  %-10s %s\n", c.name, c.summary)
	}
	fmt.Fprintf(w, `
Options:
  -h, --help     this text; 'gimbal COMMAND --help' or 'gimbal help COMMAND' tells
                 of a command and its options
  -V, --version  print the version

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 gimbald does not answer;
of gimbal run those of its command.
`)
}
