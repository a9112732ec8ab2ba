package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/proc"
	"github.com/gimbal-hpc/gimbal/helper/wire"
)

// running is a command under gimbal run. This process stays beside it, in the
// same process group, since a shell must not see that Gimbal stops the command:
// it would take the terminal away. It passes on what is sent to it alone, and
// stops and ends as the command does.
type running struct {
	options runOptions
	world   world
	path    string
	link    *link
	child   *child
	job     uint32
	signals chan os.Signal
}

// keepEvery is how often it is looked whether a daemon of the user's own lives.
const keepEvery = 5 * time.Second

// run runs the command to its end and ends like it.
func (r *running) run() int {
	r.signals = make(chan os.Signal, 64)
	r.listen()
	defer signal.Stop(r.signals)
	c, err := spawn(r.path, r.options.command)
	if err != nil {
		fmt.Fprintf(r.world.stderr, "gimbal run: %v\n", err)
		return exitCannotRun
	}
	r.child = c
	if !r.awaitChild() {
		return r.end(r.wait())
	}
	set, err := r.join()
	if err != nil {
		_ = c.own.Close() // it ends instead of becoming the command
		r.wait()
		return wrongUsage(r.world, "run", err)
	}
	if err := c.become(set); err != nil && !errors.Is(err, unix.EPIPE) { // then it was killed
		fmt.Fprintf(r.world.stderr, "gimbal run: %v\n", err)
	}
	return r.end(r.wait())
}

// passed are signals that are the command's business when they come.
func passed() []os.Signal {
	return []os.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM,
		unix.SIGXCPU, unix.SIGIO, unix.SIGPWR}
}

// listen takes signals in, but for those that were ignored, which the command
// is to ignore as well.
func (r *running) listen() {
	for _, s := range append(passed(), unix.SIGCHLD, unix.SIGCONT, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU) {
		if !signal.Ignored(s) {
			signal.Notify(r.signals, s)
		}
	}
}

// awaitChild waits until the command's process may be stopped by whoever packs it.
// It returns false where it has ended: a signal was faster.
func (r *running) awaitChild() bool {
	ready := r.child.ready()
	for {
		select {
		case is := <-ready:
			return is
		case s := <-r.signals:
			r.hear(s.(unix.Signal))
		}
	}
}

// join has the command packed and returns what its environment is to hold. If
// nobody packs it, it runs all the same. An error is one of the command line.
func (r *running) join() ([]string, error) {
	o := &r.options
	visible, given := os.LookupEnv("CUDA_VISIBLE_DEVICES")
	q := model.RunRequest{Proc: model.ProcID(r.child.id), Options: o.asked, Name: o.name}
	switch {
	case o.gpus == model.ChooseAny || o.gpus == model.ChooseAll:
		q.Choose = o.gpus
	case o.gpus != "":
		q.Visible, q.Named, given = o.gpus, true, true
	case given:
		q.Visible = visible
	default:
		q.Choose = model.ChooseAny
	}
	set := []string{}
	if o.gpus != "" && q.Choose == "" {
		set = append(set, "CUDA_VISIBLE_DEVICES="+o.gpus)
	}
	if o.asked.Pack == "off" {
		return set, nil
	}
	reply, err := r.link.register(q)
	if q.Named && refusedGPUs(err) {
		return nil, fmt.Errorf("--gpus: %w", err)
	}
	if err != nil {
		r.unpacked(err)
		return set, nil
	}
	r.job = reply.Job
	if reply.Message != "" {
		fmt.Fprintf(r.world.stderr, "gimbal run: warning: %s\n", reply.Message)
	}
	name := model.RunLabel(model.RunNumber(reply.Job))
	set = append(set, runVariable+"="+name)
	if reply.Progress != "" {
		set = append(set, progressVariable+"="+reply.Progress)
	}
	if len(reply.GPUs) > 0 && (o.gpus != "" || !given) {
		set = append(set, "CUDA_VISIBLE_DEVICES="+strings.Join(reply.GPUs, ","))
	}
	return set, nil
}

// refusedGPUs tells whether a daemon knows no GPU of a name that it was given.
func refusedGPUs(err error) bool {
	var refused *wire.Error
	return errors.As(err, &refused) && refused.Code == wire.CodeBadRequest
}

// unpacked says why the command runs without Gimbal. Inside another gimbal run
// there is nothing to say: it is part of that.
func (r *running) unpacked(err error) {
	var refused *wire.Error
	if errors.As(err, &refused) && refused.Code == wire.CodeConflict && r.world.env(runVariable) != "" {
		return
	}
	fmt.Fprintf(r.world.stderr, "gimbal run: warning: %s runs without Gimbal: %v\n", r.options.name, err)
}

// wait follows the command to its end.
func (r *running) wait() unix.WaitStatus {
	keep := time.NewTicker(keepEvery)
	defer keep.Stop()
	for {
		if ws, ended := r.reap(); ended {
			return ws
		}
		select {
		case s := <-r.signals:
			r.hear(s.(unix.Signal))
		case <-keep.C:
			r.link.keep()
		}
	}
}

// reap tells whether the command has ended. Its stops are left to be told by
// /proc: to wait for them would hide by which signal they came.
func (r *running) reap() (ws unix.WaitStatus, ended bool) {
	for {
		pid, err := unix.Wait4(r.child.id.PID, &ws, unix.WNOHANG, nil)
		if !errors.Is(err, unix.EINTR) {
			return ws, err == nil && pid == r.child.id.PID
		}
	}
}

// hear acts on a signal.
func (r *running) hear(s unix.Signal) {
	switch s {
	case unix.SIGCHLD:
		if by := r.stoppedBy(); by != 0 {
			r.stopAlike(by)
		}
	case unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU:
		// The command got it too. If it stops by it, this process does; and at
		// once if Gimbal has it stopped already.
		if c := (proc.Host{}).Look(r.child.id); c == proc.ConditionStopped {
			r.stopAlike(s)
		}
	case unix.SIGCONT:
		r.news(model.OpRunSeen, 0)
	case unix.SIGINT, unix.SIGQUIT:
		if !foreground() {
			r.pass(s)
		}
	default:
		r.pass(s)
	}
}

// pass passes a signal on. Those of the terminal reach the whole group anyway.
func (r *running) pass(s unix.Signal) {
	_ = proc.Host{}.Pass(r.child.id, s) // it fails only for a command that has ended
}

// foreground tells whether this process is in the group that the terminal's
// keys are for.
func foreground() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer func() { _ = tty.Close() }()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// stoppedBy is the signal by which the terminal or a shell has stopped the
// command, 0 where it runs or Gimbal has stopped it.
func (r *running) stoppedBy() unix.Signal {
	c, f := proc.Host{}.Inspect(r.child.id)
	if c != proc.ConditionForeign {
		return 0
	}
	for _, s := range []unix.Signal{unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU} {
		if f.StopSignal == s || f.Pending.Has(s) {
			return s
		}
	}
	return 0
}

// stopAlike stops this process as the command is stopped, so that its shell
// takes the terminal back, and goes on when the shell continues both.
func (r *running) stopAlike(s unix.Signal) {
	r.news(model.OpRunSeen, 0)
	if err := proc.Suffer(s); err != nil {
		fmt.Fprintf(r.world.stderr, "gimbal run: stop: %v\n", err)
	}
	r.forgetStops()
	r.news(model.OpRunSeen, 0)
}

// forgetStops takes out what came before this process was stopped.
func (r *running) forgetStops() {
	for range len(r.signals) {
		switch s := (<-r.signals).(unix.Signal); s {
		case unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGCHLD, unix.SIGCONT:
		default:
			r.hear(s)
		}
	}
}

// news tells the daemon of the command, if one knows it.
func (r *running) news(op wire.Op, status int) {
	if r.job != 0 {
		r.link.tell(op, model.RunNews{Job: r.job, Status: status})
	}
}

// end tells of the command's end, and ends in the same way.
func (r *running) end(ws unix.WaitStatus) int {
	r.news(model.OpRunExit, int(ws))
	if !ws.Signaled() {
		return ws.ExitStatus()
	}
	none := unix.Rlimit{}
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &none) // a core of this process would tell nothing
	_ = proc.Suffer(ws.Signal())                // it may be one that is ignored
	const bySignal = 128
	return bySignal + int(ws.Signal())
}
