package main

import (
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
	return c, set, append(warnings, notes...), nil
}
