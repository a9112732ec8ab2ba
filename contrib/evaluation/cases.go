package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"

	"github.com/gimbal-hpc/gimbal/helper/sim"
	"github.com/gimbal-hpc/gimbal/helper/sim/cost"
	"github.com/gimbal-hpc/gimbal/helper/sim/speed"
	"github.com/gimbal-hpc/gimbal/helper/sim/trace"
)

// The cluster model that all runs share.
const (
	seed        = 1         // of the deadlines and of the baselines that draw lots
	gpuMemory   = 40 * 1024 // MiB: the GPU on which the memory of the jobs was measured
	perNode     = 8
	tightest    = 1.2 // deadline after submission, in durations
	loosest     = 3.0
	pauseSecond = 0.1 // what a pause and a resume cost together
	otherStart  = 10  // seconds, for models whose restart was not measured
)

// scenario is a trace on a cluster with one source of speeds.
type scenario struct {
	Name  string `json:"name"`
	Trace string `json:"trace"`
	Nodes int    `json:"nodes"`
	GPU   string `json:"pairs_gpu,omitempty"`
	Table string `json:"pairs_table,omitempty"`
	long  bool   // cut to its first jobs, unless all is asked for
}

// scenarios lists what is evaluated: the traces with stage times, and each of
// the others with every table of measured pairs.
func scenarios() []scenario {
	all := []scenario{
		{Name: "trace1", Trace: "muri_trace1", Nodes: 8, long: true},
		{Name: "trace3", Trace: "muri_trace3", Nodes: 8, long: true},
		{Name: "testbed400", Trace: "muri_testbed400", Nodes: 8, long: true},
	}
	for _, t := range []scenario{
		{Name: "philly", Trace: "gavel_philly_ee9e8c", Nodes: 8, long: true},
		{Name: "physical-las", Trace: "gavel_physical_las", Nodes: 4},
		{Name: "physical-makespan", Trace: "gavel_physical_makespan", Nodes: 4},
	} {
		for _, table := range []string{"simulation", "physical"} {
			for _, gpu := range []string{"v100", "p100"} {
				s := t
				s.Name, s.GPU, s.Table = fmt.Sprintf("%s %s %s", t.Name, gpu, table), gpu, table
				all = append(all, s)
			}
		}
	}
	return all
}

// load reads a scenario's jobs, at most so many (0: all), and what they run on.
func (s *scenario) load(data string, most int) ([]sim.Job, sim.Config, error) {
	c := sim.Config{Nodes: s.Nodes, GPUsPerNode: perNode, Seed: seed}
	tr, err := trace.ReadFile(filepath.Join(data, "trace_"+s.Trace+".csv"))
	if err != nil {
		return nil, c, err
	}
	jobs := tr.Jobs
	if s.long && most > 0 && len(jobs) > most {
		jobs = jobs[:most]
	}
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range jobs {
		j := &jobs[i]
		j.Memory = memoryOf(j.Model)
		j.Deadline = j.Submit + (tightest+(loosest-tightest)*random.Float64())*j.Work()
	}
	if c.Cost, err = cost.Open(filepath.Join(data, "muri_restart_overheads.csv")); err != nil {
		return nil, c, err
	}
	c.Cost.Restart.Other, c.Cost.Pause = otherStart, sim.Times{Other: pauseSecond}
	model := &speed.Model{GPUMemory: gpuMemory}
	if s.GPU != "" {
		model.Pairs, err = speed.ReadFile(filepath.Join(data, "gavel_pairs_1gpu.csv"), speed.Choice{GPU: s.GPU, Table: s.Table})
	}
	c.Interference = model
	return jobs, c, err
}
