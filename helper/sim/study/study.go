// Package study replays one trace under several policies and compares them.
package study

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/sim"
)

// Policy is a scheduler by name. New is called once a run: a scheduler keeps
// the state of one.
type Policy struct {
	Name string
	New  func() sim.Scheduler
}

// Result is the figures of a trace under one policy.
type Result struct {
	Policy string `json:"policy"`
	sim.Summary
	WallTime float64      `json:"wall_s"` // seconds the run took
	Outcome  *sim.Outcome `json:"-"`
}

// Run replays the jobs under each policy, as many at once as there are cores,
// and returns the results in the order of the policies. What they are does not
// depend on the cores. Progress, where it is not nil, is called now and then,
// from one goroutine at a time, with the share of all work that is done.
func Run(jobs []sim.Job, policies []Policy, c sim.Config, progress func(share float64)) ([]Result, error) {
	results, errs := make([]Result, len(policies)), make([]error, len(policies))
	meter := &meter{report: progress, all: len(jobs) * len(policies)}
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(len(policies), runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(policies); i = int(next.Add(1)) - 1 {
				results[i], errs[i] = one(jobs, policies[i], c, meter)
			}
		})
	}
	workers.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return results, nil
}

func one(jobs []sim.Job, p Policy, c sim.Config, m *meter) (Result, error) {
	begin, before := time.Now(), 0
	c.Progress = func(ended int) {
		m.add(ended - before)
		before = ended
	}
	o, err := sim.Run(jobs, c, p.New())
	if err != nil {
		return Result{}, fmt.Errorf("simulating %s: %w", p.Name, err)
	}
	c.Progress(len(jobs))
	return Result{Policy: p.Name, Summary: o.Summary(), WallTime: time.Since(begin).Seconds(), Outcome: o}, nil
}

// meter adds up the jobs that have ended in all runs.
type meter struct {
	mu        sync.Mutex
	report    func(float64)
	done, all int
}

func (m *meter) add(n int) {
	if m.report == nil || m.all == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done += n
	m.report(float64(m.done) / float64(m.all))
}
