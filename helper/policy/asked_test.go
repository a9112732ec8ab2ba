package policy

import (
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// TestAskedPolicyRulesWhereAllAsk: a job's request is one among its mates'.
func TestAskedPolicyRulesWhereAllAsk(t *testing.T) {
	plain, other := parseNamed(t, "plain"), parseNamed(t, "other")
	d := NewDecider(&Set{Default: plain, ByName: map[string]*Policy{"plain": plain, "other": other}}, Options{})
	for _, c := range []struct {
		asks []string
		want string
	}{
		{nil, "plain"},
		{[]string{""}, "plain"},
		{[]string{"other"}, "other"},
		{[]string{"other", "other"}, "other"},
		{[]string{"other", ""}, "plain"},
		{[]string{"other", "plain"}, "plain"},
		{[]string{"unheard-of"}, "plain"},
	} {
		n := model.NewNode()
		n.Look(model.Sample{GPUs: &model.GPUReport{GPUs: []model.GPU{{UUID: "G"}}}}, 0)
		for i, ask := range c.asks {
			_, err := n.Apply(model.Event{Kind: model.EvRegistered, Tenant: model.TenantID(rune('a' + i)),
				Reg:   &model.Registration{Proc: model.ProcID{PID: 10 + i, Start: 1}},
				Grant: &model.Grant{Terms: model.Terms{Policy: ask, Weight: 1}, GPUs: []string{"G"}}}, 0)
			if err != nil {
				t.Fatal(err)
			}
		}
		d.Decide(n, time.Second)
		if got := d.Ruling("G").Name; got != c.want {
			t.Errorf("mates ask for %q: %s rules, want %s", c.asks, got, c.want)
		}
	}
}

func parseNamed(t *testing.T, name string) *Policy {
	t.Helper()
	p, err := Parse(name+".toml", []byte("name = \""+name+"\"\nobjective = \"for a test\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	return p
}
