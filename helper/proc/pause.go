package proc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/failpoint"
)

// How a pause waits for processes to stop: it looks again at once for a short
// while after anything changed, then ever more rarely.
const (
	eagerFor    = 300 * time.Microsecond
	firstRest   = 50 * time.Microsecond
	longestRest = 2 * time.Millisecond
	// frozenAfter is when it is asked whether a process cannot stop because
	// somebody froze it.
	frozenAfter = 5 * time.Millisecond
	// againAfter is when a process that runs although it was told to stop is told
	// again: somebody's SIGCONT may have taken the stop away.
	againAfter = 10 * time.Millisecond
)

// Pause stops every process of a target by SIGSTOP and returns when each has
// been seen stopped and no new one has come. A stopped process cannot fork, so
// the tree is whole when a look for new processes, taken after all were seen
// stopped, finds none.
//
// When that does not succeed before the context ends, or within PauseLimit where it
// has no end, all that was stopped is continued and the error wraps ErrIncomplete and
// names who did not stop. It wraps ErrNotStarted when a root is still slurmstepd's,
// and ErrFrozen when somebody else froze a process.
func (t *Tracker) Pause(ctx context.Context, target Target) (Paused, error) {
	begin := time.Now()
	ctx, cancel := limited(ctx)
	defer cancel()
	p := newPausing(t, target)
	err := p.run(ctx, begin)
	p.result.Latency = time.Since(begin)
	if err != nil {
		return p.result, errors.Join(err, p.undo())
	}
	p.result.Stopped = p.stopped()
	for _, v := range p.slurm {
		p.result.Spared = append(p.result.Spared, v.id)
	}
	return p.result, nil
}

// limited is a context with an end: its own, else PauseLimit from now.
func limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, PauseLimit)
}

// pausing is one pause under way.
type pausing struct {
	host    Host
	tracker *Tracker
	target  Target
	mine    map[ID]bool
	roots   map[ID]bool
	users   map[int]bool // of the roots; filled when cgroups are looked at

	known   map[ID]*victim
	byPID   map[int]*victim
	victims []*victim
	slurm   []*victim // spared as programs of Slurm
	running int       // victims not seen stopped yet
	byScan  bool
	result  Paused
	members []ID
	batch   []candidate
	buf     [statSize]byte
}

// victim is a process that is, or is not, to be told to stop.
type victim struct {
	id      ID
	since   time.Time
	stat    Stat // as last seen, without Comm
	state   victimState
	walked  bool // its children were looked at after it was seen stopped
	checked bool // it was asked whether it is frozen
	stopped bool // to be continued by the resume
	shells  bool // it is of an interactive step
}

type victimState uint8

const (
	victimTold    victimState = iota // SIGSTOP was sent
	victimStopped                    // seen stopped
	victimSpared                     // left running on purpose
	victimGone
)

func newPausing(t *Tracker, target Target) *pausing {
	return &pausing{
		host: t.host, tracker: t, target: target,
		mine: setOf(target.Mine), roots: setOf(target.Roots),
		known: map[ID]*victim{}, byPID: map[int]*victim{},
	}
}

// run passes over the target until a look after all were seen stopped finds
// nothing new.
func (p *pausing) run(ctx context.Context, begin time.Time) error {
	rest, moved, before := firstRest, begin, 0
	for {
		p.result.Passes++
		fresh, settled, err := p.find()
		if err != nil {
			return err
		}
		if settled && len(fresh) == 0 && p.running == 0 {
			failpoint.At("pause.seen")
			return nil
		}
		if err := p.stopAll(fresh); err != nil {
			return err
		}
		if err := p.confirm(); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return p.incomplete(begin, err)
		}
		if len(fresh) > 0 || p.running != before {
			rest, moved, before = firstRest, time.Now(), p.running
		} else if time.Since(moved) > eagerFor {
			time.Sleep(rest)
			rest = min(2*rest, longestRest)
		}
	}
}

// confirm looks at those that were told and not seen stopped yet.
func (p *pausing) confirm() error {
	p.running = 0
	var vforking []*victim
	for _, v := range p.victims {
		if v.state != victimTold {
			continue
		}
		if err := p.look(v, -1); err != nil {
			return fmt.Errorf("pause: %w", err)
		}
		if v.state == victimTold {
			p.running++
			vforking = append(vforking, v)
		}
	}
	for _, v := range vforking { // their children have been looked at by now
		if v.stat.State == 'D' && p.waitsForVfork(v) {
			v.state = victimStopped
			p.running--
		}
	}
	return nil
}

// look reads the state of one process that was told to stop, in its open stat or,
// with -1, in one opened anew.
func (p *pausing) look(v *victim, file int) error {
	s, err := p.read(v.id, file)
	if errors.Is(err, ErrGone) || err == nil && s.leaving() {
		v.state = victimGone
		return nil
	}
	if err != nil {
		return err
	}
	s.Comm = nil
	v.stat = s
	if p.host.wholeStopped(s) {
		v.state = victimStopped
		return nil
	}
	if !v.checked && time.Since(v.since) > frozenAfter {
		v.checked = true
		if frozen, dir := p.host.frozenCgroup(v.id.PID); frozen {
			return fmt.Errorf("process %s in %s: %w", v.id, dir, ErrFrozen)
		}
	}
	if (s.State == 'R' || s.State == 'S') && time.Since(v.since) > againAfter {
		return p.tellAgain(v)
	}
	return nil
}

func (p *pausing) read(id ID, file int) (Stat, error) {
	if file >= 0 {
		return readStat(file, p.buf[:], id)
	}
	return p.host.statOf(p.buf[:], id)
}

// tellAgain stops a process once more for which no stop signal waits. SIGCONT
// before it makes sure that no more than one SIGSTOP waits: a second one would
// look like somebody else's.
func (p *pausing) tellAgain(v *victim) error {
	v.since = time.Now()
	err := p.host.withProcess(p.buf[:], v.id, func(s Stat, send func(unix.Signal) error) error {
		st, err := p.host.status(v.id.PID)
		if err != nil || s.State == 'T' || st.AllPending()&stopSignals != 0 {
			return err
		}
		return errors.Join(send(unix.SIGCONT), send(unix.SIGSTOP))
	})
	if err != nil && !errors.Is(err, ErrGone) {
		return err
	}
	return nil
}

func (p *pausing) stopped() []ID {
	var ids []ID
	for _, v := range p.victims {
		if v.stopped && v.state == victimStopped {
			ids = append(ids, v.id)
		}
	}
	return ids
}

// undo continues whatever was told to stop.
func (p *pausing) undo() error {
	var ids []ID
	for _, v := range p.victims {
		if v.stopped && v.state != victimGone {
			ids = append(ids, v.id)
		}
	}
	done, err := p.host.Resume(ids)
	for _, f := range done.Foreign {
		p.result.Foreign = append(p.result.Foreign, f.ID)
	}
	if err != nil {
		return fmt.Errorf("undo the pause: %w", err)
	}
	return nil
}

func (p *pausing) incomplete(begin time.Time, cause error) error {
	e := &IncompleteError{Op: "pause", Of: len(p.victims), After: time.Since(begin), Cause: cause}
	var buf [statSize]byte
	for _, v := range p.victims {
		if v.state != victimTold {
			continue
		}
		if s, err := p.host.statOf(buf[:], v.id); err == nil {
			e.Left = append(e.Left, LeftOver{ID: v.id, State: s.State, Comm: string(s.Comm)})
		}
	}
	return e
}
