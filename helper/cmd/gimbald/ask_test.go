package main

import (
	"strings"
	"testing"

	"github.com/gimbal-hpc/gimbal/helper/config"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/policy"
)

func TestAPolicyThatNobodyWrote(t *testing.T) {
	all := map[string]*policy.Policy{"timeslice": {}, "together": {}}
	for asked, want := range map[string]string{
		"":          "",
		"together":  "",
		"timslice":  `there is no policy "timslice" (did you mean "timeslice"?); the GPU's own policy rules`,
		"zzzzzzzzz": `there is no policy "zzzzzzzzz"; the GPU's own policy rules`,
	} {
		terms := model.Terms{Policy: asked}
		askExisting(&terms, all)
		if got := strings.Join(terms.Notes, "; "); got != want || (want != "") != (terms.Policy != asked) {
			t.Errorf("%q: policy %q, notes %q, want %q", asked, terms.Policy, got, want)
		}
	}
}

func TestWhyAnotherPolicyRules(t *testing.T) {
	for _, c := range []struct{ asked, now, want string }{
		{"", "timeslice", ""},
		{"fair", "fair", ""},
		{"fair", "", ""}, // no GPU, no policy
		{"fair", "timeslice", "asked for policy fair; not all of its mates did, so timeslice rules"},
	} {
		v := model.View{PolicyNow: c.now}
		v.Terms.Policy = c.asked
		if got := outvoted(&v); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// TestGrantOfARun: the log and the notes name a command as status does.
func TestGrantOfARun(t *testing.T) {
	run := model.Registration{JobID: model.RunJob(7), Options: model.Options{Pack: "swop", Memory: "16"}}
	l, log, _ := testLog(t)
	d := &daemon{log: l, cfg: config.Default(), policies: &policy.Set{ByName: map[string]*policy.Policy{"swap": {}}}}
	terms := d.terms(run)
	if said := strings.Join(terms.Notes, "; "); terms.Policy != "" || !strings.Contains(said, `did you mean "swap"?`) {
		t.Errorf("%+v", terms)
	}
	if !strings.Contains(log.String(), "job r7: option --gimbal-memory") {
		t.Errorf("logged %q", log)
	}
}

func TestListGPUs(t *testing.T) {
	if got := listGPUs([]model.GPU{{UUID: "GPU-a", Minor: 1}, {UUID: "MIG-b", Minor: -1}}); got != "1 (GPU-a), MIG-b" {
		t.Error(got)
	}
}
