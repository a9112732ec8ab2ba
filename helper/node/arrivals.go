package node

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/proc"
)

// A signal that is meant for a paused tenant may come to any of its processes, of which
// there may be thousands; the listeners alone are looked at each time. The kernel
// counts the signals that wait for all processes of a user together, and shows the
// count with each of them: when it grows, all of the tenant's are looked at; and every
// now and then, since it stays where one comes and another goes.

// Looks at all of a tenant's processes come after so many others at the latest, take
// such a share of the time that it is stopped, and so much more at first, however the
// count goes up and down.
const (
	hearAnyway = 100 // looks
	heardShare = 100 // a hundredth
	heardFirst = time.Second
)

// arrivals is when to look at all of a tenant's processes for signals that wait.
type arrivals struct {
	since   time.Duration // when it was stopped
	counted int           // of the user's signals, at the last look; -1 before the first
	owed    bool          // something may have come since all were looked at
	spent   time.Duration // on looks at all
}

// due tells whether to look at all now.
func (a *arrivals) due(now time.Duration) bool {
	return a.owed && a.spent <= heardFirst+(now-a.since)/heardShare
}

// count takes in the status of one of the tenant's processes, as it was just read.
func (a *arrivals) count(st proc.Status) {
	a.owed = a.owed || a.counted >= 0 && a.counted < st.Queued
	a.counted = st.Queued
}

// heard looks at all of a tenant's processes where something may have come for one,
// and returns which signals wait that are meant for the tenant and caught by whom
// they were sent to.
func (v *vigil) heard(n *Node, e *entry) (came proc.SigSet) {
	begin := n.Clock()
	if !v.news.due(begin) {
		return 0
	}
	v.news.owed = false
	job := unix.Signal(e.grant.Terms.Signal)
	for _, id := range v.grip.procs {
		came |= n.Host.Heard(id, job, true)
	}
	if len(v.grip.frozen) > 0 {
		for _, id := range n.Tracker.Members(v.grip.roots...) {
			came |= n.Host.Heard(id, job, false)
		}
	}
	v.news.spent += n.Clock() - begin
	return came
}
