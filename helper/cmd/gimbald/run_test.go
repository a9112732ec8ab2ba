package main

import (
	"context"
	"testing"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/engine"
	"github.com/gimbal-hpc/gimbal/helper/model"
)

// script is a Source, Actuator, Journal and Decider that a test leads: it tells
// what it is given, holds whom it is told of, and how that ends the test says.
type script struct {
	events chan model.Event
	held   chan model.Action
	wake   chan struct{}
}

func (s *script) tell(ev model.Event) {
	s.events <- ev
	s.wake <- struct{}{}
}

func (s *script) Sample(time.Duration) (out model.Sample) {
	for range len(s.events) {
		out.Events = append(out.Events, <-s.events)
	}
	return out
}

func (s *script) Append(model.Record) error { return nil }

func (s *script) Decide(n *model.Node, _ time.Duration) (do []model.Action, next time.Duration) {
	for _, t := range n.Tenants {
		if t.State == model.New {
			do = append(do, model.Action{Do: model.PrimHold, Tenant: t.ID})
		}
	}
	return do, 0
}

func (s *script) Do(a model.Action, _ *model.Tenant) { s.held <- a }

// scripted is a daemon whose engine a test leads.
func scripted(t *testing.T) (*daemon, *script) {
	t.Helper()
	s := &script{make(chan model.Event, 1), make(chan model.Action, 1), make(chan struct{}, 1)}
	e := engine.New(model.NewNode(), engine.Parts{Source: s, Actuator: s, Journal: s, Decider: s, Wall: time.Now})
	d := &daemon{loop: engine.NewLoop(e, clock, s.wake, func() {}, time.Hour)}
	ctx, leave := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { d.loop.Run(ctx); close(ended) }()
	t.Cleanup(func() { leave(); <-ended })
	return d, s
}

// TestHeldBeforeTheReply: gimbal run has its reply, by which the command begins,
// once a hold is confirmed or has failed, and not before.
func TestHeldBeforeTheReply(t *testing.T) {
	for _, ends := range []model.EventKind{model.EvDone, model.EvFailed} {
		t.Run(string(ends), func(t *testing.T) {
			d, s := scripted(t)
			job := model.RunJob(1)
			s.tell(model.Event{Kind: model.EvRegistered, Tenant: "r1@1", Reg: &model.Registration{JobID: job}, Grant: &model.Grant{}})
			a := <-s.held
			begin := time.Now()
			replied := make(chan error, 1)
			go func() { replied <- d.settleRun(t.Context(), job) }()
			select {
			case err := <-replied:
				if time.Since(begin) < settleLimit {
					t.Fatalf("a reply (%v) while the command may still run", err)
				}
				t.Skip("SKIPPED: this machine stood still for longer than a command waits")
			case <-time.After(50 * time.Millisecond):
			}
			s.tell(model.Event{Kind: ends, Tenant: a.Tenant, Action: a.ID, Do: a.Do})
			if err := <-replied; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestReplyWithoutACommand: one that has ended meanwhile is not waited for.
func TestReplyWithoutACommand(t *testing.T) {
	d, _ := scripted(t)
	if err := d.settleRun(t.Context(), model.RunJob(1)); err != nil {
		t.Error(err)
	}
}
