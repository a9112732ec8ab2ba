// Package baseline holds the policies that others have published, to compare
// with: each under a name of its own, none of them run on a node.
package baseline

import (
	"fmt"
	"strings"

	"github.com/gimbal-hpc/gimbal/helper/sim"
)

// entry is a baseline by name.
type entry struct {
	name, about string
	make        func() sim.Scheduler
}

// entries is every baseline, in the order in which they are shown.
func entries() []entry {
	return []entry{
		{"exclusive", "first come, first served with backfill, whole GPUs, as Slurm does", newExclusive},
		{"srtf", "shortest remaining time first, preemptive", newSRTF},
		{"srsf", "shortest remaining GPU time first, preemptive", newSRSF},
		{"las", "least attained service in queues (Tiresias)", newLAS},
		{"antman", "guaranteed jobs, and opportunistic ones in their gaps (AntMan, approximate)", func() sim.Scheduler { return &antman{} }},
		{"gandiva", "random pairs in equal turns when there are too few GPUs (Gandiva as in Gavel)", newGandiva},
		{"lucid", "pairs by how much jobs suffer beside others (Lucid)", newLucid},
		{"fifo-pack", "first come, first served; packs when full and it pays (Gavel)", newFIFOPack},
		{"naive", "all together, up to four on a GPU", newNaive},
		{"muri-s", "packs by stage times, least remaining GPU time first (Muri-S)", func() sim.Scheduler { return newMuri(remainingGPUTime) }},
		{"muri-l", "packs by stage times, least attained GPU time first (Muri-L)", func() sim.Scheduler { return newMuri(attainedGPUTime) }},
	}
}

// New is a baseline by name. It keeps the state of one run.
func New(name string) (sim.Scheduler, error) {
	for _, e := range entries() {
		if e.name == name {
			return e.make(), nil
		}
	}
	return nil, fmt.Errorf("no policy is called %q; there are %s", name, strings.Join(Names(), ", "))
}

// Names is the name of every baseline.
func Names() []string {
	var names []string
	for _, e := range entries() {
		names = append(names, e.name)
	}
	return names
}

// About says in a few words what a baseline does, or "" where there is none of
// that name.
func About(name string) string {
	for _, e := range entries() {
		if e.name == name {
			return e.about
		}
	}
	return ""
}

func newSRTF() sim.Scheduler {
	return &byCost{
		anew:  func() sim.Scheduler { return newRepack(remainingTime) },
		stays: func() sim.Scheduler { return newPreempt(shortestRemaining()) },
	}
}

func newSRSF() sim.Scheduler {
	return &byCost{
		anew:  func() sim.Scheduler { return newRepack(remainingGPUTime) },
		stays: func() sim.Scheduler { return newPreempt(shortestRemainingGPU()) },
	}
}

func newLAS() sim.Scheduler {
	return &byCost{
		anew:  func() sim.Scheduler { return &las{} },
		stays: func() sim.Scheduler { return &lasStays{} },
	}
}

// byCost is a policy that is run anew at each moment where the cost model says
// so, and else lets tasks stay where they are.
type byCost struct {
	sim.Scheduler
	anew, stays func() sim.Scheduler
}

func (b *byCost) Start(w *sim.World) {
	b.Scheduler = b.stays()
	if w.Cost.EveryMoment {
		b.Scheduler = b.anew()
	}
	b.Scheduler.Start(w)
}
