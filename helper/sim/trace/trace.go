package trace

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/gimbal-hpc/gimbal/helper/sim"
)

// Trace is a job history.
type Trace struct {
	File  string
	Jobs  []sim.Job // in order of arrival, the first at its own time
	Notes []string  // what was left out or assumed, for the user to read
}

// ReadFile reads a job history from a file.
func ReadFile(path string) (*Trace, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the trace: %w", err)
	}
	defer f.Close()
	return Read(f, path)
}

// Read reads a job history; name is for messages.
func Read(r io.Reader, name string) (*Trace, error) {
	t, err := OpenTable(r, name)
	if err != nil {
		return nil, err
	}
	out := &Trace{File: name}
	switch {
	case t.Has("submit_s") || t.Has("duration_s"):
		err = readCSV(t, out)
	case t.Has("JobID") || t.Has("JobIDRaw"):
		err = readSacct(t, out)
	default:
		err = unknownFormat(t)
	}
	if err != nil {
		return nil, err
	}
	return out, out.finish(t)
}

// unknownFormat says what a file is that is not a trace.
func unknownFormat(t *Table) error {
	switch {
	case t.Has("norm_a"):
		return t.errorAt(0, "this is a table of measured pairs, for --interference; a trace has the columns job_id, submit_s, duration_s and gpus")
	case t.Has("overhead_s"):
		return t.errorAt(0, "this is a table of restart times, for --cost; a trace has the columns job_id, submit_s, duration_s and gpus")
	case len(t.names) == 1 && strings.HasPrefix(t.names[0], "JobID"):
		return t.errorAt(0, "this looks like what sacct prints without -P: it is read with bars between the fields")
	case strings.HasPrefix(t.names[0], "{"):
		return t.errorAt(0, "this looks like JSON: a trace is CSV, or what sacct -P prints")
	}
	return t.Need("job_id", "submit_s", "gpus", "duration_s")
}

// finish checks what was read as a whole and puts it in order.
func (tr *Trace) finish(t *Table) error {
	if len(tr.Jobs) == 0 {
		return t.errorAt(0, "no job is left to run of %d rows%s", t.Rows(), tr.reasons())
	}
	bySubmit := func(a, b sim.Job) int {
		switch {
		case a.Submit < b.Submit:
			return -1
		case a.Submit > b.Submit:
			return 1
		}
		return 0
	}
	if !slices.IsSortedFunc(tr.Jobs, bySubmit) {
		slices.SortStableFunc(tr.Jobs, bySubmit)
		tr.note("the rows are not in order of arrival; they are taken in that order")
	}
	return nil
}

// reasons is the notes as the end of a message.
func (tr *Trace) reasons() string {
	out := ""
	for _, n := range tr.Notes {
		out += "; " + strings.TrimPrefix(n, tr.File+": ")
	}
	return out
}

func (tr *Trace) note(format string, args ...any) {
	tr.Notes = append(tr.Notes, tr.File+": "+fmt.Sprintf(format, args...))
}

// CheckFits returns an error at the first job that would not fit in an empty
// cluster of equal nodes.
func (tr *Trace) CheckFits(nodes, perNode int) error {
	c, err := sim.NewCluster(nodes, perNode)
	if err != nil {
		return err
	}
	for i := range tr.Jobs {
		if j := &tr.Jobs[i]; !c.Holds(j) {
			return &Error{tr.File, j.Line, j.Column, fmt.Sprintf("job %s asks for %d GPUs%s: it does not fit (nodes: %d, GPUs of each: %d)", j.ID, j.GPUs, onNodes(j), nodes, perNode)}
		}
	}
	return nil
}

// CheckMemory returns an error at the first job that needs more memory than a GPU
// has, in MiB; 0 is not known.
func (tr *Trace) CheckMemory(gpu float64) error {
	for i := range tr.Jobs {
		if j := &tr.Jobs[i]; gpu > 0 && j.Memory > gpu {
			return &Error{tr.File, j.Line, 0, fmt.Sprintf("job %s needs %.0f MiB on each of its GPUs, which have %.0f", j.ID, j.Memory, gpu)}
		}
	}
	return nil
}

func onNodes(j *sim.Job) string {
	if j.Nodes == 0 {
		return ""
	}
	return fmt.Sprintf(" on %d nodes", j.Nodes)
}

// names finds names that come twice.
type names map[string]int // to its line

func (n names) add(t *Table, column, name string) error {
	if name == "" {
		return t.Errorf(column, "is blank")
	}
	if line, twice := n[name]; twice {
		return t.Errorf(column, "job %s is on line %d already", name, line)
	}
	n[name] = t.Line()
	return nil
}
