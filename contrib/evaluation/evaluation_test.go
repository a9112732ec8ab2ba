package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
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

// committed is what results.json holds.
func committed(t *testing.T) (r results) {
	t.Helper()
	text, err := os.ReadFile("results.json")
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestResultsAreWritten: what is committed comes of results.json, and needs
// nothing else.
func TestResultsAreWritten(t *testing.T) {
	r := committed(t)
	if len(r.Scenarios) != len(scenarios()) {
		t.Errorf("%d scenarios, want %d", len(r.Scenarios), len(scenarios()))
	}
	dir := t.TempDir()
	if err := r.write(dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"results.json", "RESULTS.md", "RESULTS.html"} {
		want, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if is, err := os.ReadFile(name); err != nil || !bytes.Equal(is, want) {
			t.Errorf("%s is not what results.json makes of it (%v): run scripts/evaluate", name, err)
		}
		if m := regexp.MustCompile(`<script|src=|url\(|@import|https?://|NaN|Inf`).Find(want); m != nil {
			t.Errorf("%s holds %q", name, m)
		}
	}
}

// TestNobodyPassesABound holds the results against the bounds: none is better than what
// is said to be the best possible. antman has a model of sharing of its own, in which
// guaranteed jobs are never slowed down.
func TestNobodyPassesABound(t *testing.T) {
	r := committed(t)
	for _, f := range r.Scenarios {
		for _, e := range f.Policies {
			limit := atBound(f.Bounds.Any)
			if e.Kind == "ours" || e.Kind == "same placement" {
				limit = atBound(f.Bounds.Slurm)
			}
			for i := range objectives {
				if o := &objectives[i]; o.gain(&e, limit) > 1+1e-6 && e.Policy != "antman" {
					t.Errorf("%s: %s has %v, of which the bound is %v: %s", f.Name, o.name, o.of(&e), o.of(limit), e.Policy)
				}
			}
		}
	}
}

// TestOneScenarioAgain: the results of the others stay, unless they were made
// with other options.
func TestOneScenarioAgain(t *testing.T) {
	dir := t.TempDir()
	r := &results{Jobs: 100, Turns: 10, Shards: 4}
	for _, name := range []string{"testbed400", "trace1"} {
		r.put(finding{scenario: scenario{Name: name}, Jobs: 1})
	}
	if r.Scenarios[0].Name != "trace1" {
		t.Error("scenarios do not stand in their order")
	}
	if err := r.write(dir); err != nil {
		t.Fatal(err)
	}
	o := options{out: dir, only: "trace1", jobs: 100, turns: 10, shards: 4}
	again, err := o.before()
	if err != nil {
		t.Fatal(err)
	}
	again.put(finding{scenario: scenario{Name: "trace1"}, Jobs: 2})
	if len(again.Scenarios) != 2 || again.Scenarios[0].Jobs != 2 || again.Scenarios[1].Jobs != 1 {
		t.Errorf("%+v", again.Scenarios)
	}
	one := finding{scenario: scenario{Name: "trace1"}, Policies: []entry{{Policy: "b", Kind: "ours"}}}
	again.Scenarios[0].Policies = []entry{{Policy: "b", Kind: "old"}, {Policy: "a", Kind: "ours"}}
	one.keep(again)
	if len(one.Policies) != 2 || one.Policies[0].Policy != "a" || one.Policies[1].Kind != "ours" {
		t.Errorf("one policy again, and the other stays: %+v", one.Policies)
	}
	o.jobs = 200
	if _, err := o.before(); err == nil || !strings.Contains(err.Error(), "--jobs 100") {
		t.Errorf("results of other options are added to: %v", err)
	}
	o.only = ""
	if all, err := o.before(); err != nil || len(all.Scenarios) != 0 {
		t.Errorf("all anew begins with %v, %v", all, err)
	}
}
