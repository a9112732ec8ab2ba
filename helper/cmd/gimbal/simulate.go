package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/gimbal-hpc/gimbal/helper/policy"
	"github.com/gimbal-hpc/gimbal/helper/report"
	"github.com/gimbal-hpc/gimbal/helper/sim"
	"github.com/gimbal-hpc/gimbal/helper/sim/baseline"
	"github.com/gimbal-hpc/gimbal/helper/sim/cost"
	"github.com/gimbal-hpc/gimbal/helper/sim/node"
	"github.com/gimbal-hpc/gimbal/helper/sim/speed"
	"github.com/gimbal-hpc/gimbal/helper/sim/study"
	"github.com/gimbal-hpc/gimbal/helper/sim/trace"
	"github.com/gimbal-hpc/gimbal/policies"
)

// simulation is what the command line of gimbal simulate asks for.
type simulation struct {
	trace, interference, cost string
	csv, html, journal        string
	policies                  []string
	nodes, perNode            int
	seed                      uint64
	json                      bool
	choice                    speed.Choice
	gpuMemory                 string
	shards                    int
	compared                  []study.Policy
	journals                  *journals // nil where none are kept
}

// runSimulate replays a job history under one or more policies and prints what
// would have come of it. It returns 0, 1 where the simulation failed, or 2
// where the command line is wrong.
func runSimulate(args []string, w world) int {
	var s simulation
	f := s.set()
	check := func() error { return s.check(f.Args(), f.Changed) }
	if code, over := parse(f, args, w, simulateUsage, check, simulateNotes); over {
		return code
	}
	return done(w, "simulate", s.run(w.stdout, w.stderr))
}

func (s *simulation) set() *pflag.FlagSet {
	f := newFlags("simulate")
	f.StringVar(&s.trace, "trace", "", "job history `FILE`: CSV, sacct -P, or either in gzip; - for standard input")
	f.IntVar(&s.nodes, "nodes", 0, "how many nodes there are, a `number`")
	f.IntVar(&s.perNode, "gpus-per-node", 0, "GPUs on each node, a `number`")
	f.StringSliceVar(&s.policies, "policy", nil, "policies `A,B,…` to compare: names below, files (*.toml), or all")
	f.StringVar(&s.interference, "interference", "", "`FILE` of measured pairs; without it stage times or utilisation tell")
	f.StringVar(&s.choice.GPU, "pairs-gpu", "", "which `GPU` of the file of pairs (v100 if it has it)")
	f.StringVar(&s.choice.Table, "pairs-table", "", "which `TABLE` of the file of pairs (its first)")
	f.StringVar(&s.gpuMemory, "gpu-memory", "", "memory of a GPU, a `size` such as 32GiB; without it all jobs fit together")
	f.IntVar(&s.shards, "shards", node.DefaultSlots, "shards of each GPU, a `number`: jobs that may share it, for the policies of the node")
	f.StringVar(&s.cost, "cost", "none", "what restarts cost: none, muri or a `FILE`")
	f.Uint64Var(&s.seed, "seed", 0, "seed of the policies that draw lots, a `number`")
	f.BoolVar(&s.json, "json", false, "print JSON")
	f.StringVar(&s.csv, "csv", "", "also write every job's times to `FILE`; - for standard output, without the table")
	f.StringVar(&s.html, "html", "", "also draw the results as an offline page to `FILE`; - for standard output, without the table")
	f.StringVar(&s.journal, "journal", "", "also write what each node did to `FOLDER`, for gimbal explain, timeline and report; of the policies of the node")
	return f
}

const simulateUsage = `Usage: gimbal simulate --trace FILE --nodes N --gpus-per-node N --policy A,B,…

Replays a cluster's job history on a virtual clock and prints what each policy
would have made of it.

The history is what sacct -P prints, or CSV with a header and the columns job_id,
submit_s, gpus and duration_s, times in seconds; gimbal(1) has the others, such as
gpu_util, memory_mib, priority and deadline_s, and those that --csv writes.

`

// simulateNotes list the policies that there are.
func simulateNotes() string {
	var w strings.Builder
	fmt.Fprint(&w, "\nBaselines that others have published:\n")
	width := nameWidth(policyNames())
	for _, n := range baseline.Names() {
		fmt.Fprintf(&w, "  %-*s  %s\n", width, n, baseline.About(n))
	}
	fmt.Fprint(&w, "\nPolicies as they run on a node:\n")
	for _, n := range shippedNames() {
		if p, err := policy.Parse(n, policies.Shipped()[n]); err == nil {
			fmt.Fprintf(&w, "  %-*s  %s\n", width, n, p.Objective)
		}
	}
	return w.String()
}

// nameWidth is the length of the longest name.
func nameWidth(names []string) (width int) {
	for _, n := range names {
		width = max(width, len(n))
	}
	return width
}

// check finds faults of the command line.
func (s *simulation) check(rest []string, given func(string) bool) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("%q is no option; a job history is given with --trace", rest[0])
	case s.trace == "":
		return errors.New("--trace is missing: which job history?")
	case !given("nodes"):
		return errors.New("--nodes is missing: how many nodes are there?")
	case s.nodes < 1:
		return errors.New("--nodes must be at least 1")
	case !given("gpus-per-node"):
		return errors.New("--gpus-per-node is missing: how many GPUs has each node?")
	case s.perNode < 1:
		return errors.New("--gpus-per-node must be at least 1")
	case len(s.policies) == 0:
		return fmt.Errorf("--policy is missing; there are %s", strings.Join(policyNames(), ", "))
	case s.shards < 1:
		return errors.New("--shards must be at least 1")
	}
	if err := checkSize(s.nodes, s.perNode, s.shards); err != nil {
		return err
	}
	if _, err := parseMiB(s.gpuMemory); err != nil {
		return fmt.Errorf("--gpu-memory: %w", err)
	}
	if s.journal == "-" {
		return errors.New("--journal - is no folder: standard output takes --csv or --html")
	}
	if err := s.apart(); err != nil {
		return err
	}
	if s.journal != "" {
		s.journals = &journals{dir: s.journal, nodes: s.nodes}
	}
	return s.choosePolicies()
}

func (s *simulation) run(stdout, stderr io.Writer) error {
	tr, err := s.readTrace()
	if err != nil {
		return err
	}
	notes(stderr, tr.Notes)
	said := tr.Notes
	if err := tr.CheckFits(s.nodes, s.perNode); err != nil {
		return err
	}
	config, err := s.config(tr, stderr)
	if err != nil {
		return err
	}
	results, err := s.replay(tr.Jobs, config, stderr)
	if err != nil {
		return err
	}
	if err := s.writeFiles(stdout, results, said); err != nil {
		return err
	}
	switch {
	case s.csv == "-" || s.html == "-":
		return nil
	case s.json:
		return study.WriteJSON(stdout, results)
	}
	return study.WriteTable(stdout, results)
}

// replay runs the policies, and shows how far they are.
func (s *simulation) replay(jobs []sim.Job, config sim.Config, stderr io.Writer) ([]study.Result, error) {
	if err := s.journals.prepare(); err != nil {
		return nil, err
	}
	progress := newProgress(stderr)
	results, err := study.Run(jobs, s.compared, config, progress.callback())
	progress.clear()
	err = errors.Join(err, s.journals.close())
	if err == nil {
		notes(stderr, s.journals.said(jobs))
	}
	return results, err
}

// writeFiles writes what was asked for beside the table, or in its place.
func (s *simulation) writeFiles(stdout io.Writer, results []study.Result, said []string) error {
	if s.csv != "" {
		jobs := func(out io.Writer) error { return study.WriteJobs(out, results) }
		if err := writeTo(s.csv, stdout, "writing the jobs", jobs); err != nil {
			return err
		}
	}
	if s.html == "" {
		return nil
	}
	return writeTo(s.html, stdout, "writing the page", func(out io.Writer) error {
		return report.WritePage(out, newPage(s, results, said).build())
	})
}

// apart refuses what would overwrite an input, or be mixed.
func (s *simulation) apart() error {
	inputs := []named{{"--trace", s.trace}, {"--interference", s.interference}}
	if s.cost != "none" && s.cost != "muri" {
		inputs = append(inputs, named{"--cost", s.cost})
	}
	for _, name := range s.policies {
		if filepath.Ext(name) == ".toml" {
			inputs = append(inputs, named{"--policy", name})
		}
	}
	outputs := []named{{"--csv", s.csv}, {"--html", s.html}, {"--journal", s.journal}}
	if s.json {
		outputs = append(outputs, named{"--json", "-"})
	}
	return apart(inputs, outputs)
}

// readTrace reads the job history, from standard input where it is "-".
func (s *simulation) readTrace() (*trace.Trace, error) {
	if s.trace == "-" {
		return trace.Read(os.Stdin, "standard input")
	}
	return trace.ReadFile(s.trace)
}

// config is what the policies run on.
func (s *simulation) config(tr *trace.Trace, stderr io.Writer) (sim.Config, error) {
	c := sim.Config{Nodes: s.nodes, GPUsPerNode: s.perNode, Seed: s.seed, History: s.html != ""}
	var err error
	if c.Cost, err = cost.Open(s.cost); err != nil {
		return c, err
	}
	model := &speed.Model{}
	if model.GPUMemory, err = parseMiB(s.gpuMemory); err != nil {
		return c, err
	}
	if err := tr.CheckMemory(model.GPUMemory); err != nil {
		return c, err
	}
	if s.interference != "" {
		if model.Pairs, err = speed.ReadFile(s.interference, s.choice); err != nil {
			return c, err
		}
		notes(stderr, model.Pairs.Notes)
		noteHoles(stderr, model.Pairs, s.interference, tr)
	}
	c.Interference = model
	return c, nil
}

// noteHoles says how many pairs of the trace's models were not measured.
func noteHoles(w io.Writer, p *speed.Pairs, file string, tr *trace.Trace) {
	seen := make(map[string]bool)
	var models []string
	for i := range tr.Jobs {
		if m := tr.Jobs[i].Model; !seen[m] {
			seen[m] = true
			models = append(models, m)
		}
	}
	const most = 5000 // models; more are not job types but names
	holes, pairs, example := p.Holes(models[:min(len(models), most)])
	if holes > 0 {
		notes(w, []string{fmt.Sprintf("%s lacks %d of the %d pairs of models in the trace, such as %q with %q: stage times or utilisation tell how they fare", file, holes, pairs, example[0], example[1])})
	}
}

func notes(w io.Writer, texts []string) {
	for _, n := range texts {
		fmt.Fprintf(w, "gimbal simulate: note: %s\n", n)
	}
}

// parseMiB reads a size with its unit, such as 32GiB, as MiB. "" is 0.
func parseMiB(size string) (float64, error) {
	if size == "" {
		return 0, nil
	}
	for _, u := range [...]struct {
		unit string
		mib  float64
	}{{"MiB", 1}, {"GiB", 1024}, {"MB", 1e6 / (1 << 20)}, {"GB", 1e9 / (1 << 20)}} {
		if text, ok := strings.CutSuffix(size, u.unit); ok {
			if v, err := strconv.ParseFloat(text, 64); err == nil && v > 0 && v < 1e9 {
				return v * u.mib, nil
			}
		}
	}
	return 0, fmt.Errorf("%q is no size such as 32GiB", size)
}
