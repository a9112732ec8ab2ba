package node

import (
	"slices"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// Whoever owns a stopped process may continue it. What that gains him:
//
//   - A command of gimbal run is stopped again: to bring it to the foreground is
//     no order to let it run out of turn.
//   - So is a held job, which has not begun anything that it could lose.
//   - A paused job may have been continued by Slurm, which ends it next, and be
//     writing its last checkpoint: it runs until Slurm was asked. Once Slurm has
//     said that it is not ending it, it is stopped again for as long as that is
//     kept in mind, and Slurm is asked meanwhile.
const keepInMind = 10 * time.Minute

// How often what was continued may be stopped again within settingBack: fg and bg
// continue a command each time, but nothing is fought over for ever. A held job
// is, since it would take memory that others count on.
const (
	maxSetBack  = 20
	settingBack = time.Minute
)

// astray tells of a tenant that was continued whether it is to stay stopped by us,
// and it was not Slurm as far as is known. It is for the holder of e.op.
func (n *Node) astray(e *entry) bool {
	held := e.wants() == kindHold
	return e.moved == nil && e.wants() != "" && !e.grip.empty() && (e.reg.Run() || held || n.doubted(e))
}

// charge notes for how long a tenant has run that was to be stopped: since its stop
// or the last time that this was seen, or for as long as it takes to look at all of
// its processes. The caller holds e.op.
func (n *Node) charge(e *entry) {
	now, looks := n.Clock(), cycle
	if e.eyes != nil {
		looks = e.eyes.round()
	}
	e.astray.Add(int64(min(now-e.stilled, time.Duration(looks)*n.watchEvery())))
	e.stilled = now
}

// doubted tells whether Slurm said a short while ago that it is not ending the
// tenant's job.
func (n *Node) doubted(e *entry) bool {
	at := time.Duration(e.notEnding.Load())
	return at != 0 && n.Clock()-at < keepInMind
}

// setBack stops it again. It returns false where that was not done, and the
// tenant is to be let go: it was tried too often, or a guard has taken over.
func (n *Node) setBack(e *entry) bool {
	now := n.Clock()
	e.setBacks = slices.DeleteFunc(e.setBacks, func(at time.Duration) bool { return now-at > settingBack })
	full := len(e.setBacks) >= maxSetBack
	if full && (e.reg.Run() || e.wants() != kindHold) || n.Stops.Check() != nil {
		return false
	}
	if len(e.setBacks) == 0 {
		n.logf("tenant %s: continued by somebody else, stopped again", e.id)
	}
	if !full {
		e.setBacks = append(e.setBacks, now)
	}
	suspended := e.say(func(s *saying) bool { return s.suspended != "" }) // a pause forgets it
	err := n.stop(e, e.wants(), func(string, ...any) {})
	e.stilled = n.Clock()
	e.astray.Add(int64(e.stilled - now)) // it ran while it was being stopped
	if err != nil {
		n.logf("tenant %s: stop it again: %v", e.id, err)
		return false
	}
	if suspended {
		n.push(model.Event{Kind: model.EvUnstopped, Tenant: e.id})
	}
	return true
}
