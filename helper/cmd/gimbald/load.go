package main

import (
	"fmt"
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
	set, err := policySet(c, sources)
	if err != nil {
		return nil, nil, nil, err
	}
	return c, set, warnings, nil
}

// policySet compiles the policies and gives each GPU its own.
func policySet(c *config.Config, sources []config.Source) (*policy.Set, error) {
	byName := map[string]*policy.Policy{}
	for _, s := range sources {
		p, err := policy.Parse(s.File, []byte(s.Text))
		if err != nil {
			return nil, err
		}
		if p.Name != s.Name {
			return nil, fmt.Errorf("%s: name is %q, but the file is called %s.toml", s.File, p.Name, s.Name)
		}
		byName[s.Name] = p
	}
	set := &policy.Set{Default: byName[c.Policy.Default], ByGPU: map[string]*policy.Policy{}}
	for gpu, name := range c.Policy.PerGPU {
		set.ByGPU[strings.TrimSpace(gpu)] = byName[name]
	}
	return set, nil
}
