package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/tests/simgpu"
)

func TestDoctorFindsNothing(t *testing.T) {
	h := healthyHost(t)
	h.daemon(good())
	h.expect()
	if n := h.doc.count(levelOK); n < 17 {
		t.Errorf("only %d checks are ok: %+v", n, h.doc.findings)
	}
}

// A shipped policy that asks for longer pauses than the node allows is told of,
// and nothing to be mended.
func TestDoctorLetsTheNodesLimitsHold(t *testing.T) {
	h := healthyHost(t)
	h.daemon(good())
	h.write("etc/gimbal/gimbald.toml", "[policy]\ndefault = \"tail\"\n")
	h.expect()
	for _, f := range h.doc.findings {
		if f.Check == "policies" && strings.Contains(f.Text, "max_pause is 1m") {
			return
		}
	}
	t.Errorf("nothing is said of max_pause: %+v", h.doc.findings)
}

func TestDoctorFinds(t *testing.T) {
	slurm := func(h *host, old, new string) {
		b, err := os.ReadFile(filepath.Join(h.dir, "etc/slurm/slurm.conf"))
		if err != nil || !strings.Contains(string(b), old) {
			h.t.Fatalf("slurm.conf has no %q: %v", old, err)
		}
		h.write("etc/slurm/slurm.conf", strings.Replace(string(b), old, new, 1))
	}
	for name, c := range map[string]struct {
		spoil func(h *host)
		want  []string
	}{
		"another Slurm": {func(h *host) { h.plugin("opt/slurm/gimbal.so", 21, 8) },
			[]string{`problem plugin: .*built for Slurm 21.08.8, this host runs 22.05.2.*Rebuild`}},
		"no plugin at all": {func(h *host) { h.write("opt/slurm/gimbal.so", strings.Repeat("text", 99)) }, []string{`problem plugin: .*bad magic`}},
		"core gone":        {func(h *host) { h.remove("opt/slurm/gimbal_core.so") }, []string{`problem plugin: .*gimbal_core.so`}},
		"so gone": {func(h *host) { h.remove("opt/slurm/gimbal.so") },
			[]string{`problem plugin: /etc/slurm/plugstack.conf.d/gimbal.conf:1 names gimbal.so, which is not there`}},
		"no line": {func(h *host) { h.remove("etc/slurm/plugstack.conf.d") }, []string{`problem plugstack: no line of /etc/slurm/plugstack.conf`}},
		"twice": {func(h *host) { h.write("etc/slurm/plugstack.conf.d/old.conf", "\noptional /opt/slurm/gimbal.so\n") },
			[]string{`problem plugstack: .*2 times: /etc/slurm/plugstack.conf.d/gimbal.conf:1, /etc/slurm/plugstack.conf.d/old.conf:2\.`}},
		"by PlugStackConfig": {func(h *host) {
			slurm(h, "PluginDir", "PlugStackConfig=/opt/stack\nPluginDir")
			h.write("opt/stack", "\nrequired /opt/slurm/gimbal.so\n")
		}, []string{`problem plugstack: /opt/stack:2: gimbal.so is required`}},
		"includes itself": {func(h *host) { h.write("etc/slurm/plugstack.conf", "include plugstack.conf\n") },
			[]string{`problem plugstack: .*deeper`}},
		"required": {func(h *host) { h.write("etc/slurm/plugstack.conf.d/gimbal.conf", "required gimbal.so\n") },
			[]string{`problem plugstack: /etc/slurm/plugstack.conf.d/gimbal.conf:1: gimbal.so is required`}},
		"another socket": {func(h *host) {
			h.write("etc/slurm/plugstack.conf.d/gimbal.conf", "optional gimbal.so socket=/x timout=1s\n")
		}, []string{`problem plugstack: .*socket=/x, gimbald /run`, `warning plugstack: .*"timout=1s", did you mean "timeout"`}},
		"one of several nodes of a host": {func(h *host) {
			h.write("etc/gimbal/gimbald.toml", "[socket]\npath = \"/run/%n/sock\"\n[policy]\ndir = \"/etc/gimbal/policies.d\"\n")
			h.write("etc/slurm/plugstack.conf.d/gimbal.conf", "optional gimbal.so socket=/run/n1/sock pending=/run/%n/pending\n")
		}, []string{`problem plugstack: .*pending=/run/%n/pending, gimbald /run/gimbal/pending`}},
		"slurmd is older": {func(h *host) { h.touch("etc/slurm/plugstack.conf.d/gimbal.conf", noon.Add(-46*time.Hour)) },
			[]string{`problem slurmd: slurmd started before plugstack.conf changed: process 77 at 2026-02-27T13:00:00, /etc/slurm/plugstack.conf.d/gimbal.conf at 2026-02-27T14`}},
		"another cluster's slurmd is older": {func(h *host) {
			h.touch("etc/slurm/plugstack.conf", noon.Add(-46*time.Hour))
			h.write("proc/77/cmdline", "slurmd\x00-f\x00/elsewhere/slurm.conf\x00")
		}, []string{`warning slurmd: slurmd does not run here`}},
		"too many GPUs": {func(h *host) {
			slurm(h, "gpu:2,shard:8", "gpu:4,shard:8")
			h.write("etc/slurm/gres.conf", "AutoDetect=nvml\n")
		}, []string{`problem gres: /etc/slurm/slurm.conf:8: node n1 has gpu:4, the driver shows 2 GPUs`}},
		"files and count": {func(h *host) { slurm(h, "gpu:2,shard:8", "gpu:1,shard:8") },
			[]string{`problem gres: .*gpu:1, gres.conf names 2 device files`, `warning gres: .*has gpu:1, the driver shows 2`}},
		"a minor that is not there": {func(h *host) { h.doc.gpus = gpuReport(0, 2) },
			[]string{`problem gres: /etc/slurm/gres.conf:2: File=/dev/nvidia1 is no GPU`}},
		"no GresTypes": {func(h *host) { slurm(h, "GresTypes=gpu,shard", "GresTypes=gpu") }, []string{`problem gres: /etc/slurm/slurm.conf:1: GresTypes lacks shard`}},
		"odd shards": {func(h *host) {
			slurm(h, "shard:8", "shard:7")
			h.write("etc/slurm/gres.conf", "Name=gpu File=/dev/nvidia[0-1]\nName=shard Count=7\n")
		}, []string{`problem gres: .*7 shards are not a multiple of 2 GPUs. Make it 6 or 8`}},
		"no shards": {func(h *host) {
			slurm(h, ",shard:8", "")
			h.write("etc/slurm/gres.conf", "Name=gpu File=/dev/nvidia[0-1]\n")
		}, []string{`warning gres: .*has no shards`}},
		"shards differ":          {func(h *host) { slurm(h, "shard:8", "shard:16") }, []string{`problem gres: .*16 shards, gres.conf has 8`}},
		"unknown node":           {func(h *host) { h.doc.node = "z" }, []string{`problem gres: slurm.conf has no node called z, no node on this host. Give gimbald the name`}},
		"any device":             {func(h *host) { h.remove("etc/slurm/cgroup.conf") }, []string{`warning devices: any job can use any GPU`}},
		"gimbald may not choose": {func(h *host) { h.choose() }, []string{`problem place: .*reaches its own GPUs only \(ConstrainDevices=yes\): Slurm's choice of GPUs stays. Set node.place = "slurm"`}},
		"gimbald has no shards to choose by": {func(h *host) {
			h.choose()
			h.remove("etc/slurm/cgroup.conf")
			slurm(h, ",shard:8", "")
			h.write("etc/slurm/gres.conf", "AutoDetect=off\nName=gpu File=/dev/nvidia[0-1]\n")
		}, []string{`problem place: .*the node has no shards`, `warning gres: .*has no shards`}},
		"gimbald may choose": {func(h *host) { h.choose(); h.remove("etc/slurm/cgroup.conf") }, nil},
		"no task/cgroup":     {func(h *host) { slurm(h, ",task/cgroup", "") }, []string{`warning devices: ConstrainDevices=yes has no effect`}},
		"linuxproc": {func(h *host) { slurm(h, "proctrack/cgroup", "proctrack/linuxproc") },
			[]string{`warning proctrack: /etc/slurm/slurm.conf:2: proctrack/linuxproc`, `warning cgroup: .*no cgroups`}},
		"InactiveLimit": {func(h *host) { slurm(h, "GresTypes", "InactiveLimit=60\nGresTypes") }, []string{`warning inactive: /etc/slurm/slurm.conf:1: InactiveLimit=60`}},
		"hybrid and v2": {func(h *host) {
			h.write("proc/self/mountinfo", "36 30 0:33 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer\n40 30 0:37 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n")
			h.write("etc/slurm/cgroup.conf", "ConstrainDevices=yes\nCgroupPlugin=cgroup/v2\n")
		}, []string{`problem cgroup: CgroupPlugin=cgroup/v2 on a hybrid`}},
		"no freezer": {func(h *host) {
			h.write("proc/self/mountinfo", "36 30 0:33 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n")
		}, []string{`warning cgroup: no freezer is mounted`}},
		"no driver":      {func(h *host) { h.doc.gpus = &model.GPUReport{Fault: "driver not loaded"} }, []string{`problem driver: NVML .*driver not loaded`}},
		"a lost GPU":     {func(h *host) { h.doc.gpus.GPUs[1].Fault = "lost" }, []string{`problem driver: GPU 1 \(GPU-1\): lost`}},
		"no persistence": {func(h *host) { h.answers[smiLine] = "575.51.03, Disabled\n" }, []string{`warning persistence: .*off on 1 GPU`}},
		"MPS":            {func(h *host) { h.write("proc/78/comm", "nvidia-cuda-mps\n") }, []string{`warning mps: `}},
		"MIG":            {func(h *host) { h.doc.gpus.GPUs[0].MIG = true }, []string{`warning mig: `}},
		"an old driver":  {func(h *host) { h.write("proc/driver/nvidia/version", "Module  535.104.05  x\n") }, []string{`warning swap: driver 535.104.05 cannot`}},
		"a middling driver": {func(h *host) { h.write("proc/driver/nvidia/version", "Module  570.86.15  x\n") },
			[]string{`warning swap: driver 570.86.15 .*not that of PyTorch`}},
		"a mistyped key": {func(h *host) { h.write("etc/gimbal/gimbald.toml", "[limits]\nmax_pauze = \"60s\"\n") },
			[]string{`problem config: /etc/gimbal/gimbald.toml:2: .*"max_pauze".*"max_pause"`}},
		"a broken policy": {func(h *host) { h.write("etc/gimbal/policies.d/mine.toml", "name = \"mine\"\n[share]\nrang = \"1\"\n") },
			[]string{`problem policies: .*/etc/gimbal/policies.d/mine.toml:3:1: .*rang.*rank`}},
		"long pauses": {func(h *host) {
			h.write("etc/gimbal/gimbald.toml", "[limits]\nmax_pause = \"5m\"\n")
		}, []string{`warning pauses: max_pause is 5m: NCCL's 2-minute heartbeat`}},
		"a clock set back": {func(h *host) { h.touch("etc/gimbal/gimbald.toml", noon.Add(time.Hour)) }, []string{`warning clock: /etc/gimbal/gimbald.toml .*future`}},
		"a clock that drifts": {func(h *host) { h.doc.synced = func() (bool, error) { return false, nil } },
			[]string{`warning clock: the kernel says`}},
		"a clock that is wrong": {func(h *host) { h.doc.w.now = func() time.Time { return time.Unix(0, 0) } }, []string{`problem clock: the clock says 1970`}},
		"no daemon":             {func(h *host) { h.doc.socket = filepath.Join(h.dir, "none") }, []string{`problem socket: no gimbald listens`}},
		"no socket":             {func(h *host) { h.doc.socket = h.doc.file }, []string{`problem socket: .*is no socket`}},
		"a mute daemon": {func(h *host) {
			h.doc.socket = filepath.Join(h.dir, "m", "g.sock")
			mute(h.t, h.doc.socket)
		}, []string{`warning socket: .*mode`, `problem gimbald: gimbald does not answer`}},
		"a daemon in trouble": {func(h *host) {
			h.daemon(model.DaemonReply{Version: "0.1", Started: noon, Degraded: "no driver", Journal: "disk full", ReloadError: "gimbald.toml:3: x",
				NotApplied: []string{"node.name"}, Config: "/other"})
		}, []string{`problem gimbald: .*no driver`, `problem gimbald: .*disk full`, `problem gimbald: .*:3: x`, `warning gimbald: node.name`,
			`warning gimbald: it reads /other`, `warning gimbald: gimbald is 0.1`}},
	} {
		t.Run(name, func(t *testing.T) {
			h := healthyHost(t)
			h.daemon(good())
			c.spoil(h)
			h.expect(c.want...)
		})
	}
}

// appendConf adds a line for nodes of this very host, by whatever it is called.
func (h *host) appendConf(line string) {
	h.t.Helper()
	name, err := os.Hostname()
	if err != nil {
		h.t.Fatal(err)
	}
	path := filepath.Join(h.dir, "etc/slurm/slurm.conf")
	text, err := os.ReadFile(path)
	if err != nil {
		h.t.Fatal(err)
	}
	h.write("etc/slurm/slurm.conf", string(text)+strings.ReplaceAll(line, "HOST", name)+"\n")
}

// TestDoctorKnowsAnotherName: who tells a name that Slurm has not, hears which
// nodes it has on this host, wherever the name was told.
func TestDoctorKnowsAnotherName(t *testing.T) {
	for name, tell := range map[string]func(h *host){
		"--node": func(h *host) { h.doc.node = "n9" },
		"node.name": func(h *host) {
			h.write("etc/gimbal/gimbald.toml", "[node]\nname = \"n9\"\n[limits]\nmax_pause = \"60s\"\n[policy]\ndir = \"/etc/gimbal/policies.d\"\n")
		},
		"of slurmd": func(h *host) {
			h.doc.w.env = func(k string) string { return map[string]string{"SLURMD_NODENAME": "n9"}[k] }
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := healthyHost(t)
			h.daemon(good())
			h.doc.node = ""
			tell(h)
			h.appendConf("NodeName=p[1-2] NodeHostname=HOST\nNodeName=q[1-2] NodeHostname=elsewhere,HOST")
			h.expect(`problem gres: slurm.conf has no node called n9, on this host p1, p2, q2. Give gimbald`)
		})
	}
}

// TestDoctorPutsTheNameThatSlurmHas: %n of a path is the node's name in slurm.conf
// where no name was told, not the host's.
func TestDoctorPutsTheNameThatSlurmHas(t *testing.T) {
	for told, want := range map[string]string{"": "p1", "n2": "n2"} {
		h := healthyHost(t)
		h.doc.node = told
		h.write("etc/gimbal/gimbald.toml", "[socket]\npath = \"/run/%n/sock\"\n")
		h.appendConf("NodeName=p1 NodeHostname=HOST")
		h.doc.look()
		if want := filepath.Join(h.dir, "run", want, "sock"); h.doc.socket != want {
			t.Errorf("told %q: %s, want %s", told, h.doc.socket, want)
		}
	}
}

func TestDoctorOnALoginHost(t *testing.T) {
	h := healthyHost(t)
	for _, p := range []string{"etc/gimbal", "proc/77", "proc/driver"} {
		h.remove(p)
	}
	h.doc.node = "login1"
	h.plugin("opt/slurm/gimbal.so", 24, 11)
	h.expect(`problem plugin: .*24.11.8, this host runs 22.05.2`)
	if !h.doc.login {
		t.Error("it was taken for a node")
	}
	for _, f := range h.doc.findings {
		if f.Check == "driver" || f.Check == "gimbald" {
			t.Errorf("checked on a login host: %+v", f)
		}
	}
}

// Without files of its own a host asks slurmctld.
func TestDoctorAsksSlurm(t *testing.T) {
	h := healthyHost(t)
	h.daemon(good())
	h.remove("etc/slurm/slurm.conf")
	h.answers["scontrol show config"] = "Configuration data as of today\nGresTypes               = gpu\nInactiveLimit           = 60 sec\n" +
		"ProctrackType           = proctrack/cgroup\nTaskPlugin = task/cgroup\nConstrainDevices        = yes\nPluginDir = /opt/slurm\nPrologFlags = (null)\n"
	h.answers["scontrol show node --oneliner n1"] = "NodeName=n1 Arch=x86_64 Gres=gpu:2,shard:5(S:0-1)\n"
	h.expect(`warning inactive: scontrol show config: InactiveLimit=60`, `problem gres: scontrol show config: GresTypes lacks shard`, `problem gres: scontrol show node: 5 shards`)
}

// CF-04, through the whole command and the driver's library.
func TestDoctorComparesWithTheDriver(t *testing.T) {
	h := healthyHost(t)
	dev := simgpu.Start(t, simgpu.Options{GPUs: 3})
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "slurmd"), []byte("#!/bin/sh\necho slurm 21.08.3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	t.Setenv("SIMGPU_DIR", dev.Dir)
	h.write("etc/gimbal/gimbald.toml", "[sample]\nnvml = \""+simgpu.NVML("")+"\"\n[policy]\ndir = \""+h.dir+"/none\"\n")
	h.write("etc/slurm/slurm.conf", "GresTypes=gpu\nPluginDir=/opt/slurm\nProctrackType=proctrack/cgroup\nNodeName=n1 Gres=gpu:4,shard:6\n")
	h.write("etc/slurm/gres.conf", "Name=gpu File=/dev/nvidia[0-3]\n")
	code, out, errs := try("doctor", "--json", "--root", h.dir, "--node", "n1", "--slurm-conf", filepath.Join(h.dir, "etc/slurm"), "--config", h.doc.file)
	if code != exitFailed || errs != "" {
		t.Fatalf("exit %d: %s%s", code, errs, out)
	}
	var doc struct {
		Schema   string
		Login    bool
		Problems int
		Findings []finding
	}
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatal(err)
	}
	var gres []string
	for _, f := range doc.Findings {
		if f.Check == "plugin" && !strings.Contains(f.Text, "22.05.8, this host runs 21.08.3 (slurmd -V)") {
			t.Errorf("the slurmd in PATH was not asked: %s", f.Text)
		}
		if f.Check == "gres" {
			gres = append(gres, f.Level+" "+strings.ReplaceAll(f.Text, h.dir, ""))
		}
	}
	want := []string{
		"problem /etc/slurm/slurm.conf:1: GresTypes lacks shard",
		"problem /etc/slurm/slurm.conf:4: 6 shards are not a multiple of 4 GPUs",
		"problem /etc/slurm/slurm.conf:4: node n1 has gpu:4, the driver shows 3 GPUs",
		"problem /etc/slurm/gres.conf:1: File=/dev/nvidia3 is no GPU of the driver",
	}
	if diff := cmp.Diff(want, gres); diff != "" || doc.Schema != doctorSchema || doc.Login || doc.Problems < 4 {
		t.Errorf("%+v\n(-want +got):\n%s", doc, diff)
	}
	code, out, _ = try("doctor", "--root", h.dir, "--node", "n1", "--config", h.doc.file)
	if code != exitFailed || !strings.Contains(out, "\nproblem  gres         "+h.dir+"/etc/slurm/slurm.conf:1: GresTypes lacks shard. Set GresTypes") {
		t.Errorf("exit %d\n%s", code, out)
	}
}

func TestExpandNames(t *testing.T) {
	for in, want := range map[string]string{
		"n0":                 "n0",
		"n[0-2],x":           "n0 n1 n2 x",
		"n[08-10,3]-b":       "n08-b n09-b n10-b n3-b",
		"a[0-1]b[2-3]":       "a0b2 a0b3 a1b2 a1b3",
		"/dev/nvidia[0-1,3]": "/dev/nvidia0 /dev/nvidia1 /dev/nvidia3",
		"n[2-1]":             "n[2-1]",
		"n[":                 "n[",
		"n]1[":               "n]1[",
	} {
		if got := strings.Join(expandNames(in), " "); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
	for in, want := range map[string]string{"gpu": "gpu 1", "gpu:4": "gpu 4", "GPU:a100:2(S:0-1)": "gpu 2", "shard:2K": "shard 2048", "gpu:tesla": "gpu 1", "": " 1"} {
		name, n := gresItem(in)
		if got := fmt.Sprintf("%s %d", name, n); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func FuzzParseConf(f *testing.F) {
	f.Add("A=b # c\nNodeName=n[0-1] X=\"a b\" \\\n Y=1\ninclude f\n")
	f.Add("\\\n#\n=\n\"")
	f.Add("REQUIRED a.so x=y # z\ninclude /etc/*.conf\noptional\n")
	f.Add("n[0-99999999]\n[0-9][0-9][0-9][0-9][0-9][0-9][0-9]")
	f.Fuzz(func(t *testing.T, text string) {
		last := 0
		for _, l := range parseConf("f", text) {
			if l.line <= last || len(l.pairs) == 0 {
				t.Errorf("line %d after %d with %v", l.line, last, l.pairs)
			}
			last = l.line
		}
		if n := len(expandNames(text)); n > 2*maxNames {
			t.Errorf("%d names", n)
		}
		gresItem(text)
		for _, l := range parsePlugstack("f", text) {
			if l.path == "" || l.line < 1 || l.required && l.include {
				t.Errorf("%+v", l)
			}
		}
	})
}
