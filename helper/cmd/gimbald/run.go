package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/gimbal-hpc/gimbal/helper/config"
	"github.com/gimbal-hpc/gimbal/helper/engine"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/proc"
	"github.com/gimbal-hpc/gimbal/helper/wire"
)

// runs is what the daemon knows of commands that gimbal run starts beyond what
// it knows of every tenant.
type runs struct {
	mu      sync.Mutex // one command is taken in at a time
	last    uint32     // number given
	leaving bool       // a private daemon ends: nothing is taken in
}

// Bounds of what a command says of itself.
const (
	maxRunName   = 200
	maxRunOption = 256
	maxRunGPUs   = 4096
)

// takeRun takes in a command that a user is about to start, and says what it is
// called. The caller's own child is all that he may have calibrated.
func (d *daemon) takeRun(ctx context.Context, peer wire.Peer, req wire.Request) (any, error) {
	var q model.RunRequest
	if err := req.Decode(&q); err != nil {
		return nil, err
	}
	if err := boundRun(&q); err != nil {
		return nil, err
	}
	if !d.allowsRun(ctx) {
		return nil, wire.Errorf(wire.CodeDenied, "run.allow does not allow it on this node; have Slurm start it, with --gimbal-pack")
	}
	by, err := d.proveRun(peer, proc.ID(q.Proc))
	if err != nil {
		return nil, wire.Errorf(wire.CodeDenied, "not a child of yours: %v", err)
	}
	if err := d.checkNamed(ctx, &q); err != nil {
		return nil, err
	}
	reg, r, err := d.enterRun(ctx, peer, by, &q)
	if err != nil {
		return nil, err
	}
	if err := d.settleRun(ctx, reg.JobID); err != nil {
		return nil, err
	}
	r.Progress = d.makeCounter(&reg)
	return r, nil
}

// enterRun takes in a command of which it is proven whose it is. The next one may
// count on the engine's knowing of this one. Who asks again has had no reply: the
// daemon that took it in has died.
func (d *daemon) enterRun(ctx context.Context, peer wire.Peer, by model.ProcID, q *model.RunRequest) (reg model.Registration, r model.RunReply, err error) {
	d.runs.mu.Lock()
	defer d.runs.mu.Unlock()
	if reg, again := d.node.RunBy(q.Proc, by); again {
		r, err = d.awaitRun(ctx, reg.JobID)
		return reg, r, err
	}
	if err := d.roomForRun(peer, q.Proc.PID); err != nil {
		return reg, r, err
	}
	reg = model.Registration{
		StepID: 0, ArrayTask: model.NoVal, HetOffset: model.NoVal, Tasks: 1, NNodes: 1,
		UID: peer.UID, GID: peer.GID, User: login(peer.UID), JobName: q.Name, Node: d.name,
		Proc: q.Proc, Stepd: by, Options: q.Options, Visible: q.Visible, Launched: time.Now().UnixNano(),
	}
	if reg.GPUs, err = d.chooseGPUs(ctx, q.Choose); err != nil {
		return reg, r, err
	}
	if reg.JobID, err = d.nextRun(); err != nil {
		return reg, r, err
	}
	if err := d.node.Register(reg); err != nil {
		return reg, r, err
	}
	r, err = d.awaitRun(ctx, reg.JobID)
	return reg, r, err
}

// boundRun refuses what no command says of itself in earnest, and cuts a name
// that is too long.
func boundRun(q *model.RunRequest) error {
	o := q.Options
	for _, v := range []string{o.Pack, o.Memory, o.Class, o.Weight, o.Deadline, o.Signal, o.MaxPause} {
		if len(v) > maxRunOption {
			return wire.Errorf(wire.CodeBadRequest, "an option of %d bytes", len(v))
		}
	}
	if len(q.Visible) > maxRunGPUs {
		return wire.Errorf(wire.CodeBadRequest, "a list of GPUs of %d bytes", len(q.Visible))
	}
	switch q.Choose {
	case "", model.ChooseAny, model.ChooseAll:
	default:
		return wire.Errorf(wire.CodeBadRequest, "choose %q: any or all", q.Choose)
	}
	q.Name = strings.ToValidUTF8(q.Name, "?")
	for len(q.Name) > maxRunName {
		_, last := utf8.DecodeLastRuneInString(q.Name)
		q.Name = q.Name[:len(q.Name)-last]
	}
	return nil
}

// allowsRun tells whether commands are taken in at all.
func (d *daemon) allowsRun(ctx context.Context) bool {
	switch d.settings().Run.Allow {
	case config.RunYes:
		return true
	case config.RunNo:
		return false
	}
	return !d.slurm.rules(ctx)
}

// proveRun proves that a process is a child of the caller's, and that both are
// the caller's user's and nobody else's. It returns the caller's process.
func (d *daemon) proveRun(peer wire.Peer, child proc.ID) (by model.ProcID, err error) {
	if child.PID <= 1 || child.Start == 0 {
		return by, fmt.Errorf("%s names no process", child)
	}
	parent, err := d.node.Host.Identify(peer.PID)
	if err != nil {
		return by, fmt.Errorf("the caller: %w", err)
	}
	if err := d.node.Host.ChildOf(child, parent, peer.UID); err != nil {
		return by, err
	}
	return model.ProcID(parent), nil
}

// roomForRun tells whether the user may have one more command, and whether it
// is part of a tenant already.
func (d *daemon) roomForRun(peer wire.Peer, pid int) error {
	if d.runs.leaving {
		return wire.Errorf(wire.CodeBusy, "this daemon is about to end")
	}
	for _, p := range []int{pid, peer.PID} {
		if name := d.node.Holder(p); name != "" {
			return wire.Errorf(wire.CodeConflict, "it is part of %s already", name)
		}
	}
	most := d.settings().Run.PerUser
	if n, _ := d.node.Runs(peer.UID, 0); n >= most {
		return wire.Errorf(wire.CodeDenied, "%d commands of yours are there already, the most that run.per_user allows", n)
	}
	return nil
}

// chooseGPUs picks the GPUs of a command that names none: all, or the one with
// most room, which is one with the fewest tenants where all are claimed.
func (d *daemon) chooseGPUs(ctx context.Context, choose string) (gpus []string, err error) {
	if choose == "" {
		return nil, nil
	}
	err = d.onceKnown(ctx, func(n *model.Node) { gpus = choice(n, choose) })
	return gpus, err
}

// onceKnown looks at the node once the driver's report is in, or at the latest
// when that would be stale.
func (d *daemon) onceKnown(ctx context.Context, look func(*model.Node)) error {
	for end := time.Now().Add(d.settings().Sample.Stale); ; time.Sleep(runLook) {
		known := false
		err := d.loop.Ask(ctx, func(e *engine.Engine) {
			known = len(e.Node.GPUs) > 0 || e.Node.Degraded != ""
			look(e.Node)
		})
		if err != nil || known || time.Now().After(end) {
			return err
		}
	}
}

// runLook is how often it is looked whether the engine knows what it has been
// told: a daemon that has just begun has not taken the driver's report in.
const runLook = time.Millisecond

func choice(n *model.Node, choose string) (gpus []string) {
	split := map[string]bool{} // GPUs that are cut into instances
	for i := range n.GPUs {
		split[n.GPUs[i].Parent] = true
	}
	best, most, fewest := "", model.Bytes(0), 0
	for i := range n.GPUs {
		g := &n.GPUs[i]
		if split[g.UUID] || g.Fault != "" {
			continue
		}
		gpus = append(gpus, g.UUID)
		room, mates := max(n.Free(g.UUID).Or(0), 0), len(n.Pack(g.UUID, nil))
		if best == "" || room > most || room == most && mates < fewest {
			best, most, fewest = g.UUID, room, mates
		}
	}
	if choose == model.ChooseAny && best != "" {
		return []string{best}
	}
	return gpus
}

// nextRun gives the next number, which is no live command's. It is written down
// first, so that the next daemon goes on from there.
func (d *daemon) nextRun() (job uint32, err error) {
	path := filepath.Join(d.settings().Node.StateDir, "last-run")
	if d.runs.last == 0 {
		if text, err := os.ReadFile(path); err == nil {
			n, _ := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32) // else from the beginning
			d.runs.last = uint32(min(n, uint64(model.MaxRun)))
		}
	}
	for range model.MaxRun {
		d.runs.last = d.runs.last%model.MaxRun + 1
		job = model.RunJob(d.runs.last)
		if _, taken := d.node.Runs(0, job); taken {
			continue
		}
		err := os.WriteFile(path, []byte(strconv.FormatUint(uint64(d.runs.last), 10)+"\n"), 0o600)
		if err != nil {
			d.log.error("run", "the last number given is not written down", err)
		}
		return job, nil
	}
	return 0, errors.New("every number is a live command's")
}

// awaitRun waits until the engine knows a command, and tells what it was given.
func (d *daemon) awaitRun(ctx context.Context, job uint32) (model.RunReply, error) {
	r := model.RunReply{Job: job}
	for found := false; !found; {
		err := d.loop.Ask(ctx, func(e *engine.Engine) {
			for _, t := range e.Node.Tenants {
				if t.Reg.JobID == job {
					found, r.GPUs, r.Message = true, t.GPUs, runMessage(t)
				}
			}
		})
		if err != nil {
			return r, err
		}
		if _, live := d.node.RunOf(job); !found && !live {
			return r, wire.Errorf(wire.CodeNotFound, "it has ended")
		}
		if !found {
			time.Sleep(runLook)
		}
	}
	return r, nil
}

// settleLimit bounds how long a command waits to be let run or held: it is less
// than gimbal run waits for the reply.
const settleLimit = 3 * time.Second

// settleRun waits until a command may run, or is stopped: the caller lets it begin
// when it has the reply, and one that is held has begun nothing then. Past the
// limit it begins all the same.
func (d *daemon) settleRun(ctx context.Context, job uint32) error {
	for end := time.Now().Add(settleLimit); ; time.Sleep(runLook) {
		open := false
		err := d.loop.Ask(ctx, func(e *engine.Engine) {
			for _, t := range e.Node.Tenants {
				open = open || t.Reg.JobID == job && (t.State == model.New || t.State == model.Holding)
			}
		})
		if err != nil || !open || time.Now().After(end) {
			return err
		}
	}
}

// runMessage says what of its request a command did not get.
func runMessage(t *model.Tenant) string {
	notes := t.Terms.Notes
	if t.Exempt != "" {
		notes = append([]string{"never stopped, since it has " + t.Exempt}, notes...)
		if strings.Contains(t.Exempt, ":") {
			notes[0] = "never stopped: " + t.Exempt
		}
	}
	return strings.Join(notes, "; ")
}

// hearRun takes in news of a command from the process that started it.
func (d *daemon) hearRun(peer wire.Peer, req wire.Request) (any, error) {
	var n model.RunNews
	if err := req.Decode(&n); err != nil {
		return nil, err
	}
	reg, ok := d.node.RunOf(n.Job)
	if !ok {
		return nil, wire.Errorf(wire.CodeNotFound, "no live command of that number")
	}
	if peer.UID != reg.UID || peer.PID != reg.Stepd.PID {
		return nil, wire.Errorf(wire.CodeDenied, "another process started it")
	}
	if req.Op == model.OpRunSeen {
		d.node.RunSeen(n.Job)
		return nil, nil
	}
	key := model.StepKey{JobID: n.Job, StepID: reg.StepID}
	d.node.TaskExit(model.TaskExit{StepKey: key, Proc: reg.Proc, TaskID: reg.TaskID, Status: n.Status})
	d.node.StepEnd(key)
	d.progress.Remove(key)
	return nil, nil
}
