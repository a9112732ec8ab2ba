package trace

import (
	"errors"
	"io"
	"strings"

	"github.com/gimbal-hpc/gimbal/helper/sim"
)

// optionalColumns are read where they are there.
var optionalColumns = [...]string{"User", "Account", "Partition", "JobName", "Timelimit", "NNodes", "State"}

// gpuColumns tell how many GPUs a job had, the best one first.
var gpuColumns = [...]string{"AllocTRES", "AllocGRES", "ReqTRES", "ReqGRES"}

// sacct is the reading of one output of sacct.
type sacct struct {
	t       *Table
	out     *Trace
	id      string // the column of the job's number
	elapsed string // the column of how long it ran
	gpus    string // the column of its GPUs
	epoch   float64
	skipped skipped
}

// skipped counts the rows that are no job to run again, by reason.
type skipped struct{ steps, idle, running, withoutGPU, shards int }

func readSacct(t *Table, out *Trace) error {
	s := &sacct{t: t, out: out, epoch: -1}
	if err := s.columns(); err != nil {
		return err
	}
	seen := make(names)
	for {
		err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if err := s.row(seen); err != nil {
			return err
		}
	}
	s.relative()
	s.notes()
	return nil
}

// columns chooses which columns are read.
func (s *sacct) columns() error {
	if err := s.t.Need("Submit"); err != nil {
		return err
	}
	s.id = s.first("JobID", "JobIDRaw")
	if s.elapsed = s.first("ElapsedRaw", "Elapsed"); s.elapsed == "" {
		return s.t.Need("ElapsedRaw")
	}
	if s.gpus = s.first(gpuColumns[:]...); s.gpus == "" {
		return s.t.Need("AllocTRES")
	}
	s.noteColumns()
	return nil
}

// noteColumns says which columns are missed, and which are of no use.
func (s *sacct) noteColumns() {
	used := map[string]bool{"submit": true, "jobid": true, "jobidraw": true, "elapsed": true, "elapsedraw": true}
	for _, n := range gpuColumns {
		used[strings.ToLower(n)] = true
	}
	for _, n := range optionalColumns {
		used[strings.ToLower(n)] = true
		if !s.t.Has(n) {
			s.out.note("column %q is missing: no job has one", n)
		}
	}
	for _, n := range s.t.Names() {
		if n != "" && !used[strings.ToLower(n)] {
			s.out.note("column %q is not used", n)
		}
	}
}

func (s *sacct) first(names ...string) string {
	for _, n := range names {
		if s.t.Has(n) {
			return n
		}
	}
	return ""
}

// row reads one row and adds its job, or counts why it adds none.
func (s *sacct) row(seen names) error {
	id := s.t.Text(s.id)
	if strings.Contains(id, ".") {
		s.skipped.steps++
		return nil
	}
	if err := seen.add(s.t, s.id, id); err != nil {
		return err
	}
	elapsed, err := s.duration(s.elapsed)
	if err != nil {
		return err
	}
	gpus, shards, err := s.gres()
	if gpus > 0 {
		shards = 0
	}
	switch {
	case err != nil:
		return err
	case isRunning(s.t.Text("State")):
		s.skipped.running++
		return nil
	case elapsed == 0:
		s.skipped.idle++
		return nil
	case gpus+shards == 0:
		s.skipped.withoutGPU++
		return nil
	case gpus == 0:
		s.skipped.shards++
		gpus = 1
	}
	return s.add(sim.Job{ID: id, GPUs: gpus, Shards: shards, Iterations: elapsed, IterTime: 1})
}

func isRunning(state string) bool {
	switch strings.ToUpper(state) {
	case "RUNNING", "PENDING", "SUSPENDED", "REQUEUED", "RESIZING":
		return true
	}
	return false
}

// add fills in what is left of a job and adds it.
func (s *sacct) add(j sim.Job) error {
	submit, err := s.time("Submit")
	if err != nil {
		return err
	}
	f := &fields{t: s.t}
	nodes := f.optionalWhole("NNodes", 0, maxGPUs, 0)
	limit := 0.0
	if s.t.Has("Timelimit") && f.err == nil {
		limit, f.err = s.duration("Timelimit")
	}
	if f.err != nil {
		return f.err
	}
	if nodes >= 2 && nodes <= j.GPUs { // one node is what any job gets that fits
		j.Nodes = nodes
	}
	if s.epoch < 0 || submit < s.epoch {
		s.epoch = submit
	}
	j.User, j.Model, j.Submit = s.t.Text("User"), s.t.Text("JobName"), submit
	j.Account, j.Partition = s.t.Text("Account"), s.t.Text("Partition")
	j.Deadline, j.Limit = sim.Never, limit
	j.Line, j.Column = s.t.Line(), s.t.Column(s.gpus)
	s.out.Jobs = append(s.out.Jobs, j)
	return nil
}

// relative counts time from the first arrival.
func (s *sacct) relative() {
	for i := range s.out.Jobs {
		s.out.Jobs[i].Submit -= s.epoch
	}
}

func (s *sacct) notes() {
	for _, n := range [...]struct {
		count int
		text  string
	}{
		{s.skipped.steps, "job steps left out, since their jobs count"},
		{s.skipped.idle, "jobs left out that never ran"},
		{s.skipped.running, "jobs left out that had not ended"},
		{s.skipped.withoutGPU, "jobs left out that had no GPU"},
		{s.skipped.shards, "jobs with shards of a GPU, to which the baselines give a whole one"},
	} {
		if n.count > 0 {
			s.out.note("%s: %d", n.text, n.count)
		}
	}
}

// gres is how many GPUs and shards the job of this row had on all its nodes.
func (s *sacct) gres() (gpus, shards int, err error) {
	text := s.t.Text(s.gpus)
	perNode := strings.HasSuffix(s.gpus, "GRES")
	var count gresCount
	for _, item := range strings.Split(text, ",") {
		if !count.add(item) {
			return 0, 0, s.t.Errorf(s.gpus, "%q is no count of GPUs", item)
		}
	}
	gpus, shards = count.total("gpu"), count.total("shard")
	if perNode {
		nodes, err := s.t.Optional("NNodes", 0, maxGPUs, 1)
		if err != nil {
			return 0, 0, err
		}
		gpus, shards = gpus*int(nodes), shards*int(nodes)
	}
	if gpus > maxGPUs {
		return 0, 0, s.t.Errorf(s.gpus, "%d GPUs are more than %v", gpus, maxGPUs)
	}
	return gpus, shards, nil
}
