package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/wire"
)

// request is what the C front passes down, as Go values.
type request struct {
	socket, pending                               string
	timeout                                       time.Duration
	job, step, arrayJob, arrayTask                uint32
	hetJob, hetOffset                             uint32
	tasks, nnodes, node, restart, uid, gid        uint32
	endTime                                       int64
	gpus, gpusFrom, visible                       string
	user, account, partition, jobName             string
	pack, memory, class, weight, deadline, signal string
	own, pty                                      bool
	task, localTask                               uint32
	pid, status                                   int
}

// outcome is what goes back up.
type outcome struct {
	active  bool     // the daemon calibrates the step
	left    bool     // no daemon: the request is in the pending folder
	failed  bool     // neither worked
	message string   // for the log
	env     []string // NAME=VALUE for the tasks
}

type (
	// caller sends one request to the daemon within a time.
	caller func(socket string, within time.Duration, op wire.Op, params, result any) error
	// leaver leaves one for a daemon to come.
	leaver func(dir string, op wire.Op, params any, now time.Time) error
)

// session is one step's dealings with the daemon. They are bounded as a whole,
// not one by one: a step of 64 tasks must not wait 64 times for a daemon that
// does not answer.
type session struct {
	now    func() time.Time
	call   caller
	leave  leaver
	launch budget
	end    budget
	tasks  sync.Map // pid to start time, of those that were registered
}

// budget is what is left of the time that a phase of the step may wait.
type budget struct {
	mu    sync.Mutex
	spent time.Duration
	down  bool // a call failed: the rest of the phase does not try
	told  bool // and the log has it
}

// The parts of the plugin's time-out that each phase may use: a daemon that
// does not answer costs all of the first and one call of the second, together
// the time-out. One that answers slowly may have as much again for the ends.
func launchBounds(timeout time.Duration) (total, each time.Duration) {
	return timeout * 4 / 5, timeout * 4 / 5
}

func endBounds(timeout time.Duration) (total, each time.Duration) {
	return timeout, timeout / 5
}

func newSession(now func() time.Time, call caller, leave leaver) *session {
	return &session{now: now, call: call, leave: leave}
}

// callDaemon is the real caller. It dials each time, so that slurmstepd holds
// no descriptor between calls; that costs some ten microseconds.
func callDaemon(socket string, within time.Duration, op wire.Op, params, result any) error {
	deadline := time.Now().Add(within)
	client, err := wire.Dial(socket, within)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	return client.Call(ctx, op, params, result)
}

// errDown stands for a call that was not even tried.
var errDown = fmt.Errorf("%w: it did not before", wire.ErrUnreachable)

// try makes one call within what the budget has left.
func (s *session) try(b *budget, r request, op wire.Op, params, result any) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	total, each := launchBounds(r.timeout)
	if b == &s.end {
		total, each = endBounds(r.timeout)
	}
	left := min(total-b.spent, each)
	if b.down || left <= 0 {
		return errDown
	}
	begin := s.now()
	err := s.call(r.socket, left, op, params, result)
	b.spent += s.now().Sub(begin)
	b.down = errors.Is(err, wire.ErrUnreachable)
	return err
}

// tryOrLeave makes one call, or leaves it for later where no daemon answers.
func (s *session) tryOrLeave(b *budget, r request, op wire.Op, params, result any) outcome {
	err := s.try(b, r, op, params, result)
	if err == nil {
		return outcome{}
	}
	if !errors.Is(err, wire.ErrUnreachable) {
		return outcome{failed: true, message: fmt.Sprintf("%s: gimbald refuses: %v", op, err)}
	}
	if lerr := s.leave(r.pending, op, params, s.now()); lerr != nil {
		return outcome{failed: true, message: fmt.Sprintf("%s is lost: %v; %v", op, err, lerr)}
	}
	return outcome{left: true, message: b.once(fmt.Sprintf("%v; what it should know is left in %s", err, r.pending))}
}

// once returns the text the first time and nothing after.
func (b *budget) once(text string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.told {
		return ""
	}
	b.told = true
	return text
}

// prepare announces the step before its tasks are forked.
func (s *session) prepare(r request) outcome {
	var got wire.Prepared
	err := s.try(&s.launch, r, wire.OpPrepare, wire.PrepareRequest{Step: stepOf(r, s.now())}, &got)
	if err != nil {
		return outcome{failed: true, message: s.launch.once(err.Error())}
	}
	env, bad := checkEnv(got.Env)
	if bad != nil {
		got.Message = bad.Error()
	}
	return outcome{active: got.Active, env: env, message: got.Message}
}

// register makes one task known, before it may exec.
func (s *session) register(r request) outcome {
	reg := stepOf(r, s.now())
	if err := addTask(&reg, r); err != nil {
		return outcome{failed: true, message: err.Error()}
	}
	s.tasks.Store(r.pid, reg.Proc.Start)
	var got wire.Registered
	out := s.tryOrLeave(&s.launch, r, wire.OpRegister, reg, &got)
	out.active = got.Active
	if out.message == "" {
		out.message = got.Message
	}
	return out
}

// taskExit reports that a task's root process ended. It has been reaped, so
// its start time is what was read for its registration, 0 if there was none.
func (s *session) taskExit(r request) outcome {
	exit := model.TaskExit{StepKey: keyOf(r), Proc: model.ProcID{PID: r.pid}, TaskID: r.task, Status: r.status}
	if start, ok := s.tasks.LoadAndDelete(r.pid); ok {
		exit.Proc.Start = start.(uint64)
	}
	return s.tryOrLeave(&s.end, r, wire.OpTaskExit, exit, nil)
}

// stepEnd reports that slurmstepd is about to leave.
func (s *session) stepEnd(r request) outcome {
	return s.tryOrLeave(&s.end, r, wire.OpStepEnd, keyOf(r), nil)
}

func keyOf(r request) model.StepKey { return model.StepKey{JobID: r.job, StepID: r.step} }
