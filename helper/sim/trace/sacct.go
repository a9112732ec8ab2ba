package trace

import (
	"errors"
	"io"
	"slices"
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
	seen    map[string]int // by a job's number its place in the trace, -1 where it was left out
	skipped skipped
}

// skipped counts the rows that are no job to run again, by reason.
type skipped struct{ steps, headers, idle, running, requeued, withoutGPU, shards, parts int }

// looseColumns may hold a bar, since people and programs write them freely.
var looseColumns = [...]string{"JobName", "Comment", "AdminComment", "SystemComment", "Constraints", "Container", "Extra", "Licenses", "StdErr", "StdIn", "StdOut", "SubmitLine", "WorkDir"}

func readSacct(t *Table, out *Trace) error {
	s := &sacct{t: t, out: out, epoch: -1, seen: make(map[string]int)}
	if err := s.columns(); err != nil {
		return err
	}
	for {
		err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = s.row()
		}
		if err != nil {
			return err
		}
	}
	out.Jobs = slices.DeleteFunc(out.Jobs, func(j sim.Job) bool { return j.ID == "" })
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
	s.loosen()
	return nil
}

// loosen lets the one column hold bars that may, and says what to do where there
// are several.
func (s *sacct) loosen() {
	var there []string
	for _, n := range looseColumns {
		if s.t.Has(n) {
			there = append(there, n)
		}
	}
	switch len(there) {
	case 0:
		s.t.advice = "; does a name hold a bar?"
	case 1:
		s.t.loose = s.t.index[strings.ToLower(there[0])]
	default:
		s.t.advice = "; of " + strings.Join(there, ", ") + " one holds a bar: ask sacct for JobName alone of them"
	}
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
func (s *sacct) row() error {
	id := s.t.Text(s.id)
	switch {
	case strings.Contains(id, "."):
		s.skipped.steps++
		return nil
	case strings.EqualFold(id, s.id): // outputs one after the other
		s.skipped.headers++
		return nil
	case id == "":
		return s.t.Errorf(s.id, "is blank")
	}
	s.forget(id)
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
	if strings.Contains(id, "+") {
		s.skipped.parts++
	}
	return s.add(sim.Job{ID: id, GPUs: gpus, Shards: shards, Iterations: elapsed, IterTime: 1})
}

// forget takes out what came of an earlier row of a job: the last one counts.
// sacct -D prints a row for each time that a job was requeued, and of two outputs
// both may have a job.
func (s *sacct) forget(id string) {
	before, twice := s.seen[id]
	if twice {
		s.skipped.requeued++
	}
	if twice && before >= 0 {
		s.out.Jobs[before].ID = "" // readSacct drops it
	}
	s.seen[id] = -1
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
	s.seen[j.ID] = len(s.out.Jobs)
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
		{s.skipped.headers, "more header lines left out"},
		{s.skipped.requeued, "rows left out of jobs that come again further down, as requeued ones do: their last row counts"},
		{s.skipped.idle, "jobs left out that never ran"},
		{s.skipped.running, "jobs left out that had not ended"},
		{s.skipped.withoutGPU, "jobs left out that had no GPU" + s.whyNone()},
		{s.skipped.shards, "jobs with shards of a GPU, to which the baselines give a whole one"},
		{s.skipped.parts, "parts of heterogeneous jobs, each taken for a job of its own"},
		{s.t.joined, "rows with bars in a field, which are taken to be in " + s.loose()},
	} {
		if n.count > 0 {
			s.out.note("%s: %d", n.text, n.count)
		}
	}
}

// whyNone is why no job may have a GPU, where none has.
func (s *sacct) whyNone() string {
	if len(s.out.Jobs) > 0 || !strings.HasSuffix(s.gpus, "TRES") {
		return ""
	}
	return " in " + s.gpus + ", where Slurm counts them if its AccountingStorageTRES has gres/gpu"
}

// loose is the column that may hold bars, "" where it is not one alone.
func (s *sacct) loose() string {
	if s.t.loose < 0 {
		return ""
	}
	return s.t.names[s.t.loose]
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
