package config

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/tests/draw"
)

const bounds = `
[policy]
allow = ["timeslice", "together", "fair*"]
[memory]
default = "30GiB"
margin = "512MiB"
[[bound]]
group = "staff"
max_weight = 16
[[bound]]
account = "phys-*"
partition = ["debug", "short"]
classes = "opportunistic"
policies = "fair*"
[[bound]]
user = "*"
max_weight = 4
max_memory = "20GiB"
`

func TestGrant(t *testing.T) {
	known := model.Known[model.Bytes]
	for name, tc := range map[string]struct {
		config string
		reg    model.Registration
		groups []string
		want   model.Terms
		bad    bool
	}{
		"nothing asked, no rules": {
			want: model.Terms{Class: model.Guaranteed, Weight: 1},
		},
		"all asked, no rules": {
			reg: model.Registration{Options: model.Options{Pack: "together", Memory: "10GiB", Class: "opportunistic",
				Weight: "7", Deadline: "1800000000", Signal: "USR1@60"}},
			want: model.Terms{Policy: "together", Class: model.Opportunistic, Weight: 7, Memory: known(10 * model.GiB),
				Declared: known(10 * model.GiB), Deadline: time.Unix(1800000000, 0), Signal: 10, Ahead: time.Minute},
		},
		"the node's own policy by number": {
			reg:  model.Registration{Options: model.Options{Pack: "1"}},
			want: model.Terms{Class: model.Guaranteed, Weight: 1},
		},
		"everybody's rule": {
			config: bounds,
			reg:    model.Registration{User: "ann", Options: model.Options{Weight: "9", Memory: "25G"}},
			want: model.Terms{Class: model.Guaranteed, Weight: 4, Memory: known(20*model.GiB + 512*model.MiB), Declared: known(25 * model.GiB),
				Notes: []string{"weight lowered from 9 to 4, the most that this job may have",
					"memory lowered from 25GiB to 20GiB, the most that this job may have on a GPU"}},
		},
		"a default is bounded too": {
			config: bounds,
			reg:    model.Registration{User: "ann"},
			want: model.Terms{Class: model.Guaranteed, Weight: 1, Memory: known(20 * model.GiB),
				Notes: []string{"memory lowered from 30GiB to 20GiB, the most that this job may have on a GPU"}},
		},
		"the whole GPU is bounded too": {
			config: "[[bound]]\nmax_memory = \"8GiB\"",
			want: model.Terms{Class: model.Guaranteed, Weight: 1, Memory: known(8 * model.GiB),
				Notes: []string{"memory claim is 8GiB, the most that this job may have on a GPU: it stated none"}},
		},
		"a pause for those who bear less": {
			config: "[[bound]]\npartition = \"ib\"\nmax_pause = \"10s\"\n[[bound]]\nmax_pause = \"40s\"",
			reg:    model.Registration{Partition: "ib"},
			want:   model.Terms{Class: model.Guaranteed, Weight: 1, MaxPause: 10 * time.Second},
		},
		"a job bears less": {
			config: "[[bound]]\npartition = \"ib\"\nmax_pause = \"40s\"",
			reg:    model.Registration{Partition: "ib", Options: model.Options{MaxPause: "30s"}},
			want:   model.Terms{Class: model.Guaranteed, Weight: 1, MaxPause: 30 * time.Second},
		},
		"a job cannot ask for more than its rule": {
			config: "[[bound]]\nmax_pause = \"20s\"",
			reg:    model.Registration{Options: model.Options{MaxPause: "30s"}},
			want: model.Terms{Class: model.Guaranteed, Weight: 1, MaxPause: 20 * time.Second,
				Notes: []string{"longest pause stays 20s: 30s would be more, and a job may only ask for less"}},
		},
		"nor for more than the node's": {
			reg: model.Registration{Options: model.Options{MaxPause: "5m"}},
			want: model.Terms{Class: model.Guaranteed, Weight: 1,
				Notes: []string{"longest pause stays 1m: 5m would be more, and a job may only ask for less"}},
		},
		"nor for less than all jobs": {
			reg: model.Registration{Options: model.Options{MaxPause: "3s"}},
			want: model.Terms{Class: model.Guaranteed, Weight: 1, MaxPause: 10 * time.Second,
				Notes: []string{"longest pause raised from 3s to 10s, the least that a job may ask for"}},
		},
		"what its rule says is less than that": {
			config: "[[bound]]\nmax_pause = \"5s\"",
			reg:    model.Registration{Options: model.Options{MaxPause: "3s"}},
			want: model.Terms{Class: model.Guaranteed, Weight: 1, MaxPause: 5 * time.Second,
				Notes: []string{"longest pause raised from 3s to 5s, the least that a job may ask for"}},
		},
		"the node's own": {
			reg:  model.Registration{Options: model.Options{MaxPause: "60s"}},
			want: model.Terms{Class: model.Guaranteed, Weight: 1},
		},
		"the first rule that states a limit decides": {
			config: bounds,
			reg:    model.Registration{User: "ann", Options: model.Options{Weight: "99", Memory: "1GiB"}},
			groups: []string{"users", "staff"},
			want: model.Terms{Class: model.Guaranteed, Weight: 16, Memory: known(1536 * model.MiB), Declared: known(model.GiB),
				Notes: []string{"weight lowered from 99 to 16, the most that this job may have"}},
		},
		"all conditions of a rule must hold": {
			config: bounds,
			reg: model.Registration{User: "ann", Account: "phys-1", Partition: "long",
				Options: model.Options{Class: "guaranteed", Memory: "1GiB"}},
			want: model.Terms{Class: model.Guaranteed, Weight: 1, Memory: known(1536 * model.MiB), Declared: known(model.GiB)},
		},
		"class and policy": {
			config: bounds,
			reg: model.Registration{User: "ann", Account: "phys-1", Partition: "short",
				Options: model.Options{Class: "guaranteed", Pack: "together", Memory: "1GiB"}},
			want: model.Terms{Class: model.Opportunistic, Weight: 1, Memory: known(1536 * model.MiB), Declared: known(model.GiB),
				Notes: []string{`policy "together" is not offered to this job; the GPU's own policy rules`,
					"class guaranteed is not allowed for this job; it is opportunistic"}},
		},
		"a policy that the admin does not allow": {
			config: bounds,
			reg:    model.Registration{Options: model.Options{Pack: "priority"}},
			want: model.Terms{Class: model.Guaranteed, Weight: 1, Memory: known(30 * model.GiB),
				Notes: []string{`policy "priority" is not offered to this job; the GPU's own policy rules`}},
		},
		"a default class that is not allowed is changed without a word": {
			config: "[[bound]]\nclasses = [\"opportunistic\"]",
			want:   model.Terms{Class: model.Opportunistic, Weight: 1},
		},
		"an unknown user matches no rule by name": {
			config: "[[bound]]\nuser = \"*\"\nmax_weight = 2\n[[bound]]\nmax_weight = 1",
			reg:    model.Registration{Options: model.Options{Weight: "2"}},
			want: model.Terms{Class: model.Guaranteed, Weight: 1,
				Notes: []string{"weight lowered from 2 to 1, the most that this job may have"}},
		},
		"what cannot be read is left out and said": {
			reg: model.Registration{Options: model.Options{Memory: "10", Class: "best", Weight: "0", Deadline: "now", Signal: "KILL", MaxPause: "30"}},
			want: model.Terms{Class: model.Guaranteed, Weight: 1, Notes: []string{
				`--gimbal-class was ignored: "best" is not a class: guaranteed or opportunistic`,
				`--gimbal-weight was ignored: "0" is not a weight: a whole number from 1 to 10000`,
				`--gimbal-memory was ignored: "10" is not a size with a unit such as "16GiB" or "512MiB"`,
				`--gimbal-deadline was ignored: "now" is not a deadline in unix seconds`,
				`--gimbal-signal was ignored: "KILL" is not a signal that a job can catch`,
				`GIMBAL_MAX_PAUSE was ignored: "30" is not a time from 1s to 24h, such as 30s or 1m30s`}},
			bad: true,
		},
		"a deadline that is over": {
			reg:  model.Registration{Launched: 200e9, Options: model.Options{Deadline: "100"}},
			want: model.Terms{Class: model.Guaranteed, Weight: 1, Deadline: time.Unix(100, 0), Notes: []string{"the deadline had passed when the job started"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := mustParse(t, tc.config)
			got, err := c.Grant(tc.reg, tc.groups)
			if (err != nil) != tc.bad {
				t.Errorf("error %v", err)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(model.Reading[model.Bytes]{})); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// Whatever a job asks for, it never gets more than the rule for everybody.
func TestGrantNeverExceedsItsBounds(t *testing.T) {
	c := mustParse(t, "[[bound]]\nmax_pause = \"25s\"\nmax_weight = 3\nmax_memory = \"5GiB\"\nclasses = [\"opportunistic\"]\npolicies = [\"a\"]")
	draw.Check(t, func(rt *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[0-9]{1,20}(\.[0-9]+)?([KMGTPsmhd]i?B?)?`), rapid.SampledFrom([]string{"guaranteed", "a", "b"}))
		terms, _ := c.Grant(model.Registration{
			User: text.Draw(rt, "user"), Account: text.Draw(rt, "account"),
			Options: model.Options{Pack: text.Draw(rt, "pack"), Memory: text.Draw(rt, "memory"), Class: text.Draw(rt, "class"),
				Weight: text.Draw(rt, "weight"), Deadline: text.Draw(rt, "deadline"), Signal: text.Draw(rt, "signal"), MaxPause: text.Draw(rt, "pause")},
		}, []string{text.Draw(rt, "group")})
		m, ok := terms.Memory.Get()
		if !ok || m > 5*model.GiB || m <= 0 || terms.Weight > 3 || terms.Weight <= 0 || terms.Class != model.Opportunistic ||
			terms.MaxPause < c.Limits.LeastMaxPause || terms.MaxPause > 25*time.Second {
			rt.Errorf("granted %+v", terms)
		}
		if terms.Policy != "" && terms.Policy != "a" && terms.Policy != c.Policy.Default {
			rt.Errorf("granted the policy %q", terms.Policy)
		}
	})
}
