package report

import (
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
		{"Withheld", 10, false, true, "time in which a throttle kept it stopped", tally(func(t *model.Tally) time.Duration { return t.Withheld })},
		{"Held", 10, false, true, "time for which it waited to start", tally(func(t *model.Tally) time.Duration { return t.Held })},
		{"Swapped", 10, false, true, "time with its GPU memory in host RAM", tally(func(t *model.Tally) time.Duration { return t.Swapped })},
		{"Attained", 10, false, true, "running time with a process on a GPU", tally(func(t *model.Tally) time.Duration { return t.Attained })},
		{"Speed", 6, false, true, "speed since its first run over that alone, as learnt; with <= what it is at most", (*Row).speed},
		{"SpeedError", 10, false, true, "by how much a learnt speed may be off", (*Row).speedError},
		{"Idle", 10, false, true, "since it was last seen computing", (*Row).idle},
		{"Deadline", 19, false, true, "by when it wants to be done", clock(func(r *Row) time.Time { return r.View.Terms.Deadline })},
		{"Slack", 11, false, true, "time left to its deadline", (*Row).slack},
	}
}

func memoryFields() []Field {
	return []Field{
		{"GPUs", 8, false, true, "numbers of its GPUs", (*Row).gpus},
		{"GPUUUID", 40, false, true, "UUIDs of its GPUs", func(r *Row) string { return tenantOnly(r, func() string { return strings.Join(r.View.GPUs, ",") }) }},
		{"ReqGPUMem", 10, false, true, "memory that it declared, on each GPU", (*Row).declaredMemory},
		{"AllocGPUMem", 11, false, true, "memory that it may count on, on each GPU", (*Row).claim},
		{"MaxGPUMem", 10, false, true, "highest memory seen on one of its GPUs", (*Row).maxMemory},
		{"GPUMem", 10, false, true, "memory in use now, on that of its GPUs where it is most", (*Row).memory},
		{"GPUUtil", 7, false, true, "share of time on the multiprocessors, mean of its GPUs; of one that ended, while it ran", (*Row).util},
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
		{"Order", 20, true, false, "what a person ordered for it, and until when", (*Row).order},
		{"ExitCode", 8, false, true, "exit code and signal", (*Row).exitCode},
		{"Policy", 10, false, false, "policy in force on its GPUs", (*Row).policy},
		{"ReqPolicy", 10, false, false, "policy that the job asked for", terms(func(t *model.Terms) string { return t.Policy })},
		{"Class", 13, false, false, "guaranteed or opportunistic", terms(func(t *model.Terms) string { return string(t.Class) })},
		{"Weight", 6, false, true, "its share of time relative to its mates", terms(func(t *model.Terms) string { return strconv.FormatFloat(t.Weight, 'g', 4, 64) })},
		{"MaxPause", 8, false, true, "longest pause in one piece of its own; empty where its policy's rules", (*Row).maxPause},
		{"Placed", 30, true, false, "the GPU that Gimbal chose and why, empty where Slurm did", func(r *Row) string {
			return tenantOnly(r, func() string { return r.View.Terms.Placed })
		}},
		{"Notes", 30, true, false, "what of the request was lowered, and why", terms(func(t *model.Terms) string { return strings.Join(t.Notes, "; ") })},
		{"Exempt", 20, true, false, "why it is never stopped", func(r *Row) string { return known(r, r.View.Exempt) }},
		{"Holds", 6, false, true, "how often it was held", tally(func(t *model.Tally) int { return t.Holds })},
		{"Pauses", 6, false, true, "how often it was paused", tally(func(t *model.Tally) int { return t.Pauses })},
		{"Throttles", 9, false, true, "how often it was throttled", tally(func(t *model.Tally) int { return t.Throttles })},
		{"Swaps", 6, false, true, "how often it was swapped", tally(func(t *model.Tally) int { return t.Swaps })},
		{"PassedOver", 10, false, true, "later ones that were admitted before it", func(r *Row) string {
			return tenantOnly(r, func() string { return strconv.Itoa(r.View.PassedOver) })
		}},
	}
}
