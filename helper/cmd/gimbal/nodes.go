package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/config"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/report"
	"github.com/gimbal-hpc/gimbal/helper/slurm"
)

// Bounds of asking the nodes of a job.
const (
	nodeLimit   = 15 * time.Second // for one node
	nodesAtOnce = 8
)

// nodePath is the value of an option: a path whose %n is Slurm's name of this
// node.
type nodePath struct{ path *string }

func (p nodePath) Set(s string) error {
	*p.path = config.NodePath(s, thisNode())
	return nil
}

func (p nodePath) String() string {
	if p.path == nil {
		return ""
	}
	return *p.path
}

func (nodePath) Type() string { return "string" }

// thisNode is the node that a step runs on, elsewhere the host's short name.
func thisNode() string {
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	short, _, _ := strings.Cut(host, ".")
	return cmp.Or(os.Getenv("SLURMD_NODENAME"), short)
}

// nodeAnswer is what one of a job's nodes said.
type nodeAnswer struct {
	node string
	snap *model.Snapshot // nil: nothing
	err  error           // why it said nothing, or not all
}

// everywhere shows a job on all of its nodes. args is the command line, which
// each node is asked with.
func (s *statusFlags) everywhere(args []string, w world) int {
	q, err := s.query(w)
	if err == nil {
		err = s.checkEverywhere(q.Jobs)
	}
	if err != nil {
		return wrongUsage(w, "status", err)
	}
	cols, layout, err := s.layout(w)
	if err != nil {
		return wrongUsage(w, "status", err)
	}
	answers, err := askJobs(q.Jobs, args, w)
	if err == nil {
		err = s.writeEverywhere(w, answers, q, cols, layout)
	}
	if err != nil {
		return failure(w, "status", err)
	}
	return sayMissing(w, answers)
}

// checkEverywhere looks for what does not go with --all-nodes.
func (s *statusFlags) checkEverywhere(jobs []model.JobRef) error {
	switch {
	case len(jobs) == 0:
		return errors.New("--all-nodes needs -j: the nodes of which jobs?")
	case slices.ContainsFunc(jobs, func(r model.JobRef) bool { return model.RunNumber(r.Job) != 0 }):
		return errors.New("--all-nodes: what gimbal run started is on this host alone")
	case s.self || s.gpus || s.about || s.offline:
		return errors.New("--all-nodes goes with none of --self, --gpus, --daemon and --offline")
	}
	return nil
}

// askJobs asks every node of some jobs once, by a step of a job that is on it.
func askJobs(refs []model.JobRef, args []string, w world) ([]nodeAnswer, error) {
	client := slurm.New(slurm.Options{Timeout: nodeLimit})
	nodes, by, err := jobNodes(client, refs, w)
	if err != nil {
		return nil, err
	}
	command, err := nodeCommand(args)
	if err != nil {
		return nil, err
	}
	return askNodes(nodes, func(node string) nodeAnswer { return askNode(client, by[node], node, command) }), nil
}

// jobNodes asks Slurm where jobs run, and returns the nodes with a job for each.
// What runs nowhere is named on stderr, and an error where nothing runs.
func jobNodes(client *slurm.Client, refs []model.JobRef, w world) (nodes []string, by map[string]uint32, err error) {
	var names []string
	for _, r := range refs {
		r.Step, r.Offset = model.NoVal, model.NoVal // squeue knows het jobs as a whole
		if n := refName(r); !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	jobs, err := client.Jobs(context.Background(), names...)
	if err == nil && len(jobs) == 0 {
		err = fmt.Errorf("job %s: %w", strings.Join(names, ", "), slurm.ErrNoJob)
	}
	if err != nil {
		return nil, nil, err
	}
	by = map[string]uint32{}
	var idle []string
	for _, j := range jobs {
		if j.Ended() || j.Nodes == "" {
			idle = append(idle, fmt.Sprintf("%d is %s", j.ID, j.State))
			continue
		}
		for _, n := range expandNames(j.Nodes) {
			if by[n] == 0 {
				nodes = append(nodes, n)
				by[n] = j.ID
			}
		}
	}
	return nodes, by, sayIdle(w, idle, len(nodes))
}

// mostIdle is how many jobs are named that run nowhere.
const mostIdle = 5

// sayIdle names the jobs that run nowhere: an error where no other does.
func sayIdle(w world, idle []string, nodes int) error {
	if len(idle) == 0 {
		return nil
	}
	text := "job " + strings.Join(idle[:min(len(idle), mostIdle)], ", ")
	if n := len(idle) - mostIdle; n > 0 {
		text += fmt.Sprintf(", and %d more", n)
	}
	if nodes == 0 {
		return fmt.Errorf("%s: no step can be started to ask the nodes; where a job has run, 'gimbal status -j JOB' tells of it", text)
	}
	fmt.Fprintf(w.stderr, "gimbal status: %s: asked is where the others run\n", text)
	return nil
}

// nodeCommand is what a node is asked with: this very program with this
// command line, but for itself alone and in a form to be read.
func nodeCommand(args []string) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	command := []string{self, "status", "--snapshot"}
	for _, a := range args {
		if name, _, _ := strings.Cut(a, "="); name != "--all-nodes" {
			command = append(command, a)
		}
	}
	return command, nil
}

// askNodes asks all nodes, some of them at once, and returns the answers in
// the order of the nodes.
func askNodes(nodes []string, ask func(node string) nodeAnswer) []nodeAnswer {
	answers := make([]nodeAnswer, len(nodes))
	turns := make(chan struct{}, nodesAtOnce)
	var wg sync.WaitGroup
	for i, node := range nodes {
		turns <- struct{}{}
		wg.Go(func() {
			answers[i] = ask(node)
			<-turns
		})
	}
	wg.Wait()
	return answers
}

// askNode asks one node by a step of the job.
func askNode(client *slurm.Client, job uint32, node string, command []string) nodeAnswer {
	out, err := client.Overlap(context.Background(), job, node, command...)
	a := nodeAnswer{node: node, err: err}
	var snap model.Snapshot
	switch jerr := json.Unmarshal([]byte(out), &snap); {
	case jerr == nil:
		a.snap = &snap
	case err == nil:
		a.err = fmt.Errorf("what it answered cannot be read: %w", jerr)
	}
	return a
}

// writeEverywhere shows the answers as one table, or one JSON.
func (s *statusFlags) writeEverywhere(w world, answers []nodeAnswer, q model.StatusQuery, cols []report.Column, l report.Layout) error {
	all := model.Snapshot{At: w.now()}
	doc := report.NewNodesDocument(w.now())
	sel := report.Selection{Jobs: q.Jobs, Allocations: s.allocations}
	for _, a := range answers {
		if a.err != nil {
			doc.Silent = append(doc.Silent, report.SilentDocument{Node: a.node, Error: a.err.Error()})
		}
		if a.snap == nil {
			continue
		}
		if s.truncate {
			truncate(a.snap, q)
		}
		a.join(&all)
		doc.Nodes = append(doc.Nodes, report.NewDocument(a.snap, sel))
	}
	if s.json {
		return report.WriteNodesJSON(w.stdout, doc)
	}
	return report.Write(w.stdout, cols, report.Rows(&all, sel, s.style(w)), l)
}

// join adds what a node said to what all said, under the name by which it was
// asked.
func (a nodeAnswer) join(all *model.Snapshot) {
	a.snap.Node = a.node
	all.GPUs = append(all.GPUs, a.snap.GPUs...)
	for i := range a.snap.Tenants {
		a.snap.Tenants[i].Reg.Node = a.node
	}
	all.Tenants = append(all.Tenants, a.snap.Tenants...)
}

// sayMissing names the nodes that said nothing, or not all.
func sayMissing(w world, answers []nodeAnswer) int {
	code := exitOK
	for _, a := range answers {
		if a.snap != nil && a.snap.Degraded != "" {
			fmt.Fprintf(w.stderr, "gimbal status: node %s: degraded: %s\n", a.node, clean(a.snap.Degraded))
		}
		if a.err != nil {
			fmt.Fprintf(w.stderr, "gimbal status: node %s: %s\n", a.node, clean(a.err.Error()))
			code = exitUnreachable
		}
	}
	return code
}

// writeSnapshot answers another node's --all-nodes.
func (s *statusFlags) writeSnapshot(w world) int {
	q, err := s.query(w)
	if err != nil {
		return wrongUsage(w, "status", err)
	}
	snap, note, err := s.snapshot(q, w.now())
	if err != nil && note == "" {
		return failure(w, "status", err)
	}
	err = s.sayWhere(w, "status", note, err)
	// Only the GPUs of what is shown: the rest is the node's own matter.
	snap.Strays, snap.Foreign, snap.Policies = nil, nil, nil
	snap.GPUs = slices.DeleteFunc(snap.GPUs, func(g model.GPU) bool {
		return !slices.ContainsFunc(snap.Tenants, func(v model.View) bool { return slices.Contains(v.GPUs, g.UUID) })
	})
	if werr := json.NewEncoder(w.stdout).Encode(snap); werr != nil {
		return failure(w, "status", werr)
	}
	return exitFor(err)
}
