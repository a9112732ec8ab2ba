package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/gimbal-hpc/gimbal/helper/config"
	"github.com/gimbal-hpc/gimbal/helper/journal"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/policy"
	"github.com/gimbal-hpc/gimbal/helper/sim"
	"github.com/gimbal-hpc/gimbal/helper/sim/node"
	"github.com/gimbal-hpc/gimbal/helper/sim/speed"
	"github.com/gimbal-hpc/gimbal/helper/sim/study"
	"github.com/gimbal-hpc/gimbal/helper/sim/trace"
	"github.com/gimbal-hpc/gimbal/helper/wire"
)

// tryName is the subcommand of gimbal policies with options of its own.
const tryName = "try"

const tryUsage = `Usage: gimbal policies try FILE [OPTION]...

Replays the jobs that this node has had, or a trace's, under the policy in force
and under the one of FILE (or a policy's NAME), on a simulated clock, and prints
what each would have made of them. Nothing on the node changes.

`

// trial is a policy that is tried on jobs of the past.
type trial struct {
	policiesCommand
	source
	against, journal, trace, gpuMemory string

	nodes, perNode, shards int
	json                   bool
	given                  func(option string) bool // on the command line
}

// trial tells whether a command line of gimbal policies asks for try, and
// returns what stands behind that word. Options that stand before it are kept.
func (p *policiesCommand) trial(args []string) ([]string, bool) {
	f := p.set()
	f.SetInterspersed(false)
	if f.Parse(args) != nil || f.Arg(0) != tryName {
		return nil, false
	}
	return f.Args()[1:], true
}

func (t *trial) set() *pflag.FlagSet {
	f := newFlags("policies try")
	f.StringVar(&t.against, "against", "", "`policy` to compare with, a name or a file, instead of the one in force")
	f.StringVar(&t.journal, "journal", "", "`path` of a journal to take the jobs from: its folder, or one file of it")
	f.StringVar(&t.trace, "trace", "", "job history `file` to take the jobs from, as gimbal simulate reads it")
	f.IntVar(&t.nodes, "nodes", 0, "number of nodes, of a trace")
	f.IntVar(&t.perNode, "gpus-per-node", 0, "GPUs on each node; without it as many as the journal tells of")
	f.StringVar(&t.gpuMemory, "gpu-memory", "", "memory of a GPU, such as 32GiB; without it that of the node's, else all jobs fit together")
	f.IntVar(&t.shards, "shards", 0, "shards of each GPU; without it as many as shared one in the journal, 4 of a trace")
	f.BoolVar(&t.json, "json", false, "print JSON")
	t.where(f)
	t.flags(f)
	socket := f.Lookup("socket")
	socket.Usage, socket.DefValue = "gimbald's `path`, instead of socket.path of the configuration", ""
	_ = f.MarkHidden("offline") // --journal reads what is on disk
	_ = f.MarkHidden("state-dir")
	return f
}

func runTry(p *policiesCommand, args []string) int {
	t := trial{policiesCommand: *p}
	f := t.set()
	t.given = f.Changed
	if code, over := parse(f, args, t.w, tryUsage, func() error { return t.check(f.Args()) }); over {
		return code
	}
	return done(t.w, "policies try", t.run(f.Arg(0)))
}

// check finds faults of the command line.
func (t *trial) check(args []string) error {
	switch {
	case len(args) == 0:
		return errors.New("which policy? A FILE or the NAME of one is to be given")
	case len(args) > 1:
		return fmt.Errorf("one policy is tried at a time: %q is too much", args[1])
	case t.trace != "" && t.journal != "":
		return errors.New("--journal and --trace exclude each other")
	case t.trace == "" && t.nodes != 0:
		return errors.New("--nodes goes with --trace: a journal is that of one node")
	case t.trace != "" && t.nodes < 1:
		return errors.New("--trace needs --nodes of at least 1")
	case t.trace != "" && t.perNode < 1:
		return errors.New("--trace needs --gpus-per-node of at least 1")
	case t.perNode < 0 || t.shards < 0:
		return errors.New("--gpus-per-node and --shards cannot be negative")
	}
	if err := checkSize(t.nodes, t.perNode, t.shards); err != nil {
		return err
	}
	if _, err := parseMiB(t.gpuMemory); err != nil {
		return fmt.Errorf("--gpu-memory: %w", err)
	}
	return nil
}

func (t *trial) run(file string) error {
	fresh, err := t.policyOf(file)
	if err != nil {
		return err
	}
	h, err := t.history()
	if err != nil {
		return err
	}
	old, err := t.old(h)
	if err != nil {
		return err
	}
	results, err := t.replay(h, old, fresh)
	if err != nil {
		return err
	}
	return t.report(h, old, fresh, results)
}

// policyOf reads a policy; its faults go to standard error in the form that
// editors follow.
func (t *trial) policyOf(name string) (*policy.Policy, error) {
	_, p, err := t.named(name)
	var faults policy.Errors
	var fault *policy.Error
	if errors.As(err, &faults) || errors.As(err, &fault) {
		fmt.Fprintln(t.w.stderr, err)
		return nil, fmt.Errorf("%s: %w", name, errFaults)
	}
	return p, err
}

// history gets the jobs, and what is known of the node that they were on.
func (t *trial) history() (*pastJobs, error) {
	if t.trace != "" {
		return t.fromTrace()
	}
	if t.journal != "" {
		views, err := journal.EndedIn(t.journal)
		if err != nil {
			return nil, diskError(err)
		}
		return t.fromViews(views, "the journal in "+t.journal)
	}
	if err := t.locate(); err != nil {
		return nil, err
	}
	snap, note, err := t.snapshot(model.StatusQuery{}, t.w.now())
	if err != nil && (note == "" || t.against == "") {
		return nil, hint(err)
	}
	h, err := t.fromViews(snap.Tenants, "the journal of this node")
	if err != nil {
		return nil, err
	}
	h.node(&snap)
	if note != "" {
		h.assume("gimbald does not answer: the jobs are %s.", note)
	}
	return h, nil
}

func (t *trial) fromTrace() (*pastJobs, error) {
	tr, err := trace.ReadFile(t.trace)
	if err != nil {
		return nil, err
	}
	if err := tr.CheckFits(t.nodes, t.perNode); err != nil {
		return nil, err
	}
	h := &pastJobs{from: t.trace, jobs: tr.Jobs, gpus: t.perNode, shards: node.DefaultSlots}
	h.assume("A job's work is its duration in the trace, as if it had been alone.")
	for _, n := range tr.Notes {
		h.assume("%s.", n)
	}
	return h, nil
}

func (t *trial) fromViews(views []model.View, from string) (*pastJobs, error) {
	h := newPastJobs(views, from)
	if len(h.jobs) == 0 {
		return nil, fmt.Errorf("%s holds no ended job that computed (%s, of which %d never computed, the others live or are hidden): there is nothing to replay", from, plural(h.left+h.idle, "tenant"), h.idle)
	}
	if t.perNode > 0 && t.perNode < h.gpus {
		return nil, fmt.Errorf("--gpus-per-node=%d is too few: the jobs of %s were on %s", t.perNode, from, plural(h.gpus, "GPU"))
	}
	return h, nil
}

// locate finds where gimbald listens and keeps its journal: as the options say, else
// the configuration.
func (t *trial) locate() error {
	c, _, err := config.Load(t.config)
	if err != nil {
		return err
	}
	options := t.source
	t.at(c)
	if t.given("socket") {
		t.socket = options.socket
	}
	if t.given("state-dir") {
		t.state = options.state
	}
	return nil
}

// hint says how to go on without a daemon.
func hint(err error) error {
	if errors.Is(err, wire.ErrUnreachable) {
		return fmt.Errorf("asking for the policy in force: %w; --against names one", err)
	}
	return err
}

// old is the policy that the new one is compared with.
func (t *trial) old(h *pastJobs) (*policy.Policy, error) {
	if t.against != "" {
		return t.policyOf(t.against)
	}
	inForce := h.policies
	if inForce == nil {
		if err := t.locate(); err != nil {
			return nil, err
		}
		snap, err := t.fromDaemon(model.StatusQuery{Start: t.w.now()})
		if err != nil {
			return nil, hint(err)
		}
		inForce = snap.Policies
	}
	names := slices.Compact(slices.Sorted(maps.Values(inForce)))
	if len(names) != 1 {
		return nil, fmt.Errorf("not one policy is in force on this node but %d (%s): --against says which to compare with", len(names), strings.Join(names, ", "))
	}
	return t.policyOf(names[0])
}

// replay runs the jobs under both policies.
func (t *trial) replay(h *pastJobs, old, fresh *policy.Policy) ([]study.Result, error) {
	memory, err := parseMiB(t.gpuMemory)
	if err != nil {
		return nil, err
	}
	h.memory = cmp.Or(memory, h.memory)
	h.gpus, h.shards = max(h.gpus, t.perNode), cmp.Or(t.shards, h.shards)
	h.fit()
	o := node.Options{Slots: h.shards, GPUMemory: h.memory}
	of := func(p *policy.Policy, word string) study.Policy {
		return study.Policy{Name: p.Name + " (" + word + ")", New: func() sim.Scheduler { return node.New(p, o) }}
	}
	word := "in force"
	if t.against != "" {
		word = "against"
	}
	bar := newProgress(t.w.stderr)
	defer bar.clear()
	c := sim.Config{Nodes: max(t.nodes, 1), GPUsPerNode: h.gpus, Interference: &speed.Model{GPUMemory: h.memory}}
	return study.Run(h.jobs, []study.Policy{of(old, word), of(fresh, "new")}, c, bar.callback())
}

// change says in words how a figure of the new policy differs.
func change(what string, old, fresh float64) string {
	if old <= 0 || math.Abs(fresh/old-1) < 0.005 {
		return what + " stays the same"
	}
	word := "longer"
	if fresh < old {
		word = "shorter"
	}
	return fmt.Sprintf("%s is %.0f %% %s", what, 100*math.Abs(fresh/old-1), word)
}

// span is how long the jobs came in, for people.
func span(jobs []sim.Job) string {
	last := 0.0
	for i := range jobs {
		last = max(last, jobs[i].Submit)
	}
	return study.Span(last - jobs[0].Submit)
}

// moment is a wall clock as seconds from another; unknown is Never.
func moment(t, from time.Time) float64 {
	if t.IsZero() {
		return sim.Never
	}
	return t.Sub(from).Seconds()
}
