package journal

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// endedSegment is the size at which a file of ended tenants is closed, unless
// less is kept in all.
const endedSegment = 1 << 20

func endedSeries(dir string) series { return series{dir: dir, prefix: "ended-", suffix: ".log"} }

// openPast opens the newest file of ended tenants, or the first.
func (j *Journal) openPast() error {
	paths, err := j.ended.list()
	if err != nil {
		return err
	}
	path := j.ended.name(1)
	if n := len(paths); n > 0 {
		path = paths[n-1]
	}
	j.past, err = openTail(path)
	return err
}

// enterPast writes the final view of the tenant that a record ends.
func (j *Journal) enterPast(r model.Record, before model.State) error {
	if j.past.size >= min(endedSegment, j.opts.EndedBytes/4) {
		if err := j.rotatePast(r.Seq); err != nil {
			return err
		}
	}
	v := finalView(r, before)
	return j.past.write(Pack(nil, &v))
}

func (j *Journal) rotatePast(seq uint64) error {
	t, err := openTail(j.ended.name(seq))
	if err != nil {
		return err
	}
	_ = j.past.close()
	j.past = t
	j.ended.prune(j.opts.Now())
	return nil
}

// finalView is the view of a tenant at the record that ends it. One that was
// being evicted says so.
func finalView(r model.Record, before model.State) model.View {
	v := model.ViewAt(r.Tenant, r.Wall, r.At)
	if before == model.Evicting && v.Reason.Code == model.CodeEnded {
		v.Reason = model.Reason{Code: model.CodeEvicted, Text: v.Reason.Text}
	}
	return v
}

// isPast tells whether the newest file of ended tenants knows one.
func (j *Journal) isPast(id model.TenantID) bool {
	paths, err := j.ended.list()
	if err != nil || len(paths) == 0 {
		return false
	}
	want := append(appendText([]byte("id="), string(id)), ' ')
	found := false
	_ = eachLine(paths[len(paths)-1], func(b []byte) bool {
		found = bytes.HasPrefix(b, want)
		return !found
	})
	return found
}

// History calls visit for every ended tenant in dir that the query selects,
// in the order in which they ended, with its view and its line as Pack wrote
// it, until visit returns false. After and Limit of the query are the
// caller's. The line is valid until visit returns. It needs no lock: it may
// run beside the writer.
func History(dir string, q model.StatusQuery, visit func(v *model.View, line []byte) bool) error {
	return eachPast(dir, q.Start, func(b []byte) bool {
		v, err := Unpack(string(b))
		return err != nil || !q.Match(&v) || visit(&v, b)
	})
}

// eachPast calls visit for every line of the ended tenants, but for the files
// whose tenants all ended before a time.
func eachPast(dir string, from time.Time, visit func(line []byte) bool) error {
	paths, err := endedSeries(dir).list()
	if err != nil {
		return err
	}
	paths = slices.DeleteFunc(paths, func(path string) bool { return endedBefore(path, from) })
	return eachLineOf(paths, func(_ string, b []byte) bool { return visit(b) })
}

// endedBefore tells whether the last tenant in a file ended before a time:
// the file was last written when it ended.
func endedBefore(path string, t time.Time) bool {
	st, err := os.Stat(path)
	return err == nil && !t.IsZero() && st.ModTime().Before(t)
}

// Ended lists the ended tenants in dir that the query selects.
func Ended(dir string, q model.StatusQuery) ([]model.View, error) {
	var all []model.View
	err := History(dir, q, func(v *model.View, _ []byte) bool {
		all = append(all, *v)
		return true
	})
	return all, err
}

// Page packs one page of the ended tenants in dir that the query selects and
// that allow, which may be nil, lets through: those behind the first q.After,
// at most q.Limit of them and about maxBytes of text. more tells that others
// follow.
func Page(dir string, q model.StatusQuery, maxBytes int, allow func(*model.View) bool) (text string, n int, more bool, err error) {
	var buf []byte
	seen := 0
	take := func(line []byte) bool {
		if seen++; seen <= q.After {
			return true
		}
		if q.Limit > 0 && n >= q.Limit || len(buf)+len(line) > maxBytes && n > 0 {
			more = true
			return false
		}
		buf = append(append(buf, line...), '\n')
		n++
		return true
	}
	if allow == nil && q.WindowOnly() {
		err = eachPast(dir, q.Start, func(line []byte) bool { return !inWindow(line, &q) || take(line) })
		return string(buf), n, more, err
	}
	err = History(dir, q, func(v *model.View, line []byte) bool { return allow != nil && !allow(v) || take(line) })
	return string(buf), n, more, err
}

// inWindow tells whether a line that Pack wrote is of a tenant that was there
// in the query's time, without reading the rest of it. Times are whole
// microseconds in the line; what it cannot tell is left to whoever unpacks it.
func inWindow(line []byte, q *model.StatusQuery) bool {
	if !q.End.IsZero() {
		if start, ok := timeIn(line, " start="); ok && start.After(q.End) {
			return false
		}
	}
	if q.Start.IsZero() {
		return true
	}
	end, ok := timeIn(line, " end=")
	return !ok || !end.Before(q.Start)
}

func timeIn(line []byte, key string) (time.Time, bool) {
	_, rest, ok := bytes.Cut(line, []byte(key))
	if !ok {
		return time.Time{}, false
	}
	digits, _, _ := bytes.Cut(rest, []byte{' '})
	us, err := strconv.ParseInt(string(digits), 10, 64)
	return time.UnixMicro(us), err == nil
}

// EndedIn lists the ended tenants that a path holds: the folder of a journal,
// one of its files of ended tenants, or one of its files of records (*.jsonl).
// Lines that cannot be read are left out.
func EndedIn(path string) ([]model.View, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read the journal: %w", err)
	}
	if st.IsDir() {
		return Ended(path, model.StatusQuery{})
	}
	if filepath.Ext(path) == ".jsonl" {
		return endedInRecords(path)
	}
	var all []model.View
	err = eachLine(path, func(b []byte) bool {
		if v, err := Unpack(string(b)); err == nil {
			all = append(all, v)
		}
		return true
	})
	return all, err
}

// endedInRecords lists the tenants that ended in a file of records.
func endedInRecords(path string) ([]model.View, error) {
	r := replay{book: newBook()}
	var all []model.View
	first := true
	err := eachLine(path, func(b []byte) bool {
		if first {
			first = false
			return r.begin(b)
		}
		r.lastGone = nil
		if r.take(b); r.lastGone != nil {
			all = append(all, *r.lastGone)
		}
		return true
	})
	return all, err
}
