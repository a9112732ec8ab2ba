package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// site is a configuration whose folder of policies holds the given files.
func site(t *testing.T, text string, files map[string]string) *Config {
	t.Helper()
	c := mustParse(t, text)
	c.Policy.Dir = t.TempDir()
	for name, body := range files {
		if err := os.WriteFile(filepath.Join(c.Policy.Dir, name), []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

var shipped = os.DirFS("../../policies")

func TestShippedPoliciesAreFoundAndCompiled(t *testing.T) {
	c := site(t, "[policy]\ndefault = \"together\"\n[policy.gpu]\nGPU-5f000000-1234-5678-9abc-def012345678 = \"priority\"", nil)
	sources, err := c.LoadPolicies(shipped)
	if err != nil {
		t.Fatal(err)
	}
	set, notes, err := c.Compile(sources)
	if err != nil || len(notes) > 0 {
		t.Fatalf("notes %q, error %v", notes, err)
	}
	if set.Default.Name != "together" || set.For("GPU-5f000000-1234-5678-9abc-def012345678").Name != "priority" || set.For("GPU-x").Name != "together" {
		t.Errorf("policies %+v", set)
	}
}

func TestSitePoliciesReplaceShippedOnes(t *testing.T) {
	mine := "name = \"timeslice\"\nobjective = \"mine\"\n"
	c := site(t, "", map[string]string{"timeslice.toml": mine, "README": "no policy", ".hidden.toml": "no policy either"})
	sources, err := c.LoadPolicies(shipped)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sources {
		if s.Name == "timeslice" && (s.Text != mine || !strings.HasPrefix(s.File, c.Policy.Dir)) {
			t.Errorf("timeslice comes from %s", s.File)
		}
		if s.Name == "README" || s.Name == ".hidden" {
			t.Errorf("%s was taken for a policy", s.File)
		}
	}
}

func TestPolicyMistakes(t *testing.T) {
	for name, tc := range map[string]struct {
		config string
		files  map[string]string
		want   string
	}{
		"no such policy":    {"[policy]\ndefault = \"timeslize\"", nil, `gimbald.toml:2: there is no policy "timeslize"; did you mean "timeslice"?`},
		"not to ask for":    {"[policy]\nallow = [\"tim*\", \"tmeslice\"]", nil, `gimbald.toml:2: there is no policy "tmeslice"; did you mean "timeslice"?`},
		"none for a GPU":    {"[policy.gpu]\nGPU-5f000000-1234-5678-9abc-def012345678 = \"prio\"", nil, `gimbald.toml:2: there is no policy "prio"; did you mean "priority"?`},
		"broken, not used":  {"", map[string]string{"mine.toml": "name = \"mine\"\n[share]\nqantum = \"3s\"\n"}, `mine.toml:3`},
		"name and file":     {"", map[string]string{"mine.toml": "name = \"yours\"\n"}, `the policy is called "yours" and its file mine.toml`},
		"anybody may write": {"", map[string]string{"open.toml": "name = \"open\"\n"}, `may be written by others`},
	} {
		t.Run(name, func(t *testing.T) {
			c := site(t, tc.config, tc.files)
			if err := os.Chmod(filepath.Join(c.Policy.Dir, "open.toml"), 0o666); err != nil && tc.files["open.toml"] != "" {
				t.Fatal(err)
			}
			sources, err := c.LoadPolicies(shipped)
			if err == nil {
				_, _, err = c.Compile(sources)
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestTheNodesMaxPauseBindsEveryPolicy(t *testing.T) {
	files := map[string]string{
		"long.toml":    "name = \"long\"\n[limits]\nmax_pause = \"90s\"\n",
		"endless.toml": "name = \"endless\"\n[limits]\nmax_pause = \"0s\"\n",
		"short.toml":   "name = \"short\"\n[limits]\nmax_pause = \"5s\"\n",
	}
	for name, want := range map[string]time.Duration{"long": 20 * time.Second, "endless": 20 * time.Second, "short": 5 * time.Second} {
		c := site(t, "[limits]\nmax_pause = \"20s\"\n[policy]\ndefault = \""+name+"\"", files)
		sources, err := c.LoadPolicies(fstest.MapFS{})
		if err != nil {
			t.Fatal(err)
		}
		set, notes, err := c.Compile(sources)
		if err != nil {
			t.Fatal(err)
		}
		if got := set.Default.Limits.MaxPause; got != want {
			t.Errorf("%s: max_pause %s, want %s", name, got, want)
		}
		if len(notes) > 1 || (len(notes) == 1) != (name != "short") {
			t.Errorf("%s: notes %q", name, notes)
		}
	}
}

func TestChangedPoliciesShowInDiff(t *testing.T) {
	a := site(t, "", nil)
	b := mustParse(t, "")
	b.Policy.Dir = a.Policy.Dir
	for _, c := range []*Config{a, b} {
		if _, err := c.LoadPolicies(shipped); err != nil {
			t.Fatal(err)
		}
	}
	if d := Diff(a, b); len(d.Applied)+len(d.Restart) > 0 {
		t.Errorf("nothing changed, but %+v", d)
	}
	if err := os.WriteFile(filepath.Join(b.Policy.Dir, "new.toml"), []byte("name = \"new\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := b.LoadPolicies(shipped); err != nil {
		t.Fatal(err)
	}
	if d := Diff(a, b); len(d.Applied) != 1 || d.Applied[0] != "policies" {
		t.Errorf("%+v", d)
	}
}
