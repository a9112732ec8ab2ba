package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/config"
	"github.com/gimbal-hpc/gimbal/helper/failpoint"
)

// guardian starts the guard process, beats for it, and starts another when it
// dies.
type guardian struct {
	opts    guardOptions
	enabled bool
	every   time.Duration
	log     *logger
	done    sync.WaitGroup
	cancel  context.CancelFunc

	mu   sync.Mutex
	pipe int // of the beats to the guard, -1 without one
	gen  uint64
	last time.Duration
}

func newGuardian(c *config.Config, log *logger) *guardian {
	return &guardian{
		opts:    guardOptions{stopSet: stopSetPath(c), stall: c.Guard.Stall, held: c.Guard.Held},
		enabled: c.Guard.Enabled, every: c.Guard.Check, log: log, cancel: func() {}, pipe: -1,
	}
}

// start keeps a guard alive until stop.
func (g *guardian) start(ctx context.Context) {
	if !g.enabled {
		g.log.warn("guard", "guard.enabled is false: nothing continues paused jobs if this daemon dies")
		return
	}
	ctx, g.cancel = context.WithCancel(context.WithoutCancel(ctx))
	started := make(chan struct{})
	g.done.Go(func() { g.keep(ctx, started) })
	<-started
}

// keep starts guards, one after the other, with growing pauses.
func (g *guardian) keep(ctx context.Context, started chan struct{}) {
	var once sync.Once
	for wait := time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		cmd, err := g.spawn()
		once.Do(func() { close(started) })
		if err == nil {
			err = cmd.Wait()
			g.drop()
		}
		if ctx.Err() != nil {
			return
		}
		g.log.error("guard", "the guard process ended; another is started", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// spawn starts a guard in a session of its own, so that a signal to the
// daemon's group does not reach it.
func (g *guardian) spawn() (*exec.Cmd, error) {
	r, w, err := beatPipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	cmd := exec.Command("/proc/self/exe", "--guard", "--guard-set", g.opts.stopSet, "--guard-generation", g.generation(),
		"--guard-stall", g.opts.stall.String(), "--guard-held", g.opts.held.String())
	cmd.Args[0] = "gimbald"
	cmd.Stdin, cmd.Stderr, cmd.Dir, cmd.Env = r, os.Stderr, "/", append(failpoint.Env("guard"), "PATH=/usr/bin:/bin")
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		_ = unix.Close(w)
		return nil, fmt.Errorf("guard: start: %w", err)
	}
	failpoint.At("guard.spawned")
	g.mu.Lock()
	g.pipe, g.last = w, 0
	g.mu.Unlock()
	g.beat()
	return cmd, nil
}

// beatPipe makes a pipe of which only the writing end does not block.
func beatPipe() (r *os.File, w int, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, -1, fmt.Errorf("guard: pipe: %w", err)
	}
	if err := unix.SetNonblock(fds[1], true); err != nil {
		return nil, -1, fmt.Errorf("guard: pipe: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "beats"), fds[1], nil
}

func (g *guardian) drop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pipe >= 0 {
		_ = unix.Close(g.pipe)
		g.pipe = -1
	}
}

// generation is that of the stop set in force, as text.
func (g *guardian) generation() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return strconv.FormatUint(g.gen, 10)
}

// setGeneration tells the guard at once that another generation of the stop
// set is in force.
func (g *guardian) setGeneration(gen uint64) {
	g.mu.Lock()
	g.gen, g.last = gen, 0
	g.mu.Unlock()
	g.beat()
}

// beat tells the guard that the loop turns. A full pipe means that the guard
// does not read: it is not waited for.
func (g *guardian) beat() {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := clock()
	if g.pipe < 0 || g.last != 0 && now-g.last < g.every {
		return
	}
	g.last = now
	notifyAlive()
	line := strconv.AppendUint(nil, g.gen, 10)
	_, _ = unix.Write(g.pipe, append(line, '\n'))
}

// stop lets the guard end: it finds nothing stopped.
func (g *guardian) stop() {
	g.cancel()
	g.drop()
	g.done.Wait()
}
