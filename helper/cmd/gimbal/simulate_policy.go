package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gimbal-hpc/gimbal/helper/cmd/help"
	"github.com/gimbal-hpc/gimbal/helper/policy"
	"github.com/gimbal-hpc/gimbal/helper/sim"
	"github.com/gimbal-hpc/gimbal/helper/sim/baseline"
	"github.com/gimbal-hpc/gimbal/helper/sim/node"
	"github.com/gimbal-hpc/gimbal/helper/sim/study"
	"github.com/gimbal-hpc/gimbal/policies"
)

// shippedNames is the names of the policies that come with Gimbal, sorted.
func shippedNames() []string {
	var names []string
	for n := range policies.Shipped() {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// policyNames is every name that --policy knows.
func policyNames() []string { return append(baseline.Names(), shippedNames()...) }

// choosePolicies finds the policies that the command line names.
func (s *simulation) choosePolicies() error {
	if slices.Contains(s.policies, "all") {
		s.policies = policyNames()
	}
	for _, name := range s.policies {
		p, err := s.findPolicy(name)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(s.compared, func(o study.Policy) bool { return o.Name == p.Name }) {
			return fmt.Errorf("policy %s is named twice", p.Name)
		}
		s.compared = append(s.compared, p)
	}
	return nil
}

// noPolicy says that a name is no policy's, and which may have been meant: a file's
// too, whose ending was left out.
func noPolicy(name string) error {
	if name == "" {
		return errors.New("--policy: a name between two commas, or behind the last, is missing")
	}
	meant := strings.TrimSuffix(help.Meant(name, policyNames()), "?")
	if _, err := os.Stat(name + ".toml"); err == nil {
		meant = fmt.Sprintf(", did you mean %q", name+".toml")
	}
	return fmt.Errorf("there is no policy %q%s; there are %s, and files (*.toml)", name, meant, strings.Join(policyNames(), ", "))
}

// findPolicy is a policy by the name of a baseline or a shipped policy, or by
// its file.
func (s *simulation) findPolicy(name string) (study.Policy, error) {
	if slices.Contains(baseline.Names(), name) {
		s.journals.without(name)
		return study.Policy{Name: name, New: func() sim.Scheduler {
			made, _ := baseline.New(name) // it is there
			return made
		}}, nil
	}
	file, text := name, policies.Shipped()[name]
	switch {
	case text != nil:
		file += ".toml"
	case filepath.Ext(name) == ".toml":
		var err error
		if text, err = os.ReadFile(name); err != nil {
			return study.Policy{}, fmt.Errorf("reading a policy: %w", err)
		}
	default:
		return study.Policy{}, noPolicy(name)
	}
	p, err := policy.Parse(file, text)
	if err != nil {
		return study.Policy{}, err
	}
	memory, err := parseMiB(s.gpuMemory)
	if err != nil {
		return study.Policy{}, err
	}
	o := node.Options{Slots: s.shards, GPUMemory: memory, Journal: s.journals.of(p.Name)}
	return study.Policy{Name: p.Name, New: func() sim.Scheduler { return node.New(p, o) }}, nil
}
