package main

import (
	"strings"

	"github.com/gimbal-hpc/gimbal/helper/config"
	"github.com/gimbal-hpc/gimbal/helper/policy"
	"github.com/gimbal-hpc/gimbal/policies"
)

// load reads the configuration and every policy that it offers. All of it is
// right, or none of it is used.
func load(path string) (*config.Config, *policy.Set, []string, error) {
	c, warnings, err := config.Load(path)
	if err != nil {
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
