package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/gimbal-hpc/gimbal/helper/config"
	"github.com/gimbal-hpc/gimbal/helper/journal"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/report"
	"github.com/gimbal-hpc/gimbal/helper/wire"
)

// patience is how long a command waits for a sign of life of the daemon, and
// replyWait for each reply of one that lives: a page of a long history takes
// its time on a busy node.
const (
	patience  = 900 * time.Millisecond
	replyWait = 10 * time.Second
)

// defaultState is the folder of gimbald's journal.
const defaultState = "/var/lib/gimbal"

// source is where a command gets what it shows: the daemon, or what the daemon
// wrote to disk.
type source struct {
	socket  string
	state   string
	offline bool
	own     bool // the user's own daemon's: see place
}

// socketFlag adds the option of a command that asks the daemon alone.
func (s *source) socketFlag(f *pflag.FlagSet) {
	s.socket = wire.DefaultSocket
	f.Var(nodePath{&s.socket}, "socket", "gimbald's `path`")
}

// flags adds the options of a command that reads the disk as well.
func (s *source) flags(f *pflag.FlagSet) {
	s.socketFlag(f)
	s.state = defaultState
	f.Var(nodePath{&s.state}, "state-dir", "`folder` of gimbald's journal, read with --offline")
	f.BoolVar(&s.offline, "offline", false, "read what gimbald last wrote to disk, and say how old it is")
}

// snapshot gets what the query selects. note, if any, is to be said with it:
// then it comes from disk. An error that wraps wire.ErrUnreachable comes with
// what is on disk where that can be read.
func (s *source) snapshot(q model.StatusQuery, now time.Time) (snap model.Snapshot, note string, err error) {
	if s.offline {
		return s.fromDisk(q, now)
	}
	snap, err = s.fromDaemon(q)
	if !errors.Is(err, wire.ErrUnreachable) {
		return snap, "", err
	}
	if old, note, derr := s.fromDisk(q, now); derr == nil {
		return old, note, err
	}
	return snap, "", err
}

// place turns to the user's own daemon, or to what it left on disk, where there
// is no gimbald and no other place was named.
func (s *source) place() {
	own := config.PrivateSocket(os.Getenv, os.Getuid())
	state := config.PrivateState(own)
	if s.socket == wire.DefaultSocket && !there(s.socket) && (there(own) || there(state)) {
		s.socket, s.own = own, true
		if s.state == defaultState {
			s.state = state
		}
	}
}

// at turns to where a configuration has gimbald.
func (s *source) at(c *config.Config) {
	node := cmp.Or(c.Node.Name, thisNode())
	s.socket, s.state = config.NodePath(c.Socket.Path, node), config.NodePath(c.Node.StateDir, node)
}

// ownEnded is said of what a daemon of the user's own left on disk.
const ownEnded = "your own gimbald has ended with your last command"

// ended tells whether a daemon that does not answer is the user's own and has ended
// as it should: it took its socket along, and left nobody behind. Where gimbald has
// run as a service before, one is expected.
func (s *source) ended() bool {
	if !s.own || there(s.socket) || there(defaultState) {
		return false
	}
	r, err := journal.Replay(s.state, "")
	return err == nil && !r.Last.IsZero() && len(r.Live) == 0
}

func there(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// dial connects to a daemon that answers.
func (s *source) dial() (*wire.Client, error) {
	s.place()
	c, err := wire.Dial(s.socket, replyWait)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := c.Call(ctx, wire.OpPing, nil, nil); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

func (s *source) fromDaemon(q model.StatusQuery) (model.Snapshot, error) {
	c, err := s.dial()
	if err != nil {
		return model.Snapshot{}, err
	}
	defer func() { _ = c.Close() }()
	var ended []model.View
	for {
		var page model.StatusReply
		if err := c.Call(context.Background(), wire.OpStatus, q, &page); err != nil {
			return model.Snapshot{}, err
		}
		views, _ := journal.UnpackAll(page.Ended)
		if ended == nil {
			ended = views
		} else {
			ended = append(ended, views...)
		}
		q.After += len(views)
		if !page.More || len(views) == 0 {
			page.Tenants = sorted(append(ended, page.Tenants...))
			return page.Snapshot, nil
		}
	}
}

// neighbours gets the anonymous live tenants that somebody who asks for his
// own jobs shares the node with.
func (s *source) neighbours(now time.Time) []model.View {
	snap, err := s.fromDaemon(model.StatusQuery{Start: now})
	if err != nil {
		return nil
	}
	var out []model.View
	for _, v := range snap.Tenants {
		if v.Hidden {
			out = append(out, v)
		}
	}
	return out
}

// sorted puts first who came first; those without a start (another's) last.
// The views are large: they are moved once.
func sorted(views []model.View) []model.View {
	order := make([]int, len(views))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, k int) int {
		a, b := &views[i], &views[k]
		if a.Hidden != b.Hidden {
			if a.Hidden {
				return 1
			}
			return -1
		}
		return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.Reg.JobID, b.Reg.JobID))
	})
	out := make([]model.View, len(views))
	for i, n := range order {
		out[i] = views[n]
	}
	return out
}

func (s *source) fromDisk(q model.StatusQuery, now time.Time) (snap model.Snapshot, note string, err error) {
	s.place()
	r, err := journal.Replay(s.state, "")
	if err != nil {
		return snap, "", diskError(err)
	}
	if r.Last.IsZero() {
		return snap, "", fmt.Errorf("no journal is in %s", s.state)
	}
	snap.At = r.Last
	if snap.Tenants, err = journal.Ended(s.state, q); err != nil {
		return snap, "", diskError(err)
	}
	for _, l := range r.Live {
		v := model.ViewAt(l.Tenant, l.Wall, l.At)
		if q.Match(&v) {
			snap.Tenants = append(snap.Tenants, v)
		}
		snap.Node = l.Tenant.Reg.Node
	}
	snap.Tenants = sorted(snap.Tenants)
	snap.GPUs = gpusOnDisk(s.state, r.Last)
	if r.Boot == simulatedBoot {
		return snap, fmt.Sprintf("read from %s, which gimbal simulate wrote", s.state), nil
	}
	note = fmt.Sprintf("read from %s, last written at %s, %s ago", s.state,
		r.Last.In(now.Location()).Format("2006-01-02T15:04:05"), ago(now.Sub(r.Last)))
	if !r.SameBoot {
		note += "; the node was booted since"
	}
	return snap, note, nil
}

// gpusOnDisk are the GPUs of the last hour that was written, with their numbers.
// None is no error: then their UUIDs stand for them.
func gpusOnDisk(dir string, last time.Time) []model.GPU {
	var loads []model.Load
	_ = journal.Loads(dir, last.Add(-time.Hour), last.Add(time.Minute), func(l model.Load) bool {
		loads = append(loads, l)
		return true
	})
	return report.GPUsOf(loads)
}

// known is up to when something is known: now, or when the disk was written
// last where it is asked for.
func (s *source) known(now time.Time) time.Time {
	if !s.offline {
		return now
	}
	if snap, _, err := s.fromDisk(model.StatusQuery{Start: now}, now); err == nil {
		return snap.At
	}
	return now
}

func diskError(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("what gimbald wrote to disk is for root alone: %w", err)
	}
	return err
}

// ago writes a length of time with its two largest units, rounded down.
func ago(d time.Duration) string {
	var parts []string
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}, {time.Second, "second"}} {
		n := int(d / u.unit)
		d -= time.Duration(n) * u.unit
		if n > 0 {
			parts = append(parts, plural(n, u.name))
		}
		if len(parts) == 2 || len(parts) == 1 && n == 0 { // 2 days, not 2 days 7 seconds
			break
		}
	}
	return cmp.Or(strings.Join(parts, " "), "less than a second")
}

// records gets what the journal holds of the tenants that the query selects,
// from the daemon or, offline, from disk.
func (s *source) records(q model.RecordsQuery) (model.RecordsReply, error) {
	if s.offline {
		s.place()
		live, err := journal.LiveViews(s.state)
		if err != nil {
			return model.RecordsReply{}, diskError(err)
		}
		r, err := journal.Entries(s.state, q, live, nil)
		return r, diskError(err)
	}
	c, err := s.dial()
	if err != nil {
		return model.RecordsReply{}, err
	}
	defer func() { _ = c.Close() }()
	var all model.RecordsReply
	for {
		var page model.RecordsReply
		if err := c.Call(context.Background(), model.OpRecords, q, &page); err != nil {
			return all, err
		}
		entries := append(all.Entries, page.Entries...)
		all = page
		all.Entries = entries
		if !page.More || len(page.Entries) == 0 {
			return all, nil
		}
		q.Since = page.Entries[len(page.Entries)-1].Seq
	}
}

// course gets what the tenants that the query selects did, from the daemon or,
// where it does not answer, from disk: then there is a note to be said with it,
// and the course ends where the disk does. least is the shortest stretch of
// load that is of use. The error is as that of snapshot.
func (s *source) course(q model.StatusQuery, least time.Duration, now time.Time) (c report.Course, note string, err error) {
	query := model.CourseQuery{StatusQuery: q, Least: least}
	if !s.offline {
		c, err = s.courseFromDaemon(query)
		if !errors.Is(err, wire.ErrUnreachable) {
			return c, "", err
		}
	}
	old, note, derr := s.courseFromDisk(query, now)
	switch {
	case derr == nil:
		return old, note, err
	case s.offline:
		return old, "", derr
	}
	return c, "", err
}

func (s *source) courseFromDaemon(q model.CourseQuery) (report.Course, error) {
	snap, err := s.fromDaemon(q.StatusQuery)
	if err != nil {
		return report.Course{}, err
	}
	c := report.Course{Node: snap.Node, Start: q.Start, End: q.End, GPUs: snap.GPUs, Tenants: snap.Tenants}
	client, err := s.dial()
	if err != nil {
		return c, err
	}
	defer func() { _ = client.Close() }()
	for {
		var page model.CourseReply
		if err := client.Call(context.Background(), model.OpCourse, q, &page); err != nil {
			return c, err
		}
		c.Changes = append(c.Changes, journal.UnpackChanges(page.Changes)...)
		c.Loads = append(c.Loads, journal.UnpackLoads(page.Loads)...)
		if !page.Next.After(q.From) {
			return c, nil
		}
		q.From = page.Next
	}
}

func (s *source) courseFromDisk(q model.CourseQuery, now time.Time) (c report.Course, note string, err error) {
	snap, note, err := s.fromDisk(model.StatusQuery{Jobs: q.Jobs, Start: q.Start, End: q.End}, now)
	if err != nil {
		return c, "", err
	}
	live, err := journal.LiveViews(s.state)
	if err != nil {
		return c, "", diskError(err)
	}
	ended, err := journal.Ended(s.state, q.StatusQuery)
	if err != nil {
		return c, "", diskError(err)
	}
	for i := range live {
		if q.Match(&live[i]) {
			ended = append(ended, live[i])
			c.Node = live[i].Reg.Node
		}
	}
	if q.End.After(snap.At) {
		q.End = snap.At
	}
	c.Start, c.End, c.Tenants = q.Start, q.End, sorted(ended)
	for i := range c.Tenants {
		c.Node = cmp.Or(c.Node, c.Tenants[i].Reg.Node)
	}
	for {
		page, err := journal.Tell(s.state, q, live, nil)
		if err != nil {
			return c, "", diskError(err)
		}
		c.Changes = append(c.Changes, journal.UnpackChanges(page.Changes)...)
		c.Loads = append(c.Loads, journal.UnpackLoads(page.Loads)...)
		if !page.Next.After(q.From) {
			break
		}
		q.From = page.Next
	}
	c.GPUs = report.GPUsOf(c.Loads)
	return c, note, nil
}
