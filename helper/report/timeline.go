package report

import (
	"slices"
	"sort"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// Activity is what somebody does in a stretch of time.
type Activity uint8

// The activities, from the one that shows least to the one that shows most.
const (
	Absent    Activity = iota
	Waiting            // held before its first run
	Paused             // stopped, its GPU memory stays
	Swapped            // stopped, its GPU memory in host RAM
	Suspended          // stopped by somebody else
	Computing
	numActivities
)

// Activities lists those that are drawn, in the order of a legend.
func Activities() []Activity { return []Activity{Computing, Waiting, Paused, Swapped, Suspended} }

func (a Activity) String() string {
	return [numActivities]string{"absent", "held", "paused", "swapped", "suspended", "computes"}[a]
}

// Stretch is a length of time with one activity. Times count from the
// timeline's start.
type Stretch struct {
	From, To time.Duration
	What     Activity
	Share    float64 // of the time in which it computed, 0 to 1; 0 means all of it
}

// Track is one tenant on one GPU.
type Track struct {
	Name      string // JobID
	Detail    string // name, user
	Tenant    model.TenantID
	Kind      int // tracks of the same kind have the same colour
	Stretches []Stretch
}

// Lane is one GPU.
type Lane struct {
	Name   string
	UUID   string
	Tracks []Track
}

// Timeline tells who computed when.
type Timeline struct {
	Title  string
	Start  time.Time // zero: the times mean nothing but their distance
	Length time.Duration
	Lanes  []Lane
}

// activity is what a tenant in a state does.
func activity(s model.State) Activity {
	switch s {
	case model.New, model.Holding, model.Held:
		return Waiting
	case model.Paused:
		return Paused
	case model.Swapped:
		return Swapped
	case model.Gone:
		return Absent
	}
	return Computing
}

// Course is what is known of a node over some time.
type Course struct {
	Node       string
	Start, End time.Time
	GPUs       []model.GPU // in the driver's order, as far as they are known
	Tenants    []model.View
	Changes    []model.Change // in order of time
	Loads      []model.Load   // in order of time
}

// Only leaves what concerns the GPUs of some tenants.
func (c *Course) Only(tenants []model.View) {
	on := map[string]bool{}
	for i := range tenants {
		for _, g := range tenants[i].GPUs {
			on[g] = true
		}
	}
	c.GPUs = slices.DeleteFunc(c.GPUs, func(g model.GPU) bool { return !on[g.UUID] })
	for i := range c.Tenants {
		c.Tenants[i].GPUs = slices.DeleteFunc(slices.Clone(c.Tenants[i].GPUs), func(g string) bool { return !on[g] })
	}
}

// FromCourse draws who computed when.
func FromCourse(c *Course) Timeline {
	t := Timeline{Start: c.Start, Length: max(c.End.Sub(c.Start), 0)}
	if c.Node != "" {
		t.Title = "node " + c.Node
	}
	states := stateChanges(c.Changes)
	byGPU, paint := map[string][]Track{}, painter{}
	for _, i := range byStart(c.Tenants) {
		v := &c.Tenants[i]
		s := clip(stretchesOf(v, states[v.ID], c.Start, c.End), t.Length)
		if len(s) == 0 || v.Hidden {
			continue
		}
		tr := Track{Name: v.Name(), Detail: v.Reg.JobName, Tenant: v.ID, Stretches: s}
		tr.Kind = paint.next(v.GPUs, tr)
		for _, g := range v.GPUs {
			byGPU[g] = append(byGPU[g], tr)
		}
	}
	t.Lanes = lanes(byGPU, c.GPUs)
	return t
}

func byStart(all []model.View) []int {
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(i, k int) bool { return all[order[i]].Start.Before(all[order[k]].Start) })
	return order
}

// painter gives tracks colours, so that those differ that are on a GPU at once
// or one after the other.
type painter struct {
	last  int
	there map[string][]Track // by GPU, those that had not ended when the last one came
}

// next is the colour of a track on some GPUs. They come in order of their start.
func (p *painter) next(gpus []string, t Track) int {
	if p.there == nil {
		p.there, p.last = map[string][]Track{}, -1
	}
	taken := [colours]bool{}
	for _, g := range gpus {
		for _, o := range p.there[g] {
			taken[o.Kind] = taken[o.Kind] || o.end() > t.begin()
		}
	}
	kind := (p.last + 1) % colours
	for i := range colours {
		if k := (kind + i) % colours; !taken[k] {
			kind = k
			break
		}
	}
	p.last, t.Kind = kind, kind
	for _, g := range gpus {
		p.there[g] = append(still(p.there[g], t.begin()), t)
	}
	return kind
}

// still keeps the tracks that go on after a time.
func still(list []Track, at time.Duration) []Track {
	out := list[:0]
	for _, t := range list {
		if t.end() > at {
			out = append(out, t)
		}
	}
	return out
}

// lanes orders the GPUs as the driver does; those that it no longer shows come
// last.
func lanes(byGPU map[string][]Track, gpus []model.GPU) []Lane {
	var out []Lane
	for _, g := range gpus {
		if tracks := byGPU[g.UUID]; tracks != nil {
			out = append(out, Lane{Name: gpuTitle(g), UUID: g.UUID, Tracks: tracks})
			delete(byGPU, g.UUID)
		}
	}
	var rest []string
	for uuid := range byGPU {
		rest = append(rest, uuid)
	}
	sort.Strings(rest)
	for _, uuid := range rest {
		out = append(out, Lane{Name: uuid, UUID: uuid, Tracks: byGPU[uuid]})
	}
	for i := range out {
		sortTracks(out[i].Tracks)
	}
	return out
}

func gpuTitle(g model.GPU) string {
	name := "GPU " + itoa(g.Index)
	if g.Name != "" {
		name += " (" + g.Name + ")"
	}
	return name
}

// sortTracks puts first who came first.
func sortTracks(tracks []Track) {
	sort.SliceStable(tracks, func(i, k int) bool { return tracks[i].begin() < tracks[k].begin() })
}

func (t Track) begin() time.Duration {
	if len(t.Stretches) == 0 {
		return 0
	}
	return t.Stretches[0].From
}

// change is what a tenant does from a moment on.
type change struct {
	at    time.Time
	what  Activity
	share float64 // of time, of one that is throttled; else 0
}

func stateChanges(all []model.Change) map[model.TenantID][]change {
	out := map[model.TenantID][]change{}
	for _, c := range all {
		what := activity(c.State)
		if c.Suspended && what != Absent {
			what = Suspended
		}
		list := out[c.Tenant]
		if n := len(list); n > 0 && list[n-1].what == what && list[n-1].share == c.Share {
			continue
		}
		out[c.Tenant] = append(list, change{c.At, what, c.Share})
	}
	return out
}

// before guesses what a tenant did before the first change that is known.
func before(v *model.View, first change) Activity {
	switch {
	case first.what == Waiting || v.Ran.IsZero() || !first.at.After(v.Ran):
		return Waiting
	case first.what == Computing:
		return Paused
	}
	return Computing
}

// stretchesOf joins a tenant's changes.
func stretchesOf(v *model.View, changes []change, start, end time.Time) []Stretch {
	if len(changes) == 0 {
		changes = []change{{v.SinceWall, activity(v.State), v.Throttle.Share}}
	}
	if v.Start.Before(changes[0].at) {
		changes = append([]change{{v.Start, before(v, changes[0]), 0}}, changes...)
	}
	last := end
	if !v.End.IsZero() {
		last = v.End
	}
	var out []Stretch
	for i, c := range changes {
		to := last
		if i+1 < len(changes) {
			to = changes[i+1].at
		}
		if c.what != Absent && to.After(c.at) {
			out = append(out, Stretch{From: c.at.Sub(start), To: to.Sub(start), What: c.what, Share: c.share})
		}
	}
	return out
}

// clip cuts stretches to the timeline.
func clip(list []Stretch, length time.Duration) []Stretch {
	var out []Stretch
	for _, s := range list {
		s.From, s.To = max(s.From, 0), min(s.To, length)
		if s.To > s.From {
			out = append(out, s)
		}
	}
	return out
}

// Total adds up, for one activity, the time of a track.
func (t Track) Total(what Activity) time.Duration {
	sum := time.Duration(0)
	for _, s := range t.Stretches {
		if s.What == what {
			sum += s.weight()
		}
	}
	return sum
}

func (s Stretch) weight() time.Duration {
	if s.Share > 0 && s.Share < 1 {
		return time.Duration(float64(s.To-s.From) * s.Share)
	}
	return s.To - s.From
}
