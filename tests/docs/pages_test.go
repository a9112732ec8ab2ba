package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gimbal-hpc/gimbal/helper/config"
	"github.com/gimbal-hpc/gimbal/helper/policy"
)

// TestTOMLExamples parses every policy and every configuration in the pages.
func TestTOMLExamples(t *testing.T) {
	policies, configs := 0, 0
	for _, b := range allBlocks(t) {
		if b.lang != "toml" {
			continue
		}
		if strings.Contains(b.text, "objective") {
			policies++
			if _, err := policy.Parse(b.String(), []byte(b.text)); err != nil {
				t.Errorf("%s: %v", b, err)
			}
			continue
		}
		configs++
		if _, warnings, err := config.Parse(b.String(), b.text); err != nil || len(warnings) > 0 {
			t.Errorf("%s: %v %v", b, err, warnings)
		}
	}
	if policies < 4 || configs < 2 {
		t.Errorf("only %d policies and %d configurations were found", policies, configs)
	}
}

// TestScriptExamples lets bash read every script, and holds what they ask of
// Gimbal to what the node takes.
func TestScriptExamples(t *testing.T) {
	scripts := 0
	for _, b := range allBlocks(t) {
		if b.lang != "bash" {
			continue
		}
		scripts++
		bash := exec.Command("bash", "-n")
		bash.Stdin = strings.NewReader(b.text)
		if out, err := bash.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", b, err, out)
		}
	}
	if scripts < 4 {
		t.Errorf("only %d scripts were found", scripts)
	}
}

var jobOption = regexp.MustCompile(`--(gimbal-[a-z]+)(?:=([\w.@+:-]+))?`)

// valid says whether a value is one of an option's.
func valid(option, value string) bool {
	var err error
	switch option {
	case "gimbal-memory":
		_, err = config.ParseSize(value)
	case "gimbal-class":
		_, err = config.ParseClass(value)
	case "gimbal-weight":
		_, err = config.ParseWeight(value)
	case "gimbal-signal":
		_, _, err = config.ParseSignal(value)
	case "gimbal-deadline":
		return regexp.MustCompile(`^(now\+\d+(seconds|minutes|hours|days|weeks)|\d{4}-\d\d-\d\dT\d\d:\d\d)$`).MatchString(value)
	case "gimbal-pack":
		return regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`).MatchString(value)
	}
	return err == nil
}

// TestJobOptions looks at every --gimbal- option in the pages: the plugin has
// it, and its value, where it is an example, is one.
func TestJobOptions(t *testing.T) {
	options, seen := read(t, "spank/options.c"), 0
	for page, text := range pages(t) {
		for _, m := range jobOption.FindAllStringSubmatch(text, -1) {
			seen++
			if !strings.Contains(options, `"`+m[1]+`"`) {
				t.Errorf("%s: the plugin has no option --%s", page, m[1])
			}
			m[2] = strings.TrimRight(m[2], ".:")
			placeholder := strings.ToUpper(m[2]) == m[2] && !strings.ContainsAny(m[2], "0123456789@")
			wrong := strings.Contains(text, m[0]+" allowed is") // quotes an error
			if m[2] != "" && !placeholder && !wrong && !valid(m[1], m[2]) {
				t.Errorf("%s: %s is not a value that the option takes", page, m[0])
			}
		}
	}
	if seen < 20 {
		t.Errorf("only %d options were found", seen)
	}
}

// targets lists what make can make.
func targets(t *testing.T) []string {
	t.Helper()
	all := []string{}
	for _, file := range []string{"Makefile", "spank/spank.mk", "tests/simgpu/simgpu.mk", "contrib/man/man.mk"} {
		for _, m := range regexp.MustCompile(`(?m)^([a-z-]+):`).FindAllStringSubmatch(read(t, file), -1) {
			all = append(all, m[1])
		}
	}
	return all
}

var (
	makeCall    = regexp.MustCompile("(?m)(?:^|`|&& |; )make ([a-z-]+)")
	programCall = regexp.MustCompile("(?m)(?:^ *|`|off |# )(?:build/|systemctl [a-z]+ )?(gimbald?)((?: +[^`#\n|;]*)?)")
	longOption  = regexp.MustCompile(`--([a-z][a-z0-9-]*)`)
	path        = regexp.MustCompile("(?:`|\\]\\(|^| )((?:contrib|etc|scripts|tests|helper|policies|spank)/[\\w./-]+)")
)

func TestMakeTargets(t *testing.T) {
	known, seen := targets(t), 0
	for page, text := range pages(t) {
		for _, m := range makeCall.FindAllStringSubmatch(text, -1) {
			seen++
			if !slices.Contains(known, m[1]) {
				t.Errorf("%s: make has no target %s", page, m[1])
			}
		}
	}
	if seen < 5 {
		t.Errorf("only %d calls of make were found", seen)
	}
}

// TestCommandLines looks at every command line of ours in a page's code: its
// command and its options exist.
func TestCommandLines(t *testing.T) {
	known, seen := commands(t, help(t, "gimbal")), 0
	check := func(where, line string) {
		for _, m := range programCall.FindAllStringSubmatch(line, -1) {
			program, words := m[1], strings.Fields(m[2])
			var args []string
			if program == "gimbal" && len(words) > 0 && regexp.MustCompile(`^[a-z]+$`).MatchString(words[0]) {
				args = words[:1]
				if !slices.Contains(known, words[0]) {
					t.Errorf("%s: gimbal has no command %s", where, words[0])
					continue
				}
				if len(words) > 1 && words[0] == "policies" && words[1] == "try" { // it has options of its own
					args = words[:2]
				}
			}
			text := help(t, program, args...) + " --help "
			for _, o := range longOption.FindAllStringSubmatch(m[2], -1) {
				seen++
				if !regexp.MustCompile(`--` + o[1] + `\b`).MatchString(text) {
					t.Errorf("%s: %s %v has no option --%s", where, program, args, o[1])
				}
			}
		}
	}
	for _, b := range allBlocks(t) {
		for _, line := range strings.Split(b.text, "\n") {
			check(b.String(), line)
		}
	}
	for page, text := range pages(t) {
		for _, m := range regexp.MustCompile("`gimbald? [^`]*`").FindAllString(text, -1) {
			check(page, m)
		}
	}
	if seen < 15 {
		t.Errorf("only %d options were found", seen)
	}
}

// TestPaths looks at every file that a page names.
func TestPaths(t *testing.T) {
	seen := 0
	for page, text := range pages(t) {
		if page == "CHANGELOG.md" { // speaks of what was
			continue
		}
		for _, m := range path.FindAllStringSubmatch(text, -1) {
			name := strings.TrimRight(m[1], "./")
			if strings.Contains(name, "...") || name == "build" {
				continue
			}
			seen++
			if _, err := os.Stat(filepath.Join(top, name)); err != nil {
				t.Errorf("%s names %s, which is not there", page, name)
			}
		}
	}
	if seen < 15 {
		t.Errorf("only %d paths were found", seen)
	}
}

func TestLinks(t *testing.T) {
	seen := 0
	for page, text := range pages(t) {
		for _, m := range regexp.MustCompile(`\]\(([^)#]+)\)`).FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			seen++
			if _, err := os.Stat(filepath.Join(top, filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", page, m[1])
			}
		}
	}
	if seen < 10 {
		t.Errorf("only %d links were found", seen)
	}
}

// TestPoliciesOfTheREADME: its table has every shipped policy, and no other.
func TestPoliciesOfTheREADME(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(top, "policies", "*.toml"))
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, f := range files {
		want = append(want, strings.TrimSuffix(filepath.Base(f), ".toml"))
	}
	_, table, _ := strings.Cut(read(t, "README.md"), "| policy | objective |")
	table, _, _ = strings.Cut(table, "\n\n")
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z]+)`").FindAllStringSubmatch(table, -1) {
		got = append(got, m[1])
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) || len(want) == 0 {
		t.Errorf("the table has %v, shipped are %v", got, want)
	}
}
