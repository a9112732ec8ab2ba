package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/config"
	"github.com/gimbal-hpc/gimbal/helper/policy"
	"github.com/gimbal-hpc/gimbal/policies"
)

// load reads the configuration and every policy that it offers. All of it is
// right, or none of it is used. node is the node's name, "" where it was not told.
func load(path, node string) (*config.Config, *policy.Set, []string, error) {
	c, warnings, err := config.Load(path)
	if err != nil {
		return nil, nil, nil, err
	}
	if err := atNode(c, node); err != nil {
		return nil, nil, nil, err
	}
	sources, err := c.LoadPolicies(policies.FS())
	if err != nil {
		return nil, nil, nil, err
	}
	set, notes, err := c.Compile(sources)
	if err != nil {
		return nil, nil, nil, err
	}
	return c, set, append(warnings, inForce(c, notes)...), nil
}

// atNode puts the node's name into the paths that have %n. It has to be told:
// what Slurm says depends on whether slurmctld answers, and a daemon that lost
// its state for that would leave jobs stopped.
func atNode(c *config.Config, node string) error {
	if told := cmp.Or(node, c.Node.Name); told != "" {
		if err := config.CheckNode(told); err != nil {
			return err
		}
	}
	if !c.PerNode() {
		return nil
	}
	name := cmp.Or(node, c.Node.Name, os.Getenv("SLURMD_NODENAME"))
	if name == "" {
		return errors.New("a path of the configuration has %n: tell the node's name with --node, or set node.name")
	}
	return c.AtNode(name)
}

// inForce keeps the notes on policies that a GPU has.
func inForce(c *config.Config, notes []string) []string {
	var out []string
	for _, n := range notes {
		name := strings.TrimPrefix(strings.SplitN(n, ":", 2)[0], "policy ")
		used := name == c.Policy.Default
		for _, p := range c.Policy.PerGPU {
			used = used || p == name
		}
		if used {
			out = append(out, n)
		}
	}
	return out
}

// asRoot says of a failure at a folder that is not the user's own, or that only
// root may make, that root is to start the daemon.
func asRoot(err error, uid int, dir string) error {
	var st unix.Stat_t
	if uid == 0 || unix.Stat(dir, &st) == nil && int(st.Uid) == uid {
		return err
	}
	return fmt.Errorf("run as root, not as uid %d: %w", uid, err)
}
