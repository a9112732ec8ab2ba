package config

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

const shippedFile = "../../etc/gimbald.toml"

// plainCopy is a configuration without what it was read from.
func plainCopy(c *Config) Config {
	b := *c
	b.src, b.policies = nil, nil
	return b
}

func mustParse(t *testing.T, text string) *Config {
	t.Helper()
	c, _, err := Parse("gimbald.toml", text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestShippedFileIsTheDefault(t *testing.T) {
	text, err := os.ReadFile(shippedFile)
	if err != nil {
		t.Fatal(err)
	}
	c, warnings, err := Parse(shippedFile, string(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(warnings) > 0 {
		t.Errorf("warnings: %q", warnings)
	}
	if !reflect.DeepEqual(plainCopy(c), *Default()) {
		t.Errorf("differs from the defaults (-file +default):\n%s\n%s", c.Effective(), Default().Effective())
	}
}

func TestShippedFileNamesEveryKey(t *testing.T) {
	text, err := os.ReadFile(shippedFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, tab := range tablesOf("", reflect.TypeFor[Config]()) {
		if tab.path != "" && !strings.Contains(string(text), "["+tab.path+"]") {
			t.Errorf("table [%s] is not in the file", tab.path)
		}
		for _, k := range tab.keys {
			in := section(string(text), tab.path)
			if !strings.Contains(in, k) {
				t.Errorf("key %q of [%s] is not in its part of the file", k, tab.path)
			}
		}
	}
}

// section is the part of the file that explains one table.
func section(text, path string) string {
	switch path {
	case "", "policy.gpu":
		return text
	case "bound":
		return text[strings.Index(text, "# What a job may have"):strings.Index(text, "[guard]")]
	}
	_, rest, _ := strings.Cut(text, "\n["+path+"]")
	part, _, _ := strings.Cut(rest, "\n[")
	return part
}

func TestMissingFileGivesTheDefaults(t *testing.T) {
	c, _, err := Load(filepath.Join(t.TempDir(), "none.toml"))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(plainCopy(c), *Default()) {
		t.Error("a missing file changed the defaults")
	}
}

func TestLoadRefusesWhatOthersCanWrite(t *testing.T) {
	f := filepath.Join(t.TempDir(), "gimbald.toml")
	if err := os.WriteFile(f, []byte("schema = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Load(f); err != nil {
		t.Fatalf("a private file: %v", err)
	}
	if err := os.Chmod(f, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Load(f); err == nil || !strings.Contains(err.Error(), "chmod") {
		t.Errorf("a file that anybody can write: %v", err)
	}
	if _, _, err := Load(filepath.Dir(f)); err == nil || !strings.Contains(err.Error(), "regular file") {
		t.Errorf("a folder: %v", err)
	}
}

func TestMistakes(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"unknown key":        {"schema = 1\n[limits]\nmax_puase = \"5s\"", `f:3: unknown key "max_puase" in [limits]; did you mean "max_pause"?`},
		"unknown table":      {"[limit]\nmax_pause = \"5s\"", `f:1: unknown table [limit]; did you mean "limits"?`},
		"inner table":        {"[guard.x]\na = 1", `f:1: unknown table [guard.x]; the nearest valid key is "held"`},
		"wrong table":        {"[guard]\nmax_pause = \"5s\"", `f:2: unknown key "max_pause" in [guard]; "max_pause" belongs in [limits]`},
		"wrong table, slip":  {"[guard]\nmaxpause = \"5s\"", `f:2: unknown key "maxpause" in [guard]; did you mean "max_pause" in [limits]?`},
		"key before tables":  {"interval = \"5s\"", `f:1: unknown key "interval"; "interval" belongs in [sample]`},
		"far from anything":  {"[log]\nzzzzzzzzz = 1", `f:2: unknown key "zzzzzzzzz" in [log]; the nearest valid key is "level"`},
		"duplicate key":      {"[log]\nlevel = \"info\"\nlevel = \"info\"", `f:3: Key 'log.level' has already been defined.`},
		"no quotes":          {"[log]\nlevel = warn", `f:2: expected value but found "warn" instead; a text or a time stands in quotes, such as "20s"`},
		"a time, no quotes":  {"[limits]\nmax_pause = 60s\n", `f:2: the line should end before 's'; a text or a time stands in quotes, such as "20s"`},
		"no closing quote":   {"[log]\nlevel = \"warn\nformat = \"text\"\n", `f:2: strings cannot contain newlines`},
		"no closing bracket": {"[log\nlevel = \"warn\"\n", `f:1: expected '.' or ']' to end table name, but got the end of the line instead`},
		"one bracket":        {"schema = 1\n[[bound]\nuser = \"x\"\n", `f:2: expected end of table array name delimiter ']', but got the end of the line instead`},
		"no value":           {"[log]\nlevel =\nformat = \"text\"\n", `f:2: expected value but found the end of the line instead`},
		"no comma":           {"[policy]\nallow = [\"a\" \"b\"]\n", `f:2: expected a comma (',') or array terminator (']'), but got '"'`},
		"no end of a list":   {"[policy]\nallow = [\"a\"\n[log]\n", `f:3: expected a comma (',') or array terminator (']'), but got '['`},
		"only a sign":        {"[terms]\nweight = +\nclass = \"guaranteed\"\n", "f:2: expected a digit but got the end of the line"},
		"no end of a text":   {"[log]\nlevel = \"\"\"warn\n\n[limits]\n", `f:2: the file ends too early; expected '"""'`},
		"open to the end":    {"[log]\nlevel = [\n\n", `f:2: the file ends too early; expected value`},
		"no unit":            {"[limits]\n\n\nmax_pause = 60", `f:4: limits.max_pause: must be a time with a unit such as "30s", not the bare number 60`},
		"no unit, string":    {"[limits]\nmax_pause = \"60\"", `f:2: limits.max_pause: "60" is not a time with a unit such as "30s" or "100ms"`},
		"size without unit":  {"[memory]\nmargin = 5", `f:2: memory.margin: must be a size with a unit such as "16GiB", not the bare number 5`},
		"claim":              {"[memory]\ndefault = \"all\"", `f:2: memory.default: "all" is neither "whole" nor a size with a unit such as "16GiB"`},
		"claim of nothing":   {"[memory]\ndefault = \"0B\"", `f:2: memory.default: a claim of nothing would let every job in; write "whole" or a size`},
		"type":               {"[guard]\nenabled = \"yes\"", `f:2: guard.enabled: must be true or false, not the string "yes"`},
		"table for a value":  {"[node.name]\nx = 1", `f:1: node.name: must be a string, not a table`},
		"value for a table":  {"node = 3", `f:1: node must be a table, written [node], not the bare number 3`},
		"table for a list":   {"[bound]\nuser = \"a\"", `f:1: bound must be a list of tables, each written [[bound]], not a table`},
		"list of numbers":    {"[access]\noperators = [1]", `f:2: access.operators: must be a string, not the bare number 1`},
		"private":            {"[access]\nprivate = \"maybe\"", `f:2: access.private: must be true, false or "slurm", not the string "maybe"`},
		"mode":               {"[socket]\nmode = \"0888\"", `f:2: socket.mode: "0888" is not permission bits such as "0660"`},
		"metrics, address":   {"[metrics]\nlisten = \"0.0.0.0:9911\"", `f:2: metrics.listen: 0.0.0.0 is not on loopback; write "127.0.0.1:9911", and let node_exporter or a proxy with TLS and passwords offer it to other hosts`},
		"metrics, name":      {"[metrics]\nlisten = \"localhost:9911\"", `f:2: metrics.listen: "localhost:9911" is not an address and a port such as "127.0.0.1:9911"`},
		"metrics, any port":  {"[metrics]\nlisten = \"127.0.0.1:0\"", `f:2: metrics.listen: "127.0.0.1:0" is not an address and a port such as "127.0.0.1:9911"`},
		"metrics, file":      {"[metrics]\ntextfile = \"/srv/gimbal.txt\"", `f:2: metrics.textfile: node_exporter reads *.prom alone, not "/srv/gimbal.txt"`},
		"metrics, folder":    {"[metrics]\ntextfile = \"gimbal.prom\"", `f:2: metrics.textfile: "gimbal.prom" must be an absolute path`},
		"metrics, rate":      {"[metrics]\ninterval = \"10ms\"", `f:2: metrics.interval: "10ms" is not between "1s" and "10m"`},
		"mode as a number":   {"[socket]\nmode = 438", `f:2: socket.mode: must be permission bits as a string such as "0660", not the bare number 438`},
		"too fast":           {"[sample]\ninterval = \"10ms\"", `f:2: sample.interval: "10ms" is not between "50ms" and "1m"`},
		"stop too long":      {"[limits]\nstop_timeout = \"1m\"", `f:2: limits.stop_timeout: "1m" is not between "100ms" and "10s"`},
		"stale":              {"[sample]\ninterval = \"30s\"", `f:1: sample.stale: "5s" is not between "1m" and "1h"`},
		"relative path":      {"[node]\nstate_dir = \"var\"", `f:2: node.state_dir: "var" must be an absolute path`},
		"level":              {"[log]\nlevel = \"inf\"", `f:2: log.level: "inf" is none of ["debug" "info" "warn" "error"]; did you mean "info"?`},
		"gpu by index":       {"[policy.gpu]\n0 = \"priority\"", `f:2: policy.gpu: "0" is not a GPU's whole UUID, as nvidia-smi -L prints it`},
		"gpu by a beginning": {"[policy.gpu]\nGPU-5f = \"priority\"", `f:2: policy.gpu: "GPU-5f" is not a GPU's whole UUID, as nvidia-smi -L prints it`},
		"second bound":       {"[[bound]]\nuser=\"a\"\nmax_weight=2\n\n[[bound]]\nuser=\"b\"\nmax_wight=2", `f:7: unknown key "max_wight" in [bound]; did you mean "max_weight"?`},
		"bound value":        {"[[bound]]\nmax_weight=2\n[[bound]]\nmax_weight=0", `f:4: bound.max_weight: 0 is not above 0 and at most 10000`},
		"bound of nothing":   {"[[bound]]\nuser=\"a\"", `f:1: [[bound]] states no limit: max_weight, max_memory, max_pause, classes or policies`},
		"bound of nobody":    {"[[bound]]\nuser=[]\nmax_weight=1", `f:2: bound.user: an empty list matches nobody; leave the key out to match everybody`},
		"bad pattern":        {"[[bound]]\nuser=\"[a\"\nmax_weight=1", `f:2: bound.user: "[a" is not a name or a shell pattern`},
		"class":              {"[[bound]]\nclasses=[\"fast\"]", `f:2: bound.classes: "fast" is not a class: guaranteed or opportunistic`},
		"inline":             {"bound = [{user=\"a\", max_weight=1},\n {user=\"b\", weight=1}]", `f:2: unknown key "weight" in [bound]; "weight" belongs in [terms]`},
		"first of several":   {"[log]\nlevel=3\nformat=4\n[nod]\n", `f:2: log.level: must be a string, not the bare number 3`},
		"a later schema":     {"schema = 2\n[new]\nkey = 1\n[[more]]\na=2", `f:1: schema = 2: this program reads schema = 1`},
		"a multi-line value": {"[policy]\nallow = [\n \"a\", # ] not the end\n \"b\",\n]\ndefalt = \"x\"", `f:6: unknown key "defalt" in [policy]; did you mean "default"?`},
	} {
		t.Run(name, func(t *testing.T) {
			c, _, err := Parse("f", tc.text)
			if err == nil {
				t.Fatalf("was accepted:\n%s", c.Effective())
			}
			if diff := cmp.Diff(tc.want, err.Error()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"long pause":  {"[limits]\nmax_pause = \"111s\"", "f:2: limits.max_pause = \"1m51s\": NCCL's heartbeat monitor ends a job that does not answer for 2 minutes"},
		"no guard":    {"[guard]\nenabled = false", "f:2: guard.enabled = false"},
		"dead bounds": {"[[bound]]\nmax_weight=1\nmax_memory=\"1GiB\"\nmax_pause=\"10s\"\nclasses=\"opportunistic\"\npolicies=[]\n[[bound]]\nmax_weight=2", "f:1: this [[bound]] matches everybody"},
	} {
		t.Run(name, func(t *testing.T) {
			_, w, err := Parse("f", tc.text)
			if err != nil || len(w) != 1 || !strings.HasPrefix(w[0], tc.want) {
				t.Errorf("warnings %q, error %v; want one that starts %q", w, err, tc.want)
			}
		})
	}
	if _, w, err := Parse("f", "[limits]\nmax_pause = \"110s\""); err != nil || len(w) != 0 {
		t.Errorf("110s: warnings %q, error %v", w, err)
	}
}

const full = `
[sample]
interval = "250ms"
[policy]
default = "priority"
allow = ["time*", "priority"]
[policy.gpu]
"GPU-5f000000-1234-5678-9abc-def012345678" = "together"
MIG-6f000000-1234-5678-9abc-def012345678 = "timeslice"
"MIG-GPU-7f000000-1234-5678-9abc-def012345678/1/0" = "timeslice"
[memory]
default = "9.5GiB"
[access]
private = true
operators = ["ann", "o\"dd"]
[[bound]]
group = "staff"
max_weight = 16
max_pause = "10s"
[[bound]]
user = ["a*", "b"]
classes = ["opportunistic", "guaranteed"]
max_memory = "40GiB"
policies = []
`

func TestEffectiveIsReadBackTheSame(t *testing.T) {
	c := mustParse(t, full)
	again := mustParse(t, string(c.Effective()))
	if !reflect.DeepEqual(plainCopy(c), plainCopy(again)) {
		t.Errorf("read back differently:\n%s\n%s", c.Effective(), again.Effective())
	}
}

func TestEffectiveGolden(t *testing.T) {
	c := mustParse(t, full)
	c.Policy.Dir = t.TempDir()
	shipped := fstest.MapFS{}
	for _, n := range []string{"priority", "together", "timeslice"} {
		shipped[n+".toml"] = &fstest.MapFile{Data: []byte("name = \"" + n + "\"\n")}
	}
	if _, err := c.LoadPolicies(shipped); err != nil {
		t.Fatal(err)
	}
	c.Policy.Dir = Default().Policy.Dir
	golden := "testdata/effective.toml"
	if *update {
		if err := os.WriteFile(golden, c.Effective(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(c.Effective())); diff != "" {
		t.Errorf("(-golden +got)\n%s", diff)
	}
}

func TestDiffNamesRestartOnlyKeys(t *testing.T) {
	old := mustParse(t, "")
	upd := mustParse(t, "[socket]\npath = \"/run/x\"\n[sample]\ninterval = \"2s\"\n[policy.gpu]\nGPU-5f000000-1234-5678-9abc-def012345678 = \"priority\"\n[[bound]]\nmax_weight = 2")
	got := Diff(old, upd)
	want := Changes{Applied: []string{"sample.interval", "policy.gpu", "bound"}, Restart: []string{"socket.path"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	upd.KeepFrom(old)
	if upd.Socket.Path != old.Socket.Path || upd.Sample.Interval != 2*time.Second {
		t.Errorf("after KeepFrom: socket %s, interval %s", upd.Socket.Path, upd.Sample.Interval)
	}
	if d := Diff(old, upd); len(d.Restart) != 0 {
		t.Errorf("after KeepFrom still to be restarted: %q", d.Restart)
	}
	if d := Diff(old, mustParse(t, string(old.Effective()))); len(d.Restart)+len(d.Applied) != 0 {
		t.Errorf("a configuration differs from itself: %+v", d)
	}
}

func TestOperators(t *testing.T) {
	c := mustParse(t, "[access]\noperators = \"ann\"")
	for user, want := range map[string]bool{"root": true, "ann": true, "bob": false, "": false} {
		if got := c.Operator(user); got != want {
			t.Errorf("operator %q: %v", user, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("")
	f.Add(full)
	f.Add("a = [[[{b = '''\n'''}]]]\n[[x]]\n[x.y]\n[[x.z]]\nq.\"r.s\" = 1")
	f.Fuzz(func(t *testing.T, text string) {
		c, _, err := Parse("f", text)
		if err != nil {
			if c != nil {
				t.Error("a configuration beside an error")
			}
			return
		}
		again, _, err := Parse("f", string(c.Effective()))
		if err != nil {
			t.Fatalf("what is in force does not load: %v\n%s", err, c.Effective())
		}
		if !reflect.DeepEqual(plainCopy(c), plainCopy(again)) {
			t.Errorf("read back differently:\n%s\n%s", c.Effective(), again.Effective())
		}
	})
}
