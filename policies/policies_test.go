package policies_test

import (
	"testing"

	"github.com/gimbal-hpc/gimbal/helper/policy"
	"github.com/gimbal-hpc/gimbal/policies"
)

func TestShippedPoliciesLoad(t *testing.T) {
	shipped := policies.Shipped()
	for _, name := range []string{"timeslice", "together", "priority"} {
		if shipped[name] == nil {
			t.Errorf("%s is not shipped", name)
		}
	}
	for name, text := range shipped {
		p, err := policy.Parse(name+".toml", text)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		if p.Name != name {
			t.Errorf("%s.toml is called %q", name, p.Name)
		}
		if p.Objective == "" || p.Origin == "" || p.Caveat == "" {
			t.Errorf("%s.toml: objective, origin and caveat are wanted", name)
		}
	}
}
