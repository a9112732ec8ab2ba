package proc

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/failpoint"
)

// openAtOnce bounds how many processes are told before they are looked at. By
// the time that the last was told, most have stopped; with more files open the
// kernel would enlarge this program's table of them.
const openAtOnce = 64

// candidate is a process of a batch. Until the batch is done its descriptors are
// open.
type candidate struct {
	v   *victim
	who proven
}

func (p *pausing) stopAll(fresh []ID) error {
	for batch := range slices.Chunk(fresh, openAtOnce) {
		if err := p.stopBatch(batch); err != nil {
			return fmt.Errorf("pause: %w", err)
		}
	}
	return nil
}

// stopBatch proves some processes, announces those that are to be told, tells
// them to stop, and looks at each once, in the file that proved it.
func (p *pausing) stopBatch(batch []ID) error {
	defer p.closeBatch()
	for _, id := range batch {
		if err := p.prove(p.known[id]); err != nil {
			return err
		}
	}
	if err := p.announce(); err != nil {
		return err
	}
	for i := range p.batch {
		if err := p.tell(&p.batch[i]); err != nil {
			return err
		}
	}
	for i := range p.batch {
		c := &p.batch[i]
		if c.v.state != victimTold {
			continue
		}
		if err := p.look(c.v, c.who.file); err != nil {
			return err
		}
	}
	return nil
}

func (p *pausing) closeBatch() {
	for i := range p.batch {
		p.batch[i].who.close()
	}
	p.batch = p.batch[:0]
}

// prove takes a process into the batch, unless it is to be left alone.
func (p *pausing) prove(v *victim) error {
	v.state = victimGone
	who, err := p.host.prove(p.buf[:], v.id)
	if errors.Is(err, ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	err = p.judge(v, who.stat)
	if err != nil || v.state != victimTold {
		who.close()
		return err
	}
	p.batch = append(p.batch, candidate{v, who})
	return nil
}

// judge says by its state what is to be done with a process.
func (p *pausing) judge(v *victim, s Stat) error {
	comm := s.Comm
	v.stat = s
	v.stat.Comm = nil
	switch {
	case s.leaving():
	case !p.target.OnGPU[v.id] && p.host.isSlurm(v.id.PID, comm):
		if p.roots[v.id] && p.host.runsStepd(v.id.PID, comm) {
			return fmt.Errorf("process %s: %w", v.id, ErrNotStarted)
		}
		v.state = victimSpared
		p.slurm = append(p.slurm, v)
	case v.shells && !p.works(v.id, s.PPID), p.target.Owner != nil && !p.host.OwnedBy(v.id, *p.target.Owner):
		v.state = victimSpared
		p.result.Spared = append(p.result.Spared, v.id)
	case s.State == 'T':
		p.alreadyStopped(v)
	default:
		v.state, v.stopped = victimTold, true
	}
	return nil
}

// works says whether a process is on a GPU, or descends from one of the target's
// that is.
func (p *pausing) works(id ID, ppid int) bool {
	var buf [statSize]byte
	for range maxAncestors {
		if p.target.OnGPU[id] {
			return true
		}
		parent := p.byPID[ppid]
		if parent == nil {
			return false
		}
		s, err := p.host.statOf(buf[:], parent.id)
		if err != nil {
			return false
		}
		id, ppid = parent.id, s.PPID
	}
	return false
}

// announce hands those of the batch that run to Target.Before.
func (p *pausing) announce() error {
	if p.target.Before == nil {
		return nil
	}
	ids := make([]ID, 0, len(p.batch))
	for _, c := range p.batch {
		if c.v.stat.State != 'T' {
			ids = append(ids, c.v.id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return p.target.Before(ids)
}

// tell sends SIGSTOP, but to one that was told by an earlier pause of ours.
func (p *pausing) tell(c *candidate) error {
	c.v.since = time.Now()
	if c.v.stat.State != 'T' {
		err := c.who.send(unix.SIGSTOP)
		if errors.Is(err, ErrGone) {
			c.v.state = victimGone
			return nil
		}
		if err != nil {
			return err
		}
	}
	p.running++
	p.victims = append(p.victims, c.v)
	failpoint.At("pause.told")
	return nil
}

// alreadyStopped takes a stopped process as ours only if we stopped it before,
// and by SIGSTOP where the kernel tells.
func (p *pausing) alreadyStopped(v *victim) {
	bySIGSTOP := v.stat.StopSignal == 0 || v.stat.StopSignal == int(unix.SIGSTOP)
	if p.mine[v.id] && bySIGSTOP {
		v.state, v.stopped = victimTold, true // told earlier; to be confirmed like the others
		return
	}
	v.state = victimStopped
	p.result.Foreign = append(p.result.Foreign, v.id)
}
