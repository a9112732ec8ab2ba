package report

import (
	"strconv"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// Row is one line of a status: a tenant, a step inside one, or a process on a
// shared GPU that belongs to no tenant.
type Row struct {
	View  *model.View
	Step  *model.Step // nil: the tenant itself
	Wall  model.StepWall
	Stray *model.Stray
	page  *page
}

// page is what a row's cells need beside the row itself.
type page struct {
	snap  *model.Snapshot
	index map[string]string // GPU by UUID → its number
	loc   *time.Location
	unit  byte
}

// Selection says which rows of the tenants are wanted.
type Selection struct {
	Jobs        []model.JobRef // where some name a step, only these steps
	Allocations bool           // tenants only, no steps
	Strays      bool
}

// Style says how values are written.
type Style struct {
	Location *time.Location // of the times; nil: local
	Unit     byte           // of sizes, one of KMGTP; 0: by size
}

// Rows lists the rows of a snapshot: each tenant, then the steps inside it.
func Rows(s *model.Snapshot, sel Selection, st Style) []Row {
	p := &page{snap: s, index: map[string]string{}, loc: st.Location, unit: st.Unit}
	if p.loc == nil {
		p.loc = time.Local
	}
	for _, g := range s.GPUs {
		p.index[g.UUID] = strconv.Itoa(g.Index)
	}
	rows := make([]Row, 0, 2*len(s.Tenants))
	for i := range s.Tenants {
		rows = p.tenantRows(rows, &s.Tenants[i], sel)
	}
	if sel.Strays {
		for i := range s.Strays {
			rows = append(rows, Row{Stray: &s.Strays[i], View: &model.View{}, page: p})
		}
	}
	return rows
}

func (p *page) tenantRows(rows []Row, v *model.View, sel Selection) []Row {
	whole, steps := wanted(v, sel.Jobs)
	if whole {
		rows = append(rows, Row{View: v, page: p})
	}
	if v.Hidden || sel.Allocations || !v.Whole && whole || v.Reg.Run() {
		return rows
	}
	for i := range v.Steps {
		if !whole && !steps[v.Steps[i].ID] {
			continue
		}
		r := Row{View: v, Step: &v.Steps[i], page: p}
		if i < len(v.StepWall) {
			r.Wall = v.StepWall[i]
		}
		rows = append(rows, r)
	}
	return rows
}

// wanted tells whether the tenant's own row is asked for, or only some steps.
func wanted(v *model.View, refs []model.JobRef) (whole bool, steps map[uint32]bool) {
	if len(refs) == 0 {
		return true, nil
	}
	steps = map[uint32]bool{}
	for _, r := range refs {
		if !r.Matches(&v.Reg) {
			continue
		}
		if r.Step == model.NoVal || !v.Whole && r.Step == v.Reg.StepID {
			return true, nil
		}
		steps[r.Step] = true
	}
	return false, steps
}

// at is the node's monotonic time of the row's readings.
func (r *Row) at() time.Duration { return r.View.Registered + r.View.Elapsed }

// gpu is a GPU's number, or the start of its UUID where the driver does not
// show it any more.
func (p *page) gpu(uuid string) string {
	if n, ok := p.index[uuid]; ok {
		return n
	}
	return uuid[:min(len(uuid), len("GPU-00000000"))]
}

// mates are the live tenants that share a GPU with the row's.
func (r *Row) mates() []*model.View {
	var out []*model.View
	if r.View.State == model.Gone {
		return nil
	}
	for i := range r.page.snap.Tenants {
		o := &r.page.snap.Tenants[i]
		if o.ID != r.View.ID && o.State != model.Gone && together(o, r.View) {
			out = append(out, o)
		}
	}
	return out
}

func together(a, b *model.View) bool {
	for _, g := range a.GPUs {
		if b.Uses(g) {
			return true
		}
	}
	return false
}
