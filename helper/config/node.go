package config

import (
	"fmt"
	"regexp"
	"strings"
)

// perNode stands in a path for Slurm's name of the node, as in slurm.conf.
const perNode = "%n"

// nodeName is the form of a node's name: what may stand in a path.
var nodeName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,254}$`)

// NodePath puts Slurm's name of the node for each %n of a path. A name that
// cannot be one leaves the path as it is.
func NodePath(path, node string) string {
	if !nodeName.MatchString(node) {
		return path
	}
	return strings.ReplaceAll(path, perNode, node)
}

// PerNode tells whether a path depends on the node's name.
func PerNode(path string) bool { return strings.Contains(path, perNode) }

// CheckNode refuses what cannot be a node's name.
func CheckNode(name string) error {
	if !nodeName.MatchString(name) {
		return fmt.Errorf("%q is not a node's name", name)
	}
	return nil
}

// own are the paths that belong to one daemon alone.
func (c *Config) own() []*string {
	return []*string{&c.Socket.Path, &c.Node.StateDir, &c.Node.PendingDir, &c.Metrics.Textfile}
}

// PerNode tells whether a path of this daemon depends on the node's name, so
// that several daemons can share a host and a configuration.
func (c *Config) PerNode() bool {
	for _, p := range c.own() {
		if PerNode(*p) {
			return true
		}
	}
	return false
}

// AtNode puts the node's name into the paths that have %n.
func (c *Config) AtNode(node string) error {
	if err := CheckNode(node); err != nil {
		return fmt.Errorf("%w: it cannot stand for %s in a path", err, perNode)
	}
	for _, p := range c.own() {
		*p = NodePath(*p, node)
	}
	if len(c.Socket.Path) > maxSocket {
		return fmt.Errorf("socket.path: %s is longer than a unix socket's path may be (%d)", c.Socket.Path, maxSocket)
	}
	return nil
}
