package config

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"
)

// HostWarnings says what the file names and this host does not have, or has otherwise:
// operators that are no users, a folder of Slurm's commands that is not there, a state
// folder of others. They are warnings: a directory of users may be out of reach for a
// moment, and who checks a file may do so elsewhere.
func (c *Config) HostWarnings() []string {
	d := c.document()
	var out []string
	warn := func(key, format string, args ...any) {
		e := Error{File: d.file, Line: d.line(key), Msg: fmt.Sprintf(format, args...)}
		out = append(out, e.Error())
	}
	for _, name := range c.Access.Operators {
		var unknown user.UnknownUserError
		if _, err := user.Lookup(name); errors.As(err, &unknown) && !isPattern(name) {
			warn("access.operators", "access.operators: there is no user %q on this host", name)
		}
	}
	if bin := c.Slurm.Bin; bin != "" {
		if _, err := os.Stat(bin); err != nil {
			warn("slurm.bin", "slurm.bin: %v", err)
		}
	}
	if err := TrustedFolder(c.Node.StateDir); err != nil {
		warn("node.state_dir", "node.state_dir: %v", err)
	}
	return out
}

// isPattern tells a shell pattern from a plain name.
func isPattern(s string) bool { return strings.ContainsAny(s, `*?[\`) }
