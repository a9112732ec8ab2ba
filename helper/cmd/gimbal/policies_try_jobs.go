package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/sim"
)

// pastJobs is jobs of the past as the simulator takes them, and what is known
// of the node that they were on.
type pastJobs struct {
	from     string
	jobs     []sim.Job
	gpus     int               // of a node
	shards   int               // of a GPU
	memory   float64           // of a GPU, MiB; 0 when unknown
	policies map[string]string // in force, by GPU; nil where nobody was asked
	assumed  []string          // sentences for the reader

	left, idle    int // tenants that have not ended, and that never computed
	blank         int // jobs of unknown memory
	unseen        int // jobs whose share of the multiprocessors is not known
	exempt, asked int // jobs that were never stopped, and that asked for a policy of their own
}

func (h *pastJobs) assume(format string, args ...any) {
	h.assumed = append(h.assumed, fmt.Sprintf(format, args...))
}

// newPastJobs makes jobs of the ended tenants of a node.
func newPastJobs(views []model.View, from string) *pastJobs {
	h := &pastJobs{from: from}
	var ended []model.View
	for i := range views {
		switch v := &views[i]; {
		case v.Hidden || v.State != model.Gone:
			h.left++
		case v.Tally.Attained <= 0:
			h.idle++
		default:
			ended = append(ended, *v)
		}
	}
	slices.SortStableFunc(ended, func(a, b model.View) int {
		return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.Reg.JobID, b.Reg.JobID))
	})
	for i := range ended {
		h.add(&ended[i], &ended[0])
	}
	h.gpus, h.shards = gpusAndMates(ended)
	h.explain()
	return h
}

// add makes a job of a tenant; times count from the first one's registration.
func (h *pastJobs) add(v, first *model.View) {
	j := sim.Job{
		ID: v.Name(), User: v.Reg.User, Account: v.Reg.Account, Partition: v.Reg.Partition, Model: v.Reg.JobName, Submit: v.Start.Sub(first.Start).Seconds(),
		GPUs: max(len(v.GPUs), 1), Memory: memoryOf(&v.Tenant), Util: min(v.Tally.Util().Or(0), 1),
		Iterations: v.Tally.Attained.Seconds(), IterTime: 1,
		Opportunistic: v.Terms.Class == model.Opportunistic, Weight: v.Terms.Weight,
		Deadline: moment(v.Terms.Deadline, first.Start), Limit: limitOf(v),
	}
	h.jobs = append(h.jobs, j)
	h.count(j.Memory == 0, &h.blank)
	h.count(j.Util == 0, &h.unseen)
	h.count(v.Exempt != "", &h.exempt)
	h.count(v.Terms.Policy != "", &h.asked)
}

func (*pastJobs) count(so bool, n *int) {
	if so {
		*n++
	}
}

// memoryOf is what a tenant that declared some could count on, on each GPU, else the most that it took
// of one, in MiB; 0 when neither is known.
func memoryOf(t *model.Tenant) float64 {
	most := model.Bytes(0)
	for _, b := range t.Peak {
		most = max(most, b)
	}
	if claim, ok := t.Terms.Memory.Get(); ok && t.Terms.Declared.Known() {
		most = claim
	}
	return float64(most) / float64(model.MiB)
}

// limitOf is the time limit of a tenant's job from its registration on, in
// seconds; 0 when unknown.
func limitOf(v *model.View) float64 {
	if v.Reg.EndTime == 0 {
		return 0
	}
	return max(0, float64(v.Reg.EndTime)-float64(v.Start.UnixNano())/1e9)
}

// gpusAndMates counts the GPUs that tenants were on, and how many were on one
// of them at once at most.
func gpusAndMates(views []model.View) (gpus, mates int) {
	type edge struct {
		at    int64
		delta int
	}
	on := map[string][]edge{}
	for i := range views {
		v := &views[i]
		for _, g := range v.GPUs {
			on[g] = append(on[g], edge{v.Start.UnixNano(), 1}, edge{v.End.UnixNano(), -1})
		}
		gpus = max(gpus, len(v.GPUs))
	}
	for _, edges := range on {
		slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.delta, b.delta)) })
		now := 0
		for _, e := range edges {
			now += e.delta
			mates = max(mates, now)
		}
	}
	return max(gpus, len(on), 1), max(mates, 1)
}

// node takes what the daemon told of the node.
func (h *pastJobs) node(snap *model.Snapshot) {
	h.policies = snap.Policies
	h.gpus = max(h.gpus, len(snap.GPUs))
	for _, g := range snap.GPUs {
		if total, ok := g.Total.Get(); ok {
			mib := float64(total-g.Reserved.Or(0)) / float64(model.MiB)
			if h.memory == 0 || mib < h.memory {
				h.memory = mib
			}
		}
	}
}

// fit bounds what jobs take by the memory that there is: who ran did fit.
func (h *pastJobs) fit() {
	if h.memory == 0 {
		h.assume("The memory of a GPU is not known: all jobs fit on it together (--gpu-memory tells it).")
		return
	}
	for i := range h.jobs {
		h.jobs[i].Memory = min(h.jobs[i].Memory, h.memory)
	}
}

// explain says what was assumed of jobs from a journal.
func (h *pastJobs) explain() {
	h.assume("A job's work is the time that it ran with a process on a GPU, as if it had been alone: who ran beside others was slower and is taken for longer than it is.")
	h.assume("A job comes when it was registered, on any GPU of the node, and leaves when its work is done, however it ended.")
	of := func(n int) string { return fmt.Sprintf("%d of %s", n, plural(len(h.jobs), "job")) }
	tenants := func(n int) string { return plural(n, "tenant") }
	for _, s := range []struct {
		n    int
		of   func(int) string
		text string
	}{
		{h.unseen, of, "of unknown use of the multiprocessors: each is taken to keep its GPU busy"},
		{h.blank, of, "of unknown memory: each is taken to need its shard's part of a GPU"},
		{h.exempt, of, "were never stopped, for a reason of their own: here they may be"},
		{h.asked, of, "asked for a policy of their own: here all go by one"},
		{h.idle, tenants, "left out that never computed"},
		{h.left, tenants, "left out that have not ended or are hidden from you"},
	} {
		if s.n > 0 {
			h.assume("%s %s.", s.of(s.n), s.text)
		}
	}
}
