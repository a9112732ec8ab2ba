package report

import (
	"encoding/json"
	"io"
	"sort"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// Schema names the form of the JSON that WriteJSON writes. Keys are only ever
// added under it; whatever is changed or taken away gives it a new number.
//
// Times are RFC 3339, lengths of time are seconds, sizes are bytes, shares are
// from 0 to 1. A value that is not known is null; one that does not apply is
// absent. Text is whole and exact, whatever characters it holds.
const Schema = "gimbal.status/1"

// Document is the JSON of a status.
type Document struct {
	Schema   string           `json:"schema"`
	Node     string           `json:"node"`
	Time     time.Time        `json:"time"`
	Offline  bool             `json:"offline,omitempty"` // read from disk: no daemon answered
	Degraded string           `json:"degraded,omitempty"`
	GPUs     []GPUDocument    `json:"gpus"`
	Tenants  []TenantDocument `json:"tenants"`
	Strays   []StrayDocument  `json:"strays,omitempty"`
}

// GPUDocument is one GPU.
type GPUDocument struct {
	UUID        string                      `json:"uuid"`
	Index       int                         `json:"index"`
	Name        string                      `json:"name,omitempty"`
	Policy      string                      `json:"policy,omitempty"`
	Total       model.Reading[model.Bytes]  `json:"memory_total"`
	Used        model.Reading[model.Bytes]  `json:"memory_used"`
	Foreign     *model.Reading[model.Bytes] `json:"memory_foreign,omitempty"` // held by no tenant
	Utilisation model.Reading[float64]      `json:"utilisation"`
	Fault       string                      `json:"fault,omitempty"`
}

// TenantDocument is one tenant with the steps inside it.
type TenantDocument struct {
	ID         string              `json:"id"`     // JobID as the table shows it
	Tenant     string              `json:"tenant"` // this run of the job, unique on the node
	Hidden     bool                `json:"hidden,omitempty"`
	Job        uint32              `json:"job"`
	Step       *uint32             `json:"step,omitempty"` // of a step that is a tenant of its own
	ArrayJob   uint32              `json:"array_job,omitempty"`
	ArrayTask  *uint32             `json:"array_task,omitempty"`
	HetJob     uint32              `json:"het_job,omitempty"`
	HetOffset  *uint32             `json:"het_offset,omitempty"`
	Restarts   uint32              `json:"restarts"`
	Name       string              `json:"name"`
	User       string              `json:"user"`
	UID        uint32              `json:"uid"`
	Account    string              `json:"account,omitempty"`
	Partition  string              `json:"partition,omitempty"`
	State      string              `json:"state"`
	Since      *time.Time          `json:"since,omitempty"`
	ReasonCode string              `json:"reason_code,omitempty"`
	Reason     string              `json:"reason,omitempty"`
	ExitCode   *ExitDocument       `json:"exit,omitempty"`
	Policy     string              `json:"policy,omitempty"`
	Request    RequestDocument     `json:"request"`
	Exempt     string              `json:"exempt,omitempty"`
	Start      time.Time           `json:"start"`
	Ran        *time.Time          `json:"ran,omitempty"`
	End        *time.Time          `json:"end,omitempty"`
	Seconds    SecondsDocument     `json:"seconds"`
	Times      TimesDocument       `json:"times"`
	GPUs       []TenantGPUDocument `json:"gpus"`
	Processes  int                 `json:"processes"`
	PassedOver int                 `json:"passed_over"`
	Speed      *SpeedDocument      `json:"speed,omitempty"`         // as learnt, over its speed alone
	AtMost     *float64            `json:"speed_at_most,omitempty"` // whatever is learnt
	Mates      []string            `json:"mates,omitempty"`
	Order      *OrderDocument      `json:"order,omitempty"` // a person's that is in force
	Steps      []StepDocument      `json:"steps"`
}

// SpeedDocument is how fast a tenant was since its first run.
type SpeedDocument struct {
	Mean  float64 `json:"mean"`
	Error float64 `json:"error"` // by how much it may be off
}

// OrderDocument is what a person ordered for a tenant.
type OrderDocument struct {
	Do   string     `json:"do"` // pause or resume
	By   string     `json:"by"`
	Why  string     `json:"why,omitempty"`
	Ends *time.Time `json:"ends,omitempty"` // when it lapses; absent: when it is released
}

// ExitDocument is how something ended.
type ExitDocument struct {
	Code   int `json:"code"`
	Signal int `json:"signal"`
}

// RequestDocument is what the job asked for and was granted.
type RequestDocument struct {
	Policy   string                     `json:"policy,omitempty"`
	Class    string                     `json:"class,omitempty"`
	Weight   float64                    `json:"weight"`
	Memory   model.Reading[model.Bytes] `json:"memory"` // on each GPU; null: the whole GPU
	Declared bool                       `json:"declared"`
	Stated   *model.Bytes               `json:"memory_declared,omitempty"`
	Deadline *time.Time                 `json:"deadline,omitempty"`
	MaxPause *float64                   `json:"max_pause,omitempty"` // seconds, of a tenant whose terms say less than its policy
	Notes    []string                   `json:"notes,omitempty"`
	Placed   string                     `json:"placed,omitempty"` // the GPU that Gimbal chose and why
}

// SecondsDocument tells how long.
type SecondsDocument struct {
	Elapsed  float64  `json:"elapsed"`
	Held     float64  `json:"held"`
	Running  float64  `json:"running"`
	Withheld float64  `json:"withheld"` // stopped by a throttle
	Paused   float64  `json:"paused"`
	Swapped  float64  `json:"swapped"`
	Attained float64  `json:"attained"` // running with a process on a GPU
	Idle     *float64 `json:"idle,omitempty"`
}

// TimesDocument tells how often.
type TimesDocument struct {
	Held      int `json:"held"`
	Throttled int `json:"throttled"`
	Paused    int `json:"paused"`
	Swapped   int `json:"swapped"`
}

// TenantGPUDocument is what a tenant takes of one GPU.
type TenantGPUDocument struct {
	UUID      string                      `json:"uuid"`
	Index     *int                        `json:"index,omitempty"`
	Processes int                         `json:"processes"`
	Memory    *model.Reading[model.Bytes] `json:"memory,omitempty"` // now
	Peak      *model.Bytes                `json:"memory_peak,omitempty"`
	SM        *model.Reading[float64]     `json:"utilisation,omitempty"` // now
}

// StepDocument is one step.
type StepDocument struct {
	ID    string        `json:"id"`
	Step  uint32        `json:"step"`
	Tasks int           `json:"tasks"`
	State string        `json:"state"`
	Start time.Time     `json:"start"`
	End   *time.Time    `json:"end,omitempty"`
	Exit  *ExitDocument `json:"exit,omitempty"`
}

// StrayDocument is a process on a shared GPU that belongs to no tenant.
type StrayDocument struct {
	GPU    string                     `json:"gpu"`
	UID    uint32                     `json:"uid"`
	Kind   string                     `json:"kind"`
	Memory model.Reading[model.Bytes] `json:"memory"`
}

// NewDocument makes the JSON's content of a snapshot.
func NewDocument(s *model.Snapshot, sel Selection) Document {
	d := Document{Schema: Schema, Node: s.Node, Time: s.At, Degraded: s.Degraded,
		GPUs: []GPUDocument{}, Tenants: []TenantDocument{}}
	for _, g := range s.GPUs {
		d.GPUs = append(d.GPUs, gpuDocument(s, g))
	}
	for _, r := range Rows(s, sel, Style{}) {
		switch {
		case r.Stray != nil:
			d.Strays = append(d.Strays, StrayDocument{r.Stray.GPU, r.Stray.UID, r.Stray.Kind, r.Stray.Memory})
		case r.Step == nil:
			d.Tenants = append(d.Tenants, tenantDocument(&r))
		case len(d.Tenants) == 0 || d.Tenants[len(d.Tenants)-1].Tenant != string(r.View.ID):
			r.Step, r.Wall = nil, model.StepWall{}
			d.Tenants = append(d.Tenants, tenantDocument(&r))
		}
	}
	return d
}

// WriteJSON writes a document.
func WriteJSON(w io.Writer, d Document) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(d)
}

func gpuDocument(s *model.Snapshot, g model.GPU) GPUDocument {
	d := GPUDocument{UUID: g.UUID, Index: g.Index, Name: g.Name, Policy: s.Policies[g.UUID],
		Total: g.Total, Used: g.Used, Utilisation: g.Util, Fault: g.Fault}
	if f, ok := s.Foreign[g.UUID]; ok {
		d.Foreign = &f
	}
	return d
}

func tenantDocument(r *Row) TenantDocument {
	v := r.View
	if v.Hidden {
		return TenantDocument{Hidden: true, State: "busy", GPUs: tenantGPUs(r), Steps: []StepDocument{}}
	}
	d := TenantDocument{
		ID: v.Name(), Tenant: string(v.ID), Job: v.Reg.JobID, ArrayJob: v.Reg.ArrayJob, HetJob: v.Reg.HetJob,
		Restarts: v.Reg.Restart, Name: v.Reg.JobName, User: v.Reg.User, UID: v.Reg.UID,
		Account: v.Reg.Account, Partition: v.Reg.Partition,
		State: v.Word(), Since: instant(v.SinceWall), ReasonCode: v.Reason.Code, Reason: v.Reason.Text,
		Policy: v.PolicyNow, Exempt: v.Exempt, Start: v.Start, Ran: instant(v.Ran), End: instant(v.End),
		Times: TimesDocument{v.Tally.Holds, v.Tally.Throttles, v.Tally.Pauses, v.Tally.Swaps},
		GPUs:  tenantGPUs(r), Processes: v.Procs, PassedOver: v.PassedOver, Steps: stepDocuments(v),
		Request: RequestDocument{Policy: v.Terms.Policy, Class: string(v.Terms.Class), Weight: v.Terms.Weight,
			Memory: v.Terms.Memory, Declared: v.Terms.Declared.Known(), Deadline: instant(v.Terms.Deadline), Notes: v.Terms.Notes, Placed: v.Terms.Placed},
	}
	d.ArrayTask, d.HetOffset = number(v.Reg.ArrayTask), number(v.Reg.HetOffset)
	if s, ok := v.Speed.Get(); ok {
		d.Speed = &SpeedDocument{s.Mean, s.Error}
	}
	if s, ok := speedAtMost(v); ok {
		d.AtMost = &s
	}
	if m, ok := v.Terms.Declared.Get(); ok {
		d.Request.Stated = &m
	}
	if p := v.Terms.MaxPause; p > 0 {
		seconds := p.Seconds()
		d.Request.MaxPause = &seconds
	}
	if o := v.Order; o != nil {
		d.Order = &OrderDocument{string(o.Do), o.By(), o.Why, instant(v.OrderEnds)}
	}
	if !v.Whole {
		d.Step = &v.Reg.StepID
	}
	d.Seconds = SecondsDocument{Elapsed: v.Elapsed.Seconds(), Held: v.Tally.Held.Seconds(), Running: v.Tally.Running.Seconds(),
		Withheld: v.Tally.Withheld.Seconds(), Paused: v.Tally.Paused.Seconds(), Swapped: v.Tally.Swapped.Seconds(), Attained: v.Tally.Attained.Seconds()}
	if v.State != model.Gone {
		idle := v.Idle(r.at()).Seconds()
		d.Seconds.Idle = &idle
	} else if v.Reason.Code != model.CodeLost {
		d.ExitCode = exitDocument(v.ExitStatus())
	}
	for _, m := range r.mates() {
		if !m.Hidden {
			d.Mates = append(d.Mates, m.Name())
		}
	}
	return d
}

func tenantGPUs(r *Row) []TenantGPUDocument {
	list := []TenantGPUDocument{}
	for _, g := range r.View.GPUs {
		d := TenantGPUDocument{UUID: g}
		for i := range r.page.snap.GPUs {
			if r.page.snap.GPUs[i].UUID == g {
				d.Index = &r.page.snap.GPUs[i].Index
			}
		}
		if u, ok := r.View.Use[g]; ok {
			d.Processes, d.Memory, d.SM = u.Procs, &u.Memory, &u.SM
		}
		if p, ok := r.View.Peak[g]; ok {
			d.Peak = &p
		}
		list = append(list, d)
	}
	sort.Slice(list, func(i, k int) bool { return list[i].UUID < list[k].UUID })
	return list
}

func stepDocuments(v *model.View) []StepDocument {
	list := []StepDocument{}
	for i, s := range v.Steps {
		d := StepDocument{ID: v.Reg.StepLabel(s.ID), Step: s.ID, Tasks: s.Tasks, State: v.Word()}
		if i < len(v.StepWall) {
			d.Start, d.End = v.StepWall[i].Start, instant(v.StepWall[i].End)
		}
		if s.Ended {
			d.State, d.Exit = "COMPLETED", exitDocument(s.Status)
			if s.Status != 0 {
				d.State = "FAILED"
			}
		}
		list = append(list, d)
	}
	return list
}

func exitDocument(status int) *ExitDocument {
	return &ExitDocument{Code: status >> 8 & 0xff, Signal: status & 0x7f}
}

func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func number(n uint32) *uint32 {
	if n == model.NoVal {
		return nil
	}
	return &n
}
