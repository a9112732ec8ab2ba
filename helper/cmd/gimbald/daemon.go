package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/config"
	"github.com/gimbal-hpc/gimbal/helper/engine"
	"github.com/gimbal-hpc/gimbal/helper/failpoint"
	"github.com/gimbal-hpc/gimbal/helper/gpu"
	"github.com/gimbal-hpc/gimbal/helper/journal"
	"github.com/gimbal-hpc/gimbal/helper/learn"
	"github.com/gimbal-hpc/gimbal/helper/lockfile"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/node"
	"github.com/gimbal-hpc/gimbal/helper/policy"
	"github.com/gimbal-hpc/gimbal/helper/proc"
	"github.com/gimbal-hpc/gimbal/helper/progress"
	"github.com/gimbal-hpc/gimbal/helper/wire"
)

// loopIdle is the longest that the loop sleeps: the guard expects a beat from
// each turn. It is more than the usual second between samples, each of which is a
// turn.
const loopIdle = 1200 * time.Millisecond

// lastPage is how long the end waits for the last page of metrics.
const lastPage = 2 * time.Second

// daemon is everything that runs in one gimbald.
type daemon struct {
	path    string             // of the configuration
	private string             // socket of a user's own daemon, "" for root's
	leave   context.CancelFunc // ends a private daemon
	log     *logger
	started time.Time
	name    string // of the node

	mu       sync.Mutex // of what a reload replaces
	cfg      *config.Config
	policies *policy.Set
	reload   reloadState
	reloaded chan struct{} // after each reload, whether or not it was taken

	server   *wire.Server
	stops    *stops
	swaps    *checkpoints                   // nil: nothing is swapped
	left     map[model.TenantID]*node.Moved // in host RAM, of no tenant that is known yet
	journal  *journal.Journal
	slurm    *slurmCommands
	notes    *notes         // of ended jobs, for accounting
	learner  *learn.Learner // of the loop alone
	progress progress.Folder
	sampler  *gpu.Sampler
	node     *node.Node
	decider  *policy.Decider // of the loop alone
	engine   *engine.Engine
	loop     *engine.Loop
	caps     *capper
	places   *placer
	guard    *guardian
	runs     runs
	orders   orders
	hup      chan os.Signal // asks for a reload
	faults   atomic.Uint64
}

// serve runs the daemon until a signal ends it, a private one with its socket
// there until it is idle.
func serve(path, node, private string, stderr io.Writer) error {
	d := &daemon{path: path, private: private, started: time.Now(), name: node, reloaded: make(chan struct{}, 1)}
	cfg, set, warnings, err := d.loadConfig()
	if err != nil {
		return err
	}
	log, err := newLogger(stderr, cfg.Log)
	if err != nil {
		return err
	}
	for _, w := range warnings {
		log.warn("config", w)
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
	defer stop()
	d.hup = make(chan os.Signal, 1) // before anybody can know of the daemon: without it SIGHUP would end it
	signal.Notify(d.hup, unix.SIGHUP)
	defer signal.Stop(d.hup)
	d.log, d.cfg, d.policies, d.reload.loaded = log, cfg, set, d.started
	if private != "" {
		var leave context.CancelFunc
		ctx, leave = context.WithCancel(ctx)
		defer leave()
		d.leave = leave
	}
	if err := d.open(ctx); err != nil {
		return errors.Join(err, d.close())
	}
	return errors.Join(d.run(ctx), d.close())
}

// open makes the parts, in the order in which they must be there: the socket
// first, since only one daemon may own it.
func (d *daemon) open(ctx context.Context) error {
	var err error
	if d.server, err = wire.Listen(d.cfg.Socket.Path, wire.Options{Mode: d.cfg.Socket.Mode, Wait: lockfile.Wait, Refused: d.refused}); err != nil {
		if d.private != "" {
			return err
		}
		return asRoot(err, os.Geteuid(), filepath.Dir(d.cfg.Socket.Path))
	}
	failpoint.At("start.listening")
	if err := d.trustState(); err != nil {
		return err
	}
	d.slurm = newSlurm(d.cfg)
	if d.name == "" {
		d.name = d.slurm.nodeName(ctx, d.cfg.Node.Name)
	}
	d.guard = newGuardian(d.cfg, d.log)
	if d.stops, err = openStops(stopSetPath(d.cfg), d.guard.setGeneration); err != nil {
		return err
	}
	failpoint.At("start.owner")
	held := d.releasePaused()
	failpoint.At("start.released")
	d.takeMoved(ctx)
	d.guard.start(ctx)
	failpoint.At("start.guarded")
	replayed, err := journal.Replay(d.cfg.Node.StateDir, "")
	if err != nil {
		d.log.error("journal", "what an earlier daemon knew is lost", err)
	}
	if d.journal, err = journal.Open(d.cfg.Node.StateDir, journal.Options{Now: failpoint.Now}); err != nil {
		return err
	}
	d.notes = newNotes(d)
	d.sampler = gpu.Watch(gpu.Open(d.cfg.Sample.NVML), d.cfg.Sample.Interval, clock)
	d.caps = d.newCapper()
	d.openLearnt()
	d.places = d.newPlacer()
	d.makeNode()
	d.decider = policy.NewDecider(d.policies, d.told())
	d.decider.SetEpoch(d.started.Add(-clock()))
	d.engine = engine.New(model.NewNode(), engine.Parts{
		Source: d.node, Actuator: d.node, Journal: d.notes.journalOf(measuring{d.journal, d.learner}), Decider: d.decider,
		Wall: failpoint.Now, FirstID: replayed.Action, Report: d.stepFailed, Meter: d.journal, Learner: d.learner,
	})
	d.loop = engine.NewLoop(d.engine, clock, d.node.Wake(), d.guard.beat, min(loopIdle, d.cfg.Guard.Stall/2))
	failpoint.At("start.opened")
	d.adopt(replayed, held)
	failpoint.At("start.adopted")
	return nil
}

// trustState refuses a state folder into which others may put something: which
// processes are a tenant's is believed as it stands there.
func (d *daemon) trustState() error {
	if d.private != "" {
		return nil
	}
	if err := config.TrustedFolder(d.cfg.Node.StateDir); err != nil {
		return fmt.Errorf("node.state_dir: %w", err)
	}
	return nil
}

func (d *daemon) makeNode() {
	parts := node.Parts{
		Host:        proc.Host{ProcRoot: d.cfg.Sample.Proc, CgroupRoot: d.cfg.Sample.Cgroup},
		GPUs:        d.sampler,
		Progress:    d.progress.Read,
		Stops:       d.stops,
		Grant:       d.grant,
		Policy:      d.policyOf,
		Resolve:     gpu.Resolve,
		Slurm:       d.slurm,
		Freezer:     d.cfg.Sample.Freezer,
		Clock:       clock,
		Wall:        failpoint.Now,
		StopTimeout: d.cfg.Limits.StopTimeout,
		EvictGrace:  d.cfg.Limits.EvictGrace,
		Every:       d.cfg.Sample.Interval,
		Stale:       d.cfg.Sample.Stale,
		Log:         func(format string, args ...any) { d.log.info("node", fmt.Sprintf(format, args...)) },
	}
	if c := d.caps.control; c != nil {
		parts.MPS = c
	}
	if d.swaps != nil {
		parts.Moves = d.swaps.moves
		parts.Mover = d.swaps.mover(d.cfg, func() model.Bytes { m, _ := d.node.Moving(); return m })
	}
	d.node = node.New(parts)
}

// awaitDriver waits for the driver's first report, for a short while: jobs
// that are told of before it count as on GPUs that are not known.
func (d *daemon) awaitDriver(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-d.sampler.News():
	case <-time.After(d.cfg.Sample.Stale):
	}
}

// run serves until the context ends, then continues everything.
func (d *daemon) run(ctx context.Context) error {
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var parts sync.WaitGroup
	d.awaitDriver(ctx)
	parts.Go(func() { d.node.Run(inner) })
	parts.Go(func() { d.loop.Run(inner) })
	d.takePending(inner)
	failpoint.At("start.pending")
	parts.Go(func() { d.reloadOnHangup(inner) })
	parts.Go(func() { d.watchPending(inner) })
	parts.Go(func() { d.watchSwap(inner) })
	if d.leave != nil {
		parts.Go(func() { d.leaveWhenIdle(inner, d.leave) })
	} else {
		parts.Go(func() { d.checkName(inner) })
	}
	parts.Go(func() { d.notes.run(inner) })
	parts.Go(func() { d.watchCredit(inner) })
	if d.cfg.Node.Place == config.PlaceGimbal {
		parts.Go(func() { d.firstSite(inner) })
	}
	if d.caps.watch != nil {
		parts.Go(func() { d.caps.watch.Run(inner) })
	}
	parts.Go(func() { d.watchLearnt(inner) })
	parts.Go(d.restoreStrays)
	exported := make(chan struct{})
	go func() { defer close(exported); d.watchMetrics(inner) }()
	served := make(chan error, 1)
	go func() { served <- d.server.Serve(ctx, d.handle) }()
	d.log.info("daemon", fmt.Sprintf("gimbald %s manages node %s", version, d.name))
	notifyReady()
	var err error
	select {
	case <-ctx.Done():
	case err = <-served:
		served <- err
	}
	notifyStopping()
	err = errors.Join(err, d.server.Close(), <-served)
	failpoint.At("leave.closed")
	cancel()
	parts.Wait()
	d.writeLearnt(d.learner.Kept(time.Now()))
	failpoint.At("leave.quiet")
	err = errors.Join(err, d.releaseHeld())
	select {
	case <-exported:
	case <-time.After(lastPage): // no job waits for a file system
	}
	return err
}

// releaseHeld continues everything at the daemon's own end.
func (d *daemon) releaseHeld() error {
	n, err := d.node.ReleaseAll(d.takesBack)
	if n > 0 {
		d.log.info("daemon", fmt.Sprintf("leaving: %d tenants continued", n))
	}
	return err
}

func (d *daemon) close() error {
	var errs []error
	failpoint.At("leave.released")
	if d.server != nil {
		errs = append(errs, d.server.Close())
	}
	if d.node != nil {
		d.node.Close()
	}
	if d.sampler != nil {
		errs = append(errs, d.sampler.Close(time.Second))
	}
	if d.guard != nil {
		d.guard.stop()
		failpoint.At("leave.unguarded")
	}
	if d.places != nil {
		d.places.site.close()
	}
	if d.stops != nil {
		errs = append(errs, d.stops.close())
	}
	if d.swaps != nil {
		errs = append(errs, d.swaps.close())
	}
	if d.journal != nil {
		errs = append(errs, d.journal.Close())
	}
	return errors.Join(errs...)
}

// releasePaused continues what an earlier daemon left paused, and returns what
// it held: that waits for the first decision.
func (d *daemon) releasePaused() map[model.TenantID]*node.Stop {
	held := map[model.TenantID]*node.Stop{}
	for id, s := range d.stops.set.Tenants() {
		if s.Held {
			held[id] = &node.Stop{Tenant: id, Held: true, IDs: s.Procs, Cgroups: s.Cgroups}
			continue
		}
		d.release(id, s)
	}
	return held
}

// release continues one tenant that an earlier daemon left stopped.
func (d *daemon) release(id model.TenantID, s journal.Stopped) {
	n, err := continueStopped(proc.Host{}, s)
	if err != nil {
		d.log.error("release", "an earlier daemon's stop could not be undone", err)
		return
	}
	d.log.info("release", fmt.Sprintf("tenant %s: %d processes that an earlier daemon left stopped run again", id, n))
	if err := d.stops.Drop(id); err != nil {
		d.log.error("release", "stop set", err)
	}
}

// adopt takes over the tenants that an earlier daemon knew and that live on.
func (d *daemon) adopt(r journal.Replayed, held map[model.TenantID]*node.Stop) {
	for _, l := range r.Live {
		d.node.Adopt(l.Tenant, held[l.Tenant.ID], d.left[l.Tenant.ID])
		delete(held, l.Tenant.ID)
		delete(d.left, l.Tenant.ID)
	}
	for id, o := range r.Orders {
		if o.Until == 0 || o.Until > clock() {
			d.node.Order(id, &o)
		}
	}
	for id, s := range held { // nobody knows of it any more
		d.release(id, journal.Stopped{Procs: s.IDs, Cgroups: s.Cgroups})
	}
	if n := len(r.Live); n > 0 {
		d.log.info("daemon", fmt.Sprintf("took over %d tenants", n))
	}
}

// clock is the monotonic clock that goes on while the machine sleeps and means
// the same to each daemon of one boot.
func clock() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

func stopSetPath(c *config.Config) string {
	return filepath.Join(filepath.Dir(c.Socket.Path), "stopped")
}

func (d *daemon) stepFailed(err error) {
	d.faults.Add(1)
	d.log.error("engine", "step", err)
}

func (d *daemon) refused(p wire.Peer, reason string) {
	uid := fmt.Sprintf("uid %d", p.UID)
	const most = 200
	d.log.warnOf("refused", uid, fmt.Sprintf("%s: %.*s", uid, most, reason))
}
