package report

import (
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
	Stretches []Stretch
}

// Lane is one GPU.
type Lane struct {
	Name   string
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

// FromRecords draws what the journal tells, from start to end.
func FromRecords(r *model.RecordsReply, start, end time.Time) Timeline {
	t := Timeline{Start: start, Length: max(end.Sub(start), 0)}
	if r.Node != "" {
		t.Title = "node " + r.Node
	}
	states := stateChanges(r.Entries)
	byGPU := map[string][]Track{}
	for i := range r.Tenants {
		v := &r.Tenants[i]
		s := clip(stretchesOf(v, states[v.ID], start, end), t.Length)
		if len(s) == 0 {
			continue
		}
		tr := Track{Name: v.Name(), Detail: v.Reg.JobName, Stretches: s}
		for _, g := range v.GPUs {
			byGPU[g] = append(byGPU[g], tr)
		}
	}
	t.Lanes = lanes(byGPU, r.GPUs)
	return t
}

// lanes orders the GPUs as the driver does; those that it no longer shows come
// last.
func lanes(byGPU map[string][]Track, gpus []model.GPU) []Lane {
	var out []Lane
	for _, g := range gpus {
		if tracks := byGPU[g.UUID]; tracks != nil {
			out = append(out, Lane{Name: gpuTitle(g), Tracks: tracks})
			delete(byGPU, g.UUID)
		}
	}
	var rest []string
	for uuid := range byGPU {
		rest = append(rest, uuid)
	}
	sort.Strings(rest)
	for _, uuid := range rest {
		out = append(out, Lane{Name: uuid, Tracks: byGPU[uuid]})
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
	at   time.Time
	what Activity
}

func stateChanges(entries []model.Entry) map[model.TenantID][]change {
	out := map[model.TenantID][]change{}
	for _, e := range entries {
		what, ok := entryActivity(e)
		if !ok {
			continue
		}
		list := out[e.Tenant]
		if n := len(list); n > 0 && list[n-1].what == what {
			continue
		}
		out[e.Tenant] = append(list, change{e.Wall, what})
	}
	return out
}

// entryActivity tells what a tenant does after an entry, if the entry tells.
func entryActivity(e model.Entry) (Activity, bool) {
	switch {
	case e.State == nil:
		return Absent, false
	case e.Event == model.EvSuspended:
		return Suspended, true
	}
	return activity(*e.State), true
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
		changes = []change{{v.SinceWall, activity(v.State)}}
	}
	if v.Start.Before(changes[0].at) {
		changes = append([]change{{v.Start, before(v, changes[0])}}, changes...)
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
			out = append(out, Stretch{From: c.at.Sub(start), To: to.Sub(start), What: c.what})
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
