package main

import (
	"encoding/json"
	"fmt"

	"github.com/gimbal-hpc/gimbal/helper/policy"
	"github.com/gimbal-hpc/gimbal/helper/sim/study"
)

// trialReport is what try prints as JSON.
type trialReport struct {
	From      string         `json:"from"` // where the jobs are from
	Nodes     int            `json:"nodes"`
	PerNode   int            `json:"gpus_per_node"`
	Shards    int            `json:"shards"`
	GPUMemory float64        `json:"gpu_memory_mib"` // 0 when unknown
	Against   string         `json:"against"`
	New       string         `json:"new"`
	Assumed   []string       `json:"assumed"`
	Results   []study.Result `json:"results"` // of the old policy, of the new one
}

// report prints the results: a table, what differs, and what was assumed.
func (t *trial) report(h *pastJobs, old, fresh *policy.Policy, results []study.Result) error {
	h.assume("A pause takes no time; jobs that compute together slow each other down as they together ask for more than one GPU.")
	if t.json {
		e := json.NewEncoder(t.w.stdout)
		e.SetIndent("", "  ")
		return e.Encode(trialReport{From: h.from, Nodes: max(t.nodes, 1), PerNode: h.gpus, Shards: h.shards,
			GPUMemory: h.memory, Against: old.Name, New: fresh.Name, Assumed: h.assumed, Results: results})
	}
	w := t.w.stdout
	fmt.Fprint(w, wrap(clean(fmt.Sprintf("%s of %s, arriving over %s, on %s of %s with %s each.", plural(len(h.jobs), "job"), h.from,
		span(h.jobs), plural(max(t.nodes, 1), "node"), plural(h.gpus, "GPU"), plural(h.shards, "shard"))), 80, ""), "\n")
	if err := study.WriteTable(w, results); err != nil {
		return err
	}
	a, b := results[0], results[1]
	fmt.Fprint(w, "\n", wrap(clean(fmt.Sprintf("Under %s a job's time from arrival to end (JCT) as a mean over all %s; %s; %s.", fresh.Name,
		change("", a.AvgJCT, b.AvgJCT), change("its p99", a.P99JCT, b.P99JCT), change("the makespan", a.Makespan, b.Makespan))), 80, ""))
	fmt.Fprint(w, "\nAssumed:\n")
	for _, s := range h.assumed {
		fmt.Fprint(w, wrap(clean("- "+s), 80, "  "))
	}
	return nil
}
