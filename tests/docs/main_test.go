// Package docs tests what people read: the README, the guides, the manual and
// the completion, against the programs and files that they speak of.
package docs

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// top is the repository's top folder, seen from this one.
const top = "../.."

// bin holds the programs as they are in this tree.
var bin string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "gimbal-docs-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	build := exec.Command("go", "build", "-o", dir+"/", "./helper/cmd/gimbal", "./helper/cmd/gimbald")
	build.Dir = top
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the programs: %v\n%s", err, out)
		return 1
	}
	bin = dir
	return m.Run()
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// pages are all that people read, by path.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"*.md", "contrib/guide/*.md", "contrib/man/*.md", "tests/simgpu/README.md"} {
		paths, err := filepath.Glob(filepath.Join(top, pattern))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %d pages, %v", pattern, len(paths), err)
		}
		for _, p := range paths {
			rel, err := filepath.Rel(top, p)
			if err != nil {
				t.Fatal(err)
			}
			all[rel] = read(t, rel)
		}
	}
	return all
}

// told keeps what help was told.
var told = map[string]string{}

// help is what a command line says of itself.
func help(t *testing.T, program string, args ...string) string {
	t.Helper()
	line := strings.Join(append([]string{program}, args...), " ")
	if text, ok := told[line]; ok {
		return text
	}
	out, err := exec.Command(filepath.Join(bin, program), append(args, "--help")...).Output()
	if err != nil {
		t.Fatalf("%s %v --help: %v", program, args, err)
	}
	told[line] = string(out)
	return string(out)
}

var (
	helpOption  = regexp.MustCompile(`(?m)^ +(-\w, )?--([a-z0-9-]+)(?:\[[^\]]*\])?( \S+)?  +\S`)
	helpCommand = regexp.MustCompile(`(?m)^  ([a-z]+) `)
)

// options lists the options that a help tells, in one form: "-n, --name=",
// the equals sign where there is a value.
func options(text string) []string {
	var all []string
	for _, m := range helpOption.FindAllStringSubmatch(text, -1) {
		o := m[1] + "--" + m[2]
		if m[3] != "" {
			o += "="
		}
		all = append(all, o)
	}
	slices.Sort(all)
	return all
}

// commands lists the commands that a help tells.
func commands(t *testing.T, text string) []string {
	t.Helper()
	_, list, ok := strings.Cut(text, "\nCommands:\n")
	list, _, _ = strings.Cut(list, "\n\n")
	var all []string
	for _, m := range helpCommand.FindAllStringSubmatch(list, -1) {
		all = append(all, m[1])
	}
	if !ok || len(all) < 5 {
		t.Fatalf("only %v were found as commands", all)
	}
	slices.Sort(all)
	return all
}

// block is a piece of code in a page.
type block struct {
	page, lang, text string
	line             int
}

func (b block) String() string { return fmt.Sprintf("%s:%d", b.page, b.line) }

// blocks lists a page's code, fenced and indented.
func blocks(page, text string) []block {
	var all []block
	var now *block
	fenced := false
	for i, line := range strings.Split(text, "\n") {
		lang, fence := strings.CutPrefix(line, "```")
		code, indented := strings.CutPrefix(line, "    ")
		switch {
		case fence && !fenced:
			all = append(all, block{page: page, lang: lang, line: i + 1})
			now, fenced = &all[len(all)-1], true
		case fence:
			now, fenced = nil, false
		case fenced:
			now.text += line + "\n"
		case !indented:
			now = nil
		case now == nil:
			all = append(all, block{page: page, line: i + 1, text: code + "\n"})
			now = &all[len(all)-1]
		default:
			now.text += code + "\n"
		}
	}
	return all
}

func allBlocks(t *testing.T) []block {
	t.Helper()
	var all []block
	every := pages(t)
	for _, page := range slices.Sorted(maps.Keys(every)) {
		all = append(all, blocks(page, every[page])...)
	}
	return all
}
