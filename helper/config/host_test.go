package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHostWarnings(t *testing.T) {
	text := "[node]\nstate_dir = \"/dev/null\"\n[slurm]\nbin = \"/nonexistent\"\n[access]\noperators = [\"root\", \"op*\", \"no-such-user\"]"
	want := []string{
		`gimbald.toml:6: access.operators: there is no user "no-such-user" on this host`,
		"gimbald.toml:4: slurm.bin: stat /nonexistent: no such file or directory",
		"gimbald.toml:2: node.state_dir: /dev/null is not a folder",
	}
	if d := cmp.Diff(want, mustParse(t, text).HostWarnings()); d != "" {
		t.Error(d)
	}
	if got := Default().HostWarnings(); len(got) > 0 {
		t.Errorf("the defaults: %q", got)
	}
}
