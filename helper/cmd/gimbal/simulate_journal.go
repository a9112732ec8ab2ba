package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/engine"
	"github.com/gimbal-hpc/gimbal/helper/journal"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/sim"
	"github.com/gimbal-hpc/gimbal/helper/sim/node"
)

// journals keeps what the engines of simulated nodes write down, each node's
// as gimbald keeps its own. A nil one keeps nothing.
type journals struct {
	dir      string
	nodes    int
	policies []string // that have records
	none     []string // baselines: they have none

	mu   sync.Mutex
	open []*nodeJournal
}

// of is where the nodes of a policy write, or nil.
func (j *journals) of(policy string) func(int) engine.Journal {
	if j == nil {
		return nil
	}
	j.policies = append(j.policies, policy)
	return func(number int) engine.Journal {
		n := &nodeJournal{dir: j.path(policy, number)}
		j.mu.Lock()
		j.open = append(j.open, n)
		j.mu.Unlock()
		return n
	}
}

// without notes a policy that no engine runs.
func (j *journals) without(policy string) {
	if j != nil {
		j.none = append(j.none, policy)
	}
}

// path is the folder of a node's journal: no deeper than is needed to tell them
// apart.
func (j *journals) path(policy string, number int) string {
	dir := j.dir
	if len(j.policies) > 1 {
		dir = filepath.Join(dir, policy)
	}
	if j.nodes > 1 {
		dir = filepath.Join(dir, fmt.Sprintf("node%d", number))
	}
	return dir
}

// prepare makes the folder. Records of another run must not be there: the jobs
// of both would be mixed.
func (j *journals) prepare() error {
	if j == nil || len(j.policies) == 0 {
		return nil
	}
	if err := os.MkdirAll(j.dir, 0o755); err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	there, err := os.ReadDir(j.dir)
	if err == nil && len(there) > 0 {
		err = fmt.Errorf("%s is not empty", j.dir)
	}
	if err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	return nil
}

func (j *journals) close() error {
	if j == nil {
		return nil
	}
	var errs []error
	for _, n := range j.open {
		errs = append(errs, n.close())
	}
	return errors.Join(errs...)
}

// said is what a reader of the journals must know.
func (j *journals) said(jobs []sim.Job) (out []string) {
	if j == nil {
		return nil
	}
	if len(j.none) > 0 {
		out = append(out, fmt.Sprintf("no journal is written of %s: no engine of a node runs such a policy", strings.Join(j.none, ", ")))
	}
	if len(j.policies) == 0 {
		return out
	}
	where := j.dir
	if len(j.policies) > 1 {
		where = filepath.Join(where, "POLICY")
	}
	if j.nodes > 1 {
		where = filepath.Join(where, "nodeN")
	}
	out = append(out, fmt.Sprintf("the journal is in %s; its clock starts at 2000-01-01T00:00:00 UTC with the trace", where))
	if !node.Numbered(jobs) {
		out = append(out, "not all job ids of the trace are numbers as Slurm gives them: the journal calls a job by its place in the trace, from 1 on; 'gimbal status --offline --state-dir FOLDER -S 2000-01-01' lists them, with the id as JobName where the trace names no model")
	}
	return out
}

// nodeJournal is the journal of one node. It is opened when the first record
// comes: most nodes of a large cluster may have none.
type nodeJournal struct {
	dir string
	to  *journal.Journal
	now time.Time // of the newest record
}

// simulatedBoot stands in a simulator's journal for the boot of the machine.
const simulatedBoot = "simulated"

// years is longer than any trace: a journal of the simulator is cut by size
// alone.
const years = 200 * 365 * 24 * time.Hour

// Append implements [engine.Journal].
func (n *nodeJournal) Append(r model.Record) error {
	if err := n.open(r.Wall); err != nil {
		return err
	}
	return n.to.Append(r)
}

// Load implements [engine.Meter].
func (n *nodeJournal) Load(l model.Load) (time.Duration, error) {
	if err := n.open(l.From.Add(l.Length)); err != nil {
		return 0, err
	}
	return n.to.Load(l)
}

func (n *nodeJournal) open(now time.Time) (err error) {
	n.now = now
	if n.to == nil {
		o := journal.Options{Boot: simulatedBoot, SegmentAge: years, KeepFor: years, Now: func() time.Time { return n.now }}
		n.to, err = journal.Open(n.dir, o)
	}
	return err
}

func (n *nodeJournal) close() error {
	if n.to == nil {
		return nil
	}
	return n.to.Close()
}
