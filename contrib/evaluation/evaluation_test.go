package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gimbal-hpc/gimbal/helper/sim"
	"github.com/gimbal-hpc/gimbal/helper/sim/study"
)

func TestGain(t *testing.T) {
	met := func(n int) *entry { return &entry{Summary: sim.Summary{DeadlinesMet: &n}} }
	lower, higher := &objectives[0], &objectives[4]
	fast, slow := &entry{Summary: sim.Summary{AvgJCT: 3600}}, &entry{Summary: sim.Summary{AvgJCT: 7200}}
	if g := lower.gain(fast, slow); g != 2 {
		t.Errorf("half the completion time is a gain of %v, want 2", g)
	}
	if g := higher.gain(met(30), met(40)); g != 0.75 {
		t.Errorf("30 deadlines for 40 are a gain of %v, want 0.75", g)
	}
	if g := higher.gain(met(0), met(0)); g != 1 {
		t.Errorf("nothing on both sides is a gain of %v, want 1", g)
	}
}

func TestComparedIsComplete(t *testing.T) {
	all, kinds, err := new(options).compared()
	if err != nil {
		t.Fatal(err)
	}
	for i := range objectives {
		if kinds[objectives[i].ours] != "ours" {
			t.Errorf("%s: no policy %s is shipped", objectives[i].name, objectives[i].ours)
		}
	}
	for _, name := range packing {
		if kinds[name] != "packing" {
			t.Errorf("baseline %s is of kind %q", name, kinds[name])
		}
		if _, ok := kinds[name+"-slurm"]; !ok && !strings.HasPrefix(name, "muri") {
			t.Errorf("the rule of %s on Slurm's placement is missing", name)
		}
	}
	if !slices.IsSortedFunc(all, func(a, b study.Policy) int { return strings.Compare(kinds[a.Name]+a.Name, kinds[b.Name]+b.Name) }) {
		t.Error("the policies are not in order")
	}
}

func TestLoad(t *testing.T) {
	const data = "../../../shared/data"
	if _, err := os.Stat(data); err != nil {
		t.Skipf("SKIPPED, NOT CHECKED: %v", err)
	}
	for _, s := range scenarios() {
		jobs, _, err := s.load(data, 50)
		if err != nil {
			t.Fatal(err)
		}
		if s.long && len(jobs) != 50 {
			t.Errorf("%s: %d jobs, want 50", s.Name, len(jobs))
		}
		for _, j := range jobs {
			if j.Memory <= 0 {
				t.Errorf("%s: the memory of %q is not known", s.Name, j.Model)
			}
			if d := (j.Deadline - j.Submit) / j.Work(); d < tightest || d > loosest {
				t.Errorf("%s: job %s has its deadline after %.2f durations", s.Name, j.ID, d)
			}
		}
	}
}
