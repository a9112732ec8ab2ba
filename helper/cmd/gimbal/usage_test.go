package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// commandLine is what one command takes.
type commandLine struct {
	name     string   // with the command above it
	operands []string // with which it is complete; none: it takes none, or needs none
	needs    string   // is said where they are missing; "": it needs none
	refuses  string   // is said of what is no operand; "": anything may be one
	asks     bool     // gimbald: it takes --socket, and fails with 3 where nobody answers
	help     string   // whose help it prints; "": its own
}

// commandLines are those of all commands.
func commandLines(policy string) []commandLine {
	all := []commandLine{
		{name: "run", operands: []string{"true"}, needs: "which command?"},
		{name: "status", refuses: "a job is given with -j", asks: true},
		{name: "explain", operands: []string{"101"}, needs: "which job?", asks: true},
		{name: "timeline", asks: true},
		{name: "report", refuses: "a job is given with -j", asks: true},
		{name: "learnt"},
		{name: "top", refuses: "a user is given with -u", asks: true},
		{name: "doctor", refuses: `"zzz" is no option`},
		{name: "simulate", needs: "--trace is missing", refuses: "a job history is given with --trace"},
		{name: "policies", needs: "which command: list, show", refuses: `no command "zzz"`},
		{name: "policies list", refuses: `"zzz" is too much`, help: "policies"},
		{name: "policies show", operands: []string{"swap"}, needs: "'gimbal policies list' lists them", help: "policies"},
		{name: "policies check", operands: []string{policy}, needs: "which FILE?", help: "policies"},
		{name: "policies explain", operands: []string{"swap"}, needs: "'gimbal policies list' lists them", help: "policies"},
		{name: "policies variables", refuses: `"zzz" is too much`, help: "policies"},
		{name: "policies keys", refuses: `"zzz" is too much`, help: "policies"},
		{name: "policies try", operands: []string{policy}, needs: "which policy?", asks: true},
	}
	for _, name := range []string{"pause", "resume", "evict", "notify", "release"} {
		all = append(all, commandLine{name: name, operands: []string{"101"}, needs: "which job?", refuses: `"zzz" is no job number`, asks: true})
	}
	return all
}

// longOption finds the options in a help.
var longOption = regexp.MustCompile(`(?m)^  (?:-\w, |    )--([a-z0-9-]+)`)

// TestCommandLines: every command prints its help to standard output, refuses with 2
// what is wrong with its command line and says what is right, and fails with 3 where
// gimbald does not answer.
func TestCommandLines(t *testing.T) {
	dir := t.TempDir()
	policy := filepath.Join(dir, "quick.toml")
	if err := os.WriteFile(policy, []byte("name = \"quick\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, c := range commandLines(policy) {
		known[strings.Fields(c.name)[0]] = true
		t.Run(c.name, func(t *testing.T) { c.check(t, dir) })
	}
	for _, c := range commands() {
		if !known[c.name] {
			t.Errorf("gimbal %s is not checked", c.name)
		}
	}
	_, out, _ := try("policies", "--help")
	commands, _, _ := strings.Cut(out, "--config")
	for _, m := range regexp.MustCompile(`(?m)^  ([a-z]+) `).FindAllStringSubmatch(commands, -1) {
		if !slices.ContainsFunc(commandLines(policy), func(c commandLine) bool { return c.name == "policies "+m[1] }) {
			t.Errorf("gimbal policies %s is not checked", m[1])
		}
	}
}

func (c *commandLine) check(t *testing.T, dir string) {
	name := strings.Fields(c.name)
	told := c.help
	if told == "" {
		told = c.name
	}
	_, help, _ := try(append(name, "--help")...)
	options := longOption.FindAllStringSubmatch(help, -1)
	if len(options) == 0 {
		t.Fatalf("its help tells of no option:\n%s", help)
	}
	option := options[0][1]
	c.want(t, exitOK, "^Usage: gimbal "+told+" ", "", "--help")
	c.want(t, exitOK, "^Usage: gimbal "+told+" ", "", "-h")
	c.want(t, exitOK, "^Usage: gimbal "+told+" ", "", append([]string{"-h"}, "zzz", "--zzz")...)
	c.want(t, exitUsage, "", "unknown flag: --zzzzzzz", "--zzzzzzz")
	c.want(t, exitUsage, "", fmt.Sprintf("unknown flag: --%sx, did you mean --%s\\?", option, option), "--"+option+"x")
	if code, text, _ := try(append([]string{"help"}, name...)...); code != exitOK || text != help {
		t.Errorf("gimbal help %s: exit %d:\n%s", c.name, code, text)
	}
	c.want(t, exitUsage, "", "unknown shorthand flag: 'Z' in -Z", "-Z")
	if c.needs != "" {
		c.want(t, exitUsage, "", regexp.QuoteMeta(c.needs))
	}
	if c.refuses != "" {
		c.want(t, exitUsage, "", regexp.QuoteMeta(c.refuses), "zzz")
	}
	if c.asks != strings.Contains(help, "--socket") && c.name != "run" && c.name != "doctor" {
		t.Errorf("its help tells of --socket: %v", !c.asks)
	}
	if c.asks {
		c.want(t, exitUsage, "", "flag needs an argument: --socket", "--socket")
		c.want(t, exitUnreachable, "", "gimbald does not answer: ", append(c.operands, "--socket", filepath.Join(dir, "none"))...)
	}
}

// want runs the command. What is wanted on standard output or error is a pattern, ""
// where nothing is to stand there. Wrong usage leads on to the help.
func (c *commandLine) want(t *testing.T, code int, out, errs string, args ...string) {
	t.Helper()
	line := append(strings.Fields(c.name), args...)
	is, stdout, stderr := try(line...)
	if code == exitUsage {
		name, _, _ := strings.Cut(c.name, " ")
		if c.help == "" {
			name = c.name
		}
		errs = "(?s)^gimbal " + name + ": .*" + errs + "[^\n]*\nTry 'gimbal " + name + " --help'.\n$"
	}
	for _, x := range []struct{ text, want string }{{stdout, out}, {stderr, errs}} {
		if ok, err := regexp.MatchString(x.want, x.text); err != nil || !ok || x.want == "" && x.text != "" {
			t.Errorf("%v: it says\n%s\nwant %q", line, x.text, x.want)
		}
	}
	if is != code {
		t.Errorf("%v: exit %d, want %d\n%s", line, is, code, stderr)
	}
}

// TestValuesHaveNames: an option's value is called by what it is, not by its type.
func TestValuesHaveNames(t *testing.T) {
	typed := regexp.MustCompile(`(?m)^.* (STRING|STRINGS|INT|UINT|FLOAT|DURATION|VALUE)( .*)?$`)
	for _, c := range commands() {
		if _, out, _ := try(c.name, "--help"); typed.MatchString(out) {
			t.Errorf("gimbal %s: %s", c.name, typed.FindString(out))
		}
	}
}
