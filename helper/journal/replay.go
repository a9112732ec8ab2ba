package journal

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/gimbal-hpc/gimbal/helper/model"
)

// BootID names this boot of the machine: process ids and monotonic times mean
// nothing in another.
func BootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read the boot id: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// Live is a tenant that had not ended when the journal was last written.
type Live struct {
	Tenant  *model.Tenant
	Stopped bool          // Gimbal stopped it, or was about to: its intent is recorded before the act
	Wall    time.Time     // of its last record
	At      time.Duration // the same on the monotonic clock; its tally is as of then
}

// Replayed is what a journal adds up to.
type Replayed struct {
	Boot     string // the boot that it was written in
	SameBoot bool   // this is that boot; else Live is empty: no process of it is there
	Live     []Live // in the order of their registration
	Orders   map[model.TenantID]model.Order
	Seq      uint64    // number of the newest record
	Action   uint64    // highest number of an action
	Last     time.Time // of the newest record, zero if there is none
	Skipped  int       // lines that could not be read
}

// Replay reads the journal in dir without changing it. A journal that is not
// there is an empty one. boot is the boot of now, "" for the kernel's boot id.
func Replay(dir, boot string) (Replayed, error) {
	if boot == "" {
		var err error
		if boot, err = BootID(); err != nil {
			return Replayed{}, err
		}
	}
	r, _, err := replaySeries(recordSeries(dir))
	if err != nil {
		return Replayed{}, fmt.Errorf("replay the journal in %s: %w", dir, err)
	}
	out := Replayed{Boot: r.boot, SameBoot: r.boot == boot, Orders: r.book.orders,
		Seq: r.book.seq, Action: r.book.action, Last: r.last, Skipped: r.skipped}
	if out.SameBoot {
		out.Live = r.book.tenants()
	}
	return out, nil
}

// tenants lists the live ones in the order of their registration.
func (b *book) tenants() []Live {
	var all []Live
	for _, v := range b.views() {
		e, t := b.live[v.ID], v.Tenant
		all = append(all, Live{Tenant: &t, Stopped: e.Stopped, Wall: e.Wall, At: e.At})
	}
	return all
}

// replay is the reading of one file.
type replay struct {
	book     book
	boot     string
	opened   time.Time
	last     time.Time
	lastGone *model.View
	skipped  int
}

// replaySeries reads the newest file that has a readable checkpoint; path is
// "" where there is none.
func replaySeries(s series) (r replay, path string, err error) {
	paths, err := s.list()
	if err != nil {
		return r, "", err
	}
	for i := len(paths) - 1; i >= 0; i-- {
		r, err = replayFile(paths[i])
		if err != nil {
			return r, "", err
		}
		if r.boot != "" {
			return r, paths[i], nil
		}
	}
	return replay{book: newBook()}, "", nil
}

// replayFile reads one file; boot is "" where its checkpoint is not readable.
func replayFile(path string) (replay, error) {
	r := replay{book: newBook()}
	first := true
	err := eachLine(path, func(b []byte) bool {
		if first {
			first = false
			return r.begin(b)
		}
		r.take(b)
		return true
	})
	return r, err
}

func (r *replay) begin(b []byte) bool {
	h, err := r.book.load(b)
	if err != nil || h.Version != version || h.Boot == "" {
		r.book = newBook()
		return false
	}
	r.boot, r.opened, r.last = h.Boot, h.Wall, h.Wall
	return true
}

func (r *replay) take(b []byte) {
	l, err := parseLine(b)
	if err != nil {
		r.skipped++
		return
	}
	r.last = l.Wall
	if v := r.book.goneBy(l); v != nil {
		r.lastGone = v
	}
	r.book.take(l)
}

// goneBy is the final view of the tenant that a record ends, nil if none. It
// is asked before the record enters the book.
func (b *book) goneBy(l line) *model.View {
	if !bytes.Contains(l.Tenant, []byte(`"state":"gone"`)) { // most are not: do not decode them
		return nil
	}
	rec, err := l.record()
	if err != nil || rec.Tenant.State != model.Gone {
		return nil
	}
	v := finalView(rec, b.state(rec.Tenant))
	return &v
}
