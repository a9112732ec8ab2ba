package config

import "testing"

// A user's own daemon that reads the site's file does nothing in the site's
// name.
func TestPrivateDaemonTellsNobody(t *testing.T) {
	c := mustParse(t, "[slurm]\nadmin_comment = true\n[metrics]\nlisten = \"127.0.0.1:9911\"\n")
	c.MakePrivate("/run/user/1001/gimbal/gimbald.sock", "n0")
	if c.Metrics.Textfile != "" || c.Metrics.Listen != "" || c.Slurm.AdminComment {
		t.Errorf("metrics go to %q and %q, admin_comment is %v", c.Metrics.Textfile, c.Metrics.Listen, c.Slurm.AdminComment)
	}
}
