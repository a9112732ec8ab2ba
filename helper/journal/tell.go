package journal

import (
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// coursePage is about how much text one reply holds.
const coursePage = 3 << 20

// Tell answers a query for the course of some tenants from what is on disk: the
// ended ones in dir and the given live ones that the query selects and that
// allow, which may be nil, lets through. Of GPUs it tells what they took as a
// whole, too.
func Tell(dir string, q model.CourseQuery, live []model.View, allow func(*model.View) bool) (model.CourseReply, error) {
	return tellPage(dir, q, live, allow, coursePage)
}

func tellPage(dir string, q model.CourseQuery, live []model.View, allow func(*model.View) bool, most int) (model.CourseReply, error) {
	ids := map[model.TenantID]bool{}
	keep := func(v *model.View) {
		if allow == nil || allow(v) {
			ids[v.ID] = true
		}
	}
	err := History(dir, q.StatusQuery, func(v *model.View, _ []byte) bool {
		keep(v)
		return true
	})
	if err != nil {
		return model.CourseReply{}, err
	}
	for i := range live {
		if q.Match(&live[i]) {
			keep(&live[i])
		}
	}
	if q.From.Before(q.Start) {
		q.From = q.Start
	}
	out, err := tellChanges(dir, q, ids, most)
	if err != nil {
		return out, err
	}
	end := q.End
	if !out.Next.IsZero() {
		end = out.Next
	}
	out.Loads, err = tellLoads(dir, q, end, ids)
	return out, err
}

func tellChanges(dir string, q model.CourseQuery, ids map[model.TenantID]bool, most int) (out model.CourseReply, err error) {
	p := NewChangePacker()
	err = Course(dir, q.From, q.End, func(c model.Change) bool {
		if p.Len() > most && c.At.After(q.From) {
			out.Next = c.At
			return false
		}
		if ids[c.Tenant] {
			p.Add(c)
		}
		return true
	})
	out.Changes = p.Text()
	return out, err
}

// tellLoads packs what began before end: what overlaps with it is told once.
func tellLoads(dir string, q model.CourseQuery, end time.Time, ids map[model.TenantID]bool) (string, error) {
	m := NewMerger(q.Least)
	err := Loads(dir, q.From, end, func(l model.Load) bool {
		if l.From.Before(q.From) && q.From.After(q.Start) || !l.From.Before(end) {
			return true
		}
		for i := range l.GPUs {
			l.GPUs[i].Tenants = only(l.GPUs[i].Tenants, ids)
		}
		m.Take(l)
		return true
	})
	return PackLoads(m.Loads()), err
}

func only(list []model.TenantLoad, ids map[model.TenantID]bool) []model.TenantLoad {
	out := list[:0]
	for _, t := range list {
		if ids[t.Tenant] {
			out = append(out, t)
		}
	}
	return out
}
