package journal

import (
	"encoding/json"
	"sort"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// version of the format of the files.
const version = 1

// head is the first line of a file of records.
type head struct {
	Version int                            `json:"journal"`
	Boot    string                         `json:"boot"`
	Seq     uint64                         `json:"seq"` // of the newest record before this file
	Action  uint64                         `json:"action"`
	Wall    time.Time                      `json:"wall"`
	Live    []entry                        `json:"live"`
	Orders  map[model.TenantID]model.Order `json:"orders,omitempty"`
}

// entry is a live tenant as last recorded.
type entry struct {
	Wall    time.Time       `json:"wall"` // of the record
	At      time.Duration   `json:"at"`
	Stopped bool            `json:"stopped"` // Gimbal stopped it, or was about to
	Tenant  json.RawMessage `json:"tenant"`
	id      model.TenantID
	state   model.State
}

// book is what all records so far add up to. The writer and a replay keep it
// by the same code.
type book struct {
	seq    uint64
	action uint64 // the highest number of an action
	live   map[model.TenantID]*entry
	orders map[model.TenantID]model.Order
}

func newBook() book {
	return book{live: map[model.TenantID]*entry{}, orders: map[model.TenantID]model.Order{}}
}

func (b *book) clear() {
	clear(b.live)
	clear(b.orders)
}

// state is that in which the tenant was recorded last.
func (b *book) state(t *model.Tenant) model.State {
	if t == nil || b.live[t.ID] == nil {
		return model.New
	}
	return b.live[t.ID].state
}

// identity is what the book reads of a tenant.
type identity struct {
	ID    model.TenantID `json:"id"`
	State model.State    `json:"state"`
}

// take enters a record. A tenant that cannot be read leaves the one before.
func (b *book) take(l line) {
	b.seq = max(b.seq, l.Seq)
	if l.Tenant != nil {
		b.takeTenant(l)
	}
	if l.Action != nil {
		b.takeAction(l.Action)
	}
	if ev := l.Event; ev != nil && ev.Kind == model.EvOrder {
		b.takeOrder(ev)
	}
}

func (b *book) takeTenant(l line) {
	var id identity
	if json.Unmarshal(l.Tenant, &id) != nil || id.ID == "" {
		return
	}
	if id.State == model.Gone {
		delete(b.live, id.ID)
		delete(b.orders, id.ID)
		return
	}
	e := b.live[id.ID]
	if e == nil {
		e = &entry{id: id.ID}
		b.live[id.ID] = e
	}
	e.Wall, e.At, e.Tenant, e.state = l.Wall, l.At, l.Tenant, id.State
	e.Stopped = maybeStopped(id.State, e.Stopped)
}

// maybeStopped tells whether Gimbal may have stopped a tenant that is in a
// state: the states in which it did, and those on the way there and back. One
// that is being evicted is what it was before.
func maybeStopped(s model.State, before bool) bool {
	switch s {
	case model.New, model.Running:
		return false
	case model.Evicting:
		return before
	}
	return true
}

// takeAction counts the intent: the record stands before the act.
func (b *book) takeAction(a *model.Action) {
	b.action = max(b.action, a.ID)
	e := b.live[a.Tenant]
	if e == nil {
		return
	}
	switch a.Do {
	case model.PrimHold, model.PrimThrottle, model.PrimPause, model.PrimSwap:
		e.Stopped = true
	}
}

func (b *book) takeOrder(ev *model.Event) {
	if ev.Order == nil || ev.Order.Do == "" || ev.Order.Do == "release" {
		delete(b.orders, ev.Tenant)
		return
	}
	b.orders[ev.Tenant] = *ev.Order
}

// head writes the book as the first line of a file.
func (b *book) head(boot string, now time.Time) []byte {
	h := head{Version: version, Boot: boot, Seq: b.seq, Action: b.action, Wall: now, Orders: b.orders}
	for _, e := range b.sorted() {
		h.Live = append(h.Live, *e)
	}
	line, err := json.Marshal(h)
	if err != nil { // only a tenant whose own JSON is broken; it was marshalled by us
		h.Live = nil
		line, _ = json.Marshal(h)
	}
	return append(line, '\n')
}

// sorted lists the live tenants, oldest first.
func (b *book) sorted() []*entry {
	all := make([]*entry, 0, len(b.live))
	for _, e := range b.live {
		all = append(all, e)
	}
	sort.Slice(all, func(i, k int) bool {
		if !all[i].Wall.Equal(all[k].Wall) {
			return all[i].Wall.Before(all[k].Wall)
		}
		return all[i].id < all[k].id
	})
	return all
}

// views lists the live tenants as they stood at their last record.
func (b *book) views() []model.View {
	var all []model.View
	for _, e := range b.sorted() {
		var t model.Tenant
		if json.Unmarshal(e.Tenant, &t) == nil {
			all = append(all, model.ViewAt(&t, e.Wall, e.At))
		}
	}
	sort.SliceStable(all, func(i, k int) bool { return all[i].Start.Before(all[k].Start) })
	return all
}

// load takes the book from the first line of a file.
func (b *book) load(first []byte) (head, error) {
	var h head
	if err := json.Unmarshal(first, &h); err != nil {
		return h, err
	}
	*b = newBook()
	b.seq, b.action = h.Seq, h.Action
	for i := range h.Live {
		e := h.Live[i]
		var id identity
		if json.Unmarshal(e.Tenant, &id) == nil && id.ID != "" {
			e.id, e.state = id.ID, id.State
			b.live[e.id] = &e
		}
	}
	for id, o := range h.Orders {
		b.orders[id] = o
	}
	return h, nil
}
