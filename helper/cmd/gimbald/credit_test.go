package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/slurm"
	"github.com/gimbal-hpc/gimbal/tests/draw"
)

// creditRig is a Slurm that only writes down what it is asked for.
type creditRig struct {
	*credits
	calls []string
	told  []string
	fault error
	limit time.Duration // that Slurm tells where the job does not know
}

func newCreditRig() *creditRig {
	r := &creditRig{credits: newCredits()}
	r.give = func(_ context.Context, job uint32, d time.Duration) (time.Duration, error) {
		r.calls = append(r.calls, fmt.Sprintf("%d+%s", job, d))
		if r.fault != nil {
			return 0, r.fault
		}
		return d.Truncate(time.Minute), nil
	}
	r.credits.told = func(id model.TenantID, d time.Duration) { r.told = append(r.told, fmt.Sprintf("%s+%s", id, d)) }
	r.fail = func(uint32, error) {}
	r.ask = func(_ context.Context, job uint32) (slurm.Job, error) {
		return slurm.Job{ID: job, TimeLimit: r.limit}, nil
	}
	return r
}

// tenant is one of a job whose limit is at a time, stopped for so long.
func tenant(id string, job uint32, end int64, tally model.Tally) model.Tenant {
	return model.Tenant{ID: model.TenantID(id), Reg: model.Registration{JobID: job, EndTime: end}, Tally: tally}
}

func paused(s int) model.Tally { return model.Tally{Paused: time.Duration(s) * time.Second} }

func TestCredit(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		name    string
		most    time.Duration
		tenants []model.Tenant
		want    []string
	}{
		{"nothing owed", day, []model.Tenant{tenant("1@1", 1, 9, model.Tally{Running: time.Hour})}, nil},
		{"too little", day, []model.Tenant{tenant("1@1", 1, 9, paused(9))}, nil},
		{"a minute in advance", day, []model.Tenant{tenant("1@1", 1, 9, paused(10))}, []string{"1+1m0s"}},
		{"all kinds of stop", day, []model.Tenant{tenant("1@1", 1, 9, model.Tally{Held: 30 * time.Second, Paused: 30 * time.Second,
			Swapped: 30 * time.Second, Withheld: 31 * time.Second})}, []string{"1+3m0s"}},
		{"no time limit", day, []model.Tenant{tenant("1@1", 1, 0, paused(100))}, nil},
		{"credited before", day, []model.Tenant{tenant("1@1", 1, 9, model.Tally{Paused: 125 * time.Second, Credited: 2 * time.Minute})}, nil},
		{"steps at once count once", day, []model.Tenant{tenant("1.0@1", 1, 9, paused(50)), tenant("1.1@1", 1, 9, paused(40))}, []string{"1+1m0s"}},
		{"who ends first", day, []model.Tenant{tenant("1@1", 1, 9, paused(500)), tenant("2@1", 2, 8, paused(20))}, []string{"2+1m0s"}},
		{"no more than the most", 3 * time.Minute, []model.Tenant{tenant("1@1", 1, 9, paused(1000))}, []string{"1+3m0s"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newCreditRig()
			r.look(c.tenants)
			r.turn(t.Context(), time.Hour, c.most)
			if !slices.Equal(r.calls, c.want) {
				t.Errorf("%q, want %q", r.calls, c.want)
			}
			calls := len(r.calls)
			r.look(c.tenants) // nothing new: the other job at most
			r.turn(t.Context(), time.Hour, c.most)
			if c.name != "who ends first" && len(r.calls) != calls {
				t.Errorf("credited again: %q", r.calls)
			}
		})
	}
}

// TestCreditAsksForTheLimit: where the job does not know it, Slurm is asked once.
func TestCreditAsksForTheLimit(t *testing.T) {
	r := newCreditRig()
	r.limit = time.Hour
	asked, ask := 0, r.ask
	r.ask = func(ctx context.Context, job uint32) (slurm.Job, error) { asked++; return ask(ctx, job) }
	for i := range 3 {
		r.look([]model.Tenant{tenant("1@1", 1, 0, paused(60*i+10))})
		r.turn(t.Context(), time.Duration(i)*time.Minute, time.Hour)
	}
	if want := []string{"1+1m0s", "1+1m0s", "1+1m0s"}; !slices.Equal(r.calls, want) || asked != 1 {
		t.Errorf("%q, asked %d times", r.calls, asked)
	}
}

// TestCreditFails: it is tried again ever more seldom, and nothing is lost; a
// job that Slurm does not know is left alone.
func TestCreditFails(t *testing.T) {
	r := newCreditRig()
	r.fault = errors.New("Unable to contact slurm controller")
	for i := range 600 {
		r.look([]model.Tenant{tenant("1@1", 1, 9, paused(30+i))})
		r.turn(t.Context(), time.Duration(i)*time.Second, time.Hour)
	}
	if n := len(r.calls); n < 3 || n > 5 {
		t.Errorf("%d calls in ten minutes of failures", n)
	}
	r.fault = nil
	r.turn(t.Context(), 2*time.Hour, time.Hour)
	if want := []string{"1@1+11m0s"}; !slices.Equal(r.told, want) {
		t.Errorf("told %q, want %q", r.told, want)
	}
	r.fault = slurm.ErrNoJob
	r.look([]model.Tenant{tenant("2@1", 2, 9, paused(30))})
	for i := range 60 {
		r.turn(t.Context(), 3*time.Hour+time.Duration(i)*time.Second, time.Hour)
	}
	if n := len(r.calls); n > 7 {
		t.Errorf("calls for a job that is not there: %q", r.calls)
	}
}

// TestCreditNeverFallsBehind: whatever the stops, a job with one tenant has, once
// it was its turn, at most a minute more than it was stopped for, and is owed less
// than 10 s.
func TestCreditNeverFallsBehind(t *testing.T) {
	draw.Check(t, func(rt *rapid.T) {
		r := newCreditRig()
		tally := model.Tally{}
		for i := range rapid.IntRange(1, 50).Draw(rt, "looks") {
			tally.Paused += time.Duration(rapid.IntRange(0, 100).Draw(rt, "s")) * time.Second
			r.look([]model.Tenant{tenant("1@1", 1, 9, tally)})
			r.turn(t.Context(), time.Duration(i)*time.Minute, 24*time.Hour)
			if a := r.jobs[1]; a.given > tally.Paused+time.Minute || tally.Paused-a.given >= creditLeast {
				rt.Fatalf("stopped for %s, credited %s", tally.Paused, a.given)
			}
		}
	})
}
