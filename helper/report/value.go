package report

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// known leaves a cell empty where the row is not the reader's to see, or no
// tenant's.
func known(r *Row, s string) string {
	if r.Stray != nil || r.View.Hidden {
		return ""
	}
	return s
}

// tenantOnly leaves the cells empty that are a tenant's and not a step's.
func tenantOnly(r *Row, f func() string) string {
	if r.Step != nil {
		return ""
	}
	return known(r, f())
}

func count(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func (r *Row) jobID() string {
	switch {
	case r.Stray != nil:
		return r.Stray.Kind
	case r.View.Hidden:
		return "-"
	case r.Step != nil:
		return r.View.Reg.StepLabel(r.Step.ID)
	}
	return r.View.Name()
}

func (r *Row) jobIDRaw() string {
	id := strconv.FormatUint(uint64(r.View.Reg.JobID), 10)
	switch {
	case r.Stray != nil, r.View.Hidden:
		return ""
	case r.View.Reg.Run():
		return r.View.Name() // its number is Gimbal's own
	case r.Step != nil:
		return id + "." + StepName(r.Step.ID)
	case !r.View.Whole:
		return id + "." + StepName(r.View.Reg.StepID)
	}
	return id
}

func (r *Row) name() string {
	if r.Step != nil {
		return known(r, StepName(r.Step.ID))
	}
	return known(r, r.View.Reg.JobName)
}

func (r *Row) user() string {
	switch {
	case r.Stray != nil && r.Stray.Kind == model.StrayGhost:
		return "" // its process is not there to be asked
	case r.Stray != nil:
		return "uid=" + r.uid()
	case r.Step != nil:
		return ""
	case r.View.Reg.User == "":
		return known(r, r.uid())
	}
	return known(r, r.View.Reg.User)
}

func (r *Row) uid() string {
	if r.Stray != nil {
		return strconv.FormatUint(uint64(r.Stray.UID), 10)
	}
	return tenantOnly(r, func() string { return strconv.FormatUint(uint64(r.View.Reg.UID), 10) })
}

func (r *Row) node() string {
	if n := r.View.Reg.Node; n != "" {
		return known(r, n)
	}
	return r.page.snap.Node
}

func (r *Row) tasks() string {
	if r.Step != nil {
		return strconv.Itoa(r.Step.Tasks)
	}
	n := 0
	for _, s := range r.View.Steps {
		n += s.Tasks
	}
	return known(r, count(n))
}

func (r *Row) start() time.Time {
	if r.Step != nil {
		return r.Wall.Start
	}
	return r.View.Start
}

func (r *Row) end() time.Time {
	if r.Step != nil {
		return r.Wall.End
	}
	return r.View.End
}

func (r *Row) elapsed() time.Duration {
	switch {
	case r.Step == nil:
		return r.View.Elapsed
	case !r.Wall.End.IsZero():
		return r.Wall.End.Sub(r.Wall.Start)
	}
	return max(r.View.Start.Add(r.View.Elapsed).Sub(r.Wall.Start), 0)
}

// speedAtMost is the share of the time since a tenant first ran in which it
// could compute. Alone it would have computed all along, so that it is not
// faster than that, and slower where others slow it.
func speedAtMost(v *model.View) (float64, bool) {
	lived := v.Elapsed - v.FirstRan + v.Registered
	if !v.HasRun || lived <= 0 {
		return 0, false
	}
	return min(share(v.Tally.Running, lived), 1), true
}

// speed is as learnt, else what it is at most.
func (r *Row) speed() string {
	return tenantOnly(r, func() string {
		if s, ok := r.View.Speed.Get(); ok {
			return fmt.Sprintf("%.0f%%", 100*s.Mean)
		}
		if most, ok := speedAtMost(r.View); ok {
			return fmt.Sprintf("<=%.0f%%", 100*most)
		}
		return ""
	})
}

func (r *Row) speedError() string {
	return tenantOnly(r, func() string {
		s, ok := r.View.Speed.Get()
		if !ok {
			return ""
		}
		return fmt.Sprintf("%.1f%%", 100*s.Error)
	})
}

func (r *Row) idle() string {
	if r.View.State == model.Gone {
		return ""
	}
	return tenantOnly(r, func() string { return Duration(r.View.Idle(r.at())) })
}

func (r *Row) slack() string {
	d := r.View.Terms.Deadline
	if d.IsZero() || r.View.State == model.Gone {
		return ""
	}
	left := d.Sub(r.View.Start.Add(r.View.Elapsed))
	return tenantOnly(r, func() string {
		if left < 0 {
			return "-" + Duration(-left)
		}
		return Duration(left)
	})
}

// maxPause is empty where the tenant's terms say nothing of it.
func (r *Row) maxPause() string {
	return tenantOnly(r, func() string {
		if r.View.Terms.MaxPause == 0 {
			return ""
		}
		return Duration(r.View.Terms.MaxPause)
	})
}

func (r *Row) gpus() string {
	if r.Stray != nil {
		return r.page.gpu(r.Stray.GPU)
	}
	if r.Step != nil {
		return ""
	}
	names := make([]string, len(r.View.GPUs))
	for i, g := range r.View.GPUs {
		names[i] = r.page.gpu(g)
	}
	return strings.Join(names, ",")
}

func (r *Row) size(m model.Reading[model.Bytes]) string {
	b, ok := m.Get()
	if !ok {
		return "Unknown"
	}
	return Memory(b, r.page.unit)
}

// declaredMemory is empty where the job stated none.
func (r *Row) declaredMemory() string {
	return tenantOnly(r, func() string {
		if !r.View.Terms.Declared.Known() {
			return ""
		}
		return r.size(r.View.Terms.Declared)
	})
}

// claim says "all" where a tenant may use the GPU alone.
func (r *Row) claim() string {
	return tenantOnly(r, func() string {
		if !r.View.Terms.Memory.Known() {
			return "all"
		}
		return r.size(r.View.Terms.Memory)
	})
}

func (r *Row) maxMemory() string {
	if r.Stray != nil {
		return r.size(r.Stray.Memory)
	}
	if r.View.Hidden {
		return r.memory()
	}
	if r.Step != nil {
		return ""
	}
	highest, ok := maxPeak(r.View)
	if !ok {
		return known(r, "")
	}
	return Memory(highest, r.page.unit)
}

// maxPeak is the most memory that was seen on one of a tenant's GPUs; ok is false
// where none was seen.
func maxPeak(v *model.View) (highest model.Bytes, ok bool) {
	for _, b := range v.Peak {
		highest = max(highest, b)
	}
	return highest, len(v.Peak) > 0
}

func (r *Row) memory() string {
	if r.Stray != nil {
		return r.size(r.Stray.Memory)
	}
	if r.Step != nil || r.View.State == model.Gone {
		return ""
	}
	most, ok := model.Bytes(0), len(r.View.Use) > 0
	for _, u := range r.View.Use {
		b, is := u.Memory.Get()
		most, ok = max(most, b), ok && is
	}
	if !ok {
		return "Unknown"
	}
	return Memory(most, r.page.unit)
}

// util is a live tenant's use by the last readings, and an ended one's while it
// ran.
func (r *Row) util() string {
	ended := r.View.State == model.Gone
	if r.Step != nil || ended && !r.View.HasRun || !ended && len(r.View.Use) == 0 {
		return ""
	}
	share := r.View.SM()
	if ended {
		share = r.View.Tally.Util()
	}
	if s, ok := share.Get(); ok {
		return known(r, fmt.Sprintf("%.0f%%", 100*s))
	}
	return known(r, "Unknown")
}

func (r *Row) gpuProcs() string {
	return tenantOnly(r, func() string {
		n := 0
		for _, u := range r.View.Use {
			n += u.Procs
		}
		return strconv.Itoa(n)
	})
}

func (r *Row) mateNames() string {
	return tenantOnly(r, func() string {
		var names []string
		for _, m := range r.mates() {
			if m.Hidden {
				names = append(names, "-")
				continue
			}
			names = append(names, m.Name())
		}
		return strings.Join(names, ",")
	})
}

func (r *Row) state() string {
	switch {
	case r.Stray != nil:
		return r.Stray.Kind
	case r.View.Hidden:
		return "busy"
	case r.Step != nil && r.Step.Ended:
		if r.Step.Status != 0 {
			return "FAILED"
		}
		return "COMPLETED"
	}
	return r.View.Word()
}

func (r *Row) reason() string {
	if r.Step != nil && r.Step.Ended {
		return ""
	}
	text := r.View.Reason.Text
	if text == "" && r.View.State != model.Gone {
		text = r.View.Reason.Code
	}
	if text == "" && r.View.Exempt != "" {
		text = "never stopped: " + r.View.Exempt
	}
	return tenantOnly(r, func() string { return text })
}

// order is what a person ordered, who, and until when.
func (r *Row) order() string {
	return tenantOnly(r, func() string {
		o := r.View.Order
		if o == nil {
			return ""
		}
		text := string(o.Do) + " by " + o.By()
		if !r.View.OrderEnds.IsZero() {
			text += " until " + Clock(r.View.OrderEnds, r.page.loc)
		}
		return text
	})
}

func (r *Row) exitCode() string {
	if r.Step != nil {
		if !r.Step.Ended {
			return ""
		}
		return known(r, ExitCode(r.Step.Status))
	}
	if r.View.State != model.Gone || r.View.Reason.Code == model.CodeLost {
		return ""
	}
	return known(r, ExitCode(r.View.ExitStatus()))
}

func (r *Row) policy() string {
	return tenantOnly(r, func() string {
		if r.View.PolicyNow != "" {
			return r.View.PolicyNow
		}
		return r.View.Terms.Policy
	})
}
