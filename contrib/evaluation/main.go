// Command evaluation replays the public traces under every shipped policy and
// every baseline, and writes what came of it as RESULTS.md, RESULTS.html and
// results.json.
// The same data and options give the same bytes.
package main

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/gimbal-hpc/gimbal/helper/policy"
	"github.com/gimbal-hpc/gimbal/helper/sim"
	"github.com/gimbal-hpc/gimbal/helper/sim/baseline"
	"github.com/gimbal-hpc/gimbal/helper/sim/node"
	"github.com/gimbal-hpc/gimbal/helper/sim/study"
	"github.com/gimbal-hpc/gimbal/policies"
)

// options are what the command line asks for.
type options struct {
	data, out string
	jobs      int
	turns     int
	shards    int
	only      string
	policies  []string
}

func main() {
	var o options
	f := pflag.NewFlagSet("evaluate", pflag.ContinueOnError)
	f.StringVar(&o.data, "data", "../shared/data", "`FOLDER` of the traces and tables")
	f.StringVar(&o.out, "out", "contrib/evaluation", "`FOLDER` that the results are written to")
	f.IntVar(&o.jobs, "jobs", 100, "take the first `N` jobs of the long traces; 0: all")
	f.IntVar(&o.turns, "turns", 10, "least number of turns that a job gets before it ends")
	f.IntVar(&o.shards, "shards", node.DefaultSlots, "tenants that Slurm lets share a GPU, at most 4")
	f.StringVar(&o.only, "only", "", "only the scenarios whose name begins with `TEXT`; the others in results.json stay")
	f.StringSliceVar(&o.policies, "policy", nil, "only these policies `A,B,…`; the others in results.json stay")
	switch err := f.Parse(os.Args[1:]); {
	case errors.Is(err, pflag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintf(os.Stderr, "evaluate: %v\n", err)
		os.Exit(2)
	}
	if err := o.run(os.Stderr); err != nil {
		fmt.Fprintf(os.Stderr, "evaluate: %v\n", err)
		os.Exit(1)
	}
}

// choosing is added to the name of one of ours where Gimbal chooses which of a
// node's GPUs a job has.
const choosing = " choosing GPUs"

func (o *options) run(progress io.Writer) error {
	all, kinds, err := o.compared()
	if err != nil {
		return err
	}
	r, err := o.before()
	if err != nil {
		return err
	}
	for _, s := range scenarios() {
		if !strings.HasPrefix(s.Name, o.only) {
			continue
		}
		jobs, config, err := s.load(o.data, o.jobs)
		if err != nil {
			return fmt.Errorf("loading %s: %w", s.Name, err)
		}
		fmt.Fprintf(progress, "%s: %d jobs\n", s.Name, len(jobs))
		found := finding{scenario: s, Jobs: len(jobs)}
		if found.Bounds, err = o.limits(jobs, config); err != nil {
			return fmt.Errorf("bounding %s: %w", s.Name, err)
		}
		replayed, err := study.Run(jobs, all, config, nil)
		if err != nil {
			return fmt.Errorf("replaying %s: %w", s.Name, err)
		}
		for _, p := range replayed {
			found.Policies = append(found.Policies, entry{p.Policy, kinds[p.Policy], p.Summary})
		}
		if len(o.policies) > 0 {
			found.keep(r)
		}
		r.put(found)
	}
	return r.write(o.out)
}

// node is what a node is like.
func (o *options) node() node.Options {
	return node.Options{Slots: o.shards, GPUMemory: gpuMemory, Turns: o.turns, Remaining: true}
}

// compared is every policy, and of what kind each is.
func (o *options) compared() ([]study.Policy, map[string]string, error) {
	var all []study.Policy
	kinds := make(map[string]string)
	for _, name := range baseline.Names() {
		kinds[name] = "cluster"
		if slices.Contains(packing, name) {
			kinds[name] = "packing"
		}
		all = append(all, study.Policy{Name: name, New: func() sim.Scheduler {
			s, _ := baseline.New(name) // it is there
			return s
		}})
	}
	local, err := o.local()
	if err != nil {
		return nil, nil, err
	}
	for p, kind := range local {
		kinds[p.Name] = kind
		n := o.node()
		all = append(all, study.Policy{Name: p.Name, New: func() sim.Scheduler { return node.New(p, n) }})
		if n := n; isOurs(p.Name) {
			n.Place = true
			kinds[p.Name+choosing] = "ours, choosing"
			all = append(all, study.Policy{Name: p.Name + choosing, New: func() sim.Scheduler { return node.New(p, n) }})
		}
	}
	slices.SortStableFunc(all, func(a, b study.Policy) int {
		return strings.Compare(kinds[a.Name]+a.Name, kinds[b.Name]+b.Name)
	})
	if len(o.policies) > 0 {
		all = slices.DeleteFunc(all, func(p study.Policy) bool { return !slices.Contains(o.policies, strings.TrimSuffix(p.Name, choosing)) })
	}
	return all, kinds, nil
}

//go:embed rules/*.toml
var rules embed.FS

// local is the policies that run on nodes, and of what kind each is: those that
// are shipped, and the baselines' own rules of sharing.
func (o *options) local() (map[*policy.Policy]string, error) {
	local := make(map[*policy.Policy]string)
	add := func(file string, text []byte, kind string) error {
		p, err := policy.Parse(file, text)
		if err == nil {
			local[p] = kind
		}
		return err
	}
	for name, text := range policies.Shipped() {
		if err := add(name+".toml", text, "ours"); err != nil {
			return nil, err
		}
	}
	files, err := fs.Glob(rules, "rules/*.toml")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := rules.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if err := add(file, text, "same placement"); err != nil {
			return nil, err
		}
	}
	return local, nil
}
