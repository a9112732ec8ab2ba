package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/config"
	"github.com/gimbal-hpc/gimbal/helper/engine"
	"github.com/gimbal-hpc/gimbal/helper/gpu"
	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/policy"
)

// varVisible names the GPUs that a process may use to CUDA.
const varVisible = "CUDA_VISIBLE_DEVICES"

// comingFor is for how long a job that was placed counts on its GPUs although
// none of its tasks is registered yet.
const comingFor = 10 * time.Second

// placer chooses the GPUs of jobs that are being launched, where the site leaves
// that to gimbald.
type placer struct {
	site    *siteWatch
	decider *policy.Decider // of the loop alone

	choosing sync.Mutex // one job at a time: each is to count for the next
	mu       sync.Mutex
	seats    map[uint32]*seat // of jobs that were launched a short while ago
}

// seat is what was decided for a job.
type seat struct {
	uid    uint32
	slurm  []string // UUIDs as Slurm gave them
	gpus   []string // as they were chosen, nil where Slurm's stay
	why    string
	at     time.Time
	tenant *model.Tenant // as it counts until it is registered; nil where Slurm's stay
}

func (d *daemon) newPlacer() *placer {
	o := d.told()
	o.Demand = d.learner.Demand
	p := &placer{site: newSiteWatch(d.cfg), decider: policy.NewDecider(d.policies, o), seats: map[uint32]*seat{}}
	p.decider.SetEpoch(d.started.Add(-clock()))
	return p
}

// place chooses the GPUs of a step that is about to be launched, and gives them
// to its tenant. It returns CUDA_VISIBLE_DEVICES for the step, "" where Slurm's
// stays.
func (d *daemon) place(r model.Registration, t *model.Tenant, known []model.GPU) string {
	if d.settings().Node.Place != config.PlaceGimbal || !movable(r, t.GPUs, known) {
		return ""
	}
	d.places.choosing.Lock()
	defer d.places.choosing.Unlock()
	s, err := d.seatOf(r, known)
	if err != nil {
		return ""
	}
	if s == nil && r.Own {
		return "" // one of several steps that share what their job was given
	}
	if s == nil {
		s = d.choose(r, t, known)
		d.places.keep(r.JobID, s)
	}
	gpus := s.of(t.GPUs)
	if gpus == nil {
		return ""
	}
	t.GPUs = gpus
	return visible(r.Visible, gpus, known)
}

// movable tells whether a step may be given other GPUs: Slurm gave it shards, and
// its CUDA_VISIBLE_DEVICES names the GPUs as the whole node knows them, as it does
// not where Slurm keeps the job to its own.
func movable(r model.Registration, gpus []string, known []model.GPU) bool {
	if r.Shards == 0 || r.NNodes > 1 || len(r.GPUs) == 0 || r.Visible == "" {
		return false
	}
	if slices.ContainsFunc(known, func(g model.GPU) bool { return g.MIG }) {
		return false
	}
	told, err := gpu.Resolve(r.GPUs, "", known)
	if err != nil {
		return false
	}
	seen, err := gpu.Resolve([]string{r.Visible}, "", known)
	return err == nil && slices.Equal(told, seen) && slices.Equal(told, gpus)
}

// of is what a step gets that Slurm gave some of its job's GPUs, nil: those.
func (s *seat) of(slurm []string) []string {
	var out []string
	for _, g := range slurm {
		i := slices.Index(s.slurm, g)
		if i < 0 || i >= len(s.gpus) {
			return nil
		}
		out = append(out, s.gpus[i])
	}
	return out
}

// visible names GPUs as Slurm named its own: by number where numbers mean the
// same to everybody, else by UUID.
func visible(slurm string, gpus []string, known []model.GPU) string {
	_, err := strconv.Atoi(strings.Split(slurm, ",")[0])
	number := err == nil && !slices.ContainsFunc(known, func(g model.GPU) bool { return g.Minor != g.Index })
	var names []string
	for _, g := range pick(known, gpus) {
		if number {
			names = append(names, strconv.Itoa(g.Index))
		} else {
			names = append(names, g.UUID)
		}
	}
	return strings.Join(names, ",")
}

// seatOf is what was decided for the job of a step before, nil for one that is
// new: a batch script always is, that of a job that was requeued too.
func (d *daemon) seatOf(r model.Registration, known []model.GPU) (s *seat, err error) {
	if r.StepID == model.StepBatch {
		return nil, nil
	}
	err = d.askSoon(func(e *engine.Engine) {
		for _, o := range e.Node.Tenants {
			if o.Reg.JobID == r.JobID && o.Reg.UID == r.UID && o.Whole {
				s = seatIn(o, known)
			}
		}
	})
	if s == nil {
		s = d.places.find(r)
	}
	return s, err
}

// seatIn is what was decided for a job that has a tenant.
func seatIn(t *model.Tenant, known []model.GPU) *seat {
	s := &seat{uid: t.Reg.UID}
	if slurm, err := gpu.Resolve(t.Reg.GPUs, "", known); err == nil && t.Reg.Placed != "" {
		s.slurm, s.gpus = slurm, t.GPUs
	}
	return s
}

// firstSite asks at the start how the node's GPUs are shared, so that it is known
// when the first step is launched, and logs what follows.
func (d *daemon) firstSite(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-d.places.site.refresh(d.name):
	}
	report, _ := d.sampler.Report(d.settings().Sample.Stale)
	if _, err := d.places.site.look(d.name, report.GPUs); err != nil {
		d.stays(err)
		return
	}
	d.log.info("place", fmt.Sprintf("the GPUs of jobs are chosen here, among %d", len(report.GPUs)))
}

// stays says why nothing is chosen.
func (d *daemon) stays(err error) {
	d.log.warnOf("place", err.Error(), "Slurm's choice of GPUs stays: "+err.Error())
}

// choose decides for a job's first step.
func (d *daemon) choose(r model.Registration, t *model.Tenant, known []model.GPU) *seat {
	s := &seat{uid: r.UID, slurm: t.GPUs, at: time.Now()}
	site, err := d.places.site.look(d.name, known)
	if err != nil {
		d.stays(err)
		return s
	}
	comer := *t
	comer.GPUs, comer.Whole = nil, true
	var found policy.Placed
	err = d.askSoon(func(e *engine.Engine) {
		if e.Node.Degraded != "" {
			return
		}
		n := *e.Node
		n.Tenants = append(slices.Clone(n.Tenants), d.places.coming(n.Tenants)...)
		each := (int(r.Shards) + len(t.GPUs) - 1) / len(t.GPUs)
		found = d.places.decider.Place(&n, policy.Placing{
			Tenant: &comer, GPUs: len(t.GPUs), Among: withShards(&n, known, site.Shards-each),
		}, clock())
	})
	if err != nil || found.GPU == "" {
		return s
	}
	s.gpus, s.why = []string{found.GPU}, found.Why
	if !slices.Equal(s.gpus, s.slurm) {
		s.why = fmt.Sprintf("%s; Slurm gave %s", found.Why, names(s.slurm, known))
	}
	comer.GPUs = s.gpus
	comer.ID, comer.Registered, comer.BusyAt = model.TenantID(fmt.Sprintf("%d@coming", r.JobID)), clock(), clock()
	s.tenant = &comer
	return s
}

// askSoon asks the loop, for as long as a step that is being launched may wait.
func (d *daemon) askSoon(f func(*engine.Engine)) error {
	ctx, cancel := context.WithTimeout(context.Background(), prepareLimit)
	defer cancel()
	return d.loop.Ask(ctx, f)
}

// withShards lists the GPUs of which at most so many shards are in use, by what
// the jobs there were given. Steps of a job share what the job was given.
func withShards(n *model.Node, known []model.GPU, most int) []string {
	type share struct {
		job uint32
		gpu string
	}
	shares, used := map[share]int{}, map[string]int{}
	for _, t := range n.Tenants {
		for _, g := range t.GPUs {
			k := share{t.Reg.JobID, g}
			has := max((int(t.Reg.Shards)+len(t.GPUs)-1)/len(t.GPUs), 1)
			if t.Reg.JobID == 0 || has <= shares[k] {
				continue
			}
			used[g] += has - shares[k]
			shares[k] = has
		}
	}
	var out []string
	for _, g := range known {
		if used[g.UUID] <= most {
			out = append(out, g.UUID)
		}
	}
	return out
}

func names(gpus []string, known []model.GPU) string {
	var out []string
	for _, g := range pick(known, gpus) {
		out = append(out, fmt.Sprintf("GPU %d", g.Index))
	}
	return strings.Join(out, ", ")
}

func (p *placer) keep(job uint32, s *seat) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for old, was := range p.seats {
		if time.Since(was.at) > launchKept {
			delete(p.seats, old)
		}
	}
	p.seats[job] = s
}

// find is what was decided for a job a short while ago, nil if nothing was.
func (p *placer) find(r model.Registration) *seat {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.seats[r.JobID]; s != nil && s.uid == r.UID && time.Since(s.at) <= launchKept {
		return s
	}
	return nil
}

// coming lists the jobs that were placed and are not among the tenants yet.
func (p *placer) coming(tenants []*model.Tenant) []*model.Tenant {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []*model.Tenant
	for job, s := range p.seats {
		there := slices.ContainsFunc(tenants, func(t *model.Tenant) bool { return t.Reg.JobID == job })
		if s.tenant != nil && !there && time.Since(s.at) <= comingFor {
			out = append(out, s.tenant)
		}
	}
	slices.SortFunc(out, func(a, b *model.Tenant) int { return int(a.Reg.JobID) - int(b.Reg.JobID) })
	return out
}

// say tells in a tenant's terms why its GPUs are not Slurm's choice.
func (p *placer) say(r model.Registration, t *model.Terms) {
	if r.Placed == "" {
		return
	}
	t.Placed = "its GPU when the job was launched, under an earlier gimbald"
	if s := p.find(r); s != nil && s.why != "" {
		t.Placed = s.why
	}
}
