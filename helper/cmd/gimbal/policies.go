package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/gimbal-hpc/gimbal/helper/cmd/help"
	"github.com/gimbal-hpc/gimbal/helper/config"
	"github.com/gimbal-hpc/gimbal/helper/policy"
	"github.com/gimbal-hpc/gimbal/policies"
)

const policiesUsage = `Usage: gimbal policies [OPTION]... COMMAND

What decides on this node which tenants compute.

Commands:
  list            the policies that there are, and which GPU has which
  show NAME       the text of a policy
  check FILE...   look for mistakes in policy files; - is standard input
  explain NAME    tell in words what a policy (or a policy FILE) does
  variables       what the expressions of a policy can use
  keys            what a policy file can hold
  try FILE        replay this node's jobs under a policy before it goes live

`

// policiesCommand is the command line of gimbal policies.
type policiesCommand struct {
	config string
	dir    string
	parse  bool
	w      world
}

func (p *policiesCommand) set() *pflag.FlagSet {
	f := newFlags("policies")
	p.where(f)
	f.BoolVarP(&p.parse, "parsable", "P", false, "list, variables, keys: fields separated by |, a header first")
	return f
}

// where adds the options that say where the policies are.
func (p *policiesCommand) where(f *pflag.FlagSet) {
	f.StringVarP(&p.config, "config", "c", cmp.Or(p.config, config.Path), "gimbald's configuration `file`")
	f.StringVar(&p.dir, "dir", p.dir, "`folder` of the site's policies, instead of policy.dir of the configuration")
}

func runPolicies(args []string, w world) int {
	before := policiesCommand{w: w}
	if rest, ok := before.trial(args); ok {
		return runTry(&before, rest)
	}
	p := policiesCommand{w: w}
	f := p.set()
	check := func() error {
		if f.NArg() == 0 {
			return errors.New("which command: list, show, check, explain, variables, keys or try?")
		}
		return nil
	}
	if code, over := parse(f, args, w, policiesUsage, check); over {
		return code
	}
	return p.dispatch(f.Arg(0), f.Args()[1:])
}

// dispatch runs a subcommand with the operands that it takes.
func (p *policiesCommand) dispatch(name string, args []string) int {
	all := []struct {
		name  string
		wants string // what its operand is, "" where it takes none
		most  int
		run   func([]string) error
	}{
		{"list", "", 0, func([]string) error { return p.list() }},
		{"show", aName, 1, func(a []string) error { return p.show(a[0]) }},
		{"check", "which FILE? One or more are to be named, or - for standard input", 1 << 10, p.check},
		{"explain", aName, 1, func(a []string) error { return p.explain(a[0]) }},
		{"variables", "", 0, func([]string) error { return p.variables() }},
		{"keys", "", 0, func([]string) error { return p.keys() }},
	}
	var words []string
	for _, c := range all {
		words = append(words, c.name)
		switch {
		case c.name != name:
		case len(args) == 0 && c.wants != "":
			return wrongUsage(p.w, "policies", fmt.Errorf("%s: %s", name, c.wants))
		case len(args) > c.most:
			return wrongUsage(p.w, "policies", fmt.Errorf("%s: %q is too much", name, args[c.most]))
		default:
			return done(p.w, "policies", c.run(args))
		}
	}
	words = append(words, tryName)
	return wrongUsage(p.w, "policies", fmt.Errorf("there is no command %q%s", name, help.Meant(name, words)))
}

// aName asks for the operand of show and explain.
const aName = "which policy? 'gimbal policies list' lists them"

// load reads the node's configuration and its policies. Where the
// configuration names a policy that is missing, all others come with the error.
func (p *policiesCommand) load() (*config.Config, []config.Source, error) {
	c, _, err := config.Load(p.config)
	if err != nil {
		return nil, nil, err
	}
	if p.dir != "" {
		if _, err := os.Stat(p.dir); err != nil {
			return nil, nil, fmt.Errorf("--dir: %w", err)
		}
		c.Policy.Dir = p.dir
	}
	sources, err := c.LoadPolicies(policies.FS())
	return c, sources, err
}

// find gets a policy's text by its name.
func (p *policiesCommand) find(name string) (*config.Config, config.Source, error) {
	c, sources, err := p.load()
	if len(sources) == 0 && err != nil {
		return nil, config.Source{}, err
	}
	var names []string
	for _, s := range sources {
		if s.Name == name {
			return c, s, nil
		}
		names = append(names, s.Name)
	}
	if likeNumber(name) {
		return nil, config.Source{}, fmt.Errorf("there is no policy %q; of a job tells 'gimbal explain %s'", name, name)
	}
	return nil, config.Source{}, fmt.Errorf("there is no policy %q%s; there are %s",
		name, strings.TrimSuffix(help.Meant(name, names), "?"), strings.Join(names, ", "))
}

func (p *policiesCommand) show(name string) error {
	_, s, err := p.find(name)
	if err != nil {
		return err
	}
	_, err = io.WriteString(p.w.stdout, s.Text)
	return err
}

// list shows every policy. One with mistakes is listed with the first of them.
func (p *policiesCommand) list() error {
	c, sources, err := p.load()
	if len(sources) == 0 && err != nil {
		return err
	}
	if p.parse {
		fmt.Fprintln(p.w.stdout, "Name|File|Ruling|Objective|Origin")
	}
	for _, s := range sources {
		pol, perr := parseSource(s)
		if perr != nil {
			err = errors.Join(err, perr)
			continue
		}
		p.listOne(c, s, pol)
	}
	return err
}

func (p *policiesCommand) listOne(c *config.Config, s config.Source, pol *policy.Policy) {
	from := s.File
	if isShipped(s) {
		from = "shipped"
	}
	rules := rulesWhere(c, s.Name)
	if p.parse {
		writeParsable(p.w.stdout, s.Name, from, rules, pol.Objective, pol.Origin)
		return
	}
	head := fmt.Sprintf("%s (%s)", s.Name, from)
	if rules != "" {
		head += ", rules " + rules
	}
	fmt.Fprintln(p.w.stdout, clean(head))
	fmt.Fprint(p.w.stdout, wrap(clean(pol.Objective), 80, "    "))
	if pol.Origin != "" {
		fmt.Fprint(p.w.stdout, wrap(clean("after "+pol.Origin), 80, "    "))
	}
}

func isShipped(s config.Source) bool { return strings.HasPrefix(s.File, "(shipped) ") }

// rulesWhere says which GPUs of the node have a policy.
func rulesWhere(c *config.Config, name string) string {
	var on []string
	for uuid, n := range c.Policy.PerGPU {
		if n == name {
			on = append(on, uuid)
		}
	}
	slices.Sort(on)
	if name == c.Policy.Default {
		on = append([]string{"this node by default"}, on...)
	}
	return strings.Join(on, " and ")
}

// parseSource parses a policy and holds it to its file's name, as gimbald does.
func parseSource(s config.Source) (*policy.Policy, error) {
	p, err := policy.Parse(s.File, []byte(s.Text))
	if err == nil && p.Name != s.Name {
		err = &policy.Error{File: s.File, Line: nameLine(s.Text), Col: 1,
			Msg: fmt.Sprintf("the policy is called %q and its file %s.toml: gimbald wants them to agree", p.Name, s.Name)}
	}
	return p, err
}

// nameLine is the line on which a policy says its name.
func nameLine(text string) int {
	for i, line := range strings.Split(text, "\n") {
		if key, _, ok := strings.Cut(line, "="); ok && strings.TrimSpace(key) == "name" {
			return i + 1
		}
	}
	return 1
}

// errFaults says that faults were printed already.
var errFaults = errors.New("not valid")

// check looks at policy files; every fault is told on standard error in the
// form that editors follow: file:line:column.
func (p *policiesCommand) check(files []string) error {
	bad := 0
	for _, file := range files {
		pol, err := p.checkFile(file)
		if err != nil {
			fmt.Fprintln(p.w.stderr, help.NoFile(err))
			bad++
			continue
		}
		fmt.Fprintf(p.w.stdout, "%s: policy %s is valid\n", file, pol.Name)
	}
	if bad > 0 {
		return fmt.Errorf("%s of %d: %w", plural(bad, "file"), len(files), errFaults)
	}
	return nil
}

func (p *policiesCommand) checkFile(file string) (*policy.Policy, error) {
	text, err := readPolicy(file)
	if err != nil {
		return nil, p.sited(file, err)
	}
	name, toml := strings.CutSuffix(filepath.Base(file), ".toml")
	if !toml { // not yet in its place
		return policy.Parse(file, text)
	}
	pol, err := parseSource(config.Source{Name: name, File: file, Text: string(text)})
	if err != nil {
		return nil, err
	}
	return pol, config.Trusted(file)
}

// sited adds to an error about a policy file that is not there where one of its name
// is.
func (p *policiesCommand) sited(file string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_, sources, _ := p.load() // those that can be had
	for _, s := range sources {
		switch {
		case s.Name+".toml" != filepath.Base(file):
		case isShipped(s):
			return fmt.Errorf("%w; 'gimbal policies show %s' prints the shipped one", err, s.Name)
		default:
			return fmt.Errorf("%w; there is %s", err, s.File)
		}
	}
	return err
}

// maxPolicy is more than the policy package takes, in bytes.
const maxPolicy = 4 << 20

// readPolicy reads a file, or standard input for "-".
func readPolicy(file string) ([]byte, error) {
	in := os.Stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("read the policy: %w", err)
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxPolicy))
	if err != nil {
		return nil, fmt.Errorf("read the policy %s: %w", file, err)
	}
	return text, nil
}
