package main

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// toldName is this node's name as it was told, "" where it was not.
func (d *doctor) toldName() string {
	return cmp.Or(d.node, d.cfg.Node.Name, d.w.env("SLURMD_NODENAME"))
}

// nodeNames are the names by which slurm.conf may know this host, the surest
// first.
func (d *doctor) nodeNames() []string {
	if n := d.toldName(); n != "" {
		return []string{n}
	}
	return hostNames()
}

// hostNames are the host's own names.
func hostNames() []string {
	host, err := os.Hostname()
	if err != nil {
		return nil
	}
	short, _, _ := strings.Cut(host, ".")
	return []string{short, host}
}

// nameInConf is this node's name in slurm.conf, "" where that is not to be read
// or has none.
func (d *doctor) nameInConf() string {
	dir := d.slurmDir()
	if dir == "" {
		return ""
	}
	lines, err := d.readConf(filepath.Join(dir, "slurm.conf"), 0)
	if err != nil {
		return "" // readSlurm tells
	}
	c := slurmConf{lines: lines, node: map[string]string{}}
	c.findNode(d.nodeNames())
	return c.nodeName
}

// noNode tells that slurm.conf does not have this node.
func (d *doctor) noNode() {
	if d.toldName() == "" {
		d.warn("gres", "Say its name there: --node NAME", "slurm.conf has no node called %s", strings.Join(d.nodeNames(), " or "))
		return
	}
	here := "no node on this host"
	if names := d.conf.nodesOf(hostNames()); len(names) > 0 {
		here = "on this host " + strings.Join(names[:min(len(names), mostNames)], ", ")
	}
	if len(d.conf.lines) == 0 { // slurmctld was asked
		here = "see 'sinfo -N'"
	}
	d.problem("gres", "Give gimbald the name that Slurm has for this node: --node NAME, or node.name",
		"slurm.conf has no node called %s, %s", d.toldName(), here)
}

// mostNames is how many nodes of a host are named.
const mostNames = 8

// nodesOf are the nodes that go by one of the names, or are on a host that does.
func (c *slurmConf) nodesOf(names []string) []string {
	var out []string
	for _, l := range c.lines {
		nodes, hosts := expandNames(l.get("nodename")), expandNames(l.get("nodehostname"))
		for i, n := range nodes {
			host := n
			if len(hosts) > 0 {
				host = hosts[min(i, len(hosts)-1)] // one host may have all of them
			}
			if slices.Contains(names, host) {
				out = append(out, n)
			}
		}
	}
	return out
}

// matchNode tells which node of a line goes by one of the names.
func matchNode(l confLine, names []string) string {
	nodes := expandNames(l.get("nodename"))
	for _, n := range names {
		if slices.Contains(nodes, n) {
			return n
		}
		hosts := expandNames(l.get("nodehostname"))
		if i := slices.Index(hosts, n); i >= 0 && i < len(nodes) {
			return nodes[i]
		}
	}
	return ""
}
