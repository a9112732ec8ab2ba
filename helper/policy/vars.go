package policy

import (
	"math"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// Variable is one name that an expression can use.
type Variable struct {
	Name    string
	Type    string // number, truth value or text
	Unit    string // "s", "bytes", "share", "1"; "" for truth values and texts
	Meaning string
}

// env is what an expression is evaluated in.
type env struct {
	d    *Decider
	now  time.Duration
	t    *view    // the tenant looked at
	mate *view    // the chosen one that it is compared with
	with []*view  // those that would compute together, the tenant among them
	g    *gpuView // the GPU, nil where no single one is meant

	offer *offer // of the GPU to the tenant, in place.rank alone
}

// accessor is a variable with the function that reads it. A variable of a
// tenant is read from v; the others from the env alone.
type accessor struct {
	Variable
	num   func(e *env, v *view) float64
	truth func(e *env, v *view) bool
	text  func(e *env, v *view) string
	enum  []string
}

// bind makes a compiled expression of the variable; mate tells of whom.
func (a accessor) bind(mate bool) value {
	of := func(e *env) *view { return e.t }
	if mate {
		of = func(e *env) *view { return e.mate }
	}
	switch {
	case a.num != nil:
		return value{kind: kindNumber, num: func(e *env) float64 { return a.num(e, of(e)) }}
	case a.truth != nil:
		return value{kind: kindTruth, truth: func(e *env) truth { return truthOf(a.truth(e, of(e))) }}
	}
	return value{kind: kindText, enum: a.enum, text: func(e *env) string { return a.text(e, of(e)) }}
}

// number, yesno and words make the rows of the tables below.
func number(name, unit, meaning string, f func(e *env, v *view) float64) accessor {
	return accessor{Variable: Variable{name, kindNumber.String(), unit, meaning}, num: f}
}

func yesno(name, meaning string, f func(e *env, v *view) bool) accessor {
	return accessor{Variable: Variable{name, kindTruth.String(), "", meaning}, truth: f}
}

func words(name, meaning string, f func(e *env, v *view) string, enum ...string) accessor {
	return accessor{Variable: Variable{name, kindText.String(), "", meaning}, text: f, enum: enum}
}

// constants give literals their unit.
var constants = map[string]float64{
	"second": 1, "minute": 60, "hour": 3600, "day": 86400,
	"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
}

// ofTenant are the variables of a tenant; mate has the same ones.
var ofTenant = []accessor{
	words("tenant.name", "its name, as sacct writes it", func(_ *env, v *view) string { return v.t.Name() }),
	words("tenant.job_name", "the job's name", func(_ *env, v *view) string { return v.t.Reg.JobName }),
	words("tenant.user", "login name", func(_ *env, v *view) string { return v.t.Reg.User }),
	words("tenant.account", "Slurm account", func(_ *env, v *view) string { return v.t.Reg.Account }),
	words("tenant.partition", "Slurm partition", func(_ *env, v *view) string { return v.t.Reg.Partition }),
	words("tenant.class", "whose speed is protected", func(_ *env, v *view) string { return string(v.t.Terms.Class) },
		string(model.Guaranteed), string(model.Opportunistic)),
	words("tenant.state", "its state in the lifecycle", func(_ *env, v *view) string { return v.t.State.String() }, stateNames()...),
	words("tenant.wants", "the policy that the job asked for, empty if none", func(_ *env, v *view) string { return v.t.Terms.Policy }),
	number("tenant.weight", "1", "its share of time relative to its mates", func(_ *env, v *view) float64 { return v.t.Terms.Weight }),
	number("tenant.service", "s", "time that it computed, divided by its weight, level with its mates' when it came", func(_ *env, v *view) float64 { return v.service() }),
	number("tenant.attained", "s", "time that it computed with a process on a GPU", func(_ *env, v *view) float64 { return v.t.Tally.Attained.Seconds() }),
	number("tenant.gpu_time", "s", "time that it computed with a process on a GPU, times its GPUs", func(_ *env, v *view) float64 {
		return v.t.Tally.Attained.Seconds() * float64(len(v.t.GPUs))
	}),
	number("tenant.running", "s", "time that it was let run", func(_ *env, v *view) float64 { return v.t.Tally.Running.Seconds() }),
	number("tenant.paused", "s", "time that it was paused", func(_ *env, v *view) float64 { return v.t.Tally.Paused.Seconds() }),
	number("tenant.held", "s", "time that it was held before its first run", func(_ *env, v *view) float64 { return v.t.Tally.Held.Seconds() }),
	number("tenant.age", "s", "since it was registered", func(e *env, v *view) float64 { return (e.now - v.t.Registered).Seconds() }),
	number("tenant.waited", "s", "since it last computed, 0 while it does", waited),
	number("tenant.in_state", "s", "since it entered its state", func(e *env, v *view) float64 { return (e.now - v.t.Since).Seconds() }),
	number("tenant.idle", "s", "since it was last seen computing, by known readings", func(e *env, v *view) float64 { return v.t.Idle(e.now).Seconds() }),
	number("tenant.deadline_in", "s", "until its deadline, below 0 when missed; unknown without one", deadlineIn),
	number("tenant.limit_in", "s", "until the job's time limit; unknown without one", limitIn),
	number("tenant.remaining", "s", "computing time that it still needs, alone, as predicted; unknown until it is learnt", remaining),
	number("tenant.speed", "share", "its speed beside all that would compute with it, over its speed alone; unknown until it is learnt. More than two delay each other one by one, and together get no more of the GPU than the two of them that get most of it, or all of it where nobody keeps it busy alone, by their demands", func(e *env, v *view) float64 { return e.speedOf(v) }),
	number("tenant.speed_guess", "share", "its speed beside all that would compute with it, guessed: 1, or less where their demands together are more than 1; who was not seen yet is taken to need 0.7", func(e *env, _ *view) float64 { return e.speedGuess() }),
	number("tenant.memory_declared", "bytes", "peak memory on each GPU that it stated; unknown if it did not", func(_ *env, v *view) float64 { return reading(v.t.Terms.Memory) }),
	number("tenant.memory_used", "bytes", "memory that it uses, on gpu or on the GPU where it uses most", memoryUsed),
	number("tenant.memory_peak", "bytes", "the most memory that it was seen to use, on gpu or anywhere", memoryPeak),
	number("tenant.memory_claim", "bytes", "memory that it may count on, on gpu or on the GPU where that is most", memoryClaim),
	number("tenant.over", "s", "for how long it has used more memory than it declared, 0 if it does not", over),
	number("tenant.sm", "share", "share of time on the multiprocessors, on gpu or on the GPU where it is highest", smShare),
	number("tenant.demand", "share", "share of time on the multiprocessors while it computes, best seen alone; unknown until seen", func(_ *env, v *view) float64 { return v.m.demand }),
	number("tenant.gpus", "1", "GPUs that it was given", func(_ *env, v *view) float64 { return float64(len(v.t.GPUs)) }),
	number("tenant.processes", "1", "its live processes", func(_ *env, v *view) float64 { return float64(v.t.Procs) }),
	number("tenant.nodes", "1", "nodes of its job; unknown if not told", func(_ *env, v *view) float64 { return orUnknown(v.t.Reg.NNodes) }),
	number("tenant.restarts", "1", "how often the job was requeued", func(_ *env, v *view) float64 { return float64(v.t.Reg.Restart) }),
	number("tenant.pauses", "1", "how often it was paused", func(_ *env, v *view) float64 { return float64(v.t.Tally.Pauses) }),
	number("tenant.passed_over", "1", "how many later ones were admitted while it waited", func(_ *env, v *view) float64 { return float64(v.t.PassedOver) }),
	number("tenant.mates", "1", "other tenants on its GPUs, on the fullest one", func(e *env, v *view) float64 { return float64(len(e.d.fullest(v).packOr()) - 1) }),
	number("tenant.contested", "1", "its GPUs on which others take turns too", contested),
	number("tenant.behind", "1", "tenants on the GPU, or on the fullest of its GPUs, that do not come before it by share.rank, itself among them; one on several GPUs counts on each of them for its part, 1 / tenant.gpus", followers),
	yesno("tenant.on_gpu", "it has a process on a GPU", func(_ *env, v *view) bool { return v.t.OnGPU }),
	yesno("tenant.ran", "it has run before", func(_ *env, v *view) bool { return v.t.HasRun }),
	yesno("tenant.exempt", "it is never stopped", func(_ *env, v *view) bool { return v.t.Exempt != "" }),
	yesno("tenant.has_turn", "it has a turn that has not ended", func(_ *env, v *view) bool { return v.m.granted }),
}

// ofGPU are the variables of a GPU.
var ofGPU = []accessor{
	number("gpu.index", "1", "its number in the driver's order; unknown if it is not shown", func(e *env, _ *view) float64 {
		return ofDevice(e, func(g *model.GPU) float64 { return float64(g.Index) })
	}),
	words("gpu.name", "its model, as the driver names it", func(e *env, _ *view) string {
		if e.g.gpu == nil {
			return ""
		}
		return e.g.gpu.Name
	}),
	number("gpu.memory_total", "bytes", "its memory", func(e *env, _ *view) float64 { return reading(e.g.total()) }),
	number("gpu.memory_used", "bytes", "memory used by all processes", func(e *env, _ *view) float64 {
		return ofDevice(e, func(g *model.GPU) float64 { return reading(g.Used) })
	}),
	number("gpu.memory_reserved", "bytes", "memory kept by the driver outside any process", func(e *env, _ *view) float64 {
		return ofDevice(e, func(g *model.GPU) float64 { return reading(g.Reserved) })
	}),
	number("gpu.memory_foreign", "bytes", "memory used by processes of no tenant", func(e *env, _ *view) float64 { return reading(e.d.foreign(e.g.uuid)) }),
	number("gpu.unmanaged", "1", "processes of jobs of Slurm that are not packed; unknown where the driver's list cannot be read", func(e *env, _ *view) float64 {
		return e.d.unmanaged(e.g.uuid)
	}),
	number("gpu.memory_free", "bytes", "memory that no tenant may count on: total - reserved - foreign - claims", func(e *env, _ *view) float64 { return reading(e.d.free(e.g)) }),
	number("gpu.util", "share", "share of time in which a kernel ran", func(e *env, _ *view) float64 {
		return ofDevice(e, func(g *model.GPU) float64 { return reading(g.Util) })
	}),
	yesno("gpu.mig", "it is an instance of a partitioned GPU", func(e *env, _ *view) bool { return e.g.gpu != nil && e.g.gpu.MIG }),
}

// ofPack are the variables of the tenants that share a GPU.
var ofPack = []accessor{
	number("pack.tenants", "1", "tenants on the GPU", packSum(func(*view) float64 { return 1 })),
	number("pack.computing", "1", "tenants on the GPU that compute", packSum(func(v *view) float64 { return oneIf(v.computes) })),
	number("pack.waiting", "1", "tenants on the GPU that are held, paused or swapped", packSum(func(v *view) float64 { return oneIf(v.t.State.Stopped()) })),
	number("pack.admitted", "1", "tenants on the GPU whose claim on memory stands", packSum(func(v *view) float64 { return oneIf(v.admitted()) })),
	number("pack.guaranteed", "1", "guaranteed tenants on the GPU", packSum(func(v *view) float64 { return oneIf(v.t.Terms.Class == model.Guaranteed) })),
	number("pack.opportunistic", "1", "opportunistic tenants on the GPU", packSum(func(v *view) float64 { return oneIf(v.t.Terms.Class != model.Guaranteed) })),
	number("pack.opportunistic_admitted", "1", "opportunistic tenants on the GPU whose claim on memory stands", packSum(func(v *view) float64 {
		return oneIf(v.admitted() && v.t.Terms.Class != model.Guaranteed)
	})),
	number("pack.held", "1", "tenants on the GPU that wait for their first run", packSum(func(v *view) float64 { return oneIf(!v.t.HasRun) })),
	number("pack.guaranteed_held", "1", "guaranteed tenants on the GPU that wait for their first run", packSum(func(v *view) float64 {
		return oneIf(!v.t.HasRun && v.t.Terms.Class == model.Guaranteed)
	})),
	number("pack.weight", "1", "sum of the weights of the tenants on the GPU", packSum(func(v *view) float64 { return v.t.Terms.Weight })),
	number("pack.sm", "share", "sum of the shares of time on the multiprocessors of the tenants on the GPU; unknown if one is", packSM),
	number("pack.chosen", "1", "tenants on the GPU that were chosen to compute so far in this decision", func(e *env, _ *view) float64 {
		return float64(len(e.gpu().chosenOr()))
	}),
}

// ofUser are the variables of the user whose tenant is looked at.
var ofUser = []accessor{
	number("user.tenants", "1", "the user's tenants on this node", userSum(func(*view) float64 { return 1 })),
	number("user.computing", "1", "the user's tenants that compute", userSum(func(v *view) float64 { return oneIf(v.computes) })),
	number("user.waiting", "1", "the user's tenants that are held, paused or swapped", userSum(func(v *view) float64 { return oneIf(v.t.State.Stopped()) })),
	number("user.attained", "s", "time that the user's live tenants computed", userSum(func(v *view) float64 { return v.t.Tally.Attained.Seconds() })),
	number("user.weight", "1", "sum of the weights of the user's tenants", userSum(func(v *view) float64 { return v.t.Terms.Weight })),
}

// ofPair are the variables of two tenants that would compute together.
var ofPair = []accessor{
	number("speed.sum", "share", "the pair's speeds beside each other alone, each over its speed alone, added; unknown until learnt", func(e *env, _ *view) float64 {
		return e.d.speed(e.t, e.mate) + e.d.speed(e.mate, e.t)
	}),
	number("speed.min", "share", "the lower of the pair's speeds beside each other alone, each over its speed alone; unknown until learnt", func(e *env, _ *view) float64 {
		return math.Min(e.d.speed(e.t, e.mate), e.d.speed(e.mate, e.t))
	}),
}

// ofPlace are the variables of a tenant that may be given a GPU.
var ofPlace = []accessor{
	number("place.gain", "share", "what the tenant adds on gpu: what all there do with it less what they do without it, as share.value has it, else by their speeds, learnt or guessed", func(e *env, _ *view) float64 { return e.offer.gain }),
	number("place.turns", "1", "turns in which all on gpu would compute with the tenant", func(e *env, _ *view) float64 { return float64(e.offer.turns) }),
}

var ofNode = []accessor{
	number("now", "s", "the node's monotonic clock", func(e *env, _ *view) float64 { return e.now.Seconds() }),
}
