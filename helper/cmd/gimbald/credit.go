package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/config"
	"github.com/gimbal-hpc/gimbal/helper/engine"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/slurm"
)

// Slurm counts time limits in whole minutes: a job is credited when it is owed
// creditLeast, and then in advance what is missing to a minute.
const (
	creditUnit  = time.Minute
	creditLeast = 10 * time.Second
	creditRest  = time.Hour // longest wait after failures
)

// credits keeps what jobs are owed of their time limits: the time for which
// Gimbal kept them stopped. Where several tenants of a job are stopped at once
// that counts once.
type credits struct {
	give func(ctx context.Context, job uint32, d time.Duration) (time.Duration, error)
	ask  func(ctx context.Context, job uint32) (slurm.Job, error)
	told func(id model.TenantID, d time.Duration)
	fail func(job uint32, err error)

	seen map[model.TenantID]time.Duration // stopped time that is accounted for
	jobs map[uint32]*account
}

// account is one job's.
type account struct {
	owed    time.Duration // below 0: credited in advance
	given   time.Duration
	tenants []model.TenantID // live ones
	end     int64            // unix seconds of its time limit, 0 unknown
	limited bool             // Slurm was asked, and it has one
	tries   int              // that failed in a row
	next    time.Duration    // not before
}

func newCredits() *credits {
	return &credits{seen: map[model.TenantID]time.Duration{}, jobs: map[uint32]*account{}}
}

// stopped is the time for which Gimbal has kept a tenant stopped.
func stopped(t *model.Tenant) time.Duration {
	return t.Tally.Held + t.Tally.Withheld + t.Tally.Paused + t.Tally.Swapped
}

// look takes in how long each tenant has been stopped by now. What a daemon
// before this one has credited stands in the tenant's own record.
func (c *credits) look(tenants []model.Tenant) {
	jobs, seen := map[uint32]*account{}, map[model.TenantID]time.Duration{}
	more := map[uint32]time.Duration{}
	for i := range tenants {
		t := &tenants[i]
		job := t.Reg.JobID
		if jobs[job] == nil {
			jobs[job] = c.account(job)
		}
		a := jobs[job]
		a.tenants, a.end = append(a.tenants, t.ID), max(a.end, t.Reg.EndTime)
		a.given = max(a.given, t.Tally.Credited)
		before, known := c.seen[t.ID]
		if !known {
			before = t.Tally.Credited
		}
		seen[t.ID] = stopped(t)
		more[job] = max(more[job], stopped(t)-before)
	}
	for job, d := range more {
		jobs[job].owed += d
	}
	c.jobs, c.seen = jobs, seen
}

func (c *credits) account(job uint32) *account {
	a := c.jobs[job]
	if a == nil {
		return &account{}
	}
	a.tenants, a.end = nil, 0
	return a
}

// due is the job to be credited now: of those that are owed enough, and have
// not had most, the one that reaches its limit first; 0 if there is none.
func (c *credits) due(now, most time.Duration) (job uint32) {
	for id, a := range c.jobs {
		if a.owed < creditLeast || a.given >= most || now < a.next {
			continue
		}
		if best := c.jobs[job]; best == nil || a.endsBefore(best) || a.end == best.end && id < job {
			job = id
		}
	}
	return job
}

// endsBefore tells which of two reaches its limit first; one of which that is not
// known comes last.
func (a *account) endsBefore(b *account) bool {
	return a.end != 0 && (b.end == 0 || a.end < b.end)
}

// mayCredit tells whether a job has a time limit. Slurm 22.05 does not tell its
// jobs, so that it has to be asked once.
func (c *credits) mayCredit(ctx context.Context, job uint32, a *account) error {
	if a.end != 0 || a.limited {
		return nil
	}
	j, err := c.ask(ctx, job)
	if err == nil && j.TimeLimit == 0 {
		return errUnlimited
	}
	a.limited = err == nil
	return err
}

var errUnlimited = errors.New("the job has no time limit")

// turn credits at most one job.
func (c *credits) turn(ctx context.Context, now, most time.Duration) {
	job := c.due(now, most)
	if job == 0 {
		return
	}
	a := c.jobs[job]
	units := (a.owed + creditUnit - 1) / creditUnit
	err, got := c.mayCredit(ctx, job, a), time.Duration(0)
	if err == nil {
		got, err = c.give(ctx, job, min(units*creditUnit, max(most-a.given, creditUnit)))
	}
	switch {
	case errors.Is(err, slurm.ErrNoJob), errors.Is(err, errUnlimited):
		a.next = now + creditRest
		return
	case err != nil:
		a.tries++
		a.next = now + min(time.Minute<<min(a.tries-1, 6), creditRest)
		c.fail(job, err)
		return
	}
	a.owed, a.given, a.tries = a.owed-got, a.given+got, 0
	for _, id := range a.tenants {
		c.told(id, got)
	}
}

// watchCredit credits jobs, one call to Slurm in each slurm.credit_every.
func (d *daemon) watchCredit(ctx context.Context) {
	c := newCredits()
	c.give, c.ask = d.slurm.client.Credit, d.slurm.client.Job
	c.told = d.node.Credited
	c.fail = func(job uint32, err error) {
		d.log.warnOf("credit", fmt.Sprint(job), fmt.Sprintf("job %d: its time limit stays as it is: %v", job, err))
	}
	for {
		s := d.settings().Slurm
		select {
		case <-ctx.Done():
			return
		case <-time.After(s.CreditEvery):
		}
		if err := d.credit(ctx, c, s); err != nil {
			return // the daemon leaves
		}
	}
}

func (d *daemon) credit(ctx context.Context, c *credits, s config.Slurm) error {
	if !s.Credit {
		return nil
	}
	var tenants []model.Tenant
	err := d.loop.Ask(ctx, func(e *engine.Engine) { tenants = e.Snapshot(clock()) })
	if err != nil {
		return err
	}
	c.look(slices.DeleteFunc(tenants, func(t model.Tenant) bool { return t.Reg.JobID == 0 || t.Reg.Run() }))
	c.turn(ctx, clock(), s.CreditMax)
	return nil
}
