package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestConfigIsFollowed: every command that takes --config looks for gimbald and its
// journal where that says, with node.name for %n.
func TestConfigIsFollowed(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("SLURMD_NODENAME", "another")
	node := filepath.Join(dir, "n7")
	serve(t, filepath.Join(node, "g.sock"), node, false)
	learnt := `{"schema":1,"jobs":[{"uid":1000,"name":"a2c","seen":100,"sm":0.1}]}`
	config := fmt.Sprintf("[node]\nname = \"n7\"\nstate_dir = \"%[1]s/%%n\"\n[socket]\npath = \"%[1]s/%%n/g.sock\"\n", dir)
	for name, text := range map[string]string{"n7/learnt": learnt, "gimbald.toml": config, "quick.toml": "name = \"quick\"\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file, quick := filepath.Join(dir, "gimbald.toml"), filepath.Join(dir, "quick.toml")
	for _, c := range []struct {
		args []string
		want string // on standard output
	}{
		{[]string{"policies", "try", quick, "--config", file}, "timeslice (in force)"},
		{[]string{"policies", "--config", file, "try", quick}, "timeslice (in force)"},
		{[]string{"policies", "try", quick, "--against", "together", "--config", file}, "1 job of the journal of this node"},
		{[]string{"learnt", "--config", file}, "a2c"},
		{[]string{"doctor", "--config", file}, "gimbald is 1.2.3"},
	} {
		if _, out, errs := try(c.args...); !strings.Contains(out, c.want) {
			t.Errorf("%v: %s%s", c.args, out, errs)
		}
	}
	if code, _, errs := try("policies", "try", quick, "--config", file, "--socket", filepath.Join(dir, "none")); code != exitUnreachable {
		t.Errorf("another socket: exit %d: %s", code, errs)
	}
	for _, c := range commands() {
		_, help, _ := try(c.name, "--help")
		if takes := strings.Contains(help, "--config"); takes != (c.name == "policies" || c.name == "learnt" || c.name == "doctor") {
			t.Errorf("%s takes --config: %v; this test is to know of it", c.name, takes)
		}
	}
}
