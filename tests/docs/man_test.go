package docs

import (
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gimbal-hpc/gimbal/helper/config"
)

// section is the part of a page below a header, down to the next one of its
// level.
func section(t *testing.T, text, header string) string {
	t.Helper()
	_, rest, ok := strings.Cut(text, "\n"+header+"\n")
	if !ok {
		t.Errorf("there is no section %q", header)
	}
	level, _, _ := strings.Cut(header, " ")
	rest, _, _ = strings.Cut(rest, "\n"+level+" ")
	return rest
}

var term = regexp.MustCompile(`(?m)^(\*\*-{1,2}[a-zA-Z].*)\n: `)

// described lists the options that a section of the manual describes, in the
// form of options.
func described(text string) []string {
	var all []string
	for _, m := range term.FindAllStringSubmatch(text, -1) {
		o, _, _ := strings.Cut(strings.ReplaceAll(m[1], "**", ""), "[=") // may stand without its value
		o, _, hasValue := strings.Cut(o, "=")
		if hasValue {
			o += "="
		}
		all = append(all, o)
	}
	slices.Sort(all)
	return all
}

func TestEveryOptionOfGimbalIsInItsPage(t *testing.T) {
	page := read(t, "contrib/man/gimbal.1.md")
	for _, name := range append(commands(t, help(t, "gimbal")), "policies try") {
		told := options(help(t, "gimbal", strings.Fields(name)...))
		if len(told) < 2 {
			t.Errorf("gimbal %s --help tells %v only", name, told)
		}
		// That there is --help goes without saying.
		drop := func(o string) bool { return strings.HasSuffix(o, "--help") }
		got := slices.DeleteFunc(described(section(t, page, "# gimbal "+name)), drop)
		if d := cmp.Diff(slices.DeleteFunc(told, drop), got); d != "" {
			t.Errorf("gimbal %s: --help and the page differ (-help +page):\n%s", name, d)
		}
	}
}

func TestEveryCommandIsInItsPage(t *testing.T) {
	page := read(t, "contrib/man/gimbal.1.md")
	for header, told := range map[string][]string{
		"# COMMANDS":        commands(t, help(t, "gimbal")),
		"# gimbal policies": commands(t, help(t, "gimbal", "policies")),
	} {
		var got []string
		for _, m := range regexp.MustCompile(`(?m)^\*\*([a-z]+)\*\*.*\n: `).FindAllStringSubmatch(section(t, page, header), -1) {
			got = append(got, m[1])
		}
		slices.Sort(got)
		if d := cmp.Diff(told, got); d != "" {
			t.Errorf("%s: --help and the page differ (-help +page):\n%s", header, d)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^# gimbal ([a-z]+)$`).FindAllStringSubmatch(page, -1) {
		if !slices.Contains(commands(t, help(t, "gimbal")), m[1]) {
			t.Errorf("gimbal(1) has a section on %s, which is no command", m[1])
		}
	}
}

func TestEveryOptionOfGimbaldIsInItsPage(t *testing.T) {
	got := described(section(t, read(t, "contrib/man/gimbald.8.md"), "# OPTIONS"))
	want := options(help(t, "gimbald"))
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("--help and the page differ (-help +page):\n%s", d)
	}
}

func TestEveryOptionOfTheJobIsInItsPage(t *testing.T) {
	page := section(t, read(t, "contrib/man/gimbal.1.md"), "# OPTIONS OF THE JOB")
	var want []string
	for _, m := range regexp.MustCompile(`\n\t\t"(gimbal-[a-z]+)", "(GIMBAL_[A-Z]+)"`).FindAllStringSubmatch(read(t, "spank/options.c"), -1) {
		want = append(want, "--"+m[1])
		for _, where := range []string{"contrib/man/gimbal.1.md", "contrib/guide/user.md"} {
			if !strings.Contains(read(t, where), m[2]) {
				t.Errorf("%s does not name the variable %s", where, m[2])
			}
		}
	}
	var got []string
	for _, o := range described(page) {
		name, _, _ := strings.Cut(o, "[")
		got = append(got, strings.TrimSuffix(name, "="))
	}
	slices.Sort(want)
	slices.Sort(got)
	if d := cmp.Diff(want, got); d != "" || len(want) < 6 {
		t.Errorf("the plugin's options and the page differ (-plugin +page):\n%s", d)
	}
}

// key is a key of gimbald.toml as its page tells it.
type key struct{ Default, Restart string }

// keysOf lists the keys of a table of the configuration, with their paths.
func keysOf(prefix string, t reflect.Type, all map[string]key) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, ok := f.Tag.Lookup("toml")
		if !ok {
			continue
		}
		inner := f.Type
		if inner.Kind() == reflect.Slice {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct && strings.HasPrefix(inner.PkgPath(), "github.com/gimbal-hpc/gimbal/helper/config") {
			keysOf(prefix+tag+".", inner, all)
			continue
		}
		k := key{}
		if f.Tag.Get("restart") != "" {
			k.Restart = "(restart)"
		}
		all[prefix+tag] = k
	}
}

// TestConfigurationPage holds gimbald.toml(5) to the configuration: each key,
// its default, and whether it waits for a restart.
func TestConfigurationPage(t *testing.T) {
	want := map[string]key{}
	keysOf("", reflect.TypeFor[config.Config](), want)
	prefix := ""
	for _, line := range strings.Split(string(config.Default().Effective()), "\n") {
		if name, ok := strings.CutPrefix(line, "["); ok {
			prefix = strings.TrimSuffix(name, "]") + "."
		}
		if name, value, ok := strings.Cut(line, " = "); ok && !strings.HasPrefix(line, "#") {
			k, known := want[prefix+name]
			if !known {
				t.Errorf("%s%s is no key of the configuration", prefix, name)
			}
			k.Default = value
			want[prefix+name] = k
		}
	}
	got := map[string]key{}
	page := section(t, read(t, "contrib/man/gimbald.toml.5.md"), "# KEYS")
	for _, m := range regexp.MustCompile(`(?m)^(\*\*[a-z_.]+\*\*(?:, \*\*[a-z_.]+\*\*)*)(?: = \*(.*)\*)?( \(restart\))?\n: `).FindAllStringSubmatch(page, -1) {
		for _, name := range strings.Split(m[1], ", ") {
			got[strings.Trim(name, "*")] = key{strings.ReplaceAll(m[2], `\`, ""), strings.TrimSpace(m[3])}
		}
	}
	if d := cmp.Diff(want, got); d != "" || len(want) < 30 {
		t.Errorf("the configuration and the page differ (-configuration +page):\n%s", d)
	}
}

// TestManualIsBuilt runs every page through go-md2man and lets man look at it.
func TestManualIsBuilt(t *testing.T) {
	dir := t.TempDir()
	build := exec.Command("make", "-s", "-f", "contrib/man/man.mk", "man", "MAN_DIR="+dir)
	build.Dir = top
	out, err := build.CombinedOutput()
	if err != nil && strings.Contains(string(out), "dial tcp") {
		t.Skipf("SKIPPED: go-md2man cannot be fetched: %s", out)
	}
	if err != nil {
		t.Fatalf("make man: %v\n%s", err, out)
	}
	made, err := filepath.Glob(dir + "/*")
	sources, err2 := filepath.Glob(filepath.Join(top, "contrib/man/*.md"))
	if err != nil || err2 != nil || len(made) != len(sources) || len(made) == 0 {
		t.Fatalf("%d pages of %d sources", len(made), len(sources))
	}
	if _, err := exec.LookPath("groff"); err != nil {
		t.Skip("SKIPPED: groff is not installed")
	}
	for _, page := range made {
		out, err := exec.Command("groff", "-ww", "-man", "-Kutf8", "-Tutf8", "-P-cbou", page).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "NAME") {
			t.Errorf("%s: %v\n%.300s", filepath.Base(page), err, out)
		}
		if i := strings.Index(string(out), "warning:"); i >= 0 {
			t.Errorf("%s: %.200s", filepath.Base(page), out[max(0, i-80):])
		}
	}
}

// TestJSONIsInItsPage: gimbal(1) names each key of the JSON of a status.
func TestJSONIsInItsPage(t *testing.T) {
	text := section(t, read(t, "contrib/man/gimbal.1.md"), "### JSON")
	keys := strings.Fields(read(t, "helper/report/testdata/schema.txt"))[1:]
	for _, key := range keys {
		name := strings.Trim(key[strings.LastIndexByte(strings.TrimSuffix(key, "[]"), '.')+1:], "[]")
		if !strings.Contains(text, "*"+name+"*") {
			t.Errorf("the section on JSON does not name %s", key)
		}
	}
	if len(keys) < 50 {
		t.Errorf("only %d keys are in the schema", len(keys))
	}
}
