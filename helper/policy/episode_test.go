package policy_test

import (
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/policy"
)

var update = flag.Bool("update", false, "write what happened into the episodes")

// TestEpisodes plays each script of testdata/episodes. A script is lines of
// what happens, then "-- want --", then every action with its time and reason.
//
//	policy NAME                     a shipped one, or one of testdata/policies, or
//	set share.KEY = VALUE           any key after that, added to it
//	gpu 80GiB | gpu unknown         one line for each GPU
//	swap 4s                         swapping works, and takes so long
//	TIME new JOB gpu=0,1 mem=10GiB class=guaranteed weight=2 max_pause=10s exempt=REASON parent=JOB start=2s
//	TIME on|off|idle|busy|end|task|cont|susp|unsusp|stubborn JOB
//	TIME mem JOB 14GiB
//	TIME unable JOB REASON          its swaps fail, for good
//	TIME procs JOB N                 on the GPU
//	TIME sig JOB TERM
//	TIME order JOB pause|resume|release [UNTIL]
//	TIME moved JOB GPU               computes there, and takes its turns there
//	TIME degraded REASON | TIME recovered
//	TIME fault GPU REASON|none
//	TIME foreign GPU SIZE|unknown
//	TIME unmanaged GPU N|unknown    processes of a job that is not packed
//	TIME stop
func TestEpisodes(t *testing.T) {
	files, err := filepath.Glob("testdata/episodes/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no episodes: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			script, want, _ := strings.Cut(string(text), "-- want --\n")
			got := strings.Join(play(t, script), "\n") + "\n"
			if *update {
				if err := os.WriteFile(file, []byte(script+"-- want --\n"+got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func play(t *testing.T, script string) []string {
	t.Helper()
	var r *rig
	name, gpus, sets := "", []string{}, map[string]string{}
	swap := time.Duration(0)
	for i, line := range strings.Split(script, "\n") {
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		switch {
		case len(f) == 0:
		case f[0] == "policy":
			name = f[1]
		case f[0] == "set":
			k, v, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "set "), " = ")
			sets[k] = v
		case f[0] == "gpu":
			gpus = append(gpus, f[1])
		case f[0] == "swap":
			swap, _ = time.ParseDuration(f[1])
		default:
			if r == nil {
				r = newRigWith(t, altered(t, name, sets), policy.Options{Swap: swap > 0}, gpus...)
				r.swap = swap
			}
			at, err := time.ParseDuration(f[0])
			if err != nil || len(f) < 2 {
				t.Fatalf("line %d: %q: %v", i+1, line, err)
			}
			if at > r.now {
				r.run(at)
			}
			r.event(f[1], f[2:])
			r.decide()
		}
	}
	return r.log
}

// altered is a shipped policy with some keys set otherwise.
func altered(t *testing.T, name string, sets map[string]string) *policy.Policy {
	t.Helper()
	p := shipped(t, name)
	for k, v := range sets {
		section, key, _ := strings.Cut(k, ".")
		q, err := policy.Parse("set", []byte("name = 'set'\n["+section+"]\n"+key+" = "+v+"\n"))
		if err != nil {
			t.Fatalf("set %s: %v", k, err)
		}
		switch k {
		case "share.quantum":
			p.Share.Quantum = q.Share.Quantum
		case "share.together":
			p.Share.Together = q.Share.Together
		case "share.rank":
			p.Share.Rank = q.Share.Rank
		case "share.tier":
			p.Share.Tier = q.Share.Tier
		case "limits.min_run":
			p.Limits.MinRun = q.Limits.MinRun
		case "limits.max_pause":
			p.Limits.MaxPause = q.Limits.MaxPause
		case "limits.max_swap":
			p.Limits.MaxSwap = q.Limits.MaxSwap
		case "limits.patience":
			p.Limits.Patience = q.Limits.Patience
		case "limits.max_passed":
			p.Limits.MaxPassed = q.Limits.MaxPassed
		case "limits.gpu_memory":
			p.Limits.GPUMemory = q.Limits.GPUMemory
		default:
			t.Fatalf("set %s: not known to the test", k)
		}
	}
	return p
}

func (r *rig) event(what string, args []string) {
	r.t.Helper()
	if len(args) == 0 {
		args = []string{""}
	}
	id := model.TenantID(args[0])
	a := r.actors[id]
	text := strings.Join(args[min(1, len(args)):], " ")
	switch what {
	case "new":
		r.register(args[0], args[1:])
	case "on":
		a.on, a.manual = true, true
		r.sample()
	case "off":
		a.on, a.manual = false, true
		r.sample()
	case "idle", "busy":
		a.idle = what == "idle"
		r.sample()
	case "procs":
		a.procs, _ = strconv.Atoi(text)
		r.sample()
	case "mem":
		a.memory = bytesOf(r.t, text)
		r.sample()
	case "end":
		r.apply(model.Event{Kind: model.EvEnded, Tenant: id})
	case "task":
		t := r.n.Tenant(id)
		reg := t.Reg
		reg.TaskID++
		reg.Proc.PID += 10000 + len(t.Workers)
		r.apply(model.Event{Kind: model.EvRegistered, Tenant: id, Reg: &reg, Grant: &model.Grant{Terms: t.Terms, GPUs: t.GPUs}})
	case "cont":
		r.apply(model.Event{Kind: model.EvContinued, Tenant: id, Text: "Slurm"})
	case "susp":
		r.apply(model.Event{Kind: model.EvSuspended, Tenant: id, Text: "slurm"})
	case "unsusp":
		r.apply(model.Event{Kind: model.EvUnstopped, Tenant: id})
	case "sig":
		r.apply(model.Event{Kind: model.EvSignalled, Tenant: id, Text: "SIG" + text})
	case "stubborn":
		a.stubborn = true
	case "unable":
		a.unable = text
	case "order":
		r.order(id, args[1:])
	case "moved":
		i, _ := strconv.Atoi(text)
		r.apply(model.Event{Kind: model.EvMoved, Tenant: id, Grant: &model.Grant{GPUs: []string{uuid(i)}}})
		r.sample()
	case "degraded":
		r.apply(model.Event{Kind: model.EvDegraded, Text: strings.Join(args, " ")})
	case "recovered":
		r.apply(model.Event{Kind: model.EvRecovered})
	case "foreign":
		i, _ := strconv.Atoi(args[0])
		r.n.Foreign[uuid(i)] = model.Unknown[model.Bytes]()
		if text != "unknown" {
			r.n.Foreign[uuid(i)] = model.Known(bytesOf(r.t, text))
		}
	case "unmanaged":
		i, _ := strconv.Atoi(args[0])
		count, err := strconv.Atoi(text)
		if r.n.Unmanaged[uuid(i)] = model.Known(count); err != nil {
			r.n.Unmanaged[uuid(i)] = model.Unknown[int]()
		}
	case "fault":
		i, _ := strconv.Atoi(args[0])
		if r.n.GPUs[i].Fault = text; text == "none" {
			r.n.GPUs[i].Fault = ""
		}
	case "stop":
	default:
		r.t.Fatalf("%s is not known", what)
	}
}

func (r *rig) order(id model.TenantID, args []string) {
	r.t.Helper()
	o := &model.Order{Do: model.Primitive(args[0]), UID: 1000}
	if args[0] == "release" {
		o = nil
	} else if len(args) > 1 {
		until, err := time.ParseDuration(args[1])
		if err != nil {
			r.t.Fatal(err)
		}
		o.Until = until
	}
	r.apply(model.Event{Kind: model.EvOrder, Tenant: id, Order: o})
}

func (r *rig) register(id string, args []string) {
	r.t.Helper()
	terms := model.Terms{Class: model.Opportunistic, Weight: 1}
	gpus, exempt, parent := []int{0}, "", ""
	a := actor{start: 2 * time.Second}
	for _, arg := range args {
		k, v, _ := strings.Cut(arg, "=")
		switch k {
		case "gpu":
			gpus = nil
			for _, g := range strings.Split(v, ",") {
				i, _ := strconv.Atoi(g)
				gpus = append(gpus, i)
			}
		case "mem":
			a.memory = bytesOf(r.t, v)
			terms.Memory, terms.Declared = model.Known(a.memory), model.Known(a.memory)
		case "class":
			terms.Class = model.Class(v)
		case "weight":
			terms.Weight, _ = strconv.ParseFloat(v, 64)
		case "exempt":
			exempt = v
		case "max_pause":
			terms.MaxPause, _ = time.ParseDuration(v)
		case "parent":
			parent = v
		case "start":
			a.start, _ = time.ParseDuration(v)
		default:
			r.t.Fatalf("new: %s is not known", arg)
		}
	}
	r.add(id, terms, gpus, exempt, parent, a)
}
