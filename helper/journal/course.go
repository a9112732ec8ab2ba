package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// Course calls visit for every change of state in dir, from one moment to
// another, oldest first, until visit returns false. What tenants were before
// the first of their changes comes first, as of the moment from; one that no
// file tells of any more is left out. It needs no lock.
//
// A node that takes turns writes a hundred megabytes of records a day: what is
// asked for here is picked out of the lines without decoding them.
func Course(dir string, from, to time.Time, visit func(model.Change) bool) error {
	s := recordSeries(dir)
	paths, err := s.list()
	if err != nil {
		return err
	}
	c := course{from: from, to: to, visit: visit, before: map[model.TenantID]model.Change{}}
	for _, path := range paths[firstNeeded(paths, from):] {
		if err := c.file(path); err != nil && !errors.Is(err, os.ErrNotExist) { // pruned meanwhile
			return err
		}
		if c.done {
			return nil
		}
	}
	c.begin()
	return nil
}

// firstNeeded is the place of the newest file that was begun before a time: the
// ones before it are older, and it begins with what was there then.
func firstNeeded(paths []string, t time.Time) int {
	for i := len(paths) - 1; i > 0; i-- {
		if begun, ok := begunAt(paths[i]); ok && begun.Before(t) {
			return i
		}
	}
	return 0
}

// begunAt reads when a file was begun from its first line, which may be long.
func begunAt(path string) (time.Time, bool) {
	f, err := os.Open(path)
	if err != nil {
		return time.Time{}, false
	}
	defer func() { _ = f.Close() }()
	b := make([]byte, 512)
	n, _ := f.Read(b)
	return wallOf(b[:n])
}

// course is the reading of the changes of some files.
type course struct {
	from, to    time.Time
	visit       func(model.Change) bool
	before      map[model.TenantID]model.Change // the newest of each tenant before from
	begun, done bool
}

func (c *course) file(path string) error {
	first := true
	return eachLine(path, func(b []byte) bool {
		if first {
			first = false
			c.head(b)
			return true
		}
		if ch, ok := changeOf(b); ok {
			c.take(ch)
		}
		return !c.done
	})
}

// head takes the live tenants of a checkpoint, where nothing is known yet.
func (c *course) head(b []byte) {
	var h head
	if c.begun || len(c.before) > 0 || json.Unmarshal(b, &h) != nil {
		return
	}
	for _, e := range h.Live {
		if ch, ok := tenantChange(e.Tenant); ok && h.Wall.Before(c.from) {
			ch.At = h.Wall
			c.before[ch.Tenant] = ch
		}
	}
}

func (c *course) take(ch model.Change) {
	switch {
	case ch.At.Before(c.from) && c.begun: // the clock was set back
		ch.At = c.from
	case ch.At.Before(c.from):
		c.before[ch.Tenant] = ch
		return
	case ch.At.After(c.to):
		c.begin()
		c.done = true
		return
	}
	c.begin()
	c.done = c.done || !c.visit(ch)
}

// begin tells how things stood at the start.
func (c *course) begin() {
	if c.begun {
		return
	}
	c.begun = true
	for _, ch := range c.before {
		ch.At = c.from
		if ch.State != model.Gone && !c.done {
			c.done = !c.visit(ch)
		}
	}
	c.before = nil
}

// The marks by which parts of a line are found. A text cannot hold them: its
// quotes are escaped.
var (
	markWall      = []byte(`"wall":"`)
	markTenant    = []byte(`,"tenant":{"id":"`)
	markState     = []byte(`,"state":"`)
	markSuspended = []byte(`,"suspended":"`)
	markShare     = []byte(`,"throttle":{"share":`)
)

// changeOf picks the state of the tenant out of a line; false where the line
// tells none.
func changeOf(b []byte) (model.Change, bool) {
	i := bytes.Index(b, markTenant)
	if i < 0 {
		return model.Change{}, false
	}
	at, ok := wallOf(b[:i])
	if !ok {
		return model.Change{}, false
	}
	ch, ok := tenantChange(b[i+len(markTenant)-len(`{"id":"`):])
	ch.At = at
	return ch, ok
}

func wallOf(b []byte) (time.Time, bool) {
	text, ok := quoted(b, markWall)
	if !ok {
		return time.Time{}, false
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	return t, err == nil
}

// tenantChange reads the JSON of a tenant.
func tenantChange(b []byte) (ch model.Change, ok bool) {
	id, ok1 := quoted(b, markTenant[len(`,"tenant":{`):])
	word, ok2 := quoted(b, markState)
	if !ok1 || !ok2 || ch.State.UnmarshalText([]byte(word)) != nil {
		return ch, false
	}
	ch.Tenant, ch.Suspended = model.TenantID(id), bytes.Contains(b, markSuspended)
	if ch.State == model.Throttled {
		ch.Share = shareIn(b)
	}
	return ch, true
}

// shareIn is a throttled tenant's share of time, 0 where its JSON tells none.
func shareIn(b []byte) float64 {
	_, rest, _ := bytes.Cut(b, markShare)
	text, _, _ := bytes.Cut(rest, []byte(","))
	return shareOf(string(text))
}

// shareOf reads a share of time; what is none is 0.
func shareOf(text string) float64 {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || !(x > 0 && x < 1) {
		return 0
	}
	return x
}

// quoted is the text between a mark and the next quote.
func quoted(b, mark []byte) (string, bool) {
	i := bytes.Index(b, mark)
	if i < 0 {
		return "", false
	}
	b = b[i+len(mark):]
	end := bytes.IndexByte(b, '"')
	if end < 0 {
		return "", false
	}
	return string(b[:end]), true
}

// ChangePacker writes changes as lines, each with the milliseconds since the
// one before, a short name of the tenant and its state:
//
//	t0=12@1
//	1772366400000 t0 running
//	30012 t0 paused
//
// A state behind a ! is that of one which somebody else stopped; behind a throttled
// one stands its share of the time. A change after
// which the tenant is what it was before is left out.
type ChangePacker struct {
	b     strings.Builder
	names map[model.TenantID]string
	last  map[model.TenantID]model.Change
	at    int64
}

// NewChangePacker makes a packer.
func NewChangePacker() *ChangePacker {
	return &ChangePacker{names: map[model.TenantID]string{}, last: map[model.TenantID]model.Change{}}
}

// Add adds a change. They come in order of time.
func (p *ChangePacker) Add(c model.Change) {
	last, ok := p.last[c.Tenant]
	if ok && last.State == c.State && last.Suspended == c.Suspended && last.Share == c.Share {
		return
	}
	p.last[c.Tenant] = c
	name := p.names[c.Tenant]
	if name == "" {
		name = "t" + strconv.Itoa(len(p.names))
		p.names[c.Tenant] = name
		p.b.WriteString(name + "=" + string(appendText(nil, string(c.Tenant))) + "\n")
	}
	ms := c.At.UnixMilli()
	p.b.WriteString(strconv.FormatInt(ms-p.at, 10))
	p.at = ms
	p.b.WriteString(" " + name + " ")
	if c.Suspended {
		p.b.WriteByte('!')
	}
	p.b.WriteString(c.State.String())
	if c.Share > 0 {
		p.b.WriteString(" " + strconv.FormatFloat(c.Share, 'g', 4, 64))
	}
	p.b.WriteByte('\n')
}

// Len is how much text there is.
func (p *ChangePacker) Len() int { return p.b.Len() }

// Text is all that was added.
func (p *ChangePacker) Text() string { return p.b.String() }

// UnpackChanges reads what a ChangePacker wrote. A line that cannot be read is
// left out.
func UnpackChanges(text string) []model.Change {
	names := map[string]model.TenantID{}
	at := int64(0)
	all := make([]model.Change, 0, strings.Count(text, "\n"))
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if name, id, ok := strings.Cut(line, "="); ok {
			if id, err := readText(id); err == nil {
				names[name] = model.TenantID(id)
			}
			continue
		}
		if c, ok := readChange(line, names, &at); ok {
			all = append(all, c)
		}
	}
	return all
}

func readChange(line string, names map[string]model.TenantID, at *int64) (c model.Change, ok bool) {
	ms, rest, _ := strings.Cut(line, " ")
	name, word, _ := strings.Cut(rest, " ")
	n, err := strconv.ParseInt(ms, 10, 64)
	if err != nil {
		return c, false
	}
	*at += n
	c.At, c.Tenant = time.UnixMilli(*at), names[name]
	word, c.Suspended = strings.CutPrefix(word, "!")
	word, share, _ := strings.Cut(word, " ")
	c.Share = shareOf(share)
	return c, c.Tenant != "" && c.State.UnmarshalText([]byte(word)) == nil
}
