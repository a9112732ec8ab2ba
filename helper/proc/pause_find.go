package proc

import "errors"

// find returns the processes of the target that were not known before. It says
// whether it is sure to have seen everything that happened before the call.
func (p *pausing) find() (fresh []ID, settled bool, err error) {
	fresh, settled = p.fromTracker()
	fresh = p.fromCgroups(fresh)
	fresh = p.fromSlurm(fresh)
	if p.byScan {
		fresh, err = p.fromChildren(fresh)
		if err != nil {
			return nil, false, err
		}
		if len(fresh) == 0 && p.running == 0 {
			fresh, err = p.fromScan()
		}
	}
	return fresh, settled, err
}

// fromTracker takes in what the kernel has reported, some at a time, so that the
// pause keeps its limit. At first those are stopped that are known already: a storm
// of forks ends with the processes that make it, however many of its events wait.
func (p *pausing) fromTracker() (fresh []ID, settled bool) {
	t := p.tracker
	t.mu.Lock()
	defer t.mu.Unlock()
	p.byScan = t.conn == nil || !p.allWatched()
	if p.result.Passes == 1 && !p.byScan {
		return p.news(t.certain(p.members[:0], p.target.Roots)), false
	}
	settled = t.syncUpTo(drainFew)
	return p.collect(), settled
}

// collect returns those members of the target's trees that were not known. The
// caller holds the tracker's lock.
func (p *pausing) collect() (fresh []ID) {
	ids, complete := p.tracker.collect(p.members[:0], p.target.Roots)
	p.result.Complete = complete
	return p.news(ids)
}

// news returns those members that were not known, and keeps the room of the list.
// The caller holds the tracker's lock.
func (p *pausing) news(members []ID) (fresh []ID) {
	p.members = members
	fresh = p.addNew(nil, members)
	for _, root := range p.target.Spare {
		for _, id := range p.tracker.trees[root].appendTo([]ID{root}) {
			if v := p.known[id]; v != nil {
				v.shells = true
			}
		}
	}
	return fresh
}

func (p *pausing) allWatched() bool {
	for _, root := range p.target.Roots {
		if p.tracker.trees[root] == nil {
			return false
		}
	}
	return true
}

// addNew appends those that are not known and marks them as known.
func (p *pausing) addNew(fresh, ids []ID) []ID {
	for _, id := range ids {
		if p.known[id] == nil {
			v := &victim{id: id}
			p.known[id], p.byPID[id.PID] = v, v
			fresh = append(fresh, id)
		}
	}
	return fresh
}

// fromSlurm returns those that were spared as programs of Slurm and have exec'ed
// another one since.
func (p *pausing) fromSlurm(fresh []ID) []ID {
	kept := p.slurm[:0]
	for _, v := range p.slurm {
		s, err := p.host.statOf(p.buf[:], v.id)
		switch {
		case err != nil:
			v.state = victimGone
		case p.host.isSlurm(v.id.PID, s.Comm):
			kept = append(kept, v)
		default:
			fresh = append(fresh, v.id)
		}
	}
	p.slurm = kept
	return fresh
}

// fromChildren looks at the children of those that were seen stopped: their
// lists are final.
func (p *pausing) fromChildren(fresh []ID) ([]ID, error) {
	var pids []int
	for _, v := range p.known {
		if v.walked || v.state == victimTold || v.state == victimGone {
			continue
		}
		var err error
		pids, err = p.host.children(pids[:0], v.stat)
		if errors.Is(err, errNoChildren) {
			return fresh, nil // the scan at the end finds them
		}
		if err != nil && !errors.Is(err, ErrGone) {
			return nil, err
		}
		v.walked = v.state == victimStopped
		for _, pid := range pids {
			if p.holds(pid) {
				continue
			}
			if id, err := p.host.Identify(pid); err == nil && id.Start >= v.id.Start {
				fresh = p.addNew(fresh, []ID{id})
				p.known[id].shells = p.known[id].shells || v.shells
			}
		}
	}
	return fresh, nil
}

// holds says whether a pid is that of a known process that has not ended, and so
// cannot be another's.
func (p *pausing) holds(pid int) bool {
	v := p.byPID[pid]
	return v != nil && v.state != victimGone
}

// fromScan is the last look where forks are not reported: it finds those that
// were re-parented to init but kept the session or group of a member.
func (p *pausing) fromScan() ([]ID, error) {
	t := p.tracker
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.rescan(); err != nil {
		return nil, err
	}
	return p.collect(), nil
}
