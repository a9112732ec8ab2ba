package metrics

import (
	"cmp"
	"slices"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// job is what the series of one job are made of: its live tenants here, which
// are the job's own part of the node and steps that are packed by themselves.
type job struct {
	label   string
	tenants []*model.View
}

// group puts the live tenants together by job, oldest job first. Tenants of no
// known job are one job, "unknown", and those beyond the limit another, "other".
func group(s model.Snapshot, limit int) []*job {
	live := make([]*model.View, 0, len(s.Tenants))
	for i := range s.Tenants {
		if v := &s.Tenants[i]; v.Live() {
			live = append(live, v)
		}
	}
	slices.SortStableFunc(live, func(a, b *model.View) int { return cmp.Compare(a.Reg.JobID, b.Reg.JobID) })
	var all []*job
	index := map[string]*job{}
	for _, v := range live {
		label := unknown
		if v.Reg.JobID != 0 {
			label = v.Reg.JobLabel()
		}
		if index[label] == nil && label != unknown && len(all) >= limit {
			label = "other"
		}
		if index[label] == nil {
			index[label] = &job{label: label}
			all = append(all, index[label])
		}
		index[label].tenants = append(index[label].tenants, v)
	}
	return all
}

// jobs fills in the series of each live job.
func (p *page) jobs(s model.Snapshot, o Options) {
	limit := o.MaxJobs
	if limit <= 0 {
		limit = maxJobs
	}
	for _, j := range group(s, limit) {
		if v := j.tenants[0]; v.Reg.JobID != 0 && j.label != "other" && (o.Users || o.Names) {
			p.set(jobInfo, 1, infoLabels(j.label, v, o)...)
		}
		for _, v := range j.tenants {
			p.tally(j.label, v)
		}
		p.idle(j)
		for i := range s.GPUs {
			if g := &s.GPUs[i]; g.UUID != "" {
				p.jobOnGPU(j, g)
			}
		}
	}
}

func infoLabels(label string, v *model.View, o Options) []string {
	all := []string{"jobid", label}
	if o.Users {
		all = append(all, "user", v.Reg.User, "account", v.Reg.Account, "partition", v.Reg.Partition)
	}
	if o.Names {
		all = append(all, "name", v.Reg.JobName)
	}
	return all
}

// tally adds what is counted of one tenant to its job.
func (p *page) tally(label string, v *model.View) {
	p.add(jobTenants, 1, "jobid", label, "state", v.State.String())
	p.add(jobProcesses, float64(v.Procs), "jobid", label)
	p.add(jobStateTime, v.Tally.Held.Seconds(), "jobid", label, "state", "held")
	p.add(jobStateTime, v.Tally.Running.Seconds(), "jobid", label, "state", "running")
	p.add(jobStateTime, v.Tally.Withheld.Seconds(), "jobid", label, "state", "withheld")
	p.add(jobStateTime, v.Tally.Paused.Seconds(), "jobid", label, "state", "paused")
	p.add(jobStateTime, v.Tally.Swapped.Seconds(), "jobid", label, "state", "swapped")
	p.add(jobAttained, v.Tally.Attained.Seconds(), "jobid", label)
	p.add(jobStops, float64(v.Tally.Holds), "jobid", label, "kind", "hold")
	p.add(jobStops, float64(v.Tally.Throttles), "jobid", label, "kind", "throttle")
	p.add(jobStops, float64(v.Tally.Pauses), "jobid", label, "kind", "pause")
	p.add(jobStops, float64(v.Tally.Swaps), "jobid", label, "kind", "swap")
}

// idle is that of the tenant which computed last.
func (p *page) idle(j *job) {
	first := j.tenants[0]
	least := first.Idle(first.Registered + first.Elapsed)
	for _, v := range j.tenants[1:] {
		least = min(least, v.Idle(v.Registered+v.Elapsed))
	}
	p.set(jobIdle, least.Seconds(), "jobid", j.label)
}

// jobOnGPU fills in what a job takes of one GPU. A sum of which a part is not
// known is not known.
func (p *page) jobOnGPU(j *job, g *model.GPU) {
	on := slices.DeleteFunc(slices.Clone(j.tenants), func(v *model.View) bool { return !v.Uses(g.UUID) })
	if len(on) == 0 {
		return
	}
	procs, peak := 0, model.Bytes(0)
	used, sm := model.Known(model.Bytes(0)), model.Known(0.0)
	for _, v := range on {
		use, seen := v.Use[g.UUID]
		procs += use.Procs
		peak += v.Peak[g.UUID]
		if seen && use.Procs == 0 {
			continue // takes nothing
		}
		used, sm = sum(used, use.Memory), sum(sm, use.SM)
	}
	p.set(jobGPUProcs, float64(procs), "jobid", j.label, "gpu", g.UUID)
	p.set(jobGPUPeak, float64(peak), "jobid", j.label, "gpu", g.UUID)
	p.bytes(jobGPUUsed, used, "jobid", j.label, "gpu", g.UUID)
	p.bytes(jobGPUClaim, claim(on, g), "jobid", j.label, "gpu", g.UUID)
	if share, ok := sm.Get(); ok {
		p.set(jobGPUSM, share, "jobid", j.label, "gpu", g.UUID)
	}
}

func sum[T model.Bytes | float64](a, b model.Reading[T]) model.Reading[T] {
	x, okA := a.Get()
	y, okB := b.Get()
	if !okA || !okB {
		return model.Unknown[T]()
	}
	return model.Known(x + y)
}

// claim is what the tenants of one job may count on: a job's own claim covers
// its steps, so that together they count as the larger of the two.
func claim(on []*model.View, g *model.GPU) model.Reading[model.Bytes] {
	whole, steps := model.Known(model.Bytes(0)), model.Known(model.Bytes(0))
	for _, v := range on {
		if v.Whole {
			whole = sum(whole, v.Claim(*g))
		} else {
			steps = sum(steps, v.Claim(*g))
		}
	}
	w, okW := whole.Get()
	s, okS := steps.Get()
	if !okW || !okS {
		return model.Unknown[model.Bytes]()
	}
	return model.Known(max(w, s))
}
