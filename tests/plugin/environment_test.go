package plugin

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// environment parses what env printed.
func environment(text string) map[string]string {
	vars := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "="); ok {
			vars[name] = value
		}
	}
	return vars
}

func TestEnvironmentOfPackedTasks(t *testing.T) {
	s := newSite(t)
	d := s.startDaemon()
	d.env = map[string]string{"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "40", "LD_PRELOAD": "/evil.so", "GIMBAL_TEST": "a b=c"}
	for _, tc := range []struct {
		name string
		env  []string
		cmd  []string
		want map[string]string // "": must not be there
	}{
		{"srun", nil, []string{"srun", "--gimbal-pack=alpha", "/usr/bin/env"}, map[string]string{
			"GIMBAL_REQUESTED": "alpha", "GIMBAL_ACTIVE": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
			"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "40", "GIMBAL_TEST": "a b=c", "LD_PRELOAD": "", "SLURM_SPANK_GIMBAL_OWN": ""}},
		{"user's order is kept", []string{"CUDA_DEVICE_ORDER=FASTEST_FIRST"}, []string{"srun", "--gimbal-pack", "/usr/bin/env"},
			map[string]string{"CUDA_DEVICE_ORDER": "FASTEST_FIRST", "GIMBAL_ACTIVE": "1", "GIMBAL_REQUESTED": "1"}},
		{"user's limit is kept", []string{"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=70"}, []string{"srun", "--gimbal-pack", "/usr/bin/env"},
			map[string]string{"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "70", "GIMBAL_TEST": "a b=c"}},
		{"NONE", nil, []string{"srun", "--export=NONE", "--gimbal-pack=alpha", "/usr/bin/env"},
			map[string]string{"GIMBAL_REQUESTED": "alpha", "GIMBAL_ACTIVE": "1"}},
		{"off inside", nil, []string{"salloc", "-Q", "--gimbal-pack", "srun", "--gimbal-pack=off", "/usr/bin/env"},
			map[string]string{"GIMBAL_REQUESTED": "", "GIMBAL_ACTIVE": "", "CUDA_DEVICE_ORDER": "", "GIMBAL_TEST": ""}},
		{"own", nil, []string{"salloc", "-Q", "srun", "--gimbal-pack", "/usr/bin/env"},
			map[string]string{"GIMBAL_ACTIVE": "1", "SLURM_SPANK_GIMBAL_OWN": ""}},
		{"not packed", nil, []string{"srun", "/usr/bin/env"},
			map[string]string{"GIMBAL_REQUESTED": "", "GIMBAL_ACTIVE": "", "CUDA_DEVICE_ORDER": "", "GIMBAL_TEST": ""}},
		{"enclosing job's markers", []string{"GIMBAL_REQUESTED=1", "GIMBAL_ACTIVE=1", "GIMBAL_PROGRESS=/of/another"}, []string{"srun", "/usr/bin/env"},
			map[string]string{"GIMBAL_REQUESTED": "", "GIMBAL_ACTIVE": "", "GIMBAL_PROGRESS": ""}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s.t = t
			got := environment(s.runWith(tc.env, tc.cmd[0], tc.cmd[1:]...).Stdout)
			for _, name := range slices.Sorted(maps.Keys(tc.want)) {
				if value, ok := got[name]; value != tc.want[name] || ok != (tc.want[name] != "") {
					t.Errorf("%s=%q (set: %v), want %q", name, value, ok, tc.want[name])
				}
			}
		})
	}
}

// TestMarkerWithoutPluginOnTheNode: what a job can know when the node lacks
// the plugin that the submitting host has.
func TestMarkerWithoutPluginOnTheNode(t *testing.T) {
	s := newSite(t)
	d := s.startDaemon()
	// On one host, "the node lacks it" is a job that starts after the line went.
	for _, export := range []string{"ALL", "NONE"} {
		s.plugstack(s.line())
		r := s.run("bash", "-c", "printf '#!/bin/bash\n/usr/bin/env\n' | sbatch -H --parsable --gimbal-pack --export="+export)
		id := strings.TrimSpace(r.Stdout)
		s.plugstack("")
		s.run("scontrol", "release", id)
		s.waitExit0(id)
		env := environment(s.run("cat", filepath.Join(s.Out, "slurm-"+id+".out")).Stdout)
		requested := env["GIMBAL_REQUESTED"] + env["SLURM_SPANK__SLURM_SPANK_OPTION_gimbal_gimbal_pack"]
		if !strings.Contains(requested, "1") || env["GIMBAL_ACTIVE"] != "" {
			t.Errorf("--export=%s: requested %q, active %q", export, requested, env["GIMBAL_ACTIVE"])
		}
	}
	if len(d.calls()) != 0 {
		t.Errorf("calls: %s", d)
	}
}

// TestDoubleLoad loads two copies from two paths.
func TestDoubleLoad(t *testing.T) {
	s := newSite(t)
	d := s.startDaemon()
	other := filepath.Join(filepath.Dir(s.socket), "copy.so")
	s.run("cp", filepath.Join(built, "gimbal.so"), other)
	second := strings.Replace(s.line("core="+filepath.Join(built, "gimbal_core.so")), filepath.Join(built, "gimbal.so"), other, 1)
	s.plugstack(s.line(), second, s.line())
	r := s.run("srun", "--gimbal-pack=alpha", "/bin/true")
	if strings.Contains(r.Stderr, "gimbal:") {
		t.Errorf("stderr %q", r.Stderr)
	}
	if regs := d.registrations(1); len(regs) != 1 {
		t.Errorf("%d registrations", len(regs))
	}
	if r := s.run("srun", "/bin/true"); strings.Contains(r.Stderr, "gimbal:") {
		t.Errorf("without the option: stderr %q", r.Stderr)
	}
}

// TestPlacedTasks: what gimbald chooses takes the place of the GPUs that Slurm
// gave, of a step with shards, not of one with a whole GPU, and is told when the
// tasks are registered.
func TestPlacedTasks(t *testing.T) {
	s := newSite(t)
	d := s.startDaemon()
	d.env = map[string]string{"CUDA_VISIBLE_DEVICES": "1"}
	for _, tc := range []struct {
		name    string
		cmd     []string
		visible string // "": not set
		want    model.Registration
	}{
		{"srun", []string{"srun", "--gres=shard:2", "--gimbal-pack", "/usr/bin/env"}, "1",
			model.Registration{Visible: "0", Shards: 2, Placed: "1"}},
		{"a value of the user's own, which Slurm replaces", []string{"env", "CUDA_VISIBLE_DEVICES=7", "srun", "--gres=shard:1", "--gimbal-pack", "/usr/bin/env"}, "1",
			model.Registration{Visible: "0", Shards: 1, Placed: "1"}},
		{"a whole GPU", []string{"srun", "--gres=gpu:1", "--gimbal-pack", "/usr/bin/env"}, "0",
			model.Registration{Visible: "0"}},
		{"not packed", []string{"srun", "--gres=shard:1", "/usr/bin/env"}, "0", model.Registration{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s.t = t
			d.forget()
			got := environment(s.run(tc.cmd[0], tc.cmd[1:]...).Stdout)
			if got["CUDA_VISIBLE_DEVICES"] != tc.visible {
				t.Errorf("CUDA_VISIBLE_DEVICES=%q, want %q", got["CUDA_VISIBLE_DEVICES"], tc.visible)
			}
			if tc.name == "not packed" {
				return
			}
			for _, r := range d.registrations(1) {
				if is := (model.Registration{Visible: r.Visible, Shards: r.Shards, Placed: r.Placed}); !cmp.Equal(is, tc.want) {
					t.Errorf("%+v, want %+v", is, tc.want)
				}
			}
		})
	}
}

// TestSlurmsChoiceStaysWithoutGimbald: nobody who could choose is no reason to wait.
func TestSlurmsChoiceStaysWithoutGimbald(t *testing.T) {
	s := newSite(t)
	got := environment(s.run("srun", "--gres=shard:1", "--gimbal-pack", "/usr/bin/env").Stdout)
	if got["CUDA_VISIBLE_DEVICES"] != "0" || got["GIMBAL_REQUESTED"] != "1" {
		t.Errorf("CUDA_VISIBLE_DEVICES=%q, GIMBAL_REQUESTED=%q", got["CUDA_VISIBLE_DEVICES"], got["GIMBAL_REQUESTED"])
	}
}
