package config

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// Grant says what a job gets of what it asked for: its options, bounded by the
// [[bound]] rules for its user, account and partition, and for the groups that
// its user is in. What was lowered, and what could not be read, stands in the
// notes of the terms, in words.
//
// The error names the options that could not be read. It is for the log alone:
// the terms are whole without them, since a job that has started is never
// turned away.
func (c *Config) Grant(reg model.Registration, groups []string) (model.Terms, error) {
	g := &granting{cfg: c, lim: c.limits(reg, groups), terms: model.Terms{
		Class: c.Terms.Class, Weight: c.Terms.Weight, Memory: c.Memory.Default,
	}}
	g.policy(reg.Options.Pack)
	g.class(reg.Options.Class)
	g.weight(reg.Options.Weight)
	g.memory(reg.Options.Memory)
	g.deadline(reg.Options.Deadline, reg.Launched)
	g.signal(reg.Options.Signal)
	g.pause(reg.Options.MaxPause)
	return g.terms, errors.Join(g.bad...)
}

// limits are the bounds that the rules give one job.
type limits struct {
	weight   *float64
	memory   *model.Bytes
	pause    *time.Duration
	classes  []model.Class
	policies []string
}

func (c *Config) limits(reg model.Registration, groups []string) limits {
	var l limits
	for i := range c.Bounds {
		b := &c.Bounds[i]
		if !b.matches(reg, groups) {
			continue
		}
		if l.weight == nil {
			l.weight = b.MaxWeight
		}
		if l.memory == nil {
			l.memory = b.MaxMemory
		}
		if l.pause == nil {
			l.pause = b.MaxPause
		}
		if l.classes == nil {
			l.classes = b.Classes
		}
		if l.policies == nil {
			l.policies = b.Policies
		}
	}
	return l
}

func (b *Bound) matches(reg model.Registration, groups []string) bool {
	return (b.User == nil || matchAny(b.User, reg.User)) &&
		(b.Account == nil || matchAny(b.Account, reg.Account)) &&
		(b.Partition == nil || matchAny(b.Partition, reg.Partition)) &&
		(b.Group == nil || slices.ContainsFunc(groups, func(g string) bool { return matchAny(b.Group, g) }))
}

// matchAny tells whether one of the patterns matches the name. The empty name
// is unknown and matches none, so a rule is never won by leaving a name out.
func matchAny(patterns []string, name string) bool {
	if name == "" {
		return false
	}
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, name)
		return err == nil && ok
	})
}

// granting is one Grant under way.
type granting struct {
	cfg   *Config
	lim   limits
	terms model.Terms
	bad   []error
}

func (g *granting) note(format string, args ...any) {
	g.terms.Notes = append(g.terms.Notes, fmt.Sprintf(format, args...))
}

// malformed notes an option that could not be read.
func (g *granting) malformed(option string, err error) {
	g.bad = append(g.bad, fmt.Errorf("option %s: %w", option, err))
	g.note("%s was ignored: %v", option, err)
}

// policy takes the request for a policy where one is made and allowed.
func (g *granting) policy(asked string) {
	switch asked {
	case "", "1", "on", "(null)":
		return
	}
	allowed := matchAny(g.cfg.Policy.Allow, asked) && (g.lim.policies == nil || matchAny(g.lim.policies, asked))
	switch {
	case asked == g.cfg.Policy.Default || allowed && policyName.MatchString(asked):
		g.terms.Policy = asked
	default:
		g.note("policy %.64q is not offered to this job; the GPU's own policy rules", asked)
	}
}

func (g *granting) class(asked string) {
	if asked != "" {
		c, err := ParseClass(asked)
		if err != nil {
			g.malformed("--gimbal-class", err)
		} else {
			g.terms.Class = c
		}
	}
	if len(g.lim.classes) == 0 || slices.Contains(g.lim.classes, g.terms.Class) {
		return
	}
	if string(g.terms.Class) == asked {
		g.note("class %s is not allowed for this job; it is %s", asked, g.lim.classes[0])
	}
	g.terms.Class = g.lim.classes[0]
}

func (g *granting) weight(asked string) {
	if asked != "" {
		w, err := ParseWeight(asked)
		if err != nil {
			g.malformed("--gimbal-weight", err)
		} else {
			g.terms.Weight = w
		}
	}
	if g.lim.weight == nil || g.terms.Weight <= *g.lim.weight {
		return
	}
	if asked != "" {
		g.note("weight lowered from %v to %v, the most that this job may have", g.terms.Weight, *g.lim.weight)
	}
	g.terms.Weight = *g.lim.weight
}

// memory sets the claim. A bound also holds for a job that claims the whole
// GPU because it states nothing: it is told so.
func (g *granting) memory(asked string) {
	if asked != "" {
		m, err := ParseSize(asked)
		switch {
		case err != nil:
			g.malformed("--gimbal-memory", err)
		case m == 0:
			g.malformed("--gimbal-memory", fmt.Errorf("%q claims nothing", asked))
		default:
			g.terms.Memory, g.terms.Declared = model.Known(m), model.Known(m)
		}
	}
	if g.lim.memory != nil {
		g.boundMemory(*g.lim.memory)
	}
	if m, ok := g.terms.Memory.Get(); ok && g.terms.Declared.Known() {
		g.terms.Memory = model.Known(m + min(g.cfg.Memory.Margin, maxBytes-m))
	}
}

const maxBytes = model.Bytes(1<<63 - 1)

func (g *granting) boundMemory(most model.Bytes) {
	m, ok := g.terms.Memory.Get()
	if ok && m <= most {
		return
	}
	if ok {
		g.note("memory lowered from %s to %s, the most that this job may have on a GPU", m, most)
	} else {
		g.note("memory claim is %s, the most that this job may have on a GPU: it stated none", most)
	}
	g.terms.Memory = model.Known(most)
}

// deadline takes a deadline; one that was over at the launch is kept, and
// said, since a policy may still rank by it.
func (g *granting) deadline(asked string, launched int64) {
	if asked == "" {
		return
	}
	t, err := ParseDeadline(asked)
	if err != nil {
		g.malformed("--gimbal-deadline", err)
		return
	}
	if launched > 0 && t.Before(time.Unix(0, launched)) {
		g.note("the deadline had passed when the job started")
	}
	g.terms.Deadline = t
}

func (g *granting) signal(asked string) {
	if asked == "" {
		return
	}
	sig, ahead, err := ParseSignal(asked)
	if err != nil {
		g.malformed("--gimbal-signal", err)
		return
	}
	g.terms.Signal, g.terms.Ahead = sig, ahead
}

// pause sets the longest pause of the job: that of its rule, or a shorter one that
// it asks for. Turns get as short for all its mates, so that a job asks for
// limits.least_max_pause at least.
func (g *granting) pause(asked string) {
	most := g.cfg.Limits.MaxPause
	if g.lim.pause != nil {
		g.terms.MaxPause, most = *g.lim.pause, min(most, *g.lim.pause)
	}
	if asked == "" {
		return
	}
	d, err := ParsePause(asked)
	if err != nil {
		g.malformed("GIMBAL_MAX_PAUSE", err)
		return
	}
	if least := min(g.cfg.Limits.LeastMaxPause, most); d < least {
		g.note("longest pause raised from %s to %s, the least that a job may ask for", FormatDuration(d), FormatDuration(least))
		d = least
	}
	switch {
	case d < most:
		g.terms.MaxPause = d
	case d > most:
		g.note("longest pause stays %s: %s would be more, and a job may only ask for less", FormatDuration(most), FormatDuration(d))
	}
}

// Operator tells whether a user may calibrate every job.
func (c *Config) Operator(user string) bool {
	return user == "root" || user != "" && slices.Contains(c.Access.Operators, strings.TrimSpace(user))
}
