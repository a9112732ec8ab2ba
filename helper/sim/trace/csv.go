package trace

import (
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/gimbal-hpc/gimbal/helper/sim"
)

// knownColumns is what the CSV may have.
var knownColumns = [...]string{
	"job_id", "submit_s", "duration_s", "gpus", "nodes", "model", "batch",
	"user", "status", "iterations", "total_steps", "iter_ms", "t_load_cpu_ms",
	"t_gpu_ms", "t_net_ms", "priority", "memory_mib", "gpu_util", "deadline_s",
	"limit_s", "shards", "account", "partition",
}

func readCSV(t *Table, out *Trace) error {
	if err := t.Need("job_id", "submit_s", "duration_s", "gpus"); err != nil {
		return err
	}
	for _, n := range t.Names() {
		if !slices.Contains(knownColumns[:], strings.ToLower(n)) {
			out.note("column %q is not known and not used%s", n, perhaps(n, knownColumns[:]))
		}
	}
	seen, noWork := make(names), 0
	for {
		err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		j, err := csvJob(t)
		if err != nil {
			return err
		}
		if err := seen.add(t, "job_id", j.ID); err != nil {
			return err
		}
		if j.IterTime < 0 {
			noWork++
			continue
		}
		out.Jobs = append(out.Jobs, j)
	}
	if noWork > 0 {
		out.note("%d of %d jobs are left out: they have neither duration_s nor iterations and iter_ms", noWork, len(seen))
	}
	return nil
}

// fields reads numbers of a row one after the other and keeps the first error.
type fields struct {
	t   *Table
	err error
}

func (f *fields) number(name string, low, high float64) float64 {
	if f.err != nil {
		return 0
	}
	v, err := f.t.Number(name, low, high)
	f.err = err
	return v
}

func (f *fields) optional(name string, low, high, other float64) float64 {
	if f.err != nil || f.t.Text(name) == "" {
		return other
	}
	return f.number(name, low, high)
}

func (f *fields) whole(name string, low, high int) int {
	if f.err != nil {
		return 0
	}
	v, err := f.t.Whole(name, low, high)
	f.err = err
	return v
}

func (f *fields) optionalWhole(name string, low, high, other int) int {
	if f.err != nil || f.t.Text(name) == "" {
		return other
	}
	return f.whole(name, low, high)
}

// csvJob reads one job. Its IterTime is -1 where the row tells no work.
func csvJob(t *Table) (sim.Job, error) {
	f := &fields{t: t}
	j := sim.Job{
		ID: t.Text("job_id"), User: t.Text("user"), Account: t.Text("account"), Partition: t.Text("partition"), Model: t.Text("model"), Batch: t.Text("batch"),
		Submit:        f.number("submit_s", 0, maxSeconds),
		GPUs:          f.whole("gpus", 1, maxGPUs),
		Nodes:         f.optionalWhole("nodes", 1, maxGPUs, 0),
		Shards:        f.optionalWhole("shards", 0, maxGPUs, 0),
		Memory:        f.optional("memory_mib", 0, maxMemoryMiB, 0),
		Util:          f.optional("gpu_util", 0, 1, 0),
		Opportunistic: f.optionalWhole("priority", 0, 1, 0) == 1,
		Deadline:      f.optional("deadline_s", 0, maxSeconds, sim.Never),
		Limit:         f.optional("limit_s", 0, maxSeconds, 0),
		Line:          t.Line(), Column: t.Column("gpus"),
	}
	f.work(&j)
	f.stages(&j)
	if f.err == nil && j.Nodes > j.GPUs {
		f.err = t.Errorf("nodes", "%d nodes for %d GPUs", j.Nodes, j.GPUs)
	}
	if f.err == nil && j.Shards > 0 && j.GPUs != 1 {
		f.err = t.Errorf("shards", "shards are of one GPU, and the job wants %d", j.GPUs)
	}
	return j, f.err
}

// work reads how much a job has to do.
func (f *fields) work(j *sim.Job) {
	steps := "iterations"
	if f.t.Text(steps) == "" {
		steps = "total_steps"
	}
	j.Iterations = f.optional(steps, 0, maxIterations, 0)
	ms := f.optional("iter_ms", 0, maxIterMS, 0)
	duration := f.optional("duration_s", 0, maxSeconds, -1)
	switch {
	case j.Iterations > 0 && ms > 0:
		j.IterTime = ms / 1000
	case duration < 0:
		j.IterTime = -1
	case j.Iterations > 0:
		j.IterTime = duration / j.Iterations
	default: // an iteration is a second
		j.Iterations, j.IterTime = duration, 1
	}
}

// stages reads where an iteration spends its time: all of it or nothing.
func (f *fields) stages(j *sim.Job) {
	filled := 0
	for i, name := range [...]string{"t_load_cpu_ms", "t_gpu_ms", "t_net_ms"} {
		if f.t.Text(name) != "" {
			filled++
		}
		j.Stages[i] = f.optional(name, 0, maxIterMS, 0) / 1000
	}
	if f.err == nil && filled%3 != 0 {
		f.err = f.t.Errorf("t_gpu_ms", "%d of 3 stage times are filled", filled)
	}
}
