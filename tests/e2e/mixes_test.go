package e2e

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/sim"
	pairs "github.com/gimbal-hpc/gimbal/helper/sim/speed"
	"github.com/gimbal-hpc/gimbal/tests/simgpu"
)

// kind is a sort of trainer: what one of its iterations takes, and its memory.
type kind struct {
	name         string
	gpuMS, cpuMS int
	memory       int // GiB
}

func kinds() []kind {
	return []kind{{"heavy", 20, 2, 4}, {"even", 10, 10, 3}, {"light", 5, 20, 2}, {"big", 20, 10, 9}}
}

func kindOf(name string) kind {
	for _, k := range kinds() {
		if k.name == name {
			return k
		}
	}
	panic("no kind " + name)
}

func (k kind) args() string {
	return fmt.Sprintf("--memory %dGiB --gpu-ms %d --cpu-ms %d", k.memory, k.gpuMS, k.cpuMS)
}

// mixJob is a trainer of a mix: how long it computes alone, and when it comes.
type mixJob struct {
	kind  string
	alone time.Duration
	after time.Duration
}

type mix struct {
	name string
	jobs []mixJob
}

// mixes are such that no trainer's work is a whole number of turns of three seconds:
// whether it needs one turn more would be chance, and it would wait for all others'.
func mixes() []mix {
	const s = time.Second
	return []mix{
		{"two that keep the GPU busy", []mixJob{{"heavy", 10 * s, 0}, {"heavy", 10 * s, s}}},
		{"one busy, one with gaps", []mixJob{{"heavy", 10 * s, 0}, {"light", 10 * s, s}}},
		{"four with gaps", []mixJob{{"light", 7 * s, 0}, {"light", 7 * s, s}, {"light", 7 * s, 2 * s}, {"light", 7 * s, 3 * s}}},
		{"a short one behind a long one", []mixJob{{"heavy", 17 * s, 0}, {"even", 5 * s, 5 * s}}},
		{"two that do not fit together", []mixJob{{"big", 7 * s, 0}, {"big", 7 * s, s}, {"light", 7 * s, 2 * s}}},
		{"one of each", []mixJob{{"heavy", 5 * s, 0}, {"even", 5 * s, s}, {"light", 5 * s, 2 * s}, {"big", 5 * s, 3 * s}}},
	}
}

// kinds lists the kinds of the mix, each once.
func (m mix) kinds() (all []kind) {
	for _, k := range kinds() {
		for _, j := range m.jobs {
			if j.kind == k.name {
				all = append(all, k)
				break
			}
		}
	}
	return all
}

// trainers is what was measured of kinds of trainers.
type trainers struct {
	rate  map[string]float64 // iterations a second alone
	pairs *pairs.Pairs       // how fast two are beside each other
}

// iterations is how many iterations make a job of a mix.
func (tr *trainers) iterations(j mixJob) int { return int(j.alone.Seconds() * tr.rate[j.kind]) }

// job is a job of a mix as the simulator takes it.
func (tr *trainers) job(id int, j mixJob, submit float64) sim.Job {
	k := kindOf(j.kind)
	return sim.Job{
		ID: fmt.Sprint(id), Model: k.name, Submit: submit, GPUs: 1, Memory: float64(k.memory) * 1024,
		Util:       min(1, float64(k.gpuMS)/1000*tr.rate[k.name]),
		Iterations: float64(tr.iterations(j)), IterTime: 1 / tr.rate[k.name], Deadline: sim.Never,
	}
}

// trial is how long a measurement lasts. Of several the best counts, since whatever
// else the machine does only slows trainers down.
const (
	trial  = 3 * time.Second
	trials = 2
)

// measure lets the trainers run alone and beside each other, without Slurm and
// without Gimbal.
func measure(t *testing.T, of []kind) *trainers {
	t.Helper()
	d := simgpu.Start(t, simgpu.Options{GPUs: 1})
	tr := &trainers{rate: map[string]float64{}}
	for _, k := range of {
		tr.rate[k.name] = rates(t, d, k)[0]
	}
	var csv strings.Builder
	csv.WriteString("job_a,job_b,norm_a,norm_b,status\n")
	for i, a := range of {
		for _, b := range of[i:] {
			x, y, status := 0.0, 0.0, "zero"
			if a.memory+b.memory < 16 {
				r := rates(t, d, a, b)
				x, y, status = r[0]/tr.rate[a.name], r[1]/tr.rate[b.name], "ok"
			}
			if a == b {
				x, y = (x+y)/2, (x+y)/2
			}
			fmt.Fprintf(&csv, "%s,%s,%.4f,%.4f,%s\n", a.name, b.name, x, y, status)
		}
	}
	t.Logf("iterations a second alone: %v; beside each other:\n%s", tr.rate, csv.String())
	var err error
	if tr.pairs, err = pairs.Read(strings.NewReader(csv.String()), "measured", pairs.Choice{}); err != nil {
		t.Fatal(err)
	}
	return tr
}

// rates lets trainers run at once, and returns the iterations a second of each in
// the trial in which they made most.
func rates(t *testing.T, d *simgpu.Device, of ...kind) (best []float64) {
	t.Helper()
	most := 0.0
	for range trials {
		each, sum := try(t, d, of), 0.0
		for _, r := range each {
			sum += r
		}
		if sum > most {
			best, most = each, sum
		}
	}
	return best
}

func try(t *testing.T, d *simgpu.Device, of []kind) (out []float64) {
	t.Helper()
	var cmds []*exec.Cmd
	var texts []*strings.Builder
	for i, k := range of {
		cmd := d.Trainer(fmt.Sprintf("%s%d", k.name, i), append(strings.Fields(k.args()), "--seconds", fmt.Sprint(trial.Seconds()))...)
		text := &strings.Builder{}
		cmd.Stdout = text
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		cmds, texts = append(cmds, cmd), append(texts, text)
	}
	for i, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%s: %v", of[i].name, err)
		}
		out = append(out, speed(t, texts[i].String()))
	}
	return out
}
