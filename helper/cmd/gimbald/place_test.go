package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/config"
	"github.com/gimbal-hpc/gimbal/helper/model"
)

func numberedGPUs(n int) []model.GPU {
	var out []model.GPU
	for i := range n {
		out = append(out, model.GPU{UUID: fmt.Sprintf("GPU-%d000", i), Index: i, Minor: i})
	}
	return out
}

// TestMovable: who keeps the GPUs that Slurm gave.
func TestMovable(t *testing.T) {
	given := func(change func(*model.Registration)) model.Registration {
		r := model.Registration{JobID: 7, Shards: 4, GPUs: []string{"1"}, Visible: "1"}
		change(&r)
		return r
	}
	mig := numberedGPUs(2)
	mig[0].MIG = true
	for _, c := range []struct {
		name  string
		r     model.Registration
		known []model.GPU
		want  bool
	}{
		{"shards", given(func(*model.Registration) {}), numberedGPUs(2), true},
		{"shards, told by UUID", given(func(r *model.Registration) { r.Visible = "GPU-1000" }), numberedGPUs(2), true},
		{"a whole GPU", given(func(r *model.Registration) { r.Shards = 0 }), numberedGPUs(2), false},
		{"several nodes", given(func(r *model.Registration) { r.NNodes = 2 }), numberedGPUs(2), false},
		{"numbered anew: it is kept to its own", given(func(r *model.Registration) { r.Visible = "0" }), numberedGPUs(2), false},
		{"fewer than Slurm gave", given(func(r *model.Registration) { r.GPUs, r.Visible = []string{"0", "1"}, "1" }), numberedGPUs(2), false},
		{"no GPU to be seen", given(func(r *model.Registration) { r.Visible = "NoDevFiles" }), numberedGPUs(2), false},
		{"nothing told", given(func(r *model.Registration) { r.Visible = "" }), numberedGPUs(2), false},
		{"no GPU", given(func(r *model.Registration) { r.GPUs = nil }), numberedGPUs(2), false},
		{"a partitioned GPU", given(func(*model.Registration) {}), mig, false},
		{"no driver", given(func(*model.Registration) {}), nil, false},
	} {
		if got := movable(c.r, []string{"GPU-1000"}, c.known); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestVisible: GPUs are named as Slurm names them, as far as everybody counts alike.
func TestVisible(t *testing.T) {
	odd := numberedGPUs(2)
	odd[0].Minor, odd[1].Minor = 1, 0
	for _, c := range []struct {
		slurm string
		gpus  []string
		known []model.GPU
		want  string
	}{
		{"0", []string{"GPU-1000"}, numberedGPUs(2), "1"},
		{"0,1", []string{"GPU-1000", "GPU-2000"}, numberedGPUs(3), "1,2"},
		{"GPU-0000", []string{"GPU-1000"}, numberedGPUs(2), "GPU-1000"},
		{"0", []string{"GPU-1000"}, odd, "GPU-1000"},
	} {
		if got := visible(c.slurm, c.gpus, c.known); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// TestSeat: a step that has a part of its job's GPUs keeps its part.
func TestSeat(t *testing.T) {
	s := seat{slurm: []string{"a", "b"}, gpus: []string{"c", "a"}}
	for _, c := range [][2][]string{{{"a", "b"}, {"c", "a"}}, {{"b"}, {"a"}}, {{"c"}, nil}} {
		if got := s.of(c[0]); !slices.Equal(got, c[1]) {
			t.Errorf("%q: %q, want %q", c[0], got, c[1])
		}
	}
	if got := (&seat{slurm: []string{"a"}}).of([]string{"a"}); got != nil {
		t.Errorf("Slurm's choice is changed to %q", got)
	}
}

// TestShardsThatAreLeft: those of a job count once, however many tenants it has.
func TestShardsThatAreLeft(t *testing.T) {
	known := numberedGPUs(3)
	tenant := func(job, shards uint32, gpus ...int) *model.Tenant {
		o := &model.Tenant{Reg: model.Registration{JobID: job, Shards: shards}}
		for _, g := range gpus {
			o.GPUs = append(o.GPUs, known[g].UUID)
		}
		return o
	}
	n := model.NewNode()
	n.Tenants = []*model.Tenant{tenant(1, 3, 0), tenant(1, 3, 0), tenant(1, 4, 0), tenant(2, 6, 1, 2), tenant(3, 0, 2)}
	for most, want := range map[int]string{2: "", 3: "1", 4: "0,1,2", -1: ""} {
		var got []string
		for _, uuid := range withShards(n, known, most) {
			got = append(got, string(uuid[len("GPU-")]))
		}
		if strings.Join(got, ",") != want {
			t.Errorf("at most %d: %q, want %q", most, got, want)
		}
	}
}

// TestComing: who was placed counts until it is registered, for a while.
func TestComing(t *testing.T) {
	now := time.Now()
	p := &placer{seats: map[uint32]*seat{}}
	for job, at := range map[uint32]time.Time{1: now, 2: now.Add(-time.Minute), 3: now, 5: now.Add(-time.Hour)} {
		p.keep(job, &seat{uid: 9, at: at, gpus: []string{"a"}, why: "fits", tenant: &model.Tenant{Reg: model.Registration{JobID: job}}})
	}
	p.keep(4, &seat{uid: 9, at: now}) // Slurm's choice
	got := p.coming([]*model.Tenant{{Reg: model.Registration{JobID: 3}}})
	if len(got) != 1 || got[0].Reg.JobID != 1 {
		t.Errorf("%v", got)
	}
	if len(p.seats) != 4 {
		t.Errorf("%d jobs are kept", len(p.seats))
	}
	for _, c := range []struct {
		r    model.Registration
		want string
	}{
		{model.Registration{JobID: 1, UID: 9, Placed: "1"}, "fits"},
		{model.Registration{JobID: 1, UID: 9}, ""},
		{model.Registration{JobID: 1, UID: 8, Placed: "1"}, "its GPU when the job was launched, under an earlier gimbald"},
		{model.Registration{JobID: 77, Placed: "1"}, "its GPU when the job was launched, under an earlier gimbald"},
	} {
		var terms model.Terms
		if p.say(c.r, &terms); terms.Placed != c.want {
			t.Errorf("%+v: %q", c.r, terms.Placed)
		}
	}
}

// TestSite: what of Slurm's answers leaves the choice to Slurm. An answer is good
// for a while, and a Slurm that hangs is waited for but shortly.
func TestSite(t *testing.T) {
	const free = "NodeName=n0 Gres=gpu:2,shard:8 GresUsed=gpu:0 \n"
	for name, c := range map[string]struct{ config, node, want string }{
		"may choose":    {"TaskPlugin = task/cgroup\nConstrainDevices = no\n", free, ""},
		"confined":      {"TaskPlugin = task/cgroup\nConstrainDevices = yes\n", free, "ConstrainDevices"},
		"a whole GPU":   {"TaskPlugin = task/none\n", "NodeName=n0 Gres=gpu:2,shard:8 GresUsed=gpu:1 \n", "whole GPU"},
		"another count": {"TaskPlugin = task/none\n", "NodeName=n0 Gres=gpu:4,shard:8 GresUsed=gpu:0 \n", "the driver shows 2 GPUs, Slurm knows 4"},
		"no shards":     {"TaskPlugin = task/none\n", "NodeName=n0 Gres=gpu:2 GresUsed=gpu:0 \n", "shards"},
		"no answer":     {"", "", "TaskPlugin"},
	} {
		t.Run(name, func(t *testing.T) {
			bin := t.TempDir()
			write := func(file, text string) {
				t.Helper()
				if err := os.WriteFile(filepath.Join(bin, file), []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			write("config", c.config)
			write("node", c.node)
			write("scontrol", "#!/bin/sh\ncd \"$(dirname \"$0\")\"; case \"$*\" in *config*) exec cat config ;; *) exec cat node ;; esac\n")
			cfg := config.Default()
			cfg.Slurm.Bin = bin
			w := newSiteWatch(cfg)
			defer w.close()
			look := func() string {
				if _, err := w.look("n0", numberedGPUs(2)); err != nil {
					return err.Error()
				}
				return ""
			}
			<-w.refresh("n0") // the machine may be busy: 200 ms can be too short
			got := look()
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Fatalf("%q, want %q", got, c.want)
			}
			write("scontrol", "#!/bin/sh\nexec sleep 60\n")
			if again := look(); again != got {
				t.Errorf("asked again at once: %q", again)
			}
			w.at = time.Now().Add(-10 * time.Second) // to be asked again
			if late := look(); late != got {
				t.Errorf("while it is asked: %q", late)
			}
			w.at = time.Now().Add(-time.Hour)
			if hangs := look(); !strings.Contains(hangs, "within 200ms Slurm did not tell") {
				t.Errorf("%q", hangs)
			}
		})
	}
}
