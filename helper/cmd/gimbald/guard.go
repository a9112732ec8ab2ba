package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/gimbal-hpc/gimbal/helper/config"
	"github.com/gimbal-hpc/gimbal/helper/failpoint"
	"github.com/gimbal-hpc/gimbal/helper/journal"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/node"
	"github.com/gimbal-hpc/gimbal/helper/proc"
)

// The guard is a process of its own beside the daemon. It does one thing:
// when the daemon dies, or its loop does not turn, it continues what is
// stopped. It reads beats on its standard input, each a line with the
// generation of the stop set in force; the end of the input is the daemon's
// death, however it came. It is started with the generation as well: a daemon may
// die before its first beat, and what a newer one has stopped by then is none of
// this guard's business.

type guardOptions struct {
	stopSet string
	gen     uint64 // of the stop set, until a beat tells another
	stall   time.Duration
	held    time.Duration
}

type guard struct {
	opts guardOptions
	host proc.Host
	log  zerolog.Logger
	gen  uint64
}

// runGuard watches until the daemon is gone and everything runs.
func runGuard(o guardOptions, beats io.Reader, stderr io.Writer) error {
	if o.stopSet == "" || o.gen == 0 || o.stall <= 0 {
		return errors.New("--guard is for gimbald itself: it needs --guard-set, --guard-generation and --guard-stall")
	}
	g := &guard{opts: o, gen: o.gen, log: zerolog.New(stderr).With().Timestamp().Str("part", "guard").Logger()}
	return g.watch(readBeats(beats))
}

// readBeats turns the input into generations; the channel is closed at its
// end. The goroutine ends with the process.
func readBeats(r io.Reader) <-chan uint64 {
	out := make(chan uint64)
	go func() {
		defer close(out)
		lines := bufio.NewScanner(r)
		for lines.Scan() {
			if gen, err := strconv.ParseUint(strings.TrimSpace(lines.Text()), 10, 64); err == nil {
				out <- gen
			}
		}
	}()
	return out
}

func (g *guard) watch(beats <-chan uint64) error {
	timer := time.NewTimer(g.opts.stall)
	defer timer.Stop()
	hung := false
	for {
		select {
		case gen, ok := <-beats:
			if !ok {
				return g.died()
			}
			if hung {
				g.log.Warn().Msg("the daemon's loop turns again")
			}
			g.gen, hung = gen, false
			timer.Reset(g.opts.stall)
		case <-timer.C:
			if !hung {
				hung = true
				g.stalled()
			}
		}
	}
}

// stalled continues everything: nobody decides any more.
func (g *guard) stalled() {
	t, err := journal.TakeOver(g.opts.stopSet, g.gen, time.Second)
	if errors.Is(err, journal.ErrFenced) { // by an earlier hang; nothing was stopped since
		g.log.Warn().Msgf("the daemon's loop has not turned for %s: everything runs already", g.opts.stall)
		return
	}
	if err != nil {
		g.log.Error().Err(err).Msg("the daemon hangs and what it stopped cannot be found")
		return
	}
	n := g.release(t.StopState, func(journal.Stopped) bool { return true })
	failpoint.At("guard.continued")
	_ = t.Release()
	g.log.Warn().Int("processes", n).Msgf("the daemon's loop has not turned for %s: everything runs", g.opts.stall)
}

// died continues what is paused at once; what is held waits a while for a new
// daemon, since it would only run out of memory sooner.
func (g *guard) died() error {
	t, err := journal.TakeOver(g.opts.stopSet, g.gen, time.Second)
	if errors.Is(err, journal.ErrFenced) {
		return nil // a new daemon was faster
	}
	if err != nil {
		return err
	}
	n := g.release(t.StopState, func(s journal.Stopped) bool { return !s.Held })
	fenced := t.Generation
	failpoint.At("guard.continued")
	if err := t.Release(); err != nil {
		return err
	}
	if n > 0 {
		g.log.Warn().Int("processes", n).Msg("the daemon is gone: what was paused runs")
	}
	if !anyHeld(t.Tenants) {
		return nil
	}
	return g.waitHeld(fenced, t.StopState)
}

func anyHeld(tenants map[model.TenantID]journal.Stopped) bool {
	for _, s := range tenants {
		if s.Held {
			return true
		}
	}
	return false
}

// waitHeld continues held tenants unless a new daemon took the set over.
func (g *guard) waitHeld(gen uint64, st journal.StopState) error {
	deadline := time.Now().Add(g.opts.held)
	for time.Now().Before(deadline) {
		time.Sleep(100 * time.Millisecond)
		now, err := journal.LoadStopSet(g.opts.stopSet)
		if err == nil && now.Generation > gen {
			return nil
		}
	}
	n := g.release(st, func(s journal.Stopped) bool { return s.Held })
	g.log.Warn().Int("processes", n).Msgf("no new daemon within %s: what was held runs", g.opts.held)
	return nil
}

// release continues the chosen tenants and counts their processes.
func (g *guard) release(st journal.StopState, choose func(journal.Stopped) bool) int {
	n := 0
	for id, s := range st.Tenants {
		if !choose(s) {
			continue
		}
		done, err := continueStopped(g.host, s)
		if err != nil {
			g.log.Error().Err(err).Str("tenant", string(id)).Msg("not all of it could be continued")
		}
		n += done
	}
	return n
}

// continueStopped continues what is written down of one tenant and counts
// what it continued.
func continueStopped(h proc.Host, s journal.Stopped) (int, error) {
	var errs []error
	var dirs []proc.Freezer
	for _, text := range s.Cgroups {
		f, err := node.ParseFreezer(text)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		dirs = append(dirs, f)
	}
	thawed, err := h.Thaw(dirs)
	errs = append(errs, err)
	ids := make([]proc.ID, len(s.Procs))
	for i, p := range s.Procs {
		ids[i] = proc.ID(p)
	}
	done, err := h.Resume(ids)
	return len(done.Continued) + len(thawed.Thawed), errors.Join(append(errs, err)...)
}

// restoreWait is how long --release waits for room for what is in host RAM.
const restoreWait = 10 * time.Second

// releaseAll continues whatever an earlier daemon left stopped. By hand it also
// brings back what was left in host RAM, which the guard cannot; from a service
// that leaves it to the next daemon, or to the helper that waits for one.
func releaseAll(configPath, node string, stdout io.Writer) error {
	c, _, err := config.Load(configPath)
	if err != nil {
		c = config.Default() // a mistake in the file must not keep jobs stopped
	}
	if err := atNode(c, node); err != nil {
		return err
	}
	t, err := journal.TakeOver(stopSetPath(c), 0, 5*time.Second)
	if err != nil {
		return err
	}
	defer func() { _ = t.Release() }()
	var errs []error
	n := 0
	for id, s := range t.Tenants {
		if s.Held && restarts() {
			continue // the guard gives the next daemon a while to take it over
		}
		done, err := continueStopped(proc.Host{}, s)
		n += done
		if err != nil {
			errs = append(errs, fmt.Errorf("tenant %s: %w", id, err))
		}
	}
	fmt.Fprintf(stdout, "%d processes of %d tenants continued\n", n, len(t.Tenants))
	if _, service := os.LookupEnv("SERVICE_RESULT"); service {
		return errors.Join(errs...)
	}
	moved, err := releaseMoved(c, restoreWait)
	if moved > 0 {
		fmt.Fprintf(stdout, "the GPU memory of %d tenants restored\n", moved)
	}
	return errors.Join(append(errs, err)...)
}

// restarts tells whether systemd is about to start the daemon again.
func restarts() bool {
	r, ok := os.LookupEnv("SERVICE_RESULT")
	return ok && r != "success"
}
