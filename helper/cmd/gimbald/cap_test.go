package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gimbal-hpc/gimbal/helper/config"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/mps"
	"github.com/gimbal-hpc/gimbal/helper/policy"
)

func gpusOf(sizes ...model.Bytes) []model.GPU {
	var out []model.GPU
	for _, s := range sizes {
		g := model.GPU{UUID: "GPU", Total: model.Known(s)}
		if s == 0 {
			g.Total = model.Unknown[model.Bytes]()
		}
		out = append(out, g)
	}
	return out
}

func TestCapEnvironment(t *testing.T) {
	const gib = model.GiB
	memory := policy.Capped{Memory: model.Known(10 * gib)}
	for _, c := range []struct {
		name string
		c    policy.Capped
		gpus []model.GPU
		want map[string]string
	}{
		{"nothing", policy.Capped{}, gpusOf(80 * gib), map[string]string{}},
		{"growth", policy.Capped{Growth: true, PyTorch: "expandable_segments:True"}, nil, map[string]string{
			"TF_FORCE_GPU_ALLOW_GROWTH": "true", "XLA_PYTHON_CLIENT_PREALLOCATE": "false", "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}},
		{"a share of the GPU", memory, gpusOf(16 * gib), map[string]string{"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.625"}},
		{"the largest GPU gives the least share", memory, gpusOf(16*gib, 80*gib), map[string]string{"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.125"}},
		{"rounded down", policy.Capped{Memory: model.Known(gib)}, gpusOf(3 * gib), map[string]string{"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.333"}},
		{"more than there is", memory, gpusOf(8 * gib), map[string]string{}},
		{"unknown size", memory, gpusOf(0), map[string]string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(c.want, frameworkEnv(c.c, c.gpus)); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
		})
	}
	all := policy.Capped{SM: model.Known(0.404), Priority: model.Known(1), Memory: model.Known(3*gib/2 + 5)}
	want := map[string]string{"CUDA_MPS_PIPE_DIRECTORY": "/run/mps", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "40",
		"CUDA_MPS_CLIENT_PRIORITY": "1", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=1536M,1=1536M"}
	if d := cmp.Diff(want, mpsEnv(all, 2, "/run/mps")); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if got := mpsEnv(policy.Capped{SM: model.Known(0.001)}, 1, "/m"); got["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] != "1" || len(got) != 2 {
		t.Errorf("%v", got)
	}
}

// TestOneUserAtATimeInMPS: a server without support for several users is one
// user's; others are launched without it, and told why.
func TestOneUserAtATimeInMPS(t *testing.T) {
	const other = "mps user"
	now := time.Now()
	for _, c := range []struct {
		name    string
		multi   bool
		jobs    map[uint32]launch // told of a short while ago
		clients map[uint32]uint32 // live ones
		gpu     model.GPU
		want    string // part of why not, "": it is a client
	}{
		{"the first", false, nil, nil, model.GPU{}, ""},
		{"the same user", false, nil, map[uint32]uint32{1: 1001}, model.GPU{}, ""},
		{"another user", false, nil, map[uint32]uint32{1: 1002}, model.GPU{}, other},
		{"another user's that is being launched", false, map[uint32]launch{1: {uid: 1002, mps: true, at: now}}, nil, model.GPU{}, other},
		{"another user's without MPS", false, map[uint32]launch{1: {uid: 1002, note: "x", at: now}}, nil, model.GPU{}, ""},
		{"several users", true, nil, map[uint32]uint32{1: 1002}, model.GPU{Capability: 70}, ""},
		{"several users, of a GPU that does not tell", true, nil, map[uint32]uint32{1: 1002}, model.GPU{}, ""},
		{"several users on an old GPU", true, nil, nil, model.GPU{Capability: 61}, "needs compute capability 7.0, GPU 0 has 6.1"},
		{"one user on an old GPU", false, nil, nil, model.GPU{Capability: 61}, ""},
		{"a part of a GPU", true, nil, nil, model.GPU{MIG: true}, "partitioned"},
	} {
		t.Run(c.name, func(t *testing.T) {
			caps := answering(t, nil)
			caps.multi = c.multi
			maps.Copy(caps.jobs, c.jobs)
			clients := map[uint32]uint32{}
			maps.Copy(clients, c.clients)
			why := caps.without(model.Registration{JobID: 9, UID: 1001}, []model.GPU{c.gpu}, clients)
			if c.want == "" && why != "" || !strings.Contains(why, c.want) {
				t.Errorf("%q, want %q", why, c.want)
			}
		})
	}
}

// answering is a capper whose control daemon answers, or fails.
func answering(t *testing.T, err error) *capper {
	t.Helper()
	d := &daemon{cfg: config.Default(), policies: &policy.Set{}}
	d.cfg.MPS.Pipe, d.cfg.MPS.Control, d.cfg.MPS.Check = "/run/mps", "/bin/true", time.Hour
	if err != nil {
		d.cfg.MPS.Control = "/bin/false"
	}
	c := d.newCapper()
	c.watch = mps.NewWatch(c.control, time.Hour, func(error) {})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	before := c.watch.Err()
	go func() { c.watch.Run(ctx); close(done) }()
	for end := time.Now().Add(5 * time.Second); errors.Is(c.watch.Err(), before) && time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	cancel()
	<-done
	return c
}

// TestWithoutMPSWhileItDoesNotAnswer: and what was said is in the job's notes.
func TestWithoutMPSWhileItDoesNotAnswer(t *testing.T) {
	c := answering(t, errors.New("fails"))
	why := c.without(model.Registration{JobID: 9}, nil, map[uint32]uint32{})
	if !strings.Contains(why, "launched without MPS: mps: get_server_list") {
		t.Errorf("%q", why)
	}
	c.keep(9, launch{note: why, at: time.Now()}, nil)
	c.keep(8, launch{mps: true, at: time.Now().Add(-time.Hour)}, map[uint32]uint32{8: 1})
	var terms model.Terms
	if c.say(9, &terms); terms.MPS || !slices.Equal(terms.Notes, []string{why}) {
		t.Errorf("%+v", terms)
	}
	terms = model.Terms{}
	if c.say(8, &terms); !terms.MPS || terms.Notes != nil {
		t.Errorf("%+v", terms)
	}
	c.keep(7, launch{at: time.Now()}, nil) // job 8 is gone long since
	if _, there := c.jobs[8]; there {
		t.Error("a job that is gone is remembered")
	}
}
