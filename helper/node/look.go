package node

import (
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/proc"
)

// Look takes one look at the processes and at the driver's newest report and
// hands it to the engine.
func (n *Node) Look() {
	if !n.Tracker.Stats().Connector {
		n.rescan()
	}
	report, ok := n.GPUs.Report(n.Stale)
	n.tellDegraded(report, ok)
	entries := n.book.all(nil)
	counts := n.own(entries)
	var fresh *model.GPUReport
	if ok && report.At > n.lastAt && report.Fault == "" {
		fresh, n.lastAt = &report, report.At
	}
	shared := n.attribute(entries, counts, fresh)
	n.hearProgress(&shared)
	n.mu.Lock()
	n.look = merge(n.look, model.Sample{GPUs: fresh, Tenants: shared.samples, Foreign: shared.foreign, Unmanaged: shared.unmanaged})
	if fresh != nil {
		n.strays = shared.strays
	}
	n.mu.Unlock()
	for _, e := range entries {
		if counts[e] == 0 {
			n.settle(e)
		}
		n.lookForeign(e)
		n.stopLate(e)
	}
	n.poke()
}

// hearProgress reads how far the tenants say that they are: of the counters of a
// tenant's steps the one that was written last.
func (n *Node) hearProgress(s *sharing) {
	if n.Progress == nil {
		return
	}
	for i, e := range s.entries {
		last := model.NoVal
		roots, _ := n.book.snapshot(e)
		for _, r := range roots {
			if r.step == last {
				continue // another task of the same step
			}
			last = r.step
			p, ok := n.Progress(model.StepKey{JobID: e.key.job, StepID: r.step}, e.reg.UID)
			if have, found := s.samples[i].Progress.Get(); ok && (!found || p.At > have.At) {
				s.samples[i].Progress = model.Known(p)
			}
		}
	}
}

// merge keeps a report that the engine has not taken yet when a later look
// has none.
func merge(old, s model.Sample) model.Sample {
	if s.GPUs == nil && old.GPUs != nil {
		s.GPUs, s.Foreign, s.Unmanaged = old.GPUs, old.Foreign, old.Unmanaged
	}
	return s
}

func (n *Node) rescan() {
	procs, err := n.Host.Scan(n.scan)
	n.scan = procs
	if err != nil {
		n.logf("look at processes: %v", err)
		return
	}
	n.Tracker.Update(procs)
}

// own maps each live process to its tenant and counts them.
func (n *Node) own(entries []*entry) map[*entry]int {
	clear(n.owner)
	counts := make(map[*entry]int, len(entries))
	sets := make([][]proc.ID, len(entries))
	for i, e := range entries {
		roots, _ := n.book.snapshot(e)
		sets[i] = rootIDs(roots)
	}
	for i, ids := range n.Tracker.MembersOfEach(sets) {
		counts[entries[i]] = len(ids)
		for _, id := range ids {
			n.owner[id.PID] = owned{entries[i], id}
		}
	}
	return counts
}

// owned is a process with its tenant.
type owned struct {
	by *entry
	id proc.ID
}
