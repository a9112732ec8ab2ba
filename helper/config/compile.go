package config

import (
	"fmt"
	"maps"
	"slices"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/policy"
)

// Compile makes the node's policies of the sources that LoadPolicies found:
// all of them are checked, also those that no GPU has. The node's own limits
// bind each; notes say what a policy that is in use asked for beyond them.
func (c *Config) Compile(sources []Source) (set *policy.Set, notes []string, err error) {
	byName := map[string]*policy.Policy{}
	for _, s := range sources {
		p, err := policy.Parse(s.File, []byte(s.Text))
		if err != nil {
			return nil, nil, fmt.Errorf("policy %s: %w", s.Name, err)
		}
		if p.Name != s.Name {
			return nil, nil, &Error{File: s.File, Msg: fmt.Sprintf("the policy is called %q and its file %s.toml", p.Name, s.Name)}
		}
		if note := c.bind(p); note != "" && c.uses(s.Name) {
			notes = append(notes, note)
		}
		byName[s.Name] = p
	}
	set = &policy.Set{Default: byName[c.Policy.Default], ByGPU: map[string]*policy.Policy{}, ByName: byName}
	for gpu, name := range c.Policy.PerGPU {
		set.ByGPU[gpu] = byName[name]
	}
	return set, notes, nil
}

// uses tells whether a GPU has the policy.
func (c *Config) uses(name string) bool {
	return name == c.Policy.Default || slices.Contains(slices.Collect(maps.Values(c.Policy.PerGPU)), name)
}

// bind lowers a policy's limits to the node's and says so.
func (c *Config) bind(p *policy.Policy) string {
	most := c.Limits.MaxPause
	if asked := p.Limits.MaxPause; asked > 0 && asked <= most {
		return ""
	}
	note := fmt.Sprintf("policy %s: max_pause is %s, as limits.max_pause of the node says, not %s",
		p.Name, FormatDuration(most), FormatDuration(p.Limits.MaxPause))
	if p.Limits.MaxPause == 0 {
		note = fmt.Sprintf("policy %s: max_pause is %s, as limits.max_pause of the node says, not without limit", p.Name, FormatDuration(most))
	}
	p.Limits.MaxPause = most
	p.Limits.Breath = min(p.Limits.Breath, most)
	p.Share.Period = min(p.Share.Period, max(most/2, model.ShortestPeriod))
	return note
}
