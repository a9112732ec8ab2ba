package policy

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/BurntSushi/toml"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// Bounds of a policy file.
const (
	maxFile   = 256 << 10 // bytes
	maxGuards = 64
)

// builder makes a policy of a file, noting every fault on the way.
type builder struct {
	p      *Policy
	g      *Guard // the guard being read
	when   string // its rule, and where it stands
	whenAt string
	where  *locations
	faults Errors
}

// Parse reads a policy. The error is of type Errors: every fault with file,
// line and column, and the nearest name where one was not known.
func Parse(file string, text []byte) (*Policy, error) {
	if len(text) > maxFile {
		return nil, Errors{{file, 1, 1, fmt.Sprintf("the file has %d bytes, at most %d are allowed", len(text), maxFile)}}
	}
	if !utf8.Valid(text) {
		return nil, Errors{{file, 1, 1, "the file is not UTF-8"}}
	}
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	tree := map[string]any{}
	if _, err := toml.Decode(string(text), &tree); err != nil {
		return nil, Errors{syntaxError(file, string(text), err)}
	}
	b := &builder{p: defaults(file), where: locate(string(text))}
	b.top(tree)
	if len(b.faults) > 0 {
		return nil, b.faults.inOrder()
	}
	return b.p, nil
}

func syntaxError(file, text string, err error) *Error {
	var pe toml.ParseError
	if errors.As(err, &pe) {
		line, col, msg := model.SyntaxFault(text, pe.Position.Start, pe.Position.Len, pe.Message)
		return &Error{file, line, col, msg}
	}
	return &Error{file, 1, 1, strings.TrimPrefix(err.Error(), "toml: ")}
}

// defaults is a policy in which nothing was said; Keys() documents them.
func defaults(file string) *Policy {
	return &Policy{
		File:  file,
		Share: Share{Quantum: 30 * time.Second, Period: 200 * time.Millisecond},
		Limits: Limits{
			MinRun: 30 * time.Second, MaxPause: time.Minute, Breath: 500 * time.Millisecond,
			Patience: 10 * time.Minute, MaxPassed: 10, LaunchGrace: 10 * time.Second,
		},
	}
}

// fault notes an error at a path.
func (b *builder) fault(path, format string, args ...any) {
	line, col := b.where.place(path)
	b.faults = append(b.faults, &Error{b.p.File, line, col, fmt.Sprintf(format, args...)})
}

// expression notes the fault of an expression, nil if there is none, at its
// place inside the file.
func (b *builder) expression(path string, f *fault) {
	if f == nil {
		return
	}
	line, col := b.where.inside(path, f.at)
	b.faults = append(b.faults, &Error{b.p.File, line, col, keyOf(path) + ": " + f.msg})
}

func (b *builder) top(tree map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		switch {
		case name == "guard":
			b.guards(tree[name])
		case name != "" && sections[name] != nil:
			b.table(name, tree[name])
		default:
			b.one("", "", name, tree[name])
		}
	}
	b.check()
}

func (b *builder) table(section string, v any) {
	tree, ok := v.(map[string]any)
	if !ok {
		b.fault(section, "%s is a table: write [%s]", section, section)
		return
	}
	b.section(section, section+".", tree)
}

// section reads the keys of one table that stands at a path.
func (b *builder) section(section, prefix string, tree map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		b.one(section, prefix, name, tree[name])
	}
}

// one reads one key of a section.
func (b *builder) one(section, prefix, name string, v any) {
	k, ok := sections[section][name]
	if !ok {
		b.fault(prefix+name, "there is no key %s here%s", name, didYouMean(name, namesIn(section))+elsewhere(name))
		return
	}
	k.set(b, prefix+name, v)
}

// namesIn are the keys of a section, and at the top the sections too.
func namesIn(section string) []string {
	names := slices.Collect(maps.Keys(sections[section]))
	for s := range sections {
		if section == "" && s != "" {
			names = append(names, s)
		}
	}
	return names
}

// elsewhere tells where a key that is not known here would be.
func elsewhere(name string) string {
	for _, k := range keys {
		switch {
		case k.Path == name:
			return "; it stands at the top, before any table"
		case strings.HasSuffix("."+k.Path, "."+name):
			return "; there is " + k.Path
		}
	}
	return ""
}

func (b *builder) guards(v any) {
	list, ok := v.([]map[string]any)
	if !ok {
		b.fault("guard", "guards are a list: write [[guard]]")
		return
	}
	if len(list) > maxGuards {
		b.fault("guard", "there are %d guards, at most %d are allowed", len(list), maxGuards)
		return
	}
	for i, tree := range list {
		b.p.Guards = append(b.p.Guards, b.guard(i, tree))
	}
}

func (b *builder) guard(i int, tree map[string]any) Guard {
	path := "guard." + strconv.Itoa(i)
	b.g = &Guard{Name: "guard " + strconv.Itoa(i+1), Scope: ScopeTenant}
	b.when, b.whenAt = "", ""
	b.section("guard", path+".", tree)
	if b.g.Who == "" {
		b.g.Who = Offender
		if b.g.Scope == ScopeGPU {
			b.g.Who = LowestRank
		}
	}
	if b.g.Scope == ScopeGPU && b.g.Who == Offender {
		b.fault(path+".who", "a guard that looks at GPUs has no offender; write who = %q", LowestRank)
	}
	if len(b.g.Do) == 0 && tree["do"] == nil {
		b.fault(path, "a guard needs do: what is done")
	}
	if throttles := slices.Contains(b.g.Do, model.PrimThrottle); throttles && b.g.Share == 0 {
		b.fault(path+".do", "a guard that throttles needs share: how much of the time is left, such as 0.25")
	} else if !throttles && b.g.Share != 0 {
		b.fault(path+".share", `share is of no use without "throttle" in do`)
	}
	b.rule(path)
	return *b.g
}

// rule compiles the guard's rule, once its scope is known.
func (b *builder) rule(path string) {
	if b.whenAt == "" {
		if _, ok := b.where.keys[path+".when"]; !ok {
			b.fault(path, "a guard needs when: the limit that is crossed")
		}
		return
	}
	s := inGuard
	if b.g.Scope == ScopeGPU {
		s = inDevice
	}
	r, err := compileRule(b.when, s)
	b.expression(b.whenAt, err)
	b.g.When = r
}

var nameForm = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

// check looks at what several keys have to do with each other.
func (b *builder) check() {
	switch _, given := b.where.keys["name"]; {
	case !given:
		b.fault("name", "name is missing: what jobs ask for, the file's name without .toml")
	case !nameForm.MatchString(b.p.Name):
		b.fault("name", "name: %q is no name; a lower-case letter, then up to 31 of these, digits, - and _", b.p.Name)
	}
	if b.p.Share.Quantum < 10*time.Millisecond {
		b.fault("share.quantum", "share.quantum: at least 10ms, so that changing turns does not take all the time")
	}
	if strings.ContainsAny(b.p.Cap.PyTorch, "\x00\n\r") {
		b.fault("cap.pytorch", "cap.pytorch: a single line is wanted")
	}
	if b.p.Share.Plan && b.p.Share.Value == nil {
		b.fault("share.plan", "share.plan: what is planned by is missing; it needs share.value")
	}
	if b.p.Share.Best && (b.p.Share.Value == nil || b.p.Share.Plan) {
		b.fault("share.best", "share.best: it needs share.value to choose by, and no share.plan")
	}
	l := b.p.Limits
	switch p := b.p.Share.Period; {
	case p < model.ShortestPeriod || p > model.LongestPeriod:
		b.fault("share.period", "share.period: %v to %v", model.ShortestPeriod, model.LongestPeriod)
	case b.p.throttles() && l.MaxPause > 0 && 2*p > l.MaxPause:
		b.fault("share.period", "share.period: %v is more than half of limits.max_pause, %v", p, l.MaxPause)
	}
	if l.MaxPause > 0 && l.Breath > l.MaxPause {
		b.fault("limits.breath", "limits.breath: at most limits.max_pause, %v", l.MaxPause)
	}
}
