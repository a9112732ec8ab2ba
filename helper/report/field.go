package report

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// Field is one column of a status.
type Field struct {
	Name  string
	Width int
	Left  bool // aligned to the left
	Whole bool // never cut: the column grows instead
	Help  string
	Value func(*Row) string
}

// DefaultFormat is the list of columns where none is asked for.
const DefaultFormat = "JobID,JobName,User,Policy,GPUs,State,Reason,Elapsed,Running,Paused,MaxGPUMem,GPUUtil"

// BriefFormat is that of -b.
const BriefFormat = "JobID,State,ExitCode"

// Fields lists all columns, by name.
func Fields() []Field {
	all := append(idFields(), append(timeFields(), append(memoryFields(), stateFields()...)...)...)
	sort.Slice(all, func(i, k int) bool { return strings.ToLower(all[i].Name) < strings.ToLower(all[k].Name) })
	return all
}

func idFields() []Field {
	reg := func(f func(*model.Registration) string) func(*Row) string {
		return func(r *Row) string { return known(r, f(&r.View.Reg)) }
	}
	return []Field{
		{"JobID", 12, true, true, "job, array task or het part, with the step", (*Row).jobID},
		{"JobIDRaw", 12, true, true, "the same with Slurm's plain job number", (*Row).jobIDRaw},
		{"JobName", 10, false, false, "name of the job; of a step: batch, extern or its number", (*Row).name},
		{"User", 9, false, false, "login name", (*Row).user},
		{"UID", 6, false, true, "user id", (*Row).uid},
		{"Account", 10, false, false, "Slurm account", reg(func(r *model.Registration) string { return r.Account })},
		{"Partition", 10, false, false, "Slurm partition", reg(func(r *model.Registration) string { return r.Partition })},
		{"NodeList", 15, false, false, "this node's name", (*Row).node},
		{"NNodes", 8, false, true, "nodes of the job", reg(func(r *model.Registration) string { return count(int(r.NNodes)) })},
		{"Restarts", 8, false, true, "how often the job was requeued before", reg(func(r *model.Registration) string { return strconv.Itoa(int(r.Restart)) })},
		{"NTasks", 8, false, true, "tasks on this node", (*Row).tasks},
		{"Tenant", 12, true, true, "Gimbal's own name of this run of the job", func(r *Row) string { return known(r, string(r.View.ID)) }},
	}
}

func timeFields() []Field {
	clock := func(f func(*Row) time.Time) func(*Row) string {
		return func(r *Row) string { return known(r, Clock(f(r), r.page.loc)) }
	}
	tally := func(f func(*model.Tally) time.Duration) func(*Row) string {
		return func(r *Row) string { return tenantOnly(r, func() string { return Duration(f(&r.View.Tally)) }) }
	}
	return []Field{
		{"Start", 19, false, true, "when the first task was launched", clock((*Row).start)},
		{"Ran", 19, false, true, "when it was first let run", func(r *Row) string {
			return tenantOnly(r, func() string { return Clock(r.View.Ran, r.page.loc) })
		}},
		{"End", 19, false, true, "when the last process was gone", clock((*Row).end)},
		{"Since", 19, false, true, "when it entered its state", clock(func(r *Row) time.Time { return r.View.SinceWall })},
		{"Elapsed", 10, false, true, "from Start to End or now", func(r *Row) string { return known(r, Duration(r.elapsed())) }},
		{"ElapsedRaw", 10, false, true, "the same in seconds", func(r *Row) string { return known(r, strconv.Itoa(int(r.elapsed().Seconds()))) }},
		{"Running", 10, false, true, "time in which it could compute", tally(func(t *model.Tally) time.Duration { return t.Running })},
		{"Paused", 10, false, true, "time in which it was paused", tally(func(t *model.Tally) time.Duration { return t.Paused })},
		{"Held", 10, false, true, "time for which it waited to start", tally(func(t *model.Tally) time.Duration { return t.Held })},
		{"Swapped", 10, false, true, "time with its GPU memory in host RAM", tally(func(t *model.Tally) time.Duration { return t.Swapped })},
		{"Attained", 10, false, true, "running time with a process on a GPU", tally(func(t *model.Tally) time.Duration { return t.Attained })},
		{"Idle", 10, false, true, "since it was last seen computing", (*Row).idle},
		{"Deadline", 19, false, true, "by when it wants to be done", clock(func(r *Row) time.Time { return r.View.Terms.Deadline })},
		{"Slack", 11, false, true, "time left to its deadline", (*Row).slack},
	}
}

func memoryFields() []Field {
	return []Field{
		{"GPUs", 8, false, true, "numbers of its GPUs", (*Row).gpus},
		{"GPUUUID", 40, false, true, "UUIDs of its GPUs", func(r *Row) string { return tenantOnly(r, func() string { return strings.Join(r.View.GPUs, ",") }) }},
		{"ReqGPUMem", 10, false, true, "memory that it may count on, on each GPU", (*Row).reqMemory},
		{"MaxGPUMem", 10, false, true, "highest memory seen on one of its GPUs", (*Row).maxMemory},
		{"GPUMem", 10, false, true, "memory in use now, on all its GPUs", (*Row).memory},
		{"GPUUtil", 7, false, true, "share of time on the multiprocessors, mean of its GPUs", (*Row).util},
		{"Procs", 6, false, true, "live processes", func(r *Row) string { return tenantOnly(r, func() string { return strconv.Itoa(r.View.Procs) }) }},
		{"GPUProcs", 8, false, true, "processes on its GPUs", (*Row).gpuProcs},
		{"Mates", 16, true, true, "tenants that share a GPU with it", (*Row).mateNames},
	}
}

func stateFields() []Field {
	tally := func(f func(*model.Tally) int) func(*Row) string {
		return func(r *Row) string { return tenantOnly(r, func() string { return strconv.Itoa(f(&r.View.Tally)) }) }
	}
	terms := func(f func(*model.Terms) string) func(*Row) string {
		return func(r *Row) string { return known(r, f(&r.View.Terms)) }
	}
	return []Field{
		{"State", 10, false, false, "HELD, RUNNING, PAUSED, SWAPPED, COMPLETED, ...", (*Row).state},
		{"Reason", 20, true, false, "why it is in its state", (*Row).reason},
		{"ExitCode", 8, false, true, "exit code and signal", (*Row).exitCode},
		{"Policy", 10, false, false, "policy in force on its GPUs", (*Row).policy},
		{"ReqPolicy", 10, false, false, "policy that the job asked for", terms(func(t *model.Terms) string { return t.Policy })},
		{"Class", 13, false, false, "guaranteed or opportunistic", terms(func(t *model.Terms) string { return string(t.Class) })},
		{"Weight", 6, false, true, "its share of time relative to its mates", terms(func(t *model.Terms) string { return strconv.FormatFloat(t.Weight, 'g', 4, 64) })},
		{"Notes", 30, true, false, "what of the request was lowered, and why", terms(func(t *model.Terms) string { return strings.Join(t.Notes, "; ") })},
		{"Exempt", 20, true, false, "why it is never stopped", func(r *Row) string { return known(r, r.View.Exempt) }},
		{"Holds", 6, false, true, "how often it was held", tally(func(t *model.Tally) int { return t.Holds })},
		{"Pauses", 6, false, true, "how often it was paused", tally(func(t *model.Tally) int { return t.Pauses })},
		{"Swaps", 6, false, true, "how often it was swapped", tally(func(t *model.Tally) int { return t.Swaps })},
		{"PassedOver", 10, false, true, "later ones that were admitted before it", func(r *Row) string {
			return tenantOnly(r, func() string { return strconv.Itoa(r.View.PassedOver) })
		}},
	}
}

// known leaves a cell empty where the row is not the reader's to see, or no
// tenant's.
func known(r *Row, s string) string {
	if r.Stray != nil || r.View.Hidden {
		return ""
	}
	return s
}

// tenantOnly leaves the cells empty that are a tenant's and not a step's.
func tenantOnly(r *Row, f func() string) string {
	if r.Step != nil {
		return ""
	}
	return known(r, f())
}

func count(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func (r *Row) jobID() string {
	switch {
	case r.Stray != nil:
		return r.Stray.Kind
	case r.View.Hidden:
		return "-"
	case r.Step != nil:
		return r.View.Reg.StepLabel(r.Step.ID)
	}
	return r.View.Name()
}

func (r *Row) jobIDRaw() string {
	id := strconv.FormatUint(uint64(r.View.Reg.JobID), 10)
	switch {
	case r.Stray != nil, r.View.Hidden:
		return ""
	case r.Step != nil:
		return id + "." + StepName(r.Step.ID)
	case !r.View.Whole:
		return id + "." + StepName(r.View.Reg.StepID)
	}
	return id
}

func (r *Row) name() string {
	if r.Step != nil {
		return known(r, StepName(r.Step.ID))
	}
	return known(r, r.View.Reg.JobName)
}

func (r *Row) user() string {
	switch {
	case r.Stray != nil && r.Stray.Kind == "ghost":
		return "" // its process is not there to be asked
	case r.Stray != nil:
		return "uid=" + r.uid()
	case r.Step != nil:
		return ""
	case r.View.Reg.User == "":
		return known(r, r.uid())
	}
	return known(r, r.View.Reg.User)
}

func (r *Row) uid() string {
	if r.Stray != nil {
		return strconv.FormatUint(uint64(r.Stray.UID), 10)
	}
	return tenantOnly(r, func() string { return strconv.FormatUint(uint64(r.View.Reg.UID), 10) })
}

func (r *Row) node() string {
	if n := r.View.Reg.Node; n != "" {
		return known(r, n)
	}
	return r.page.snap.Node
}

func (r *Row) tasks() string {
	if r.Step != nil {
		return strconv.Itoa(r.Step.Tasks)
	}
	n := 0
	for _, s := range r.View.Steps {
		n += s.Tasks
	}
	return known(r, count(n))
}

func (r *Row) start() time.Time {
	if r.Step != nil {
		return r.Wall.Start
	}
	return r.View.Start
}

func (r *Row) end() time.Time {
	if r.Step != nil {
		return r.Wall.End
	}
	return r.View.End
}

func (r *Row) elapsed() time.Duration {
	switch {
	case r.Step == nil:
		return r.View.Elapsed
	case !r.Wall.End.IsZero():
		return r.Wall.End.Sub(r.Wall.Start)
	}
	return max(r.View.Start.Add(r.View.Elapsed).Sub(r.Wall.Start), 0)
}

func (r *Row) idle() string {
	if r.View.State == model.Gone {
		return ""
	}
	return tenantOnly(r, func() string { return Duration(r.View.Idle(r.at())) })
}

func (r *Row) slack() string {
	d := r.View.Terms.Deadline
	if d.IsZero() || r.View.State == model.Gone {
		return ""
	}
	left := d.Sub(r.View.Start.Add(r.View.Elapsed))
	return tenantOnly(r, func() string {
		if left < 0 {
			return "-" + Duration(-left)
		}
		return Duration(left)
	})
}

func (r *Row) gpus() string {
	if r.Stray != nil {
		return r.page.gpu(r.Stray.GPU)
	}
	if r.Step != nil {
		return ""
	}
	names := make([]string, len(r.View.GPUs))
	for i, g := range r.View.GPUs {
		names[i] = r.page.gpu(g)
	}
	return strings.Join(names, ",")
}

func (r *Row) size(m model.Reading[model.Bytes]) string {
	b, ok := m.Get()
	if !ok {
		return "Unknown"
	}
	return Memory(b, r.page.unit)
}

// reqMemory says "all" where the job declared nothing: it may use the GPU
// alone.
func (r *Row) reqMemory() string {
	return tenantOnly(r, func() string {
		if !r.View.Terms.Memory.Known() {
			return "all"
		}
		return r.size(r.View.Terms.Memory)
	})
}

func (r *Row) maxMemory() string {
	if r.Stray != nil {
		return r.size(r.Stray.Memory)
	}
	if r.View.Hidden {
		return r.memory()
	}
	if r.Step != nil {
		return ""
	}
	if len(r.View.Peak) == 0 {
		return known(r, "")
	}
	highest := model.Bytes(0)
	for _, b := range r.View.Peak {
		highest = max(highest, b)
	}
	return Memory(highest, r.page.unit)
}

func (r *Row) memory() string {
	if r.Stray != nil {
		return r.size(r.Stray.Memory)
	}
	if r.Step != nil || r.View.State == model.Gone {
		return ""
	}
	sum, ok := model.Bytes(0), len(r.View.Use) > 0
	for _, u := range r.View.Use {
		b, is := u.Memory.Get()
		sum, ok = sum+b, ok && is
	}
	if !ok {
		return "Unknown"
	}
	return Memory(sum, r.page.unit)
}

func (r *Row) util() string {
	if r.Step != nil || r.View.State == model.Gone || len(r.View.Use) == 0 {
		return ""
	}
	sum := 0.0
	for _, u := range r.View.Use {
		s, ok := u.SM.Get()
		if !ok {
			return known(r, "Unknown")
		}
		sum += s
	}
	return known(r, fmt.Sprintf("%.0f%%", 100*sum/float64(len(r.View.Use))))
}

func (r *Row) gpuProcs() string {
	return tenantOnly(r, func() string {
		n := 0
		for _, u := range r.View.Use {
			n += u.Procs
		}
		return strconv.Itoa(n)
	})
}

func (r *Row) mateNames() string {
	return tenantOnly(r, func() string {
		var names []string
		for _, m := range r.mates() {
			if m.Hidden {
				names = append(names, "-")
				continue
			}
			names = append(names, m.Name())
		}
		return strings.Join(names, ",")
	})
}

func (r *Row) state() string {
	switch {
	case r.Stray != nil:
		return r.Stray.Kind
	case r.View.Hidden:
		return "busy"
	case r.Step != nil && r.Step.Ended:
		if r.Step.Status != 0 {
			return "FAILED"
		}
		return "COMPLETED"
	}
	return r.View.Word()
}

func (r *Row) reason() string {
	if r.Step != nil && r.Step.Ended {
		return ""
	}
	text := r.View.Reason.Text
	if text == "" && r.View.State != model.Gone {
		text = r.View.Reason.Code
	}
	if text == "" && r.View.Exempt != "" {
		text = "never stopped: " + r.View.Exempt
	}
	return tenantOnly(r, func() string { return text })
}

func (r *Row) exitCode() string {
	if r.Step != nil {
		if !r.Step.Ended {
			return ""
		}
		return known(r, ExitCode(r.Step.Status))
	}
	if r.View.State != model.Gone || r.View.Reason.Code == model.CodeLost {
		return ""
	}
	return known(r, ExitCode(r.View.ExitStatus()))
}

func (r *Row) policy() string {
	return tenantOnly(r, func() string {
		if r.View.PolicyNow != "" {
			return r.View.PolicyNow
		}
		return r.View.Terms.Policy
	})
}
