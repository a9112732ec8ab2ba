package policy_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gimbal-hpc/gimbal/helper/model"
	"github.com/gimbal-hpc/gimbal/helper/policy"
	"github.com/gimbal-hpc/gimbal/tests/draw"
)

// comer is a tenant that is about to be launched.
func comer(id int, memory model.Reading[model.Bytes]) *model.Tenant {
	return &model.Tenant{
		ID: model.TenantID(fmt.Sprint(id)), Reg: model.Registration{JobID: uint32(id), ArrayTask: model.NoVal, HetOffset: model.NoVal},
		Whole: true, Terms: model.Terms{Class: model.Guaranteed, Weight: 1, Memory: memory},
	}
}

// uuids are those of so many GPUs.
func uuids(n int) []string {
	var all []string
	for i := range n {
		all = append(all, uuid(i))
	}
	return all
}

// knownSpeed and knownDemand are of jobs by their numbers: from 50 on heavy
// ones, which do nothing beside each other, and light ones below.
func knownSpeed(a, b *model.Tenant) float64 {
	if a.Reg.JobID >= 50 && b.Reg.JobID >= 50 {
		return 0.4
	}
	return 0.9
}

func knownDemand(t *model.Tenant) float64 {
	if t.Reg.JobID >= 50 {
		return 0.95
	}
	return 0.2
}

// TestPlace: job 59 comes, a heavy one, for which each GPU of 80 GiB has what
// stands in now: "JOB gpu=N mem=SIZE" and so on.
func TestPlace(t *testing.T) {
	learnt := policy.Options{Speed: knownSpeed}
	seen := policy.Options{Demand: knownDemand}
	for _, c := range []struct {
		name, policy string
		o            policy.Options
		now          []string
		ask          policy.Placing
		spoil        func(*model.Node)
		want         string
	}{
		{name: "all are free", policy: "timeslice", want: "0"},
		{name: "one is free", policy: "timeslice", now: []string{"1 gpu=0", "2 gpu=1"}, want: "2"},
		{name: "the fewest tenants where nobody runs beside another", policy: "timeslice", now: []string{"1 gpu=0", "2 gpu=0", "3 gpu=1", "4 gpu=2", "5 gpu=2"}, want: "1"},
		{name: "heavy not beside heavy, by speeds", policy: "throughput", o: learnt, now: []string{"51 gpu=0", "52 gpu=1", "1 gpu=2"}, want: "2"},
		{name: "but beside one rather than two", policy: "makespan", o: learnt, now: []string{"51 gpu=0", "52 gpu=1", "1 gpu=2", "2 gpu=2"}, want: "0"},
		{name: "unless the policy goes by the gain alone", policy: "throughput", o: learnt, now: []string{"51 gpu=0", "52 gpu=1", "1 gpu=2", "2 gpu=2"}, want: "2"},
		{name: "by demands, nothing being learnt", policy: "throughput", o: seen, now: []string{"51 gpu=0", "52 gpu=1", "1 gpu=2"}, want: "2"},
		{name: "by speeds where all run at once", policy: "together", o: learnt, now: []string{"51 gpu=0", "52 gpu=1", "1 gpu=2"}, want: "2"},
		{name: "by the pair rule", policy: "[share]\npair = 'mate.demand > 0.5'", o: seen, now: []string{"1 gpu=0", "51 gpu=1", "2 gpu=2"}, want: "1"},
		{name: "no room beside the light one", policy: "throughput", o: learnt, now: []string{"51 gpu=0 mem=60GiB", "52 gpu=1", "1 gpu=2 mem=75GiB"}, want: "1"},
		{name: "two GPUs", policy: "throughput", o: learnt, now: []string{"51 gpu=1"}, ask: policy.Placing{GPUs: 2}, want: "has 2 GPUs: Slurm chooses them"},
		{name: "none", policy: "timeslice", ask: policy.Placing{GPUs: -1}, want: "has -1 GPUs: Slurm chooses them"},
		{name: "only some may be had", policy: "timeslice", now: []string{"1 gpu=1"}, ask: policy.Placing{Among: []string{uuid(1), uuid(7)}}, want: "1"},
		{name: "so many tenants at most", policy: "throughput", o: learnt, now: []string{"51 gpu=0", "1 gpu=1", "2 gpu=1", "52 gpu=2", "53 gpu=2"}, ask: policy.Placing{Most: 2}, want: "0"},
		{name: "a faulty one", policy: "timeslice", now: []string{"1 gpu=1", "2 gpu=2"}, spoil: func(n *model.Node) { n.GPUs[0].Fault = "lost" }, want: "1"},
		{name: "a part of one", policy: "timeslice", spoil: func(n *model.Node) { n.GPUs[0].MIG = true }, want: "1"},
		{name: "other people's memory", policy: "timeslice", spoil: func(n *model.Node) { n.Foreign[uuid(0)] = model.Known(75 * model.GiB) }, want: "1"},
		{name: "memory that is not known", policy: "timeslice", now: []string{"1 gpu=0"}, ask: policy.Placing{Among: []string{uuid(0)}}, spoil: func(n *model.Node) { n.GPUs[0].Total = model.Unknown[model.Bytes]() }, want: "fits on none of 1 GPUs"},
		{name: "the least utilised", policy: "timeslice", spoil: func(n *model.Node) {
			n.GPUs[0].Util, n.GPUs[2].Util = model.Known(0.2), model.Known(0.1)
		}, want: "2"},
		{name: "the most free memory", policy: "timeslice", spoil: func(n *model.Node) { n.Foreign[uuid(0)] = model.Known(model.GiB) }, want: "1"},
		{name: "one that ends does not count", policy: "timeslice", now: []string{"1 gpu=0", "2 gpu=1", "3 gpu=2"}, spoil: func(n *model.Node) { n.Tenants[1].State = model.Evicting }, want: "1"},
		{name: "a job that waits for its steps does not count twice", policy: "timeslice", now: []string{"1 gpu=0", "9 gpu=0 parent=1", "2 gpu=1", "3 gpu=1", "4 gpu=2", "5 gpu=2"}, want: "0"},
		{name: "by the policy's own rank", policy: "[place]\nrank = 'gpu.index'", now: []string{"1 gpu=2"}, want: "2"},
		{name: "an unknown rank is the lowest", policy: "[place]\nrank = '1 / gpu.index'", want: "1"},
		{name: "fewer turns", policy: "[share]\ntogether = 1\n[place]\nrank = '-place.turns'", now: []string{"1 gpu=0", "2 gpu=1", "3 gpu=1", "4 gpu=2", "5 gpu=2"}, want: "0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := policyOf(t, c.policy)
			r := newRigWith(t, p, c.o, "80GiB", "80GiB", "80GiB")
			for _, line := range c.now {
				f := strings.Fields(line)
				r.register(f[0], append([]string{"mem=10GiB"}, f[1:]...))
			}
			if c.spoil != nil {
				c.spoil(r.n)
			}
			c.ask.Tenant = comer(59, model.Known(10*model.GiB))
			if c.ask.GPUs == 0 {
				c.ask.GPUs = 1
			}
			if c.ask.Among == nil {
				c.ask.Among = uuids(3)
			}
			got := policy.NewDecider(&policy.Set{Default: p}, c.o).Place(r.n, c.ask, r.now)
			if is := strings.TrimPrefix(got.GPU, "GPU-"); is != c.want && (is != "" || got.Why != c.want) {
				t.Errorf("%q (%s), want %q", is, got.Why, c.want)
			}
			t.Log(got.Why)
		})
	}
}

// TestPlaceSaysWhy: where, beside whom and how fast, and what was second and why,
// for job 59, a heavy one.
func TestPlaceSaysWhy(t *testing.T) {
	learnt := policy.Options{Speed: knownSpeed}
	for _, c := range []struct {
		policy string
		o      policy.Options
		now    string
		among  []string
		spoil  func(*model.Node)
		want   string
	}{
		{policy: "makespan", o: learnt, now: "51@0 52@1 1@2", want: "GPU 2 beside 1, at about 90 % of its speed alone; next best GPU 0 in turns with 51, at about 50 %"},
		{policy: "makespan", o: learnt, now: "51@0 52@1 1@2 2@2", among: uuids(3)[1:], want: "GPU 1 in turns with 52, at about 50 % of its speed alone; next best GPU 2 beside 1 and 2, at about 82 % (more jobs are there)"},
		{policy: "together", now: "1@1 2@1 3@1 4@1 5@1", among: uuids(2)[1:], want: "GPU 1 beside 1, 2, 3 and 2 more, at a guess at 24 % of its speed alone"},
		{policy: "timeslice", now: "1@0", among: uuids(2), want: "GPU 1, alone; next best GPU 0 in turns with 1, at about 50 % of its speed alone"},
		{policy: "timeslice", among: uuids(2), want: "GPU 0, alone; next best GPU 1, alone (as good)"},
		{policy: "timeslice", among: uuids(2), spoil: func(n *model.Node) { n.GPUs[0].Util, n.GPUs[1].Util = model.Known(0.2), model.Known(0.1) }, want: "GPU 1, alone; next best GPU 0, alone (it is busier)"},
		{policy: "timeslice", among: uuids(2), spoil: func(n *model.Node) { n.GPUs[1].Util = model.Known(0.9) }, want: "GPU 1, alone; next best GPU 0, alone (how busy it is is not known)"},
		{policy: "timeslice", among: uuids(2), spoil: func(n *model.Node) { n.Foreign[uuid(0)] = model.Known(model.GiB) }, want: "GPU 1, alone; next best GPU 0, alone (less memory is free there)"},
		{policy: "[place]\nrank = 'gpu.index'", among: uuids(2), want: "GPU 1, alone; next best GPU 0, alone (x ranks it lower)"},
		// Beside 2 it goes as fast itself, but 2 is slower.
		{policy: "together", o: policy.Options{Speed: func(a, b *model.Tenant) float64 { return map[bool]float64{true: 0.5, false: 0.9}[a.Reg.JobID == 2] }},
			now: "1@0 2@1", among: uuids(2), want: "GPU 0 beside 1, at about 90 % of its speed alone; next best GPU 1 beside 2, at about 90 % (all there together would do less)"},
	} {
		p := policyOf(t, c.policy)
		r := newRigWith(t, p, c.o, "80GiB", "80GiB", "80GiB")
		for _, job := range strings.Fields(c.now) {
			id, on, _ := strings.Cut(job, "@")
			r.register(id, []string{"mem=10GiB", "gpu=" + on})
		}
		if c.spoil != nil {
			c.spoil(r.n)
		}
		if c.among == nil {
			c.among = uuids(3)
		}
		if got := r.d.Place(r.n, policy.Placing{Tenant: comer(59, model.Known(10*model.GiB)), GPUs: 1, Among: c.among}, r.now); got.Why != c.want {
			t.Errorf("%s\nwant %s", got.Why, c.want)
		}
	}
}

// policyOf is a shipped policy, or one of these keys.
func policyOf(t *testing.T, text string) *policy.Policy {
	if strings.Contains(text, "=") {
		return parsed(t, "name = 'x'\n"+text)
	}
	return shipped(t, text)
}

// TestPlaceRandomly: whatever is on the node, a tenant on one GPU gets one of
// those that it may have, with room for what all there claim, and none only where
// there is no such. What was asked before changes nothing,
// nor does the order in which the GPUs are named; a GPU that was taken is taken
// before any other one where there are only the two.
func TestPlaceRandomly(t *testing.T) {
	draw.Check(t, func(rt *rapid.T) {
		p := parsed(t, randomPolicy(rt))
		o := policy.Options{Speed: knownSpeed, Demand: func(t *model.Tenant) float64 { return math.NaN() }}
		r := newRigWith(t, p, o, "80GiB", "80GiB", "unknown", "40GiB")
		r.live(randomLife(rt))
		if rapid.Bool().Draw(rt, "fault") {
			r.n.GPUs[1].Fault = "lost"
		}
		ask := policy.Placing{
			Tenant: comer(59, model.Known(model.Bytes(rapid.IntRange(1, 90).Draw(rt, "GiB"))*model.GiB)), GPUs: rapid.SampledFrom([]int{1, 1, 1, 2}).Draw(rt, "gpus"),
			Among: rapid.Permutation(uuids(5)).Draw(rt, "among")[:rapid.IntRange(0, 5).Draw(rt, "of")], Most: rapid.IntRange(0, 3).Draw(rt, "most"),
		}
		d := policy.NewDecider(&policy.Set{Default: p}, o)
		before := asText(rt, r.n)
		got := d.Place(r.n, ask, r.now)
		rt.Logf("%+v: %+v", ask, got)
		checkPlaced(rt, r.n, ask, got)
		if now := asText(rt, r.n); now != before {
			rt.Fatalf("the node was changed:\n%s\n%s", before, now)
		}
		again := ask
		again.Among = slices.Sorted(slices.Values(ask.Among))
		if same := d.Place(r.n, again, r.now); same != got {
			rt.Fatalf("asked again: %+v", same)
		}
		for _, other := range ask.Among {
			two := policy.Placing{Tenant: ask.Tenant, GPUs: ask.GPUs, Among: []string{other, got.GPU}, Most: ask.Most}
			if x := d.Place(r.n, two, r.now); x.GPU != got.GPU {
				rt.Fatalf("of %s and %s: %+v", got.GPU, other, x)
			}
		}
	})
}

// checkPlaced holds what is true of every answer.
func checkPlaced(t *rapid.T, n *model.Node, ask policy.Placing, got policy.Placed) {
	if got.Why == "" || got.GPU != "" && ask.GPUs != 1 {
		t.Fatalf("%+v", got)
	}
	if got.GPU == "" {
		return
	}
	gpu := n.GPU(got.GPU)
	if gpu == nil || gpu.Fault != "" || !slices.Contains(ask.Among, got.GPU) {
		t.Fatalf("%s was taken", got.GPU)
	}
	if left, mates := roomOn(n, *gpu); left < ask.Tenant.Terms.Memory.Or(0) && mates > 0 {
		t.Fatalf("%s has %s left", got.GPU, left)
	} else if ask.Most > 0 && mates >= ask.Most {
		t.Fatalf("%s has %d tenants", got.GPU, mates)
	}
}

// roomOn is the memory of a GPU that is left when the largest claims there that
// nobody else's covers have what they may count on, and how many hold one.
func roomOn(n *model.Node, g model.GPU) (left model.Bytes, mates int) {
	left = g.Total.Or(0) - g.Reserved.Or(0) - n.Foreign[g.UUID].Or(0)
	for _, t := range n.Pack(g.UUID, nil) {
		if t.State == model.Evicting || t.State == model.Swapped || t.Parent != "" && n.Tenant(t.Parent) != nil || parentOf(n, t.ID) {
			continue
		}
		mates++
		left -= t.Claim(g).Or(0)
	}
	return left, mates
}

func parentOf(n *model.Node, id model.TenantID) bool {
	return slices.ContainsFunc(n.Tenants, func(t *model.Tenant) bool { return t.Parent == id })
}

func asText(t *rapid.T, n *model.Node) string {
	text, err := json.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// BenchmarkPlace places a tenant on one of 8 GPUs with 7 tenants each, which is
// the most for which the best groups are sought.
func BenchmarkPlace(b *testing.B) {
	p, o := shipped(b, "throughput"), policy.Options{Speed: knownSpeed}
	r := newRigWith(b, p, o, "80GiB", "80GiB", "80GiB", "80GiB", "80GiB", "80GiB", "80GiB", "80GiB")
	for i := range 56 {
		r.register(fmt.Sprint(i+1), []string{"mem=10GiB", fmt.Sprintf("gpu=%d", i%8)})
	}
	d := policy.NewDecider(&policy.Set{Default: p}, o)
	ask := policy.Placing{Tenant: comer(59, model.Known(10*model.GiB)), GPUs: 1, Among: uuids(8)}
	for b.Loop() {
		if got := d.Place(r.n, ask, r.now); got.GPU == "" {
			b.Fatal(got.Why)
		}
	}
}
