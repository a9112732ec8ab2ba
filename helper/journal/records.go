package journal

import (
	"bytes"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

func recordSeries(dir string) series { return series{dir: dir, prefix: "journal-", suffix: ".jsonl"} }

// Records reads the records in dir that have a number above since and speak of
// one of the tenants, or of the node as a whole, in order, until visit returns
// false. A line that cannot be read is left out. It needs no lock.
func Records(dir string, tenants map[model.TenantID]bool, since uint64, visit func(model.Record) bool) error {
	paths, err := recordSeries(dir).since(since + 1)
	if err != nil {
		return err
	}
	keys := mentions(tenants)
	return eachLineOf(paths, func(_ string, b []byte) bool {
		r, ok := wanted(b, keys, tenants, since)
		return !ok || visit(r)
	})
}

// mentions lists the texts of which a line about one of the tenants holds one:
// most lines need no decoding then.
func mentions(tenants map[model.TenantID]bool) [][]byte {
	var keys [][]byte
	for id := range tenants {
		keys = append(keys, []byte(`"`+string(id)+`"`))
	}
	return keys
}

// many is the number of tenants from which on looking for each in a line costs
// more than decoding it.
const many = 16

func wanted(b []byte, keys [][]byte, tenants map[model.TenantID]bool, since uint64) (model.Record, bool) {
	if len(keys) <= many && bytes.Contains(b, []byte(`"tenant":`)) && !containsOne(b, keys) {
		return model.Record{}, false
	}
	l, err := parseLine(b)
	if err != nil || l.Seq <= since {
		return model.Record{}, false
	}
	r, err := l.record()
	if err != nil {
		return model.Record{}, false
	}
	id := tenantOf(r)
	return r, id == "" && r.Event != nil || tenants[id]
}

func containsOne(b []byte, keys [][]byte) bool {
	for _, k := range keys {
		if bytes.Contains(b, k) {
			return true
		}
	}
	return false
}

func tenantOf(r model.Record) model.TenantID {
	switch {
	case r.Event != nil && r.Event.Tenant != "":
		return r.Event.Tenant
	case r.Action != nil:
		return r.Action.Tenant
	case r.Tenant != nil:
		return r.Tenant.ID
	}
	return ""
}

// Entries answers a query for records from what is on disk, as a page: the
// ended tenants in dir and the given live ones that the query selects and that
// allow, which may be nil, lets through, and what was recorded of them. The
// caller fills in node, time and GPUs.
func Entries(dir string, q model.RecordsQuery, live []model.View, allow func(*model.View) bool) (model.RecordsReply, error) {
	var out model.RecordsReply
	ids := map[model.TenantID]bool{}
	keep := func(v *model.View) {
		if !ids[v.ID] && (allow == nil || allow(v)) {
			ids[v.ID] = true
			out.Tenants = append(out.Tenants, *v)
		}
	}
	err := History(dir, q.StatusQuery, func(v *model.View, _ []byte) bool {
		keep(v)
		return true
	})
	if err != nil {
		return out, err
	}
	for i := range live {
		if q.Match(&live[i]) {
			keep(&live[i])
		}
	}
	if len(ids) == 0 {
		return out, nil
	}
	err = Records(dir, ids, q.Since, func(r model.Record) bool {
		if !q.End.IsZero() && r.Wall.After(q.End) || r.Wall.Before(q.Start) {
			return true
		}
		if out.More = q.Max > 0 && len(out.Entries) >= q.Max; out.More {
			return false
		}
		out.Entries = append(out.Entries, r.Entry())
		return true
	})
	return out, err
}

// LiveViews lists the tenants that had not ended when the journal in dir was
// last written, as they stood at their last record, for a reader without a
// daemon. The boot is not compared: after a reboot they are what was lost.
func LiveViews(dir string) ([]model.View, error) {
	r, _, err := replaySeries(recordSeries(dir))
	if err != nil {
		return nil, err
	}
	return r.book.views(), nil
}
