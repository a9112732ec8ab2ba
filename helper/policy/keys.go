package policy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// Key is one key of a policy file.
type Key struct {
	Path    string // "share.quantum", "guard.when"
	Type    string // "text", "time", "size", "whole number", "list", "number expression", "rule"
	Default string // as it would be written; "" where there is none
	Meaning string
}

// key is a Key with what takes its value in.
type key struct {
	Key
	set func(b *builder, path string, v any)
}

// keys are all keys, in the order in which they are shown.
var keys = []key{
	textKey("name", "the name that jobs ask for: lower-case letters, digits, - and _", func(b *builder) *string { return &b.p.Name }),
	textKey("objective", "what it is good for, in a line", func(b *builder) *string { return &b.p.Objective }),
	textKey("origin", "whose idea it is: paper, year", func(b *builder) *string { return &b.p.Origin }),
	textKey("caveat", "what it cannot do", func(b *builder) *string { return &b.p.Caveat }),

	{Key{"share.together", "whole number", "", "tenants that compute at once on a GPU; without it all that fit"}, setTogether},
	timeKey("share.quantum", "30s", "how long a choice stands; shorter where limits.max_pause asks for it", func(b *builder) *time.Duration { return &b.p.Share.Quantum }),
	{Key{"share.swap", "true or false", "false", "a tenant whose turn has ended may be swapped out, its memory moved to host RAM, to make room for the next; where that works"}, setBool(func(b *builder) *bool { return &b.p.Share.Swap })},
	numberKey("share.tier", "0", "tenants of a higher tier go before all of a lower one", inOrder, func(b *builder) **Number { return &b.p.Share.Tier }),
	numberKey("share.rank", "-tenant.service", "the order inside a tier, highest first; of equal ones who had no turn for longest", inOrder, func(b *builder) **Number { return &b.p.Share.Rank }),
	ruleKey("share.admit", "true", "whether a tenant whose memory fits may start on the GPU", inAdmit, func(b *builder) **Rule { return &b.p.Share.Admit }),
	saidKey("share.admit_reason", "what a tenant is told that admit keeps out", "{tenant}, {gpu}", func(b *builder) *string { return &b.p.Share.AdmitReason }),
	ruleKey("share.pair", "true", "whether a tenant may compute beside one that was chosen before it (mate); asked for each mate on each shared GPU", inPair, func(b *builder) **Rule { return &b.p.Share.Pair }),
	numberKey("share.value", "", "what a tenant's computing is worth beside those that compute with it; one joins those that were chosen only where all are worth more together than without it", inValue, func(b *builder) **Number { return &b.p.Share.Value }),
	{Key{"share.best", "true or false", "false", "with value: those compute that are worth most together over all of the node's GPUs; else the first in the order, and others join"}, setBool(func(b *builder) *bool { return &b.p.Share.Best })},
	{Key{"share.plan", "true or false", "false", "with value: those of the same GPUs share a turn for which the whole pack is worth most when all turns are as long; else the first in the order choose, and others join"}, setPlan},
	saidKey("share.pair_reason", "what a tenant is told that pair keeps from computing", "{tenant}, {mate}, {gpu}", func(b *builder) *string { return &b.p.Share.PairReason }),

	numberKey("share.throttle", "", "the share of time that a tenant gets beside one that was chosen before it (mate); asked for each mate on each shared GPU, the least counts. 1 and more, and unknown: all of it; below 0.05: 0.05; 0 and less: it does not compute beside it. One that computes with several processes or on several GPUs is never throttled: it takes turns with that mate", inPair, func(b *builder) **Number { return &b.p.Share.Throttle }),
	saidKey("share.throttle_reason", "what a tenant is told that is throttled", "{tenant}, {mate}, {gpu}", func(b *builder) *string { return &b.p.Share.ThrottleReason }),
	timeKey("share.period", "200ms", "in which a throttled tenant runs once, for its share, and is stopped once; 100ms to 10s", func(b *builder) *time.Duration { return &b.p.Share.Period }),

	numberKey("place.rank", "", "where Gimbal chooses a tenant's GPU (node.place of gimbald.toml): the order of those on which its memory fits, highest first. Of equal ones, and without it, the one with the fewest tenants, then the one with the highest place.gain, the least utilised, the one with most free memory. A job of several GPUs keeps Slurm's", inPlace, func(b *builder) **Number { return &b.p.Place.Rank }),

	{Key{"cap.mps", "true or false", "false", "whether a job's processes are clients of MPS, where mps.pipe_directory of gimbald.toml names a control daemon that answers"}, setBool(func(b *builder) *bool { return &b.p.Cap.MPS })},
	numberKey("cap.sm", "", "the share of the multiprocessors that each of its processes may use under MPS; 1 and more, and unknown: all", inCap, func(b *builder) **Number { return &b.p.Cap.SM }),
	numberKey("cap.priority", "", "of its kernels under MPS: 0 normal, 1 below normal", inCap, func(b *builder) **Number { return &b.p.Cap.Priority }),
	numberKey("cap.memory", "", "bytes that each of its processes may take of each GPU, such as tenant.memory_claim: told to MPS, and as a share of the GPU to JAX; unknown: no limit", inCap, func(b *builder) **Number { return &b.p.Cap.Memory }),
	{Key{"cap.growth", "true or false", "false", "whether TensorFlow and JAX are told to take memory as they need it, and not at once"}, setBool(func(b *builder) *bool { return &b.p.Cap.Growth })},
	textKey("cap.pytorch", "options of PyTorch's allocator, such as expandable_segments:True; a version that does not know one ends the job", func(b *builder) *string { return &b.p.Cap.PyTorch }),

	timeKey("limits.min_run", "30s", "a tenant is not paused so soon after its youngest task was launched", func(b *builder) *time.Duration { return &b.p.Limits.MinRun }),
	timeKey("limits.max_pause", "60s", "the longest pause while mates can be paused; then a tenant runs for a breath at least. 0s: no limit", func(b *builder) *time.Duration { return &b.p.Limits.MaxPause }),
	timeKey("limits.breath", "500ms", "how long a tenant runs at least that was paused for max_pause", func(b *builder) *time.Duration { return &b.p.Limits.Breath }),
	timeKey("limits.max_hold", "0s", "a held tenant whose memory fits goes before any turn after so long. 0s: it waits for its turn", func(b *builder) *time.Duration { return &b.p.Limits.MaxHold }),
	timeKey("limits.max_swap", "0s", "the same for a tenant whose memory is in host RAM", func(b *builder) *time.Duration { return &b.p.Limits.MaxSwap }),
	timeKey("limits.patience", "10m", "after so long without room nobody else is admitted to the tenant's GPUs before it. 0s: never", func(b *builder) *time.Duration { return &b.p.Limits.Patience }),
	{Key{"limits.max_passed", "whole number", "10", "after so many later admissions nobody else is admitted before the tenant. 0: never"}, setMaxPassed},
	timeKey("limits.launch_grace", "10s", "for how long a tenant that was let go has the GPU to itself until it is seen on it", func(b *builder) *time.Duration { return &b.p.Limits.LaunchGrace }),
	{Key{"limits.gpu_memory", "size", "", "a GPU's memory where the driver does not tell it; without it only one tenant is admitted there"}, setGPUMemory},

	textKey("guard.name", "what the guard is called in reasons", func(b *builder) *string { return &b.g.Name }),
	{Key{"guard.scope", "text", `"tenant"`, `"tenant": looks at each tenant, on each of its GPUs; "gpu": looks at each GPU`}, setScope},
	{Key{"guard.when", "rule", "", "the limit that is crossed; unknown readings cross none"}, setWhen},
	timeKey("guard.for", "0s", "how long it has to be crossed before something is done", func(b *builder) *time.Duration { return &b.g.For }),
	{Key{"guard.do", "list", "", "the first of these that is possible: swap, pause, throttle, notify, evict, warn"}, setDo},
	{Key{"guard.share", "number", "", "the share of time that throttle leaves, 0.05 to 0.99, of each share.period"}, setShare},
	{Key{"guard.who", "text", `"offender"`, `"offender": the tenant itself; "lowest rank": the admitted one of the lowest tier, and rank in it, on that GPU`}, setWho},
	saidKey("guard.say", "what the tenant is told", "{tenant}", func(b *builder) *string { return &b.g.Say }),
}

// Keys lists the keys of a policy file, in the order in which it is shown.
func Keys() []Key {
	all := make([]Key, len(keys))
	for i, k := range keys {
		all[i] = k.Key
	}
	return all
}

// sections finds a key by its section, "" for the top, and its last part.
var sections = bySection(keys)

func bySection(keys []key) map[string]map[string]key {
	found := map[string]map[string]key{}
	for _, k := range keys {
		section, name, ok := strings.Cut(k.Path, ".")
		if !ok {
			section, name = "", k.Path
		}
		if found[section] == nil {
			found[section] = map[string]key{}
		}
		found[section][name] = k
	}
	return found
}

func textKey(path, meaning string, to func(*builder) *string) key {
	return key{Key{path, "text", "", meaning}, func(b *builder, at string, v any) {
		if s, ok := b.text(at, v); ok {
			*to(b) = s
		}
	}}
}

// standIn is what may stand for a name in a text that a tenant is told.
var standIn = regexp.MustCompile(`\{\w+\}`)

// saidKey is a text that a tenant is told, in which those of names, separated by
// commas, stand for names.
func saidKey(path, meaning, names string, to func(*builder) *string) key {
	known := strings.Split(names, ", ")
	stand := last(names) + " stands for its name"
	if len(known) > 1 {
		stand = last(names) + " stand for names"
	}
	k := textKey(path, meaning+"; "+stand, to)
	set := k.set
	k.set = func(b *builder, at string, v any) {
		set(b, at, v)
		for _, name := range standIn.FindAllString(*to(b), -1) {
			if !slices.Contains(known, name) {
				b.fault(at, "%s: %s stands for nothing here; %s", path, name, stand)
			}
		}
	}
	return k
}

// last puts "and" between the last two of a list.
func last(list string) string {
	if i := strings.LastIndex(list, ", "); i >= 0 {
		return list[:i] + " and " + list[i+2:]
	}
	return list
}

func timeKey(path, def, meaning string, to func(*builder) *time.Duration) key {
	return key{Key{path, "time", `"` + def + `"`, meaning}, func(b *builder, at string, v any) {
		s, ok := b.text(at, v)
		if !ok {
			return
		}
		d, err := duration(s)
		if err != nil {
			b.fault(at, "%s: %v", path, err)
			return
		}
		*to(b) = d
	}}
}

func numberKey(path, def, meaning string, s scope, to func(*builder) **Number) key {
	if def != "" {
		def = `"` + def + `"`
	}
	return key{Key{path, "number expression", def, meaning}, func(b *builder, at string, v any) {
		if src, ok := b.text(at, v); ok {
			n, err := compileNumber(src, s)
			b.expression(at, err)
			*to(b) = n
		}
	}}
}

func ruleKey(path, def, meaning string, s scope, to func(*builder) **Rule) key {
	return key{Key{path, "rule", `"` + def + `"`, meaning}, func(b *builder, at string, v any) {
		if src, ok := b.text(at, v); ok {
			r, err := compileRule(src, s)
			b.expression(at, err)
			*to(b) = r
		}
	}}
}

func setTogether(b *builder, at string, v any) { b.p.Share.Together = b.count(at, v, 1) }

// setBool takes true or false in.
func setBool(to func(*builder) *bool) func(b *builder, at string, v any) {
	return func(b *builder, at string, v any) {
		yes, ok := v.(bool)
		if !ok {
			b.fault(at, "%s: true or false is wanted, not %s", keyOf(at), kindOf(v))
		}
		*to(b) = yes
	}
}

func setPlan(b *builder, at string, v any) {
	yes, ok := v.(bool)
	if !ok {
		b.fault(at, "share.plan: true or false is wanted, not %s", kindOf(v))
	}
	b.p.Share.Plan = yes
}

func setMaxPassed(b *builder, at string, v any) { b.p.Limits.MaxPassed = b.count(at, v, 0) }

func setGPUMemory(b *builder, at string, v any) {
	s, ok := b.text(at, v)
	if !ok {
		return
	}
	m, err := size(s)
	if err != nil {
		b.fault(at, "limits.gpu_memory: %v", err)
	}
	b.p.Limits.GPUMemory = m
}

func setScope(b *builder, at string, v any) {
	if s, ok := b.text(at, v); ok {
		b.oneOf(at, s, string(ScopeTenant), string(ScopeGPU))
		b.g.Scope = Scope(s)
	}
}

func setWho(b *builder, at string, v any) {
	if s, ok := b.text(at, v); ok {
		b.oneOf(at, s, string(Offender), string(LowestRank))
		b.g.Who = Who(s)
	}
}

// setWhen only keeps the rule: what it sees depends on the guard's scope,
// which may stand below it.
func setWhen(b *builder, at string, v any) {
	if s, ok := b.text(at, v); ok {
		b.when, b.whenAt = s, at
	}
}

// guardActs are what a guard can do.
var guardActs = []model.Primitive{model.PrimSwap, model.PrimPause, model.PrimThrottle, model.PrimNotify, model.PrimEvict, model.PrimWarn}

func setDo(b *builder, at string, v any) {
	list, ok := v.([]any)
	if !ok {
		b.fault(at, `guard.do: a list is wanted, such as ["pause", "warn"]`)
		return
	}
	if len(list) == 0 {
		b.fault(at, `guard.do: the list is empty, so nothing is ever done; to do nothing but tell of it write ["warn"]`)
	}
	for _, item := range list {
		s, ok := b.text(at, item)
		if !ok {
			continue
		}
		names := make([]string, len(guardActs))
		for i, p := range guardActs {
			names[i] = string(p)
		}
		b.oneOf(at, s, names...)
		b.g.Do = append(b.g.Do, model.Primitive(s))
	}
	if i := slices.Index(b.g.Do, model.PrimWarn); i >= 0 && i < len(b.g.Do)-1 {
		b.fault(at, "guard.do: warn is always possible, so nothing after it is ever done")
	}
}

func setShare(b *builder, at string, v any) {
	x, ok := v.(float64)
	if !ok || x < model.LeastShare || x > 0.99 {
		b.fault(at, "guard.share: a number from %g to 0.99 is wanted", model.LeastShare)
		return
	}
	b.g.Share = x
}

func (b *builder) oneOf(at, s string, allowed ...string) {
	if !slices.Contains(allowed, s) {
		b.fault(at, "%s: %q is not allowed here%s", keyOf(at), s, didYouMean(s, allowed))
	}
}

func (b *builder) text(at string, v any) (string, bool) {
	s, ok := v.(string)
	if !ok {
		b.fault(at, "%s: a text in quotes is wanted, not %s", keyOf(at), kindOf(v))
	}
	return s, ok
}

func (b *builder) count(at string, v any, least int64) int {
	n, ok := v.(int64)
	if !ok || n < least || n > 1<<20 {
		b.fault(at, "%s: a whole number of at least %d is wanted", keyOf(at), least)
		return 0
	}
	return int(n)
}

func kindOf(v any) string {
	switch v.(type) {
	case string:
		return "a text"
	case int64:
		return "a whole number"
	case float64:
		return "a number"
	case bool:
		return "true or false"
	case []any:
		return "a list"
	case map[string]any, []map[string]any:
		return "a table"
	}
	return fmt.Sprintf("a %T", v)
}

func keyOf(path string) string { return numbered.ReplaceAllString(path, "") }

// numbered is what tells one guard from another in a path.
var numbered = regexp.MustCompile(`\.\d+`)
