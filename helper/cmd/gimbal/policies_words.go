package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/config"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/policy"
)

// explain tells what a policy does; name is that of one of the node's
// policies, or the path of a file.
func (p *policiesCommand) explain(name string) error {
	c, pol, err := p.named(name)
	if err != nil {
		return err
	}
	return p.write(pol, c)
}

// named is a policy by the path of its file, - for standard input, or by the
// name of one of the node's; and the configuration that it would run under.
func (p *policiesCommand) named(name string) (*config.Config, *policy.Policy, error) {
	if strings.ContainsAny(name, "/.") || name == "-" {
		pol, err := p.checkFile(name)
		if err != nil {
			return nil, nil, err
		}
		c, _, err := config.Load(p.config)
		if err != nil {
			c = config.Default()
		}
		return c, pol, nil
	}
	c, s, err := p.find(name)
	if err != nil {
		return nil, nil, err
	}
	pol, err := parseSource(s)
	return c, pol, err
}

func (p *policiesCommand) write(pol *policy.Policy, c *config.Config) error {
	e := policyWords{p: pol, node: c.Limits.MaxPause}
	_, err := fmt.Fprint(p.w.stdout, e.text())
	return err
}

// policyWords puts a policy into words.
type policyWords struct {
	p    *policy.Policy
	node time.Duration // the longest pause that the node allows
	out  strings.Builder
	seen []string // expressions, for the list of names
}

func (e *policyWords) text() string {
	e.para(fmt.Sprintf("%s: %s.", e.p.Name, orNone(e.p.Objective)))
	if e.p.Origin != "" {
		e.para("After " + e.p.Origin + ".")
	}
	if e.p.Caveat != "" {
		e.para("What it cannot do: " + e.p.Caveat + ".")
	}
	e.together()
	e.order()
	e.turns()
	e.place()
	e.caps()
	e.limits()
	e.guards()
	e.names()
	return e.out.String()
}

func orNone(s string) string {
	if s == "" {
		return "no objective is stated"
	}
	return s
}

func (e *policyWords) title(s string) { fmt.Fprintf(&e.out, "\n%s\n", s) }
func (e *policyWords) para(s string)  { e.out.WriteString(wrap(clean(s), 80, "")) }
func (e *policyWords) item(s string)  { e.out.WriteString(wrap(clean("- "+s), 80, "  ")) }

// rule shows an expression on lines of its own, as it was written.
func (e *policyWords) rule(src string) {
	e.seen = append(e.seen, src)
	for _, line := range strings.Split(strings.TrimSpace(src), "\n") {
		fmt.Fprintf(&e.out, "      %s\n", clean(strings.TrimSpace(line)))
	}
}

func (e *policyWords) together() {
	s := e.p.Share
	e.title("Who computes together on a GPU")
	switch s.Together {
	case 0:
		e.item("All tenants whose memory fits.")
	case 1:
		e.item("One tenant at a time.")
	default:
		e.item(fmt.Sprintf("At most %d tenants at once.", s.Together))
	}
	if s.Admit != nil {
		e.item("Who waits for its first run starts as soon as its memory fits on each of its GPUs and this holds there:")
		e.rule(s.Admit.Source())
	} else {
		e.item("Who waits for its first run starts as soon as its memory fits on each of its GPUs.")
	}
	if s.Swap {
		e.item("Whose turn has ended is swapped out, its memory moved to host RAM, where the next needs the room, and the node can do that.")
	}
	if s.Pair != nil {
		e.item("One computes beside another that was chosen before it (its mate) only where this holds for each mate:")
		e.rule(s.Pair.Source())
	}
	if s.Throttle != nil {
		e.item(fmt.Sprintf("Beside each mate one gets this share of each %s, the least counts; 1 is all of it, and 0 keeps the two apart:", config.FormatDuration(s.Period)))
		e.rule(s.Throttle.Source())
	}
	if s.Value == nil {
		return
	}
	if s.Plan {
		e.item("Those of the same GPUs share a turn for which the whole pack is worth most. Others join where all are worth more together. What a tenant is worth:")
	} else {
		e.item("One joins those that were chosen only where all are worth more together. What a tenant is worth:")
	}
	e.rule(s.Value.Source())
}

func (e *policyWords) order() {
	s := e.p.Share
	e.title("In which order")
	if s.Tier != nil {
		e.item("All tenants of a higher tier before any of a lower one. The tier:")
		e.rule(s.Tier.Source())
	}
	if s.Rank == nil {
		e.item("First who has had least time for its weight.")
		return
	}
	inside := ""
	if s.Tier != nil {
		inside = " inside a tier"
	}
	e.item("The highest rank first" + inside + ", where unknown is lowest. The rank:")
	e.rule(s.Rank.Source())
}

func (e *policyWords) turns() {
	e.title("Turns")
	if s := e.p.Share; s.Together == 0 && s.Pair == nil && s.Throttle == nil && !s.Swap {
		e.item("None: nobody waits for a turn, only for memory.")
		return
	}
	e.item(fmt.Sprintf("A choice stands for %s, and for less where a full turn of the pack would pause somebody for longer than is allowed.",
		config.FormatDuration(e.p.Share.Quantum)))
}

// place says which GPU a tenant is given.
func (e *policyWords) place() {
	rank := e.p.Place.Rank
	if rank == nil {
		return
	}
	e.title("Which GPU a tenant is given, where the node leaves it to Gimbal")
	e.item("Of those with room for it the one of the highest rank, where unknown is lowest, and of equal ones the one with the fewest tenants. The rank:")
	e.rule(rank.Source())
}

// caps says what processes are told before they start.
func (e *policyWords) caps() {
	c := e.p.Cap
	if c == (policy.Cap{}) {
		return
	}
	e.title("What a job's processes are told, unless the job says so itself")
	if c.MPS {
		e.item("They are clients of MPS, where the node has one that answers.")
	}
	for _, n := range []struct {
		what string
		expr *policy.Number
	}{
		{"The share of the multiprocessors, under MPS:", c.SM},
		{"The priority of their kernels, under MPS:", c.Priority},
		{"The bytes of each GPU that each may take:", c.Memory},
	} {
		if n.expr != nil {
			e.item(n.what)
			e.rule(n.expr.Source())
		}
	}
	if c.Growth {
		e.item("TensorFlow and JAX take memory as they need it.")
	}
	if c.PyTorch != "" {
		e.item("PyTorch's allocator: " + c.PyTorch)
	}
}

func (e *policyWords) limits() {
	l := e.p.Limits
	e.title("Limits")
	e.item(e.pauseWords())
	for _, t := range []struct {
		value time.Duration
		text  string
	}{
		{l.MinRun, "Nobody is paused in the first %s after its youngest task was launched."},
		{l.MaxHold, "Who is held and fits goes before any turn after %s."},
		{l.MaxSwap, "Whose memory is in host RAM goes before any turn after %s."},
		{l.Patience, "Who has waited %s for room is passed over no more."},
		{l.LaunchGrace, "Who is let go has its GPU to itself until it is seen there, for at most %s."},
	} {
		if t.value > 0 {
			e.item(fmt.Sprintf(t.text, config.FormatDuration(t.value)))
		}
	}
	if l.MaxPassed > 0 {
		e.item(fmt.Sprintf("Nobody is passed over by more than %s.", plural(l.MaxPassed, "later tenant")))
	}
	if l.GPUMemory > 0 {
		e.item(fmt.Sprintf("A GPU whose driver does not tell its memory counts as having %s.", config.FormatSize(l.GPUMemory)))
	}
}

func (e *policyWords) pauseWords() string {
	most := e.p.Limits.MaxPause
	text := "The policy itself sets no limit to a pause"
	if most > 0 {
		text = fmt.Sprintf("A pause lasts at most %s while mates can be paused", config.FormatDuration(most))
	}
	if most == 0 || most > e.node {
		text += fmt.Sprintf("; this node allows %s", config.FormatDuration(e.node))
	}
	return text + fmt.Sprintf(". Then the tenant runs for %s at least.", config.FormatDuration(e.p.Limits.Breath))
}

func (e *policyWords) guards() {
	e.title("Guards")
	if len(e.p.Guards) == 0 {
		e.item("None.")
	}
	for _, g := range e.p.Guards {
		name := ""
		if g.Name != "" {
			name = g.Name + ": "
		}
		e.item(name + guardWords(g))
		e.rule(g.When.Source())
	}
}

func guardWords(g policy.Guard) string {
	what := "a tenant, on each of its GPUs,"
	if g.Scope == policy.ScopeGPU {
		what = "a GPU"
	}
	whom := "that tenant"
	if g.Who == policy.LowestRank {
		whom = "the tenant of the lowest rank there"
	}
	wait := ""
	if g.For > 0 {
		wait = " for " + config.FormatDuration(g.For)
	}
	text := fmt.Sprintf("when %s fulfils this%s, %s is %s", what, wait, whom, actsWords(g.Do))
	if g.Share > 0 {
		text += fmt.Sprintf(" (throttled: to %.0f %% of the time)", 100*g.Share)
	}
	if g.Say != "" {
		text += fmt.Sprintf(", and told %q", g.Say)
	}
	return text + ":"
}

func actsWords(acts []model.Primitive) string {
	past := map[model.Primitive]string{model.PrimSwap: "swapped out", model.PrimPause: "paused", model.PrimThrottle: "throttled",
		model.PrimNotify: "notified", model.PrimEvict: "evicted", model.PrimWarn: "warned"}
	var words []string
	for _, a := range acts {
		words = append(words, past[a])
	}
	return strings.Join(words, ", or else ")
}

// names says what the names in the expressions stand for.
func (e *policyWords) names() {
	all := usedNames(e.seen)
	if len(all) == 0 {
		return
	}
	e.title("Names used")
	width := 0
	for _, v := range all {
		width = max(width, len(v.Name))
	}
	for _, v := range all {
		unit := ""
		if v.Unit != "" && v.Unit != "1" {
			unit = " (" + v.Unit + ")"
		}
		indent := strings.Repeat(" ", width+4)
		e.out.WriteString(strings.Replace(wrap(v.Meaning+unit, 80, indent), indent, fmt.Sprintf("  %-*s  ", width, v.Name), 1))
	}
}

var namePattern = regexp.MustCompile(`\b(tenant|mate|gpu|pack|user|speed|place)\.([a-z_]+)|\bnow\b`)

// usedNames lists the variables that expressions use, in the language's order.
func usedNames(exprs []string) []policy.Variable {
	var used []string
	for _, x := range exprs {
		used = append(used, namePattern.FindAllString(x, -1)...)
	}
	var out []policy.Variable
	for _, v := range policy.Variables() {
		if slices.Contains(used, v.Name) {
			out = append(out, v)
		}
	}
	for _, v := range policy.Variables() {
		name, ok := strings.CutPrefix(v.Name, "tenant.")
		if ok && slices.Contains(used, "mate."+name) {
			v.Name = "mate." + name
			v.Meaning = "of the mate: " + v.Meaning
			out = append(out, v)
		}
	}
	return out
}
