package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/engine"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/slurm"
)

// How summaries of jobs go into accounting: once slurmctld has had time to say
// that the job is over, one job after the other, and never more often than
// noteGap. A job that lives on, or an accounting that does not answer, is asked
// again ever more seldom, and given up in the end.
const (
	noteAfter = 5 * time.Second
	noteGap   = time.Second
	noteRetry = 30 * time.Second
	noteLast  = time.Hour // the longest between two tries
	noteTries = 12
	maxNotes  = 1024 // jobs that wait
)

// note is what is to be said of one job: of its tenants here that have ended.
type note struct {
	job     uint32
	batch   bool // its batch script ran here
	first   bool // a step of it had this node as its first
	policy  string
	tenants int
	tally   model.Tally
	peak    model.Bytes // on one GPU
	evicted bool

	due   time.Time
	tries int
}

func (n *note) add(v *model.View) {
	n.batch = n.batch || v.Reg.StepID == model.StepBatch
	n.first = n.first || v.Reg.NodeID == 0
	n.policy = v.Policy
	n.tenants++
	n.tally.Running += v.Tally.Running
	n.tally.Paused += v.Tally.Paused
	n.tally.Held += v.Tally.Held
	n.tally.Swapped += v.Tally.Swapped
	n.tally.Pauses += v.Tally.Pauses
	n.tally.Swaps += v.Tally.Swaps
	for _, b := range v.Peak {
		n.peak = max(n.peak, b)
	}
	n.evicted = n.evicted || v.Reason.Code == model.CodeEvicted
}

// text is the summary, in the form that gimbald.toml(5) tells.
func (n *note) text(node string) string {
	s := func(d time.Duration) int64 { return int64(d / time.Second) }
	out := fmt.Sprintf("gimbal: node=%s policy=%s tenants=%d ran=%ds paused=%ds held=%ds swapped=%ds pauses=%d swaps=%d gpumem=%dMiB",
		node, n.policy, n.tenants, s(n.tally.Running), s(n.tally.Paused), s(n.tally.Held), s(n.tally.Swapped), n.tally.Pauses, n.tally.Swaps, n.peak/model.MiB)
	if n.evicted {
		out += " evicted=yes"
	}
	return strings.ToLower(out)
}

// earlier is a summary of an earlier run, which the new one replaces.
var earlier = regexp.MustCompile(`(; )?gimbal: node=[^;]*`)

// errKept says that a comment is left as it is.
var errKept = errors.New("its AdminComment has capital letters, which sacctmgr would make small")

// beside puts a summary after what others have written, which stays.
func beside(there, summary string) (string, error) {
	there = strings.TrimPrefix(earlier.ReplaceAllString(there, ""), "; ")
	switch {
	case there == "":
		return summary, nil
	case there != strings.ToLower(there):
		return "", errKept
	}
	return there + "; " + summary, nil
}

// notes writes summaries of ended jobs into accounting.
type notes struct {
	client *slurm.Client
	log    *logger
	node   string
	on     func() bool // as slurm.admin_comment says
	ended  chan model.View
	gap    time.Duration
	after  time.Duration

	waiting []*note
}

func newNotes(d *daemon) *notes {
	return &notes{client: d.slurm.client, log: d.log, node: d.name, gap: noteGap, after: noteAfter,
		on: func() bool { return d.settings().Slurm.AdminComment }, ended: make(chan model.View, maxNotes)}
}

// journalOf is the journal, from which notes learn which tenants have ended.
func (n *notes) journalOf(j engine.Journal) engine.Journal { return noting{j, n} }

type noting struct {
	engine.Journal
	notes *notes
}

// Append appends, and never waits for the notes.
func (j noting) Append(r model.Record) error {
	err := j.Journal.Append(r)
	if r.Tenant == nil || r.Tenant.State != model.Gone || r.Tenant.Reg.JobID == 0 || !j.notes.on() {
		return err
	}
	select {
	case j.notes.ended <- model.ViewAt(r.Tenant, r.Wall, r.At):
	default: // more end at once than anybody counts
	}
	return err
}

// run writes until the context ends. What still waits then is not written.
func (n *notes) run(ctx context.Context) {
	for {
		var due <-chan time.Time
		if len(n.waiting) > 0 {
			due = time.After(max(n.gap, time.Until(n.waiting[0].due)))
		}
		select {
		case <-ctx.Done():
			return
		case v := <-n.ended:
			n.take(&v, time.Now())
		case <-due:
			n.writeFirst(ctx)
		}
	}
}

// take notes that a tenant has ended. The notes stay in the order in which
// they are due.
func (n *notes) take(v *model.View, now time.Time) {
	i := slices.IndexFunc(n.waiting, func(w *note) bool { return w.job == v.Reg.JobID })
	if i < 0 {
		if len(n.waiting) == maxNotes {
			n.log.warn("slurm", fmt.Sprintf("more than %d jobs wait for their AdminComment: some get none", maxNotes))
			return
		}
		i = len(n.waiting)
		n.waiting = append(n.waiting, &note{job: v.Reg.JobID})
	}
	w := n.waiting[i]
	w.add(v)
	w.due, w.tries = now.Add(n.after), 0
	n.sort()
}

func (n *notes) sort() {
	slices.SortStableFunc(n.waiting, func(a, b *note) int { return a.due.Compare(b.due) })
}

// errLives says that a job is not over yet.
var errLives = errors.New("the job is not over")

// writeFirst writes what has waited longest, or puts it off.
func (n *notes) writeFirst(ctx context.Context) {
	w := n.waiting[0]
	err := n.write(ctx, w)
	switch w.tries++; {
	case ctx.Err() != nil:
		return
	case err == nil || w.tries >= noteTries || errors.Is(err, errKept):
		n.waiting = n.waiting[1:]
	default:
		w.due = time.Now().Add(min(noteRetry<<(w.tries-1), noteLast))
		n.sort()
	}
	if err != nil && !errors.Is(err, errLives) {
		n.log.warnOf("slurm", "admin comment", fmt.Sprintf("AdminComment of job %d: %v", w.job, err))
	}
}

// write writes one summary, if the job is over and its batch host is here.
func (n *notes) write(ctx context.Context, w *note) error {
	if !n.on() || !w.batch && !w.first {
		return nil
	}
	job, err := n.client.Job(ctx, w.job)
	forgotten := errors.Is(err, slurm.ErrNoJob)
	if err != nil && !forgotten {
		return err
	}
	if !forgotten && !job.Ended() && !job.Completing() {
		return errLives
	}
	if !w.batch {
		if here, err := n.isFirst(ctx, job.Nodes); !here || err != nil {
			return err
		}
	}
	there, err := n.client.RecordedComment(ctx, w.job)
	if err != nil {
		return err
	}
	text, err := beside(there, w.text(n.node))
	if err != nil || text == there {
		return err
	}
	return n.client.RecordComment(ctx, w.job, text)
}

// isFirst tells whether this node is the first of a job's: where its batch
// script would have run.
func (n *notes) isFirst(ctx context.Context, list string) (bool, error) {
	if list == "" || list == n.node {
		return list != "", nil
	}
	first, err := n.client.FirstNode(ctx, list)
	return first == n.node, err
}
