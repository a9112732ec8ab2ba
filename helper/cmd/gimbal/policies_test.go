package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gimbal-hpc/gimbal/helper/report"
	"github.com/gimbal-hpc/gimbal/policies"
)

func TestPolicyThatIsCalledOtherwise(t *testing.T) {
	file := filepath.Join(t.TempDir(), "day.toml")
	if err := os.WriteFile(file, []byte("# a comment\nname = \"night\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	code, _, errs := try("policies", "check", file)
	if want := file + `:2:1: the policy is called "night" and its file day.toml`; code != exitFailed || !strings.HasPrefix(errs, want) {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// Whatever is shipped can be explained, and no line is wider than a terminal
// but those of expressions, which are shown as they were written.
func TestEveryShippedPolicyIsExplained(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none.toml")
	for name := range policies.Shipped() {
		code, out, errs := try("policies", "explain", name, "--config", none, "--dir", t.TempDir())
		if code != exitOK || errs != "" || !strings.HasPrefix(out, name+": ") {
			t.Errorf("%s: exit %d: %s", name, code, errs)
		}
		for _, line := range strings.Split(out, "\n") {
			if report.Width(line) > 80 && !strings.HasPrefix(line, "      ") {
				t.Errorf("%s: a line of %d columns: %s", name, report.Width(line), line)
			}
		}
		for _, part := range []string{"Who computes together", "In which order", "\nTurns", "\nLimits", "\nGuards"} {
			if !strings.Contains(out, part) {
				t.Errorf("%s: nothing on %q", name, part)
			}
		}
	}
}

func TestWrap(t *testing.T) {
	for _, c := range []struct{ text, indent, want string }{
		{"a bc d", "", "a bc\nd\n"},
		{"- a bc d", "  ", "- a\n  bc\n  d\n"},
		{"abcdefg h", " ", " abcdefg\n h\n"},
		{"", "", "\n"},
	} {
		if got := wrap(c.text, 4, c.indent); got != c.want {
			t.Errorf("wrap %q: %q, want %q", c.text, got, c.want)
		}
	}
}

func FuzzWrap(f *testing.F) {
	f.Add("- a bc d", 10)
	f.Fuzz(func(t *testing.T, text string, width int) {
		out := wrap(text, width%200, "  ")
		if strings.Join(strings.Fields(out), " ") != strings.Join(strings.Fields(text), " ") {
			t.Errorf("wrap %q: %q", text, out)
		}
	})
}

func TestPoliciesCheckRefusesWhatGimbaldRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "open.toml")
	if err := errors.Join(os.WriteFile(file, []byte("name = 'open'\n"), 0o644), os.Chmod(file, 0o666)); err != nil {
		t.Fatal(err)
	}
	p := policiesCommand{}
	if _, err := p.checkFile(file); err == nil || !strings.Contains(err.Error(), "may be written by others") {
		t.Errorf("got %v", err)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := p.checkFile(file); err != nil {
		t.Error(err)
	}
}

// TestPolicyMeant: what is said of a policy that is not there names the right thing.
func TestPolicyMeant(t *testing.T) {
	dir := t.TempDir()
	site, config := filepath.Join(dir, "site"), filepath.Join(dir, "gimbald.toml")
	if err := os.Mkdir(site, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{config: "[policy]\ndir = \"" + site + "\"\n", site + "/course.toml": "name = \"course\"\n", dir + "/quick.toml": "name = \"quick\"\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	for _, c := range []struct {
		command, operand, want string
	}{
		{"check", "course.toml", "open course.toml: no such file or directory; there is " + site + "/course.toml\n"},
		{"explain", "course.toml", "there is " + site + "/course.toml\n"},
		{"check", "fair.toml", "'gimbal policies show fair' prints the shipped one\n"},
		{"check", "quik.toml", `did you mean "quick.toml"?` + "\n"},
		{"explain", "quik.toml", `did you mean "quick.toml"?` + "\n"},
		{"explain", "cours", `there is no policy "cours", did you mean "course"; there are`},
		{"show", "12_3", `there is no policy "12_3"; of a job tells 'gimbal explain 12_3'` + "\n"},
	} {
		code, out, errs := try("policies", "--config", config, c.command, c.operand)
		if code != exitFailed || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%s %s: exit %d, %q, want %q", c.command, c.operand, code, errs, c.want)
		}
	}
}
