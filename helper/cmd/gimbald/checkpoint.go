package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/config"
	"github.com/gimbal-hpc/gimbal/helper/cuda"
	"github.com/gimbal-hpc/gimbal/helper/engine"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/node"
	"github.com/gimbal-hpc/gimbal/helper/policy"
)

// How the driver is asked whether it can move memory: only where a policy in
// force would have it do so, and at a low rate. A helper that nobody has needed
// for a while ends, so that nothing of ours keeps the driver loaded.
const (
	probeLook  = time.Second
	probeEvery = time.Minute
	probeLimit = 20 * time.Second
	helperIdle = 10 * time.Minute
)

// checkpoints move GPU memory to host RAM and back. The calls are made in a
// process of its own, which outlives this one for as long as it takes to bring
// back what it can.
type checkpoints struct {
	client *cuda.Client
	driver cuda.Driver
	moves  *moves
}

// newCheckpoints returns nil where nothing is to be swapped.
func newCheckpoints(c *config.Config, log *logger) (*checkpoints, error) {
	moves, err := openMoves(movesPath(c))
	if err != nil {
		return nil, err
	}
	k := &checkpoints{moves: moves}
	k.client = cuda.Start(helperCommand(c), cuda.Options{OnDeath: func(pid int, why error) {
		log.warn("swap", fmt.Sprintf("the checkpoint helper %d ended: %v", pid, why))
	}})
	drivers := []cuda.Driver{k.client}
	if c.Swap.Command != "" {
		drivers = append(drivers, cuda.NewCommand(c.Swap.Command, nil))
	}
	k.driver = cuda.FirstOf(drivers...)
	return k, nil
}

// helperCommand describes the process that calls the driver.
func helperCommand(c *config.Config) func() *exec.Cmd {
	return func() *exec.Cmd {
		cmd := exec.Command("/proc/self/exe", "--checkpoint-helper", "--checkpoint-library", c.Swap.Library,
			"--checkpoint-moves", movesPath(c), "--checkpoint-wait", c.Guard.Held.String())
		cmd.Args[0] = "gimbald"
		cmd.Stderr, cmd.Dir = os.Stderr, "/"
		return cmd
	}
}

// mover is what the node swaps with. underWay is the memory that is on its way
// to host RAM already.
func (k *checkpoints) mover(c *config.Config, underWay func() model.Bytes) *cuda.Mover {
	host := cuda.Host{Proc: c.Sample.Proc, Cgroup: c.Sample.Cgroup, Margin: c.Swap.Margin}
	return &cuda.Mover{Driver: k.driver, Room: func(pid int, need model.Bytes) error {
		return host.Room(pid, max(need, underWay()))
	}}
}

// close ends the helper, unless memory is still in host RAM: then it brings
// back what it can once this process is gone.
func (k *checkpoints) close() error {
	left, err := k.moves.list()
	if len(left) > 0 || err != nil {
		return errors.Join(err, k.moves.close())
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return errors.Join(k.client.Close(ctx), k.moves.close())
}

// watchSwap tells the policies whether swapping works.
func (d *daemon) watchSwap(ctx context.Context) {
	if d.swaps == nil || !d.settings().Swap.Enabled {
		return
	}
	asked, every := -probeEvery, probeEvery
	last := cuda.Support{Reason: "not asked yet"}
	for {
		if now := clock(); now-asked >= every && d.wantsSwap(ctx) {
			s := d.probe(ctx)
			asked, every = now, probeEvery
			if s.OK {
				every = helperIdle
			}
			if s.OK != last.OK || s.Reason != last.Reason {
				d.log.info("swap", supportWords(s))
			}
			last = s
			_ = d.loop.Ask(ctx, func(*engine.Engine) { d.decider.SetSwap(s.OK) }) // it fails only at the end
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(probeLook):
		}
	}
}

func supportWords(s cuda.Support) string {
	if !s.OK {
		return "GPU memory cannot be moved to host RAM: " + s.Reason
	}
	return strings.TrimSpace(fmt.Sprintf("GPU memory can be moved to host RAM, by the %s %s", s.By, s.Version))
}

func (d *daemon) probe(ctx context.Context) cuda.Support {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	s := d.swaps.driver.Supported(ctx)
	left, err := d.swaps.moves.list()
	if _, at := d.node.Moving(); err == nil && len(left) == 0 && clock()-at > helperIdle {
		d.swaps.client.Retire()
	}
	return s
}

// wantsSwap tells whether a policy that a GPU has, or that a tenant asks for,
// swaps.
func (d *daemon) wantsSwap(ctx context.Context) bool {
	d.mu.Lock()
	set := d.policies
	d.mu.Unlock()
	if swaps(set.Default) {
		return true
	}
	for _, p := range set.ByGPU {
		if swaps(p) {
			return true
		}
	}
	wants := false
	_ = d.loop.Ask(ctx, func(e *engine.Engine) {
		for _, t := range e.Node.Tenants {
			wants = wants || swaps(set.ByName[t.Terms.Policy])
		}
	})
	return wants
}

func swaps(p *policy.Policy) bool {
	if p == nil {
		return false
	}
	for _, g := range p.Guards {
		if slices.Contains(g.Do, model.PrimSwap) {
			return true
		}
	}
	return p.Share.Swap
}

// runHelper is the process that calls the driver. Once its daemon is gone it
// brings back what it can, until a new daemon does so.
func runHelper(o helperOptions, in io.Reader, out io.Writer) error {
	return cuda.Serve(&orphanReader{in: in, owner: o.moves + ".lock"}, out, o.library, o.wait)
}

// helperOptions are what the process that calls the driver is told.
type helperOptions struct {
	library string
	moves   string        // the folder of what is swapped
	wait    time.Duration // how long it leaves that to a new daemon
}

// orphanReader ends the process when its input has ended and a new daemon owns
// what was swapped.
type orphanReader struct {
	in    io.Reader
	owner string
}

func (r *orphanReader) Read(b []byte) (int, error) {
	n, err := r.in.Read(b)
	if err != nil {
		go r.watch()
	}
	return n, err
}

func (r *orphanReader) watch() {
	for ; ; time.Sleep(20 * time.Millisecond) {
		f, err := os.OpenFile(r.owner, os.O_RDWR|unix.O_NOFOLLOW, 0)
		if err != nil {
			continue
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) == unix.EWOULDBLOCK {
			os.Exit(exitOK)
		}
		_ = f.Close()
	}
}

// restoreLeft brings back one process that an earlier daemon left in host RAM,
// if there is room for it within the limit. It is not stopped again if not.
func restoreLeft(m *cuda.Mover, left node.Moved, limit time.Duration) error {
	t := cuda.Tenant{Procs: []cuda.Proc{{ID: left.Proc, Memory: model.Known(left.Memory)}}, Stopper: noStopper{}}
	for end := time.Now().Add(limit); ; time.Sleep(200 * time.Millisecond) {
		err := m.Restore(context.Background(), t)
		if err == nil || errors.Is(err, cuda.ErrGone) {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("bring the memory of tenant %s back: %w", left.Tenant, err)
		}
	}
}

// noStopper leaves a tenant running.
type noStopper struct{}

func (noStopper) Stop(context.Context) error     { return nil }
func (noStopper) Continue(context.Context) error { return nil }

// releaseMoved brings back what an earlier daemon left in host RAM, as room
// allows, and returns how much that was.
func releaseMoved(c *config.Config, limit time.Duration) (n int, err error) {
	if left, err := listMoves(movesPath(c)); len(left) == 0 {
		return 0, err
	}
	log, err := newLogger(os.Stderr, c.Log)
	if err != nil {
		return 0, err
	}
	k, err := newCheckpoints(c, log)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, k.close()) }()
	left, err := k.moves.list()
	m := k.mover(c, func() model.Bytes { return 0 })
	errs := []error{err}
	for _, one := range left {
		if err := restoreLeft(m, one, limit/time.Duration(len(left))); err != nil {
			errs = append(errs, err)
			continue
		}
		n++
		errs = append(errs, k.moves.Drop(one.Tenant))
	}
	return n, errors.Join(errs...)
}

func movesPath(c *config.Config) string {
	return filepath.Join(filepath.Dir(c.Socket.Path), "swapped")
}

// restoreStrays brings back what an earlier daemon left in host RAM of tenants
// that nobody knows any more.
func (d *daemon) restoreStrays() {
	if d.swaps == nil {
		return
	}
	m := d.swaps.mover(d.settings(), func() model.Bytes { return 0 })
	for _, left := range d.left {
		if err := restoreLeft(m, *left, restoreWait); err != nil {
			d.log.error("swap", "not known any more", err)
			continue
		}
		if err := d.swaps.moves.Drop(left.Tenant); err != nil {
			d.log.error("swap", "not known any more", err)
		}
	}
}

// stateLimit bounds how long the driver is asked for the state of a process
// when a daemon starts.
const stateLimit = 10 * time.Second

// takeMoved makes what swaps, and looks at what an earlier daemon swapped: a
// process whose memory is in host RAM waits until there is room for it. A
// daemon that cannot swap works on without.
func (d *daemon) takeMoved(ctx context.Context) {
	d.left = d.leftSwapped()
	if !d.cfg.Swap.Enabled && len(d.left) == 0 {
		return
	}
	var err error
	if d.swaps, err = newCheckpoints(d.cfg, d.log); err != nil {
		d.log.error("swap", "nothing is swapped", err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, stateLimit)
	defer cancel()
	for _, m := range d.left {
		state, err := d.swaps.driver.State(ctx, m.Proc)
		m.InHost = err == nil && state == cuda.Checkpointed
	}
}

// takesBack tells whether there is room for a tenant's memory by what all may
// count on, and admits it if so. It is for the end, when the loop has ended.
func (d *daemon) takesBack(id model.TenantID) bool {
	n := d.engine.Node
	t := n.Tenant(id)
	if t == nil {
		return false
	}
	for _, uuid := range t.GPUs {
		g := n.GPU(uuid)
		if g == nil {
			return false
		}
		claim, ok := t.Claim(*g).Get()
		if room, known := n.Room(t, uuid).Get(); !ok || !known || claim > room {
			return false
		}
	}
	t.Admitted = true
	return true
}

// leftSwapped is what an earlier daemon left in host RAM.
func (d *daemon) leftSwapped() map[model.TenantID]*node.Moved {
	left, err := listMoves(movesPath(d.cfg))
	if err != nil {
		d.log.error("swap", "what an earlier daemon left in host RAM", err)
	}
	all := make(map[model.TenantID]*node.Moved, len(left))
	for i := range left {
		all[left[i].Tenant] = &left[i]
	}
	return all
}
