package node

import (
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/proc"
)

// busyShare is the least share of time on the multiprocessors that counts as
// computing; below it a driver's rounding shows.
const busyShare = 0.005

// sharing is one report of the driver being shared out among the tenants.
type sharing struct {
	entries []*entry
	samples []model.TenantSample
	at      map[*entry]int
	foreign map[string]model.Reading[model.Bytes]
	strays  []model.Stray
	packed  map[uint32]bool // jobs that have a tenant here

	unmanaged map[string]model.Reading[int]

	onGPU  map[*entry]map[proc.ID]bool // processes of tenants
	unread bool                        // those of a GPU could not be read
	stepds map[proc.ID]*entry          // slurmstepds of tenants' steps; nil until they are asked for
}

// attribute shares out what the driver showed among the tenants; what belongs
// to none is foreign. Without a fresh report only the processes are counted,
// and a tenant of which nothing is known counts as busy.
func (n *Node) attribute(entries []*entry, counts map[*entry]int, report *model.GPUReport) sharing {
	s := sharing{entries: entries, samples: make([]model.TenantSample, len(entries)),
		at: make(map[*entry]int, len(entries)), foreign: map[string]model.Reading[model.Bytes]{},
		packed: map[uint32]bool{}, unmanaged: map[string]model.Reading[int]{}, onGPU: map[*entry]map[proc.ID]bool{}}
	for i, e := range entries {
		s.samples[i] = model.TenantSample{Tenant: e.id, Procs: counts[e], Busy: true, Astray: time.Duration(e.astray.Load())}
		s.at[e], s.packed[e.key.job] = i, true
	}
	if report == nil {
		return s
	}
	for i := range s.samples {
		s.samples[i].Use = map[string]model.Usage{}
	}
	for _, g := range report.GPUs {
		n.shareGPU(&s, g)
	}
	s.placeProcesses()
	n.findElsewhere(&s)
	for i := range s.samples {
		s.samples[i].Busy = busy(s.samples[i].Use)
	}
	return s
}

// shareGPU shares out one GPU. A GPU whose processes could not be read leaves
// what was known of it as it is.
func (n *Node) shareGPU(s *sharing, g model.GPU) {
	procs, ok := g.Procs.Get()
	if !ok {
		s.foreign[g.UUID], s.unmanaged[g.UUID] = model.Unknown[model.Bytes](), model.Unknown[int]()
		s.unread = true
		return
	}
	for i, e := range s.entries {
		if uses(e.gpus(), g.UUID) {
			s.samples[i].Use[g.UUID] = model.Usage{Memory: model.Known(model.Bytes(0)), SM: model.Known(0.0)}
		}
	}
	mine, others := model.Known(model.Bytes(0)), model.Known(model.Bytes(0))
	unmanaged := 0
	for _, p := range procs {
		of := n.owner[p.PID]
		if of.by == nil {
			of = n.takeIn(s, p.PID)
		}
		e := of.by
		if e != nil {
			addUse(s.samples[s.at[e]].Use, g.UUID, p)
			s.add(of)
		} else {
			stray, job := n.stray(g.UUID, p)
			s.strays = append(s.strays, stray)
			if stray.Kind == model.StrayUnmanaged && !s.packed[job] {
				unmanaged++
			}
		}
		if e != nil && uses(e.gpus(), g.UUID) {
			mine = plus(mine, p.Memory)
		} else { // on a GPU that it was not given a tenant has no claim that would hold it
			others = plus(others, p.Memory)
		}
	}
	s.foreign[g.UUID] = foreignMemory(g.Used, mine, others)
	s.unmanaged[g.UUID] = model.Known(unmanaged)
}

func uses(gpus []string, uuid string) bool {
	for _, g := range gpus {
		if g == uuid {
			return true
		}
	}
	return false
}

func addUse(use map[string]model.Usage, uuid string, p model.GPUProc) {
	u, ok := use[uuid]
	if !ok {
		u = model.Usage{Memory: model.Known(model.Bytes(0)), SM: model.Known(0.0)}
	}
	u.Procs++
	u.Memory = plus(u.Memory, p.Memory)
	u.SM = plus(u.SM, p.SM)
	use[uuid] = u
}

// plus adds two readings; a sum with an unknown part is unknown.
func plus[T model.Bytes | float64](a, b model.Reading[T]) model.Reading[T] {
	x, ok := a.Get()
	y, ok2 := b.Get()
	if !ok || !ok2 {
		return model.Unknown[T]()
	}
	return model.Known(x + y)
}

// foreignMemory is what no tenant holds of a GPU: what its other processes
// hold, and never less than what is used beyond the tenants, which shows
// processes that the driver does not list.
func foreignMemory(used, mine, others model.Reading[model.Bytes]) model.Reading[model.Bytes] {
	u, okU := used.Get()
	m, okM := mine.Get()
	o, okO := others.Get()
	switch {
	case okU && okM:
		return model.Known(max(u-m, o, 0))
	case okO && o > 0:
		return others
	case okO && okM:
		return model.Known(model.Bytes(0))
	}
	return model.Unknown[model.Bytes]()
}

// busy tells whether a tenant computed since the last look. What is not known
// counts as busy: an idle tenant gives way, and that must not rest on a guess.
func busy(use map[string]model.Usage) bool {
	for _, u := range use {
		sm, ok := u.SM.Get()
		if u.Procs > 0 && (!ok || sm > busyShare) {
			return true
		}
	}
	return len(use) == 0
}

// stray describes a process on a shared GPU that belongs to no tenant, and says of
// which job of Slurm it is, 0 where that is none or not known.
func (n *Node) stray(uuid string, p model.GPUProc) (s model.Stray, job uint32) {
	s = model.Stray{GPU: uuid, PID: p.PID, Memory: p.Memory, Kind: model.StrayGhost}
	id, err := n.Host.Identify(p.PID)
	if err != nil {
		return s, 0
	}
	s.Kind = model.StrayForeign
	if st, err := n.Host.Status(id); err == nil {
		s.UID = uint32(st.UID)
	}
	from, job, _ := n.Host.Origin(id)
	switch from {
	case proc.OriginJob:
		s.Kind = model.StrayUnmanaged
	case proc.OriginOrphan:
		s.Kind = model.StrayOrphan
	}
	return s, job
}

// tellDegraded says once when the driver cannot be read, and once when it can
// again. While it cannot, nothing may be stopped.
func (n *Node) tellDegraded(report model.GPUReport, ok bool) {
	fault := report.Fault
	if !ok {
		if n.Clock()-n.begun < n.Stale {
			return // the first look is still under way
		}
		fault = "the driver has not answered yet"
	}
	was := n.degraded
	n.degraded = fault
	switch {
	case fault == "" && was != "":
		n.logf("the driver can be read again: jobs are managed")
		n.push(model.Event{Kind: model.EvRecovered})
	case fault != "" && was == "":
		n.logf("degraded, no job is stopped: %s", fault)
		n.push(model.Event{Kind: model.EvDegraded, Text: fault})
	}
}
