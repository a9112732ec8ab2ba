package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gimbal-hpc/gimbal/helper/config"
)

func TestNameThatSlurmDoesNotKnow(t *testing.T) {
	const knows = `#!/bin/sh
case "$*" in
*aliases*) echo gpu01 gpu02 ;;
*gpu01) echo NodeName=gpu01 ;;
*) echo "Node gpu1 not found"; exit 1 ;;
esac
`
	for _, c := range []struct{ what, scontrol, name, want string }{
		{"known", knows, "gpu01", ""},
		{"not known", knows, "gpu1", "Slurm has no node called gpu1, on this host gpu01, gpu02: give gimbald Slurm's name of this node"},
		{"none here", "#!/bin/sh\n[ $2 = aliases ] || { echo Node gpu1 not found; exit 1; }\n", "gpu1", "called gpu1, on this host none: give"},
		{"not told", "#!/bin/sh\necho Node gpu1 not found; exit 1\n", "gpu1", "called gpu1: give"},
		{"no Slurm", "", "gpu1", ""},
	} {
		cfg := config.Default()
		cfg.Slurm.Bin = t.TempDir()
		if c.scontrol != "" {
			if err := os.WriteFile(filepath.Join(cfg.Slurm.Bin, "scontrol"), []byte(c.scontrol), 0o700); err != nil {
				t.Fatal(err)
			}
		} else {
			t.Setenv("PATH", cfg.Slurm.Bin)
			cfg.Slurm.Bin = ""
		}
		l, log, _ := testLog(t)
		d := &daemon{log: l, name: c.name, slurm: newSlurm(cfg)}
		d.checkName(t.Context())
		if got := log.String(); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: logged %q, want %q", c.what, got, c.want)
		}
	}
}
