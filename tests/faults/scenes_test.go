package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/wire"
	"github.com/gimbal-hpc/gimbal/tests/simgpu"
)

// scene is a sequence of steps that is broken off at each of its points.
type scene struct {
	name    string
	setting setting
	guards  bool // the sequence is the guard's: its daemon is gone
	starts  bool // it is a daemon's start: nobody guards yet
	brief   bool // under Slurm it is walked in the short run too
	alone   bool // Slurm cannot be had to play it at will
	play    func(r *rig) play
}

// play is a scene on one node. prepare brings the node to where the sequence
// begins, whatever a crash has left.
type play struct {
	prepare func()
	begin   func()
	over    func() bool
}

// impatient has the guard and the wait for a new daemon act within a second, where
// a test waits for that: on a busy machine they do so before their time.
const impatient = "[guard]\nstall = \"1s\"\nheld = \"1s\"\n"

func scenes() []scene {
	plain, inCgroup := setting{}, setting{freezer: true}
	hasty := setting{config: impatient}
	return []scene{
		{name: "pause", brief: true, setting: plain, play: playPause},
		{name: "resume", brief: true, setting: plain, play: playResume},
		{name: "freeze", setting: inCgroup, play: playPause},
		{name: "thaw", setting: inCgroup, play: playResume},
		{name: "hold", brief: true, setting: plain, play: playHold},
		{name: "let a held one go", brief: true, setting: plain, play: playAdmit},
		{name: "swap and restore", brief: true, setting: swapping(), play: playSwap},
		{name: "throttle", brief: true, setting: throttling(), play: playThrottle},
		{name: "a task joins a paused tenant", setting: plain, play: playJoin},
		{name: "somebody continues a paused tenant", setting: plain, play: playContinued},
		{name: "notify", brief: true, setting: plain, play: playNotify},
		{name: "evict", brief: true, setting: plain, play: playEvict},
		{name: "end", setting: plain, play: playEnd},
		{name: "a step ends before its processes", alone: true, setting: plain, play: playOrphans},
		{name: "pause after the guard took over", setting: hasty, play: playRetake},
		{name: "leave", setting: plain, play: playLeave},
		{name: "start", setting: plain, starts: true, play: playStart},
		{name: "the guard", setting: hasty, guards: true, play: playGuard},
	}
}

// living is the task that a scene works on: a new one once it has ended.
func (r *rig) living(k *task) *task {
	if k != nil && k.alive() {
		return k
	}
	k = r.launch("2GiB", trainer+" --notify USR1:"+r.path("notified"))
	r.await(k, model.Running)
	k.trains()
	return k
}

func playPause(r *rig) play {
	var k *task
	return play{
		prepare: func() { k = r.living(k); r.order(k, "release"); r.await(k, model.Running); k.trains() },
		begin:   func() { r.order(k, model.PrimPause) },
		over:    func() bool { return r.is(k, model.Paused) },
	}
}

func playResume(r *rig) play {
	var k *task
	return play{
		prepare: func() { k = r.living(k); r.order(k, model.PrimPause); r.await(k, model.Paused) },
		begin:   func() { r.order(k, model.PrimResume) },
		over:    func() bool { return r.is(k, model.Running) },
	}
}

// big is a claim that two tenants cannot have at once.
const big = "10GiB"

func playHold(r *rig) play {
	var first, second *task
	return play{
		prepare: func() {
			first = r.big(first)
			if second != nil && second.alive() {
				second.finish()
			}
		},
		begin: func() { second = r.launch(big, slow) },
		over:  func() bool { return r.is(second, model.Held) },
	}
}

// big is a tenant that leaves no room for another.
func (r *rig) big(k *task) *task {
	if k != nil && k.alive() {
		return k
	}
	k = r.launch(big, trainer)
	r.await(k, model.Running)
	return k
}

func playAdmit(r *rig) play {
	var first, second *task
	return play{
		prepare: func() {
			if second != nil && second.alive() {
				first = second
			}
			first = r.big(first)
			r.await(first, model.Running)
			second = r.launch(big, slow)
			r.await(second, model.Held)
		},
		begin: func() { first.finish() },
		over:  func() bool { return r.is(second, model.Running) },
	}
}

func swapping() setting {
	return setting{gpu: simgpu.Options{Args: []string{"--swap-rate", "100GiB"}},
		config: fmt.Sprintf("[swap]\nlibrary = %q\ncommand = \"\"\nmargin = \"64MiB\"\n", simgpu.CUDA()),
		policy: `
name = "test"
objective = "short turns between tenants that do not fit together"
[share]
together = 1
quantum = "200ms"
rank = "-tenant.service"
swap = true
[limits]
min_run = "0s"
launch_grace = "2s"
`}
}

// playSwap waits for a turn in which one tenant is swapped and another restored.
func playSwap(r *rig) play {
	var pair [2]*task
	return play{
		prepare: func() {
			for i, k := range pair {
				if k == nil || !k.alive() {
					// As a framework's import does, the start outlasts the moment between exec and hold.
					pair[i] = r.launch("9GiB", "--startup 0.5 --memory 9GiB --gpu-ms 5 --cpu-ms 5 --queue 1")
					eventually(r.t, patience, "it trains", func() bool { return pair[i].iterations() > 3 })
				}
			}
			r.forget()
		},
		begin: func() {},
		over:  r.turned,
	}
}

// turned tells whether something was swapped and something restored since the
// points were forgotten.
func (r *rig) turned() bool {
	passed := r.passed()
	out := slices.Index(passed, "cuda.checkpointed")
	return out >= 0 && slices.Contains(passed[out:], "restore.back") && slices.Contains(passed[out:], "moves.dropped")
}

// throttling stops every tenant for half of each period, once it has run for a second.
func throttling() setting {
	return setting{policy: `
name = "test"
objective = "half of the time for everybody"
[share]
period = "400ms"
[limits]
min_run = "0s"
launch_grace = "2s"
[[guard]]
name = "for the test"
when = "tenant.running > 1 * second"
do = ["throttle"]
share = 0.5
`}
}

// playThrottle waits for a stop within a period and what ends it.
func playThrottle(r *rig) play {
	var k *task
	return play{
		prepare: func() {
			if k == nil || !k.alive() {
				k = r.launch("2GiB", trainer)
			}
			r.await(k, model.Throttled)
			k.trains()
			r.forget()
		},
		begin: func() {},
		over: func() bool {
			passed := r.passed()
			stop := slices.Index(passed, "pause.taken")
			return stop >= 0 && slices.Contains(passed[stop:], "resume.freed")
		},
	}
}

func playJoin(r *rig) play {
	var k, second *task
	return play{
		prepare: func() {
			k = r.living(k)
			r.order(k, "release")
			r.await(k, model.Running)
			if second != nil && second.alive() {
				second.finish()
			}
			r.order(k, model.PrimPause)
			r.await(k, model.Paused)
		},
		begin: func() { second = r.join(k) },
		over:  func() bool { return len(second.stopped()) > 0 && r.is(k, model.Paused) },
	}
}

// playContinued continues one process of a paused tenant. A tenant that was
// continued is left alone for a while: each time it is another.
func playContinued(r *rig) play {
	var k *task
	return play{
		prepare: func() {
			if k != nil && k.alive() {
				k.finish()
			}
			k = r.living(nil)
			r.order(k, model.PrimPause)
			r.await(k, model.Paused)
		},
		begin: func() {
			pids := k.pids()
			kill(r.t, pids[len(pids)-1], unix.SIGCONT)
		},
		over: func() bool { return r.is(k, model.Running) },
	}
}

func playNotify(r *rig) play {
	var k *task
	lines := 0
	told := func() int {
		text, _ := os.ReadFile(r.path("notified"))
		return strings.Count(string(text), "\n")
	}
	return play{
		prepare: func() { k = r.living(k); lines = told() },
		begin:   func() { r.order(k, model.PrimNotify) },
		over:    func() bool { return told() > lines },
	}
}

func playEvict(r *rig) play {
	var k *task
	return play{
		prepare: func() { k = r.living(k); r.order(k, model.PrimPause); r.await(k, model.Paused) },
		begin:   func() { k.evicted = true; r.order(k, model.PrimEvict) },
		over:    func() bool { return !k.alive() && r.left(k) },
	}
}

func playEnd(r *rig) play {
	var k *task
	return play{
		prepare: func() { k = r.living(k) },
		begin:   func() { k.finish() },
		over:    func() bool { return r.left(k) },
	}
}

// playOrphans tells of the end of a step whose processes are there still, and
// stopped: what Slurm did not see of them is ended.
func playOrphans(r *rig) play {
	var k *task
	return play{
		prepare: func() { k = r.living(k); r.order(k, model.PrimPause); r.await(k, model.Paused) },
		begin: func() {
			_ = r.call(wire.OpStepEnd, model.StepKey{JobID: k.job, StepID: model.StepBatch}, nil) // it may die of it
		},
		over: func() bool { return !k.alive() && r.left(k) },
	}
}

// playRetake has a guard take over from a daemon that hung for a while.
func playRetake(r *rig) play {
	var k *task
	return play{
		prepare: func() {
			k = r.living(k)
			r.order(k, "release")
			r.await(k, model.Running)
			hangs := strings.Count(r.log(), "has not turned")
			kill(r.t, r.cmd.Process.Pid, unix.SIGSTOP)
			eventually(r.t, patience, "the guard takes over", func() bool { return strings.Count(r.log(), "has not turned") > hangs })
			kill(r.t, r.cmd.Process.Pid, unix.SIGCONT)
			r.await(k, model.Running)
		},
		begin: func() { r.order(k, model.PrimPause) },
		over:  func() bool { return r.is(k, model.Paused) },
	}
}

// atRest has one tenant paused and another held.
func (r *rig) atRest(k, first, held *task) (*task, *task, *task) {
	k = r.living(k)
	r.order(k, model.PrimPause)
	first = r.big(first)
	if held != nil && held.alive() { // it may run by now
		held.finish()
	}
	held = r.launch(big, slow)
	r.await(k, model.Paused)
	r.await(held, model.Held)
	return k, first, held
}

func playLeave(r *rig) play {
	var k, first, held *task
	return play{
		prepare: func() { k, first, held = r.atRest(k, first, held) },
		begin:   func() { kill(r.t, r.cmd.Process.Pid, unix.SIGTERM) },
		over:    r.gone,
	}
}

func (r *rig) gone() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// playStart starts a daemon over what one left that died with its guard, while a
// task was launched.
func playStart(r *rig) play {
	var k, first, held, late *task
	return play{
		prepare: func() {
			k, first, held = r.atRest(k, first, held)
			if late != nil && late.alive() {
				late.finish()
			}
			r.killedBoth()
			late = r.launch("2GiB", trainer)
			eventually(r.t, patience, "the launch is left for the next daemon", func() bool {
				files, _ := filepath.Glob(r.path("run/pending/*"))
				return len(files) > 0
			})
		},
		begin: r.begin,
		over: func() bool {
			reply := r.status()
			return reply != nil && late.in(reply) != nil
		},
	}
}

// playGuard kills the daemon and leaves its guard to it.
func playGuard(r *rig) play {
	var k, first, held *task
	return play{
		prepare: func() { k, first, held = r.atRest(k, first, held) },
		begin:   r.killed,
		over: func() bool {
			return len(k.stopped()) == 0 && len(held.stopped()) == 0
		},
	}
}
