package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/config"
	"github.com/gimbal-hpc/gimbal/helper/engine"
	"github.com/gimbal-hpc/gimbal/helper/learn"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/policy"
	"github.com/gimbal-hpc/gimbal/helper/progress"
)

// How often what was learnt is written down, and the files of jobs that are gone
// are looked for; and how long one that nobody writes stays in any case.
const (
	learntEvery = time.Minute
	unwritten   = 10 * time.Minute
)

func learntPath(c *config.Config) string { return filepath.Join(c.Node.StateDir, "learnt") }

func learnOptions(c *config.Config) learn.Options {
	return learn.Options{Window: c.Learn.Window, Keep: c.Learn.Keep}
}

// openLearnt makes the learner, with what an earlier daemon left.
func (d *daemon) openLearnt() {
	d.progress = progress.Folder{Dir: filepath.Join(filepath.Dir(d.cfg.Socket.Path), "progress"), Clock: clock}
	kept, err := readLearnt(learntPath(d.cfg))
	if err != nil {
		d.log.error("learn", "how fast jobs are beside each other is learnt anew", err)
	}
	d.learner = learn.New(learnOptions(d.cfg), kept)
}

func readLearnt(path string) ([]learn.Kept, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, learn.MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return learn.Decode(text)
}

// writeLearnt puts a file in the place of the one that is there, whole.
func writeLearnt(path string, kept []learn.Kept) error {
	text, err := learn.Encode(kept)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".learnt-")
	if err != nil {
		return fmt.Errorf("keep what was learnt: %w", err)
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("keep what was learnt: %w", err)
	}
	return nil
}

// told is what policies are told of what was learnt.
func (d *daemon) told() policy.Options {
	return policy.Options{Speed: d.learner.Speed, Remaining: d.learner.Remaining}
}

// measuring is a journal that keeps of each tenant that ends how fast it was.
type measuring struct {
	engine.Journal
	learner *learn.Learner
}

// Append appends. It is for the loop alone.
func (j measuring) Append(r model.Record) error {
	if r.Tenant != nil && r.Tenant.State == model.Gone {
		r.Tenant.Speed = j.learner.Lived(r.Tenant, r.At)
	}
	return j.Journal.Append(r)
}

// watchLearnt writes down what was learnt, now and then and at the end.
func (d *daemon) watchLearnt(ctx context.Context) {
	every(ctx, learntEvery, func() { d.keepLearnt(ctx) })
}

func (d *daemon) keepLearnt(ctx context.Context) {
	var kept []learn.Kept
	live := map[uint32]bool{}
	err := d.loop.Ask(ctx, func(e *engine.Engine) {
		kept = d.learner.Kept(time.Now())
		for _, t := range e.Node.Tenants {
			live[t.Reg.JobID] = true
		}
	})
	if err != nil {
		return // the daemon leaves
	}
	d.progress.Sweep(func(job uint32) bool { return live[job] }, unwritten)
	d.writeLearnt(kept)
}

func (d *daemon) writeLearnt(kept []learn.Kept) {
	if err := writeLearnt(learntPath(d.settings()), kept); err != nil {
		d.log.error("learn", "what was learnt is lost at the daemon's end", err)
	}
}

// makeCounter makes the file into which a step may write its progress, and returns
// its path, "" where there is none: its progress is then told by its time on the
// GPU.
func (d *daemon) makeCounter(r *model.Registration) string {
	path, err := d.progress.Make(model.StepKey{JobID: r.JobID, StepID: r.StepID}, r.UID, r.GID)
	if err != nil {
		d.log.warnOf("learn", "progress", "no job gets a "+progress.Variable+": "+err.Error())
		return ""
	}
	return path
}
