package main

import (
	"strings"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/policy"
)

// ruled is a policy that lets tenants take turns, and spares them after a launch.
func ruled(t *testing.T, name string) *policy.Set {
	t.Helper()
	p, err := policy.Parse(name+".toml", []byte("name = \""+name+"\"\n[share]\ntogether = 1\n[limits]\nmin_run = \"30s\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	return &policy.Set{Default: p}
}

// running is a node with a tenant that computes, launched at zero.
func running() (*model.Node, *model.Tenant) {
	n := model.NewNode()
	n.GPUs = numberedGPUs(1)
	n.GPUs[0].Total, n.GPUs[0].Used, n.GPUs[0].Reserved = model.Known(80*model.GiB), model.Known(model.GiB), model.Known(model.Bytes(0))
	uuid := n.GPUs[0].UUID
	one := &model.Tenant{ID: "1@1", State: model.Running, GPUs: []string{uuid}, Whole: true, HasRun: true, Admitted: true, OnGPU: true,
		Use: map[string]model.Usage{uuid: {Procs: 1, Memory: model.Known(model.GiB)}}}
	one.Reg = model.Registration{JobID: 1, ArrayTask: model.NoVal, HetOffset: model.NoVal}
	one.Terms = model.Terms{Weight: 1, Memory: model.Known(model.GiB)}
	n.Tenants = append(n.Tenants, one)
	return n, one
}

// TestReasonNamesThePolicyInForce: of a tenant that runs on after a reload too.
func TestReasonNamesThePolicyInForce(t *testing.T) {
	n, one := running()
	now := time.Minute
	old := policy.NewDecider(ruled(t, "old"), policy.Options{})
	old.Decide(n, now)
	one.Reason, _ = old.Why(one.ID)
	if !strings.Contains(one.Reason.Text, "(old") {
		t.Fatalf("its reason: %+v", one.Reason)
	}
	d := &daemon{decider: policy.NewDecider(ruled(t, "new"), policy.Options{})}
	d.decider.Decide(n, now)
	v := model.ViewAt(one, time.Now(), now)
	if d.tellWhy(&v); !strings.Contains(v.Reason.Text, "(new") {
		t.Errorf("after a reload: %+v", v.Reason)
	}
	other := model.Reason{Code: "order", Text: "ordered by ann"}
	v.Reason = other
	if d.tellWhy(&v); v.Reason != other {
		t.Errorf("another reason became %+v", v.Reason)
	}
}

// TestPauseOfWhichNothingComes: an order that lapses while its tenant is spared.
func TestPauseOfWhichNothingComes(t *testing.T) {
	n, one := running()
	d := &daemon{decider: policy.NewDecider(ruled(t, "any"), policy.Options{})}
	now := 10 * time.Second // 20 s of the launch are left
	d.decider.Decide(n, now)
	for lapses, want := range map[time.Duration]string{
		0: "goes on for now: not stopped in the first 30s", now + 3*time.Second: "goes on, no pause comes of this order: not stopped in the first 30s",
		now + time.Minute: "goes on for now: not stopped in the first 30s",
	} {
		if got := d.spared(one, lapses); !strings.HasPrefix(got, want) {
			t.Errorf("lapses at %s: %q", lapses, got)
		}
	}
	one.Exempt = "job on 2 nodes"
	d.decider.Decide(n, now)
	if got, want := d.spared(one, 0), "goes on, no pause comes of this order: never stopped: job on 2 nodes"; got != want {
		t.Errorf("one that is never stopped: %q, want %q", got, want)
	}
	one.Exempt = ""
	d.decider.Decide(n, time.Minute)
	if got := d.spared(one, 0); got != "" {
		t.Errorf("after its launch: %q", got)
	}
}
