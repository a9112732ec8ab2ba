package model

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// Names of the operations that the daemon answers on its socket for the
// gimbal command, each with its query and its reply.
const (
	OpStatus  = "status"  // StatusQuery → StatusReply
	OpRecords = "records" // RecordsQuery → RecordsReply
	OpCourse  = "course"  // CourseQuery → CourseReply
	OpDaemon  = "daemon"  // nothing → DaemonReply
)

// JobRef names jobs or a part of one, as sacct's -j takes it: "12" (an array
// or a het job with all its parts), "12_3", "12+1", each with a ".STEP".
type JobRef struct {
	Job    uint32 `json:"job"`
	Task   uint32 `json:"task"`   // of an array; NoVal: any
	Offset uint32 `json:"offset"` // in a het job; NoVal: any
	Step   uint32 `json:"step"`   // NoVal: any
}

// Matches tells whether a task belongs to the job that is meant, whatever its
// step.
func (r JobRef) Matches(reg *Registration) bool {
	switch {
	case r.Task != NoVal:
		return reg.ArrayTask == r.Task && r.Job != 0 && reg.ArrayJob == r.Job
	case r.Offset != NoVal:
		return reg.HetOffset == r.Offset && r.Job != 0 && reg.HetJob == r.Job
	}
	return r.Job != 0 && (reg.JobID == r.Job || reg.ArrayJob == r.Job || reg.HetJob == r.Job)
}

// StatusQuery selects tenants. An empty list selects by nothing; what is
// filled in must all be met.
type StatusQuery struct {
	Jobs       []JobRef  `json:"jobs,omitempty"`
	Users      []string  `json:"users,omitempty"`  // login names or numeric user ids
	States     []string  `json:"states,omitempty"` // words, as View.Word gives them
	Names      []string  `json:"names,omitempty"`
	Accounts   []string  `json:"accounts,omitempty"`
	Partitions []string  `json:"partitions,omitempty"`
	Groups     []uint32  `json:"groups,omitempty"` // numeric ids of primary groups
	Start      time.Time `json:"start,omitzero"`   // alive at or after it
	End        time.Time `json:"end,omitzero"`     // registered before it
	After      int       `json:"after,omitempty"`  // how many of the selected ended tenants to skip: the next page
	Limit      int       `json:"limit,omitempty"`  // of ended tenants in one reply; 0: what the daemon allows
}

// StatusReply is a page of the tenants that were selected. The ended ones come
// packed, in the order in which they ended: a history of ten thousand is
// meant to be shown within a blink. The live ones are in the Snapshot of the
// last page.
type StatusReply struct {
	Snapshot
	Ended string `json:"ended,omitempty"` // lines as journal.Pack writes them
	More  bool   `json:"more,omitempty"`  // there is another page
}

// Carry hands the ended tenants to the wire apart from the rest.
func (r StatusReply) Carry() (text string, rest any) {
	text, r.Ended = r.Ended, ""
	return text, r
}

// Receive takes them back.
func (r *StatusReply) Receive(text string) { r.Ended = text }

// RecordsQuery selects what the journal holds of the selected tenants.
type RecordsQuery struct {
	StatusQuery
	Since uint64 `json:"since,omitempty"` // only records with a higher number: the next page
	Max   int    `json:"max,omitempty"`   // entries in one reply; 0: what the daemon allows
}

// RecordsReply is a page of journal entries, oldest first, and the tenants
// that they speak of.
type RecordsReply struct {
	Node    string    `json:"node"`
	At      time.Time `json:"at"`
	GPUs    []GPU     `json:"gpus"`
	Entries []Entry   `json:"entries"`
	Tenants []View    `json:"tenants"`
	More    bool      `json:"more,omitempty"`
}

// Entry is one record of the journal, as explain and timeline need it.
type Entry struct {
	Seq    uint64        `json:"seq"`
	Wall   time.Time     `json:"wall"`
	Tenant TenantID      `json:"tenant,omitempty"`
	Event  EventKind     `json:"event,omitempty"`
	Do     Primitive     `json:"do,omitempty"`    // the action that was chosen, or the order
	State  *State        `json:"state,omitempty"` // of the tenant after it, where it changed
	Share  float64       `json:"share,omitempty"` // of time that it has since then, where it is throttled
	Why    Reason        `json:"why,omitzero"`
	Text   string        `json:"text,omitempty"`
	Who    string        `json:"who,omitempty"` // gave an order
	For    time.Duration `json:"for,omitempty"` // after which it lapses
	Step   uint32        `json:"step,omitempty"`
	Status int           `json:"status,omitempty"` // as wait(2) gives it
	Action uint64        `json:"action,omitempty"`
	Took   time.Duration `json:"took,omitempty"`
}

// Entry makes the record's short form.
func (r Record) Entry() Entry {
	e := Entry{Seq: r.Seq, Wall: r.Wall}
	if t := r.Tenant; t != nil {
		s := t.State
		e.Tenant, e.State, e.Why, e.Share = t.ID, &s, t.Reason, t.Throttle.Share
	}
	if a := r.Action; a != nil {
		e.Tenant, e.Do, e.Why, e.Action = a.Tenant, a.Do, a.Why, a.ID
	}
	if ev := r.Event; ev != nil {
		e.Event, e.Text, e.Step, e.Status = ev.Kind, ev.Text, ev.Step, ev.Status
		e.Action, e.Took = ev.Action, ev.Took
		if ev.Tenant != "" {
			e.Tenant = ev.Tenant
		}
		if ev.Reg != nil {
			e.Step = ev.Reg.StepID
		}
		if o := ev.Order; o != nil {
			e.Do, e.Who, e.Text = o.Do, o.By(), o.Why
			if o.Until > 0 {
				e.For = max(o.Until-r.At, 0)
			}
		}
	}
	return e
}

// CourseQuery asks what the selected tenants did from Start to End, and what
// they and the GPUs took.
type CourseQuery struct {
	StatusQuery
	From  time.Time     `json:"from,omitzero"`   // where the page before left off
	Least time.Duration `json:"least,omitempty"` // the shortest stretch of a load that is of use
}

// CourseReply is a page of it.
type CourseReply struct {
	Changes string    `json:"changes,omitempty"` // lines as a journal.ChangePacker writes them
	Loads   string    `json:"loads,omitempty"`   // lines as journal.PackLoads writes them
	Next    time.Time `json:"next,omitzero"`     // where the next page begins; zero: this is the last
}

// DaemonReply says how the daemon itself is.
type DaemonReply struct {
	Version     string            `json:"version"`
	PID         int               `json:"pid"`
	Node        string            `json:"node"`
	Started     time.Time         `json:"started"`
	Config      string            `json:"config"`                 // path of the file in force
	Loaded      time.Time         `json:"loaded"`                 // when it was read
	ReloadError string            `json:"reload_error,omitempty"` // of the last SIGHUP, "" when it was taken
	NotApplied  []string          `json:"not_applied,omitempty"`  // changed keys that wait for a restart
	Degraded    string            `json:"degraded,omitempty"`
	Journal     string            `json:"journal,omitempty"`  // why the journal cannot be written, "" when it can
	Policies    map[string]string `json:"policies,omitempty"` // by GPU
	Tenants     int               `json:"tenants"`            // live ones
	Counters    map[string]uint64 `json:"counters,omitempty"`
}

// ViewAt makes the view of a tenant whose tally is up to date at a moment that
// the wall clock calls wall and the monotonic clock at.
func ViewAt(t *Tenant, wall time.Time, at time.Duration) View {
	when := func(d time.Duration) time.Time { return wall.Add(d - at) }
	v := View{Tenant: *t, PolicyNow: t.Policy, Start: when(t.Registered), SinceWall: when(t.Since), Elapsed: at - t.Registered}
	if t.HasRun {
		v.Ran = when(t.FirstRan)
	}
	if t.State == Gone {
		v.End, v.Elapsed = when(t.EndedAt), t.EndedAt-t.Registered
	}
	v.Elapsed = max(v.Elapsed, 0)
	for _, s := range t.Steps {
		sw := StepWall{Start: when(s.Start)}
		if s.Ended {
			sw.End = when(s.End)
		}
		v.StepWall = append(v.StepWall, sw)
	}
	return v
}

// Reasons of tenants that ended other than by themselves.
const (
	CodeEnded   = "ended"   // no process is left
	CodeEvicted = "evicted" // ended kindly by an action
	CodeLost    = "lost"    // it ended while nobody looked: its outcome is not known
)

// Word is the tenant's state as people read it: HELD, RUNNING, PAUSED, SWAPPED
// and so on; SUSPENDED, "stopped (external)" and "frozen (foreign)" for
// another's stop; COMPLETED, FAILED, EVICTED or ENDED (outcome not known) for
// one that is gone.
func (v *View) Word() string {
	switch {
	case v.State == Gone && v.Reason.Code == CodeLost:
		return "ENDED"
	case v.State == Gone && v.Reason.Code == CodeEvicted:
		return "EVICTED"
	case v.State == Gone && v.ExitStatus() != 0:
		return "FAILED"
	case v.State == Gone:
		return "COMPLETED"
	case v.Suspended == "slurm":
		return "SUSPENDED"
	case strings.HasPrefix(v.Suspended, "froz"), strings.HasPrefix(v.Suspended, "freez"):
		return "frozen (foreign)"
	case v.Suspended != "":
		return "stopped (external)"
	}
	return strings.ToUpper(v.State.String())
}

// Words lists every word that Word may return.
func Words() []string {
	w := []string{"COMPLETED", "FAILED", "EVICTED", "ENDED", "SUSPENDED", "frozen (foreign)", "stopped (external)"}
	for _, s := range States() {
		if s != Gone {
			w = append(w, strings.ToUpper(s.String()))
		}
	}
	return w
}

// ExitStatus is the wait status that stands for the tenant: that of its batch
// script where it has one, else the highest of its steps.
func (t *Tenant) ExitStatus() int {
	worst := 0
	for _, s := range t.Steps {
		if s.ID == StepBatch {
			return s.Status
		}
		if s.ID != StepExtern {
			worst = max(worst, s.Status)
		}
	}
	return worst
}

// Match tells whether the query selects the tenant.
func (q *StatusQuery) Match(v *View) bool {
	return q.matchJobs(v) && q.matchWindow(v) && q.matchUsers(v) && q.matchStates(v) &&
		(len(q.Groups) == 0 || slices.Contains(q.Groups, v.Reg.GID)) &&
		oneOf(q.Names, v.Reg.JobName) && oneOf(q.Accounts, v.Reg.Account) && oneOf(q.Partitions, v.Reg.Partition)
}

// WindowOnly tells whether the query selects by nothing but the time.
func (q *StatusQuery) WindowOnly() bool {
	return len(q.Jobs)+len(q.Users)+len(q.States)+len(q.Names)+len(q.Accounts)+len(q.Partitions)+len(q.Groups) == 0
}

func oneOf(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return len(list) == 0
}

func (q *StatusQuery) matchJobs(v *View) bool {
	for _, r := range q.Jobs {
		if r.Matches(&v.Reg) && (r.Step == NoVal || v.hasStep(r.Step)) {
			return true
		}
	}
	return len(q.Jobs) == 0
}

func (t *Tenant) hasStep(id uint32) bool { return t.Reg.StepID == id || t.step(id) != nil }

func (q *StatusQuery) matchWindow(v *View) bool {
	if !q.End.IsZero() && v.Start.After(q.End) {
		return false
	}
	return v.End.IsZero() || !v.End.Before(q.Start)
}

func (q *StatusQuery) matchUsers(v *View) bool {
	for _, u := range q.Users {
		if u == v.Reg.User && u != "" || u == strconv.FormatUint(uint64(v.Reg.UID), 10) {
			return true
		}
	}
	return len(q.Users) == 0
}

// matchStates takes an ended tenant for one of the states that it was in
// while it lived, too, as sacct does.
func (q *StatusQuery) matchStates(v *View) bool {
	word := v.Word()
	for _, s := range q.States {
		if s == word || v.State == Gone && v.was(s) {
			return true
		}
	}
	return len(q.States) == 0
}

func (v *View) was(word string) bool {
	switch word {
	case "RUNNING":
		return v.HasRun
	case "HELD":
		return v.Tally.Holds > 0
	case "PAUSED":
		return v.Tally.Pauses > 0
	case "THROTTLED":
		return v.Tally.Throttles > 0
	case "SWAPPED":
		return v.Tally.Swaps > 0
	}
	return false
}
