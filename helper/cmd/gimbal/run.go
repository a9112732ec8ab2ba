package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/gimbal-hpc/gimbal/helper/config"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/wire"
)

// Exit codes of gimbal run beyond those of the command that it runs, as env(1)
// has them.
const (
	exitCannotRun = 125 // it could not be started for another reason
	exitNotExec   = 126 // found, and cannot be executed
	exitNotFound  = 127
)

// runVariable is set in a command that gimbal run started: its name, r12.
const runVariable = "GIMBAL_RUN"

// progressVariable names the file into which a command may write its progress.
const progressVariable = "GIMBAL_PROGRESS"

// runOptions are the command line of gimbal run.
type runOptions struct {
	asked   model.Options
	policy  string
	gpus    string
	name    string
	socket  string
	command []string
}

func (o *runOptions) set() *pflag.FlagSet {
	f := newFlags("run")
	f.SetInterspersed(false)
	f.StringVar(&o.asked.Pack, "pack", "", "be packed, which goes without saying; by this `policy` where all who share the GPU ask for it; off: run without Gimbal")
	f.Lookup("pack").NoOptDefVal = "1"
	f.StringVar(&o.policy, "policy", "", "the same as --pack=`policy`")
	f.StringVar(&o.asked.Memory, "memory", "", "peak GPU memory on each GPU: `size` such as 16GiB")
	f.StringVar(&o.asked.Class, "class", "", "its `class`: guaranteed or opportunistic")
	f.StringVar(&o.asked.Weight, "weight", "", "share of time relative to others, a `number` from 1 to 10000")
	f.StringVar(&o.asked.Deadline, "deadline", "", "`time` when it should be done, such as 17:00 or now+2hours")
	f.StringVar(&o.asked.Signal, "signal", "", "the signal to get before it is evicted, and how long before: `sig[@seconds]`, such as USR1@60")
	f.StringVar(&o.asked.MaxPause, "max-pause", "", "`time` for which it may be paused in one piece, such as 30s, where that is less than the policy's")
	f.StringVar(&o.gpus, "gpus", "", "`list` as CUDA_VISIBLE_DEVICES has it, all, or any: the one with most room")
	f.StringVar(&o.name, "name", "", "`name` that status shows (default the command's)")
	f.StringVar(&o.socket, "socket", "", "gimbald's `path` (default "+wire.DefaultSocket+", else a daemon of your own)")
	return f
}

const runUsage = `Usage: gimbal run [OPTION]... [--] COMMAND [ARGUMENT]...

Run a command packed with others on the GPUs of this host, without Slurm.
It is held until its memory fits, and takes its turns; its exit code is gimbal's.

`

// runRun runs a command beside others on the GPUs of this host.
func runRun(args []string, w world) int {
	var o runOptions
	f := o.set()
	if code, over := parse(f, args, w, runUsage, func() error { return o.read(f, w) }); over {
		return code
	}
	path, code, err := findCommand(o.command[0], w.env("PATH"))
	if err != nil {
		fmt.Fprintf(w.stderr, "gimbal run: %v\n", err)
		return code
	}
	r := &running{options: o, world: w, path: path, link: newLink(&o, w)}
	return r.run()
}

// read checks the options, and fills in those that only the environment has.
func (o *runOptions) read(f *pflag.FlagSet, w world) error {
	o.command = f.Args()
	if len(o.command) == 0 {
		return errors.New("which command?")
	}
	if f.Changed("policy") {
		if f.Changed("pack") && o.asked.Pack != "1" && o.asked.Pack != o.policy {
			return fmt.Errorf("--pack=%s and --policy=%s contradict each other", o.asked.Pack, o.policy)
		}
		o.asked.Pack = o.policy
	}
	for _, c := range o.checks(w.now()) {
		if *c.value != "" || f.Changed(c.name) {
			v, err := c.check(*c.value)
			if err != nil {
				return fmt.Errorf("--%s: %w", c.name, err)
			}
			*c.value = v
			continue
		}
		name := "GIMBAL_" + strings.ToUpper(strings.ReplaceAll(c.name, "-", "_"))
		if given := w.env(name); given != "" {
			v, err := c.check(given)
			if err != nil {
				fmt.Fprintf(w.stderr, "gimbal run: warning: %s is ignored: %v\n", name, err)
				continue
			}
			*c.value = v
		}
	}
	if f.Changed("gpus") && o.gpus == "" {
		return errors.New("--gpus: which ones? A list such as 0,1, all, or any")
	}
	if err := checkGPUs(o.gpus); err != nil {
		return fmt.Errorf("--gpus: %w", err)
	}
	if o.name == "" {
		o.name = filepath.Base(o.command[0])
	}
	return nil
}

// checkGPUs takes what names GPUs anywhere; the daemon knows which are there.
func checkGPUs(list string) error {
	if list == "" || list == model.ChooseAny || list == model.ChooseAll {
		return nil
	}
	for _, name := range strings.Split(list, ",") {
		name = strings.TrimSpace(name)
		_, err := strconv.ParseUint(name, 10, 31)
		upper := strings.ToUpper(name)
		if err != nil && !strings.HasPrefix(upper, "GPU-") && !strings.HasPrefix(upper, "MIG-") {
			return fmt.Errorf("%q is no GPU: a number such as 0, a UUID, all, or any; 'gimbal status --gpus' lists them", name)
		}
	}
	return nil
}

// runCheck is one option with its place and what makes a value of it.
type runCheck struct {
	name  string
	value *string
	check func(string) (string, error)
}

func (o *runOptions) checks(now time.Time) []runCheck {
	return []runCheck{
		{"pack", &o.asked.Pack, checkPack},
		{"memory", &o.asked.Memory, checkMemory},
		{"class", &o.asked.Class, func(s string) (string, error) { _, err := config.ParseClass(s); return s, err }},
		{"weight", &o.asked.Weight, checkWeight},
		{"deadline", &o.asked.Deadline, func(s string) (string, error) { return checkDeadline(s, now) }},
		{"signal", &o.asked.Signal, checkSignal},
		{"max-pause", &o.asked.MaxPause, func(s string) (string, error) { _, err := config.ParsePause(s); return s, err }},
	}
}

// checkPack takes what --gimbal-pack takes.
func checkPack(s string) (string, error) {
	switch s {
	case "", "1", "yes", "on", "true":
		return "1", nil
	case "0", "no", "off", "false":
		return "off", nil
	}
	if !config.PolicyName(s) {
		return "", fmt.Errorf("%q is no name of a policy", s)
	}
	return s, nil
}

func checkMemory(s string) (string, error) {
	m, err := config.ParseSize(s)
	if err == nil && m == 0 {
		err = fmt.Errorf("%q claims nothing", s)
	}
	return s, err
}

func checkWeight(s string) (string, error) {
	const most = 10000
	n, err := config.ParseWeight(s)
	if err != nil || n > most {
		return "", fmt.Errorf("%q is not a weight: a whole number from 1 to %d", s, most)
	}
	return s, nil
}

func checkSignal(s string) (string, error) {
	_, _, err := config.ParseSignal(s)
	return s, err
}

// checkDeadline returns a deadline in unix seconds. A time of day that is over
// is tomorrow's.
func checkDeadline(s string, now time.Time) (string, error) {
	t, err := parseWhen(s, now)
	if errors.Is(err, errNoTime) {
		err = fmt.Errorf("%q %w; valid forms: HH:MM[:SS], YYYY-MM-DD[THH:MM[:SS]], tomorrow, now+2hours", s, errNoTime)
	}
	if err != nil {
		return "", err
	}
	if t.Before(now) && !strings.ContainsAny(s, "-/.") && strings.Contains(s, ":") {
		t = t.AddDate(0, 0, 1)
	}
	if t.Before(now) || t.Unix() > 4*math.MaxInt32 {
		return "", fmt.Errorf("%q is over", s)
	}
	return strconv.FormatInt(t.Unix(), 10), nil
}

// findCommand finds a program as the shell does. With an error it returns the
// exit code that stands for it.
func findCommand(name, path string) (string, int, error) {
	if strings.Contains(name, "/") {
		code, err := canExec(name)
		return name, code, err
	}
	code, err := exitNotFound, fmt.Errorf("%s: command not found", name)
	for _, dir := range filepath.SplitList(path) {
		if dir == "" {
			dir = "."
		}
		full := filepath.Join(dir, name)
		c, e := canExec(full)
		if e == nil {
			return full, 0, nil
		}
		if c == exitNotExec {
			code, err = c, e
		}
	}
	return "", code, err
}

func canExec(path string) (int, error) {
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrPermission):
		return exitNotExec, err
	case err != nil:
		return exitNotFound, err
	case st.IsDir():
		return exitNotExec, fmt.Errorf("%s: is a folder", path)
	case st.Mode()&0o111 == 0:
		return exitNotExec, fmt.Errorf("%s: permission denied", path)
	}
	return 0, nil
}
