package main

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/engine"
	"github.com/gimbal-hpc/gimbal/helper/gpu"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/mps"
	"github.com/gimbal-hpc/gimbal/helper/policy"
	"github.com/gimbal-hpc/gimbal/helper/wire"
)

// The variables by which processes are told what they may take, all of them. The
// plugin sets none that the job has set itself.
const (
	varGrowth   = "TF_FORCE_GPU_ALLOW_GROWTH"
	varPrealloc = "XLA_PYTHON_CLIENT_PREALLOCATE"
	varFraction = "XLA_PYTHON_CLIENT_MEM_FRACTION"
	varPyTorch  = "PYTORCH_CUDA_ALLOC_CONF"
	varPipe     = "CUDA_MPS_PIPE_DIRECTORY"
	varThreads  = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
	varPinned   = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
	varPriority = "CUDA_MPS_CLIENT_PRIORITY"
)

// frameworkEnv tells frameworks what they may take of these GPUs.
func frameworkEnv(c policy.Capped, gpus []model.GPU) map[string]string {
	env := map[string]string{}
	if c.Growth {
		env[varGrowth], env[varPrealloc] = "true", "false"
	}
	if c.PyTorch != "" {
		env[varPyTorch] = c.PyTorch
	}
	limit, ok := c.Memory.Get()
	for _, g := range gpus {
		total, known := g.Total.Get()
		if !ok || !known || limit >= total {
			return env
		}
		share := strconv.FormatFloat(math.Floor(1000*float64(limit)/float64(total))/1000, 'f', 3, 64)
		if old, there := env[varFraction]; !there || share < old {
			env[varFraction] = share
		}
	}
	return env
}

// mpsEnv makes a job's processes clients of MPS, with what they may take of each of
// their GPUs, which CUDA numbers from 0.
func mpsEnv(c policy.Capped, gpus int, pipe string) map[string]string {
	env := map[string]string{varPipe: pipe}
	if x, ok := c.SM.Get(); ok {
		env[varThreads] = strconv.Itoa(max(int(math.Round(100*x)), 1))
	}
	if p, ok := c.Priority.Get(); ok {
		env[varPriority] = strconv.Itoa(p)
	}
	if m, ok := c.Memory.Get(); ok && gpus > 0 {
		var each []string
		for i := range gpus {
			each = append(each, fmt.Sprintf("%d=%dM", i, m/model.MiB))
		}
		env[varPinned] = strings.Join(each, ",")
	}
	return env
}

// prepareLimit is how long a step that is being launched waits for the loop.
const prepareLimit = 500 * time.Millisecond

// launchKept is for how long what was said of a job stands that has no tenant.
const launchKept = 2 * time.Minute

// launch is what was found of a job when a step of it was prepared.
type launch struct {
	uid  uint32
	mps  bool
	note string // why it is not a client of MPS although its policy says so
	at   time.Time
}

// capper works out what steps are told before their tasks are forked.
type capper struct {
	decider *policy.Decider // of the loop alone
	control *mps.Control    // nil: there is no MPS
	watch   *mps.Watch
	multi   bool

	mu   sync.Mutex
	jobs map[uint32]launch
}

func (d *daemon) newCapper() *capper {
	c := &capper{decider: policy.NewDecider(d.policies, policy.Options{}), multi: d.cfg.MPS.MultiUser, jobs: map[uint32]launch{}}
	if m := d.cfg.MPS; m.Pipe != "" {
		c.control = &mps.Control{Command: m.Control, Pipe: m.Pipe}
		c.watch = mps.NewWatch(c.control, m.Check, d.toldOfMPS)
	}
	return c
}

// toldOfMPS logs that MPS has ceased to answer, or answers again.
func (d *daemon) toldOfMPS(err error) {
	if err != nil {
		d.log.error("mps", "jobs are launched without MPS until it answers; those that run are left alone", err)
		return
	}
	d.log.info("mps", "MPS answers again")
}

// prepare says what the tasks of a step are told. A job on several nodes is told
// nothing: its nodes might disagree.
func (d *daemon) prepare(r model.Registration) wire.Prepared {
	out := wire.Prepared{Active: true}
	if r.JobID == 0 || r.NNodes > 1 {
		return out
	}
	r.User = login(r.UID)
	report, _ := d.sampler.Report(d.settings().Sample.Stale)
	uuids, err := gpu.Resolve(r.GPUs, r.Visible, report.GPUs)
	if err != nil || len(uuids) == 0 {
		return out
	}
	t := &model.Tenant{Reg: r, Terms: d.terms(r), GPUs: uuids, Use: map[string]model.Usage{}, Peak: map[string]model.Bytes{}}
	placed := d.place(r, t, report.GPUs)
	found, clients, err := d.askCap(t)
	gpus := pick(report.GPUs, t.GPUs)
	if err == nil { // else as if no policy said anything
		out.Env = frameworkEnv(found, gpus)
	}
	if placed != "" {
		if out.Env == nil {
			out.Env = map[string]string{}
		}
		out.Env[varVisible] = placed
	}
	if !found.MPS || d.caps.control == nil {
		return out
	}
	l := launch{uid: r.UID, at: time.Now(), note: d.caps.without(r, gpus, clients)}
	if l.mps = l.note == ""; l.mps {
		for name, value := range mpsEnv(found, len(gpus), d.caps.control.Pipe) {
			out.Env[name] = value
		}
	}
	out.Message = l.note
	d.caps.keep(r.JobID, l, clients)
	return out
}

// askCap works out the limits in the loop, and lists the users of the jobs that are
// clients of MPS.
func (d *daemon) askCap(t *model.Tenant) (found policy.Capped, clients map[uint32]uint32, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), prepareLimit)
	defer cancel()
	clients = map[uint32]uint32{}
	err = d.loop.Ask(ctx, func(e *engine.Engine) {
		found = d.caps.decider.Cap(e.Node, t, clock())
		for _, o := range e.Node.Tenants {
			if o.Terms.MPS {
				clients[o.Reg.JobID] = o.Reg.UID
			}
		}
	})
	return found, clients, err
}

// without says why a job is not made a client of MPS, "" if it is. Without support
// for several users a server is one user's, and keeps everybody else waiting.
func (c *capper) without(r model.Registration, gpus []model.GPU, clients map[uint32]uint32) string {
	if err := c.watch.Err(); err != nil {
		return fmt.Sprintf("launched without MPS: %v", err)
	}
	for _, g := range gpus {
		if g.MIG {
			return "launched without MPS: its GPU is partitioned"
		}
	}
	if c.multi {
		return tooOldForSeveral(gpus)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for job, l := range c.jobs {
		if l.mps {
			clients[job] = l.uid
		}
	}
	for job, uid := range clients {
		if uid != r.UID {
			return fmt.Sprintf("launched without MPS: mps user: its server serves job %d of another user", job)
		}
	}
	return ""
}

// tooOldForSeveral says which of the GPUs cannot have a server for several users,
// although MPS lets itself be started for them; "" if none.
func tooOldForSeveral(gpus []model.GPU) string {
	for _, g := range gpus {
		if c := g.Capability; c > 0 && c < 70 {
			return fmt.Sprintf("launched without MPS: mps user: a server for several users needs compute capability 7.0, GPU %d has %d.%d", g.Index, c/10, c%10)
		}
	}
	return ""
}

// keep remembers what a job was told, until its tenants tell, and forgets jobs of
// which there is none.
func (c *capper) keep(job uint32, l launch, clients map[uint32]uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for old, was := range c.jobs {
		if _, lives := clients[old]; !lives && time.Since(was.at) > launchKept {
			delete(c.jobs, old)
		}
	}
	c.jobs[job] = l
}

// say adds to a job's terms what was found when it was launched.
func (c *capper) say(job uint32, t *model.Terms) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.jobs[job]
	t.MPS = l.mps
	if l.note != "" {
		t.Notes = append(t.Notes, l.note)
	}
}

// pick lists the GPUs of these UUIDs, in their order.
func pick(all []model.GPU, uuids []string) []model.GPU {
	var out []model.GPU
	for _, u := range uuids {
		for _, g := range all {
			if g.UUID == u {
				out = append(out, g)
			}
		}
	}
	return out
}
